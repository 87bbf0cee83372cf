// Plans with 32-bit sizes and strides, which make address arithmetic on the GPU cheap.
#pragma once

#include <cstdint>

#include "align/plan.h"

namespace robocache {

using NarrowPlan = BasicStreamPlan<std::int32_t>;
using NarrowRun = BasicPlannedRun<std::int32_t>;

/// Sets `narrow` to the plan with 32-bit sizes and strides. Returns false where one is negative or
/// not below 2^30, since the search doubles indices; where there are 2^29 targets or more over the
/// batch; and where the output has gaps between batch rows. `narrow` is then unspecified.
bool narrow_plan(const StreamPlan& wide, NarrowPlan& narrow);

}  // namespace robocache
