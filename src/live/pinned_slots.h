// Pinned host memory for asynchronous copies to a GPU.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "live/selection.h"
#include "robocache/execution.h"

namespace robocache {

/// Pinned buffers that are used in rotation. Each has an event that completes with its copy, so
/// that a buffer is written again only after its copy.
class PinnedSlots {
 public:
  /// Allocates `count` buffers of `bytes` bytes for the current device. Throws DeviceError.
  PinnedSlots(int count, std::size_t bytes);
  ~PinnedSlots();
  PinnedSlots(const PinnedSlots&) = delete;
  PinnedSlots& operator=(const PinnedSlots&) = delete;

  /// The next buffer; null while its last copy is pending.
  std::byte* free_slot() noexcept;

  /// Waits until that copy is complete; false on a CUDA error.
  bool wait() noexcept;

  /// Enqueues copies of parts of the buffer that `free_slot` returned last; false on a CUDA error.
  bool copy_to(void* device_out, const std::vector<Selection::Range>& ranges,
               CUstream_st* stream) noexcept;

 private:
  struct Slots;
  std::unique_ptr<Slots> slots_;
};

}  // namespace robocache
