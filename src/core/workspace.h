// Scratch memory, which the caller gives as one block, cut into arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/check.h"
#include "robocache/execution.h"
#include "robocache/tensor_view.h"

namespace robocache {

/// What a block is aligned to, and with it the arrays in it: 256 bytes on CUDA, as CUB asks, and 8
/// on the CPU, where no type that is kept in one needs more.
constexpr std::size_t workspace_alignment(DeviceType device) {
  return device == DeviceType::kCuda ? 256 : 8;
}

/// The memory of a workspace, which is to have `needed` bytes.
inline void* check_workspace(const Workspace& workspace, std::size_t needed, DeviceType device) {
  if (needed == 0) return nullptr;
  const std::size_t alignment = workspace_alignment(device);
  const std::size_t past = reinterpret_cast<std::uintptr_t>(workspace.data) % alignment;
  if (workspace.data == nullptr || workspace.bytes < needed || past != 0) {
    throw_value_error(
        "workspace", std::to_string(needed) + " bytes aligned to " + std::to_string(alignment),
        workspace.data == nullptr  ? "none"
        : workspace.bytes < needed ? std::to_string(workspace.bytes) + " bytes"
                                   : "an address that is " + std::to_string(past) + " past that");
  }
  return workspace.data;
}

/// Hands out arrays of a block, one after another. Without a block it only measures: every array is
/// null, and `bytes` says how large the block is to be.
class WorkspaceCutter {
 public:
  WorkspaceCutter(void* block, DeviceType device)
      : block_(static_cast<char*>(block)), alignment_(workspace_alignment(device)) {}

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
