// A queue of rows between the thread that pushes them and the thread that queries windows.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "live/memory.h"

namespace robocache {

/// A ring of rows with one producer and one consumer; neither waits for the other.
///
///     position   head            tail       head: the first row that the consumer still needs
///                  v               v        tail: where the producer writes next
///     slot     [ ][x][x][x][x][x][ ][ ]     position p is in slot p % slots
///
/// A position only increases and never reaches 2^64. Only the producer advances the tail, after it
/// has written the row (release), and the consumer reads the row after it has seen that (acquire);
/// the head works the other way round, so that a slot is overwritten only after it has been read.
/// Each position has a cache line of its own, in which the producer also caches the last head that
/// it read: it reads the head again only when the cached one says that the ring is full.
/// Source: Lamport, "Specifying concurrent program modules", 1983, with the cached position of Lee
/// et al., "A lock-free, cache-efficient multi-core synchronization mechanism", 2010.
class RowRing {
 public:
  /// The header that precedes the values of a row.
  struct Header {
    std::int64_t time_ns;
    bool is_valid;
  };

  /// Allocates 1 to 2^30 rows of `row_bytes` bytes each.
  RowRing(std::int64_t rows, std::size_t row_bytes)
      : rows_(static_cast<std::uint64_t>(rows)),
        row_bytes_(row_bytes),
        // A slot has cache lines to itself: the consumer reads one while the next is written.
        slot_bytes_(round_up(sizeof(Header) + row_bytes, kCacheLine)),
        slots_(make_aligned(slots_for(rows) * slot_bytes_)),
        mask_(slots_for(rows) - 1) {}

  std::size_t row_bytes() const { return row_bytes_; }

  /// Called by the producer: appends a row of `row_bytes` bytes; false, with no effect, if full.
  bool push(std::int64_t time_ns, const void* values, bool is_valid) {
    const std::uint64_t tail = producer_.tail.load(std::memory_order_relaxed);
    if (tail - producer_.seen_head == rows_) {
      producer_.seen_head = consumer_.head.load(std::memory_order_acquire);
      if (tail - producer_.seen_head == rows_) {
        producer_.dropped.add(1);
        return false;
      }
    }
    std::byte* const slot = slot_at(tail);
    const Header header{time_ns, is_valid};
    std::memcpy(slot, &header, sizeof header);
    std::memcpy(slot + sizeof header, values, row_bytes_);
    producer_.tail.store(tail + 1, std::memory_order_release);
    producer_.pushed.add(1);
    return true;
  }

  /// Called by the producer: counts a row of another size.
  void refuse() { producer_.refused.add(1); }

  // Called by any thread: numbers of rows pushed, dropped because the ring was full, and refused.
  std::int64_t pushed() const { return producer_.pushed.get(); }
  std::int64_t dropped() const { return producer_.dropped.get(); }
  std::int64_t refused() const { return producer_.refused.get(); }

  /// Called by the consumer: calls `take(header, values)` for each row present on entry, in order,
  /// so that a producer that never pauses can't delay it; returns the number of rows.
  template <typename Take>
  std::int64_t take_all(const Take& take) {
    const std::uint64_t head = consumer_.head.load(std::memory_order_relaxed);
    const std::uint64_t tail = producer_.tail.load(std::memory_order_acquire);
    for (std::uint64_t position = head; position != tail; ++position) {
      const std::byte* const slot = slot_at(position);
      Header header;
      std::memcpy(&header, slot, sizeof header);
      take(header, slot + sizeof header);
      consumer_.head.store(position + 1, std::memory_order_release);
    }
    return static_cast<std::int64_t>(tail - head);
  }

 private:
  static std::size_t slots_for(std::int64_t rows) {
    std::size_t slots = 1;
    while (slots < static_cast<std::size_t>(rows)) slots *= 2;
    return slots;
  }
  std::byte* slot_at(std::uint64_t position) const {
    return slots_.get() + (position & mask_) * slot_bytes_;
  }

  // Both threads read these; no thread writes them after construction.
  const std::uint64_t rows_;
  const std::size_t row_bytes_;
  const std::size_t slot_bytes_;
  const AlignedBytes slots_;
  const std::uint64_t mask_;

  struct alignas(kCacheLine) Producer {
    std::atomic<std::uint64_t> tail{0};
    std::uint64_t seen_head = 0;
    Counter pushed, dropped, refused;
  };
  struct alignas(kCacheLine) Consumer {
    std::atomic<std::uint64_t> head{0};
  };
  Producer producer_;
  Consumer consumer_;
};

}  // namespace robocache
