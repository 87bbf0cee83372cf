// What the two halves of the CUDA backend share.
#pragma once

#include <cuda_runtime_api.h>

#include "align/backends.h"
#include "align/plan.h"

namespace robocache::cuda {

inline constexpr int kWarp = 32;

/// align_runs_cuda.cu: any layout, any sizes and strides.
void launch_runs(const StreamPlan& plan, const RunTable& runs, cudaStream_t stream);

}  // namespace robocache::cuda
