// The order of a stream's rows by their times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "live/memory.h"
#include "robocache/live.h"

namespace robocache {

/// The newest rows of one stream, for every robot, in order of their times; rows of equal time are
/// in order of arrival. A robot has at most C rows, the capacity, by default enough for its
/// windows.
///
/// The buffer has the rows' times and masks, and the numbers of the slots where the ring's producer
/// wrote their values; it reads and moves no values. The loader's windows read times that are
/// contiguous in memory. So these entries are stored twice, C entries apart, and any C entries that
/// are consecutive in the ring of C entries are contiguous, wherever the ring begins:
///
///     C = 4, rows 5 to 8     [8 5 6 7 | 8 5 6 7]
///                               ^first: 5 6 7 8
///
/// Appending writes one entry, in both places, and moves none: no query pays for compacting the
/// buffer. A late row moves the entries of the newer rows or of the older ones, whichever are
/// fewer.
///
/// A robot's buffer owns C slots at any time: those of its rows, and free ones, whose numbers are
/// in the entries without a row. It takes the slot of a row and gives a free one in exchange.
class RowBuffer {
 public:
  /// The bytes that the entries of a row take.
  static constexpr std::size_t kRowBytes =
      2 * (sizeof(std::int64_t) + sizeof(bool) + sizeof(std::int32_t));

  /// Allocates `capacity` entries per robot, which own as many slots, from `first_slot` on. `kept`,
  /// 1 to `capacity`: the number of rows stamped at or before now that are not dropped for other
  /// rows, later ones above all.
  RowBuffer(std::int64_t capacity, std::int64_t kept, std::int64_t first_slot, std::int64_t robots);

  /// Entries in memory, of all robots: the length of the arrays below.
  std::int64_t entries() const { return 2 * capacity_ * robots(); }
  const std::int64_t* times() const { return times_.data(); }
  const bool* valid() const { return valid_.get(); }
  const std::int32_t* slots() const { return slots_.data(); }

  /// The index of a robot's first row in these arrays.
  std::int64_t begin(std::int64_t robot) const { return first_entry(robot) + at(robot).first; }
  std::int64_t count(std::int64_t robot) const { return at(robot).count; }
  std::int64_t time_at(std::int64_t robot, std::int64_t index) const {
    return times_[static_cast<std::size_t>(begin(robot) + index)];
  }
  std::int64_t newest_time(std::int64_t robot) const { return time_at(robot, count(robot) - 1); }

  /// Whether no row stamped at or after a time has been lost since the last `forget`: neither
  /// dropped for other rows nor overwritten in the ring. Overwritten rows have unknown stamps, and
  /// count as earlier than the row that arrived after them.
  bool is_complete_since(std::int64_t robot, std::int64_t time_ns) const;
  /// Whether any row has been lost so.
  bool has_lost_rows(std::int64_t robot) const {
    const Robot& rows = at(robot);
    return rows.has_given_up || rows.is_missing || rows.complete_since != INT64_MIN;
  }
  /// The number of rows up to a time after the last one that was lost.
  std::int64_t complete_rows(std::int64_t robot, std::int64_t until_ns) const;

  /// The number of a robot's rows that are stamped at or before a time.
  std::int64_t rows_not_after(std::int64_t robot, std::int64_t time_ns) const;

  /// The stamp of the row that arrived last; INT64_MIN: none since the last `forget`.
  std::int64_t last_arrived(std::int64_t robot) const { return at(robot).last_arrived; }

  /// Inserts a row in order of time. If the buffer is full, it drops the oldest row; or the new row
  /// itself, if it is older than that; or the newest of all, if it is later than now and the oldest
  /// is one of the `kept` rows. Returns a slot without a row in exchange for `slot`, or `slot`
  /// itself if it drops the new row.
  std::int32_t insert(std::int64_t robot, std::int64_t time_ns, std::int64_t now_ns, bool is_valid,
                      std::int32_t slot);

  /// Records that rows were overwritten in the ring before the row that is inserted next.
  void miss_rows(std::int64_t robot) { at(robot).is_missing = true; }

  /// Counts a row that was taken from its ring and refused: it is stamped too far in the future.
  void refuse_future(std::int64_t robot, std::int64_t time_ns);

  /// Drops all rows of a robot.
  void forget(std::int64_t robot);

  /// The counters that queries increment, of one robot.
  struct Counters {
    Counter taken, clock_back, late, too_late, repeated, early, future, outdated, forgotten, held,
        newest, short_windows, period, wrong_rate;
  };
  Counters& counters(std::int64_t robot) { return at(robot).counters; }
  const Counters& counters(std::int64_t robot) const { return at(robot).counters; }

 private:
  struct alignas(kCacheLine) Robot {
    std::int64_t first = 0;  // the oldest row's entry in the ring
    std::int64_t count = 0;
    std::int64_t last_arrived = INT64_MIN;  // the stamp of the row that arrived last
    // Rows were lost: those before the oldest one; those before a time; those that arrived last.
    bool has_given_up = false;
    std::int64_t complete_since = INT64_MIN;
    bool is_missing = false;
    Counters counters;
  };

  Robot& at(std::int64_t robot) { return robots_[static_cast<std::size_t>(robot)]; }
  const Robot& at(std::int64_t robot) const { return robots_[static_cast<std::size_t>(robot)]; }
  std::int64_t robots() const { return static_cast<std::int64_t>(robots_.size()); }
  std::int64_t first_entry(std::int64_t robot) const { return 2 * capacity_ * robot; }

  void note_arrival(Robot& robot, std::int64_t time_ns);
  bool must_give_up_newest(std::int64_t robot, std::int64_t time_ns, std::int64_t now_ns) const;
  void give_up_oldest(Robot& robot);
  static void lose(Robot& robot, std::int64_t time_ns);
  void write(std::int64_t robot, std::int64_t index, std::int64_t time_ns, bool is_valid,
             std::int32_t slot);
  std::int32_t make_room(std::int64_t robot, std::int64_t index);
  void move_entries(std::int64_t robot, std::int64_t from, std::int64_t to, std::int64_t count);
  void publish(Robot& robot, std::int64_t number);

  std::int64_t capacity_;
  std::int64_t kept_;
  std::vector<Robot> robots_;
  std::vector<std::int64_t> times_;  // [R,2C], like the next two
  std::unique_ptr<bool[]> valid_;
  std::vector<std::int32_t> slots_;
};

}  // namespace robocache
