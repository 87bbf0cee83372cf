// The backends of farthest-point sampling.
#pragma once

#include <cstddef>

#include "points/plan.h"
#include "robocache/execution.h"

namespace robocache {

std::size_t sample_workspace_bytes_on_cpu(const CloudPlan& cloud);
void sample_farthest_on_cpu(const SamplePlan& plan, void* workspace,
                            const ExecutionContext& context);

// In a build without CUDA, neither is called.

std::size_t sample_workspace_bytes_on_cuda(const CloudPlan& cloud);
void sample_farthest_on_cuda(const SamplePlan& plan, void* workspace, CUstream_st* stream);

}  // namespace robocache
