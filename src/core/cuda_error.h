// Conversion of CUDA statuses to exceptions.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "robocache/error.h"

namespace robocache {

/// Throws DeviceError if `status` is a failure. It first clears the error in the CUDA runtime,
/// which would otherwise return it to the next caller of cudaGetLastError.
inline void check_cuda(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  cudaGetLastError();
  throw DeviceError(std::string(what) + ": " + cudaGetErrorName(status) + ", " +
                    cudaGetErrorString(status));
}

}  // namespace robocache
