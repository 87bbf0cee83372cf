// Launching kernels so that they begin while the one before them ends, which a small operation
// takes as long for as for its work (CUDA Programming Guide, "Programmatic Dependent Launch").
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "core/cuda_error.h"

namespace robocache::cuda {

/// Waits until all work before this kernel in its stream is done and seen. Every kernel that
/// `launch_early` starts calls this in every thread before it reads or writes global memory.
__device__ __forceinline__ void wait_for_stream() {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

/// Launches a kernel, whose blocks come to the GPU as soon as those of the kernel before have left
/// it or said that they may; on GPUs before compute capability 9.0, when that kernel has ended.
/// Throws DeviceError, which calls it `what`. The status is the launch's alone: what others left
/// pending is theirs to find.
template <typename... Parameters, typename... Arguments>
void launch_early(const char* what, void (*kernel)(Parameters...), dim3 blocks, unsigned threads,
                  std::size_t shared_bytes, cudaStream_t stream, const Arguments&... arguments) {
  int device = 0;
  int major = 0;
  check_cuda(cudaGetDevice(&device), what);
  check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), what);
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = major >= 9 ? 1 : 0;
  check_cuda(cudaLaunchKernelEx(&config, kernel, arguments...), what);
}

}  // namespace robocache::cuda
