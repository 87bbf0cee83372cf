// What the files of the CUDA backend share.
#pragma once

#include <cuda_runtime_api.h>

#include "align/backends.h"
#include "align/plan.h"

namespace robocache::cuda {

/// align_wide_cuda.cu: one stream of any sizes and strides.
void launch_wide(const StreamPlan& plan, const RunTable& runs, cudaStream_t stream);

}  // namespace robocache::cuda
