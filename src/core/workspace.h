// Scratch memory, which the caller gives as one block, cut into arrays.
#pragma once

#include <cstddef>
#include <cstdint>

#include "robocache/tensor_view.h"

namespace robocache {

/// Hands out arrays of a block, one after another. Without a block it only measures: every array is
/// null, and `bytes` says how large the block is to be.
class WorkspaceCutter {
 public:
  /// Arrays start on multiples of what the block is aligned to: 256 bytes on CUDA, as CUB asks, and 8
  /// on the CPU, where no type that is kept in one needs more.
  WorkspaceCutter(void* block, DeviceType device)
      : block_(static_cast<char*>(block)), alignment_(device == DeviceType::kCuda ? 256 : 8) {}

  template <typename T>
  T* cut(std::int64_t count) {
    const std::size_t start = bytes_;
    const std::size_t size = static_cast<std::size_t>(count) * sizeof(T);
    bytes_ += (size + alignment_ - 1) / alignment_ * alignment_;
    return block_ == nullptr ? nullptr : reinterpret_cast<T*>(block_ + start);
  }

  /// Of all arrays so far.
  std::size_t bytes() const { return bytes_; }

 private:
  char* block_;
  std::size_t alignment_;
  std::size_t bytes_ = 0;
};

}  // namespace robocache
