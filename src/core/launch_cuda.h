// Kernels of independent threads, and launching them.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "core/cuda_error.h"

namespace robocache::cuda {

// Threads of a block: 256 fill an SM whatever their registers.
inline constexpr int kThreads = 256;

inline unsigned blocks_for(std::int64_t threads) {
  return static_cast<unsigned>((threads + kThreads - 1) / kThreads);
}

__device__ __forceinline__ std::int64_t thread_index() {
  return std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
}

/// Launches a kernel on `blocks` of kThreads, at least one; throws DeviceError, which calls it
/// `what`. The status is the launch's alone: what others left pending is theirs to find.
template <typename... Parameters, typename... Arguments>
void launch(const char* what, void (*kernel)(Parameters...), dim3 blocks, cudaStream_t stream,
            const Arguments&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = kThreads;
  config.stream = stream;
  check_cuda(cudaLaunchKernelEx(&config, kernel, arguments...), what);
}

}  // namespace robocache::cuda
