// The rows of a live stream: a ring per robot, and the buffer of the rows taken out of the rings.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "live/durations.h"
#include "live/memory.h"
#include "live/row_buffer.h"
#include "live/row_ring.h"

namespace robocache {

/// A robot's ring and buffer share slots of memory, each for a row: a row stays in the slot that it
/// was pushed to until the buffer drops it.
class LiveSource {
 public:
  /// `kept_rows`: as `kept` of RowBuffer.
  LiveSource(std::int64_t buffer_rows, std::int64_t kept_rows, std::int64_t ring_rows,
             std::size_t row_bytes, std::int64_t robots)
      : buffer(buffer_rows, kept_rows, RowRing::slots_of(ring_rows), robots),
        slot_bytes_(RowRing::slot_bytes(row_bytes)),
        slots_(RowRing::slots_of(ring_rows) + buffer_rows),
        memory_(make_aligned(static_cast<std::size_t>(robots * slots_) * slot_bytes_)),
        distant_rows_(static_cast<std::size_t>(robots)) {
    for (std::int64_t r = 0; r < robots; ++r) {
      std::byte* const slots = memory_.get() + static_cast<std::size_t>(r * slots_) * slot_bytes_;
      rings_.push_back(std::make_unique<RowRing>(ring_rows, row_bytes, slots));
    }
  }

  /// The values in the first robot's first slot; those of the next slot follow `slot_bytes` later,
  /// those of the next robot `slots` slots later.
  const std::byte* values() const { return memory_.get() + sizeof(RowRing::Header); }
  std::size_t slot_bytes() const { return slot_bytes_; }
  std::int64_t slots() const { return slots_; }

  RowRing& ring(std::int64_t robot) { return *rings_[static_cast<std::size_t>(robot)]; }

  /// Moves all rows of a robot's ring to the buffer, for a query at `now_ns`; refuses rows that
  /// are more than `max_future_ns` later. INT64_MAX: now is unknown.
  void drain(std::int64_t robot, std::int64_t now_ns, std::int64_t max_future_ns) {
    take_all(robot, [&](const RowRing::Header& row, std::int32_t slot) {
      note_distance(robot, row.time_ns, now_ns, max_future_ns);
      if (row.time_ns > now_ns) {
        if (is_past(row.time_ns, now_ns, max_future_ns)) {
          buffer.refuse_future(robot, row.time_ns);
          return slot;
        }
        buffer.counters(robot).early.add(1);
      }
      return buffer.insert(robot, row.time_ns, now_ns, row.is_valid, slot);
    });
  }

  /// Moves all rows of a robot's ring to the buffer, for a query at the newest of them. A row more
  /// than `max_future_ns` later than all buffered rows is refused as a mistake here too, unless the
  /// row that arrived before it was as late: then the stream had stopped.
  void drain_clock(std::int64_t robot, std::int64_t max_future_ns) {
    take_all(robot, [&](const RowRing::Header& row, std::int32_t slot) {
      if (buffer.count(robot) > 0 &&
          is_past(row.time_ns, buffer.newest_time(robot), max_future_ns) &&
          is_past(row.time_ns, buffer.last_arrived(robot), max_future_ns)) {
        buffer.refuse_future(robot, row.time_ns);
        return slot;
      }
      return buffer.insert(robot, row.time_ns, INT64_MAX, row.is_valid, slot);
    });
  }

  /// Whether the rows that arrived last are stamped more than `max_future_ns` from the queries that
  /// took them, before or after: as by another clock. A single such row is none: it may be an
  /// error, or describe a scene once and for all.
  bool has_another_clock(std::int64_t robot) const {
    return distant_rows_[static_cast<std::size_t>(robot)] == kDistantRows;
  }

  /// Drops all rows of a robot, in its ring and in the buffer.
  void forget(std::int64_t robot) {
    const std::int64_t taken = ring(robot).forget();
    buffer.counters(robot).taken.add(taken);
    buffer.counters(robot).forgotten.add(taken);
    buffer.forget(robot);
    distant_rows_[static_cast<std::size_t>(robot)] = 0;
  }

  RowBuffer buffer;

 private:
  static constexpr int kDistantRows = 2;

  void note_distance(std::int64_t robot, std::int64_t time_ns, std::int64_t now_ns,
                     std::int64_t max_future_ns) {
    if (now_ns == INT64_MAX) return;
    int& rows = distant_rows_[static_cast<std::size_t>(robot)];
    const bool is_distant =
        is_past(time_ns, now_ns, max_future_ns) || is_past(now_ns, time_ns, max_future_ns);
    rows = is_distant ? std::min(rows + 1, kDistantRows) : 0;
  }

  template <typename Take>
  void take_all(std::int64_t robot, const Take& take) {
    const std::int64_t taken = ring(robot).take_all(take, [&] { buffer.miss_rows(robot); });
    buffer.counters(robot).taken.add(taken);
  }

  const std::size_t slot_bytes_;
  const std::int64_t slots_;                     // of a robot
  const AlignedBytes memory_;                    // [R, slots]
  std::vector<std::unique_ptr<RowRing>> rings_;  // [R]
  std::vector<int> distant_rows_;  // [R]: since the last row near now; at most kDistantRows
};

/// One source per stream; null for streams that take no rows.
using LiveSources = std::vector<std::unique_ptr<LiveSource>>;

}  // namespace robocache
