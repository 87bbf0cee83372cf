// Rows on their way from the thread that has them to the thread that makes windows of them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "live/memory.h"

namespace robocache {

/// A ring of rows with one producer and one consumer, each without waiting for the other.
///
///     position   head            tail       head: the first row that the consumer still needs
///                  v               v        tail: where the producer writes next
///     slot     [ ][x][x][x][x][x][ ][ ]     position p is in slot p % slots
///
/// A position goes up forever; 2^64 are never reached. The producer alone moves the tail, after the
/// row is written (release), and the consumer reads the row after it has seen that (acquire); the
/// other way round for the head, so that a slot is written again only when it has been read. Each
/// side keeps what it last saw of the other's position beside its own, on a cache line of its own,
/// and looks again only when that is not enough.
class RowRing {
 public:
  /// What stands before the values of a row.
  struct Header {
    std::int64_t time_ns;
    bool is_valid;
  };

  /// Of 1 to 2^30 rows, of so many bytes each.
  RowRing(std::int64_t rows, std::size_t row_bytes)
      : rows_(static_cast<std::uint64_t>(rows)),
        row_bytes_(row_bytes),
        // A slot has cache lines to itself: the consumer reads one while the next is written.
        slot_bytes_(round_up(sizeof(Header) + row_bytes, kCacheLine)),
        slots_(make_aligned(slots_for(rows) * slot_bytes_)),
        mask_(slots_for(rows) - 1) {}

  std::size_t row_bytes() const { return row_bytes_; }

  /// The producer's: takes a row of `row_bytes` bytes; false, and nothing done, if there is no room.
  bool push(std::int64_t time_ns, const void* values, bool is_valid) {
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    if (tail - seen_head_ == rows_) {
      seen_head_ = head_.load(std::memory_order_acquire);
      if (tail - seen_head_ == rows_) {
        dropped.add(1);
        return false;
      }
    }
    std::byte* const slot = slot_at(tail);
    const Header header{time_ns, is_valid};
    std::memcpy(slot, &header, sizeof header);
    std::memcpy(slot + sizeof header, values, row_bytes_);
    tail_.store(tail + 1, std::memory_order_release);
    pushed.add(1);
    return true;
  }

  /// The consumer's: calls `take(header, values)` for each row that is there on entry, in order, so
  /// that a producer that never rests can't hold it up; returns how many.
  template <typename Take>
  std::int64_t take_all(const Take& take) {
    const std::uint64_t head = head_.load(std::memory_order_relaxed);
    const std::uint64_t tail = tail_.load(std::memory_order_acquire);
    for (std::uint64_t position = head; position != tail; ++position) {
      const std::byte* const slot = slot_at(position);
      Header header;
      std::memcpy(&header, slot, sizeof header);
      take(header, slot + sizeof header);
      head_.store(position + 1, std::memory_order_release);
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

  // Both sides read these, and nobody writes them.
  const std::uint64_t rows_;
  const std::size_t row_bytes_;
  const std::size_t slot_bytes_;
  const AlignedBytes slots_;
  const std::uint64_t mask_;

  alignas(kCacheLine) std::atomic<std::uint64_t> tail_{0};
  std::uint64_t seen_head_ = 0;

 public:
  // The producer's, beside its position.
  Counter pushed, dropped, refused;

 private:
  alignas(kCacheLine) std::atomic<std::uint64_t> head_{0};
};

}  // namespace robocache
