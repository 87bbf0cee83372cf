// Validation of the caller's workspace, and its division into arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/check.h"
#include "robocache/execution.h"
#include "robocache/tensor_view.h"

namespace robocache {

/// The alignment of a workspace and of the arrays in it: 256 bytes on CUDA, which CUB requires, and
/// 8 on the CPU, where no stored type needs more.
constexpr std::size_t workspace_alignment(DeviceType device) {
  return device == DeviceType::kCuda ? 256 : 8;
}

/// Returns the memory of a workspace. Throws ValueError unless it has `needed` bytes and alignment.
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

/// Allocates arrays from a block, one after another. With a null block it only measures: every
/// array is null, and `bytes` returns the required size of the block.
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

  /// The size of all arrays so far.
  std::size_t bytes() const { return bytes_; }

 private:
  char* block_;
  std::size_t alignment_;
  std::size_t bytes_ = 0;
};

}  // namespace robocache
