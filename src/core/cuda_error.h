// CUDA statuses as exceptions.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "robocache/error.h"

namespace robocache {

/// Throws DeviceError if `status` is a failure, after taking it off the runtime, which would
/// otherwise hand it to whoever asks next.
inline void check_cuda(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();
  throw DeviceError(std::string(what) + ": " + cudaGetErrorName(status) + ", " +
                    cudaGetErrorString(status));
}

}  // namespace robocache
