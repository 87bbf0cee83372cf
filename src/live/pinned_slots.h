// Host memory that a GPU copies from while the host goes on.
#pragma once

#include <cstddef>
#include <memory>

#include "robocache/execution.h"

namespace robocache {

/// Pinned buffers that are used in turn. Each has an event that says when its copy has been made,
/// so that a buffer is written again only then.
class PinnedSlots {
 public:
  /// So many of so many bytes, for the current device. Throws DeviceError.
  PinnedSlots(int count, std::size_t bytes);
  ~PinnedSlots();
  PinnedSlots(const PinnedSlots&) = delete;
  PinnedSlots& operator=(const PinnedSlots&) = delete;

  /// The buffer whose turn it is; null while its last copy is under way.
  std::byte* free_slot() noexcept;

  /// Waits until that copy has been made; false if CUDA refuses.
  bool wait() noexcept;

  /// Enqueues the copy of the buffer that `free_slot` gave last; false if CUDA refuses.
  bool copy_to(void* device_out, CUstream_st* stream) noexcept;

 private:
  struct Slots;
  std::unique_ptr<Slots> slots_;
};

}  // namespace robocache
