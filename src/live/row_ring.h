// A queue of rows between the thread that pushes them and the thread that queries windows.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "live/memory.h"

namespace robocache {

/// A ring of rows with one producer and one consumer; neither waits for the other. The producer
/// always succeeds: in a full ring, a row replaces the oldest one.
///
///     cell     [ 5 ][ 6 ][ 7 ][ 4 ]     the row of position p is in cell p % rows;
///                          ^            the producer writes position 8 next, in place of 4
///
/// A cell does not hold a row but the number of a slot of memory, which does. Each thread owns one
/// more slot, its spare. The producer writes a row to its spare and exchanges the two numbers; the
/// consumer exchanges its spare for the slot of the row that it takes, and may keep that slot in
/// exchange for another one. So a slot belongs to one thread or to one cell at any time, and no
/// thread reads memory that another one writes; no row is torn. The numbers are exchanged
/// atomically (acquire and release), which passes the rows on.
///
/// A cell also holds its row's lap, position / rows, by which the consumer notices that the
/// producer has replaced the row that it is about to take. Positions only increase and never reach
/// 2^64. A lap is stored in 32 bits: only a consumer that pauses between its two instructions for
/// exactly 2^32 laps could mistake a row for an older one.
/// Source: Lamport, "Specifying concurrent program modules", 1983, with the exchange of spare
/// buffers of Simpson, "Four-slot fully asynchronous communication mechanism", 1990.
class RowRing {
 public:
  /// The header that precedes the values of a row.
  struct Header {
    std::int64_t time_ns;
    bool is_valid;
  };

  /// The size of a slot: the header, then the values, in cache lines of its own, as the consumer
  /// reads one slot while the producer writes the next.
  static constexpr std::size_t slot_bytes(std::size_t row_bytes) {
    return round_up(sizeof(Header) + row_bytes, kCacheLine);
  }
  /// The number of slots of a ring: one for each row and the two spares.
  static constexpr std::int64_t slots_of(std::int64_t rows) { return rows + 2; }

  /// A ring of 1 to 2^30 rows of `row_bytes` bytes each. `slots`: memory that it shares with the
  /// consumer, which owns the slots from number `slots_of(rows)` on.
  RowRing(std::int64_t rows, std::size_t row_bytes, std::byte* slots)
      : rows_(static_cast<std::uint64_t>(rows)),
        row_bytes_(row_bytes),
        slots_(slots),
        cells_(std::make_unique<std::atomic<std::uint64_t>[]>(rows_)) {
    for (std::uint64_t i = 0; i < rows_; ++i) {
      cells_[i].store(empty_cell(static_cast<std::int32_t>(i)), std::memory_order_relaxed);
    }
    producer_.spare = static_cast<std::int32_t>(rows);
    consumer_.spare = static_cast<std::int32_t>(rows + 1);
  }

  std::size_t row_bytes() const { return row_bytes_; }

  /// Called by the producer: appends a row of `row_bytes` bytes, in place of the oldest row where
  /// the ring is full.
  void push(std::int64_t time_ns, const void* values, bool is_valid) {
    std::memcpy(next_row(), values, row_bytes_);
    push_next(time_ns, is_valid);
  }

  /// Called by the producer: memory for the values of the next row, [row_bytes].
  std::byte* next_row() { return slot_at(producer_.spare) + sizeof(Header); }

  /// Called by the producer: appends the row whose values are in `next_row()`.
  void push_next(std::int64_t time_ns, bool is_valid) {
    const Header header{time_ns, is_valid};
    std::memcpy(slot_at(producer_.spare), &header, sizeof header);
    const std::uint64_t before = cells_[producer_.cell].exchange(
        full_cell(producer_.lap, producer_.spare), std::memory_order_acq_rel);
    producer_.spare = slot_in(before);
    if (is_full(before)) producer_.overwritten.add(1);
    if (++producer_.cell == rows_) {
      producer_.cell = 0;
      ++producer_.lap;
    }
    producer_.tail.store(producer_.tail.load(std::memory_order_relaxed) + 1,
                         std::memory_order_release);
  }

  /// Called by the producer: counts a row of another size.
  void refuse() { producer_.refused.add(1); }

  /// Called by any thread: whether a row has been pushed since the last `forget`.
  bool has_been_pushed() const {
    return producer_.tail.load(std::memory_order_acquire) !=
           consumer_.forgotten.load(std::memory_order_relaxed);
  }

  // Called by any thread: numbers of rows pushed, overwritten before they were taken, and refused.
  std::int64_t pushed() const {
    return static_cast<std::int64_t>(producer_.tail.load(std::memory_order_acquire));
  }
  std::int64_t overwritten() const { return producer_.overwritten.get(); }
  std::int64_t refused() const { return producer_.refused.get(); }

  /// Called by the consumer: calls `take(header, slot)` for each row present on entry, in order,
  /// and `miss()` before a row whose predecessors were overwritten, or at the end where the last
  /// ones were. `take` returns the row's slot, or keeps it and returns another one of the
  /// consumer's. A producer that never pauses can't delay it. Returns the number of rows taken.
  template <typename Take, typename Miss>
  std::int64_t take_all(const Take& take, const Miss& miss) {
    const std::uint64_t tail = producer_.tail.load(std::memory_order_acquire);
    std::uint64_t position = consumer_.head;
    consumer_.head = tail;
    bool is_missing = tail - position > rows_;
    if (is_missing) position = tail - rows_;
    std::uint64_t cell = position % rows_;
    std::uint64_t lap = position / rows_;
    std::int64_t taken = 0;
    for (; position != tail; ++position) {
      if (take_cell(cells_[cell], static_cast<std::uint32_t>(lap))) {
        if (is_missing) miss();
        is_missing = false;
        Header header;
        std::memcpy(&header, slot_at(consumer_.spare), sizeof header);
        consumer_.spare = take(header, consumer_.spare);
        ++taken;
      } else {
        is_missing = true;  // the producer has replaced the row since this call began
      }
      if (++cell == rows_) {
        cell = 0;
        ++lap;
      }
    }
    if (is_missing) miss();
    return taken;
  }

  /// Called by the consumer: drops the rows present on entry; returns the number of them.
  std::int64_t forget() {
    const std::int64_t taken =
        take_all([](const Header&, std::int32_t slot) { return slot; }, [] {});
    consumer_.forgotten.store(consumer_.head, std::memory_order_relaxed);
    return taken;
  }

 private:
  // A cell: the lap in the upper 32 bits, then whether it holds a row, then the slot's number.
  static constexpr std::uint64_t kFull = std::uint64_t{1} << 31;

  static std::uint64_t empty_cell(std::int32_t slot) { return static_cast<std::uint64_t>(slot); }
  static std::uint64_t full_cell(std::uint32_t lap, std::int32_t slot) {
    return std::uint64_t{lap} << 32 | kFull | empty_cell(slot);
  }
  static bool is_full(std::uint64_t cell) { return (cell & kFull) != 0; }
  static std::uint32_t lap_in(std::uint64_t cell) { return static_cast<std::uint32_t>(cell >> 32); }
  static std::int32_t slot_in(std::uint64_t cell) {
    return static_cast<std::int32_t>(cell & (kFull - 1));
  }

  /// Exchanges the consumer's spare for the slot of a cell's row of this lap; false if the producer
  /// has replaced that row.
  bool take_cell(std::atomic<std::uint64_t>& cell, std::uint32_t lap) {
    std::uint64_t row = cell.load(std::memory_order_acquire);
    if (lap_in(row) != lap ||
        !cell.compare_exchange_strong(row, empty_cell(consumer_.spare), std::memory_order_acq_rel,
                                      std::memory_order_relaxed)) {
      return false;
    }
    consumer_.spare = slot_in(row);
    return true;
  }

  std::byte* slot_at(std::int32_t slot) const {
    return slots_ + static_cast<std::size_t>(slot) * slot_bytes(row_bytes_);
  }

  // Both threads read these; no thread writes them after construction.
  const std::uint64_t rows_;
  const std::size_t row_bytes_;
  std::byte* const slots_;
  const std::unique_ptr<std::atomic<std::uint64_t>[]> cells_;

  // Each thread has cache lines of its own; any thread reads the tail and the counters.
  struct alignas(kCacheLine) Producer {
    std::atomic<std::uint64_t> tail{0};  // the number of rows pushed
    std::uint64_t cell = 0;              // of the next row, and its lap
    std::uint32_t lap = 0;
    std::int32_t spare = 0;
    Counter overwritten, refused;
  };
  struct alignas(kCacheLine) Consumer {
    std::uint64_t head = 0;                   // rows before it have been taken or overwritten
    std::atomic<std::uint64_t> forgotten{0};  // the head after the last `forget`
    std::int32_t spare = 0;
  };
  Producer producer_;
  Consumer consumer_;
};

}  // namespace robocache
