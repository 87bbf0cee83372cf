// Allocation of the live buffers, and counters of the rows that pass through them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

namespace robocache {

/// The size of a cache line in bytes: alignment of arrays, and distance between data that different
/// threads write.
inline constexpr std::size_t kCacheLine = 64;

constexpr std::size_t round_up(std::size_t bytes, std::size_t to) {
  return (bytes + to - 1) / to * to;
}

struct FreeAligned {
  void operator()(std::byte* bytes) const { operator delete(bytes, std::align_val_t{kCacheLine}); }
};

using AlignedBytes = std::unique_ptr<std::byte, FreeAligned>;

/// Allocates `bytes` zeros, aligned to a cache line. Writing them maps every page now, which the
/// system would otherwise do at the first push.
inline AlignedBytes make_aligned(std::size_t bytes) {
  AlignedBytes made(
      static_cast<std::byte*>(operator new(bytes > 0 ? bytes : 1, std::align_val_t{kCacheLine})));
  std::memset(made.get(), 0, bytes);
  return made;
}

/// A number that one thread writes and any thread may read.
class Counter {
 public:
  void set(std::int64_t value) { value_.store(value, std::memory_order_relaxed); }
  void add(std::int64_t more) { set(get() + more); }
  std::int64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> value_{0};
};

}  // namespace robocache
