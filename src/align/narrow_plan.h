// Plans with 32-bit sizes and strides, which make address arithmetic on the GPU cheap.
#pragma once

#include <cstdint>

#include "align/plan.h"

namespace robocache {

using NarrowPlan = BasicStreamPlan<std::int32_t>;
using NarrowRun = BasicPlannedRun<std::int32_t>;

/// The plan with narrow sizes and strides. False where one is negative or does not fit, with room
/// to double an index in the search; where there are 2^29 targets or more over the batch; and where
/// the output has gaps between batch rows. `narrow` is then of no use.
bool narrow_plan(const StreamPlan& wide, NarrowPlan& narrow);

}  // namespace robocache
