// Kernel launches that overlap the end of the preceding kernel, since launch latency takes as long
// as the work of a small operation (CUDA Programming Guide, "Programmatic Dependent Launch").
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "core/cuda_error.h"

namespace robocache::cuda {

/// Waits until all work before this kernel in its stream is done and its writes are visible. Every
/// kernel that `launch_early` starts calls this in every thread before it accesses global memory.
__device__ __forceinline__ void wait_for_stream() {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

/// Launches a kernel whose blocks start as soon as all blocks of the preceding kernel have exited
/// or have triggered the launch; before compute capability 9.0, when that kernel has ended. Throws
/// DeviceError, whose message begins with `what`. It checks the status of this launch only, and
/// leaves errors pending from other calls for their callers.
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
