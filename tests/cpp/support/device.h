// Memory and streams of a GPU.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>

#include "robocache/execution.h"
#include "robocache/tensor_view.h"

namespace robocache::testing {

inline void expect_success(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

struct CudaFree {
  void operator()(void* memory) const { cudaFree(memory); }
};
using DeviceMemory = std::unique_ptr<void, CudaFree>;

inline DeviceMemory device_memory(std::size_t bytes) {
  void* memory = nullptr;
  expect_success(cudaMalloc(&memory, std::max<std::size_t>(bytes, 1)));
  return DeviceMemory(memory);
}

/// The workspace of a call under test, not zeros.
class DeviceScratch {
 public:
  explicit DeviceScratch(std::size_t bytes) : memory_(device_memory(bytes)), bytes_(bytes) {
    expect_success(cudaMemset(memory_.get(), 0xA5, bytes));
    expect_success(cudaDeviceSynchronize());
  }

  operator Workspace() const { return {memory_.get(), bytes_}; }

 private:
  DeviceMemory memory_;
  std::size_t bytes_;
};

/// A copy on the device of everything between a view's first and last byte. It starts as far from a
/// multiple of 16 bytes as the original does: kernels choose by that.
template <typename Data>
class DeviceCopy {
 public:
  explicit DeviceCopy(const BasicTensorView<Data>& host) : view_(host) {
    view_.device = DeviceType::kCuda;
    if (host.data == nullptr) return;
    std::int64_t lowest = 0;
    std::int64_t highest = 0;
    for (int axis = 0; axis < host.rank; ++axis) {
      const std::int64_t reach = (host.shape[axis] - 1) * host.strides[axis];
      (reach < 0 ? lowest : highest) += reach;
    }
    const std::int64_t width = size_of(host.dtype);
    start_ = static_cast<const char*>(host.data) + lowest * width;
    bytes_ = static_cast<std::size_t>((highest - lowest + 1) * width);
    const std::size_t shift = reinterpret_cast<std::uintptr_t>(start_) % 16;
    memory_ = device_memory(bytes_ + shift);
    device_start_ = static_cast<char*>(memory_.get()) + shift;
    expect_success(cudaMemcpy(device_start_, start_, bytes_, cudaMemcpyHostToDevice));
    // A copy from plain host memory may return early, and a stream of a test waits for nothing.
    expect_success(cudaDeviceSynchronize());
    view_.data = device_start_ - lowest * width;
  }

  const BasicTensorView<Data>& view() const { return view_; }

  void copy_back() const {
    if (bytes_ == 0) return;
    void* const host = const_cast<char*>(start_);
    expect_success(cudaMemcpy(host, device_start_, bytes_, cudaMemcpyDeviceToHost));
  }

 private:
  BasicTensorView<Data> view_;
  DeviceMemory memory_;
  const char* start_ = nullptr;
  char* device_start_ = nullptr;
  std::size_t bytes_ = 0;
};

class CudaStream {
 public:
  CudaStream() { expect_success(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~CudaStream() { cudaStreamDestroy(stream_); }
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  cudaStream_t get() const { return stream_; }
  void wait() const { expect_success(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace robocache::testing
