// Launches of kernels whose threads are independent.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "core/early_launch.cuh"

namespace robocache::cuda {

// Threads of a block: with 256, blocks fill an SM for any number of registers.
inline constexpr int kThreads = 256;

inline unsigned blocks_for(std::int64_t threads) {
  return static_cast<unsigned>((threads + kThreads - 1) / kThreads);
}

__device__ __forceinline__ std::int64_t thread_index() {
  return std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
}

/// Calls `launch_early` with `blocks`, at least one, of kThreads threads. The kernel calls
/// `wait_for_stream()`.
template <typename... Parameters, typename... Arguments>
void launch(const char* what, void (*kernel)(Parameters...), dim3 blocks, cudaStream_t stream,
            const Arguments&... arguments) {
  launch_early(what, kernel, blocks, kThreads, 0, stream, arguments...);
}

}  // namespace robocache::cuda
