#include "live/row_buffer.h"

#include <algorithm>
#include <cstring>

namespace robocache {
namespace {

/// Moves entries of a robot's array [2C] within its ring, and copies them to their other places.
template <typename Entry>
void move_in_ring(Entry* entries, std::int64_t capacity, std::int64_t from, std::int64_t to,
                  std::int64_t count) {
  const auto copy = [entries](std::int64_t source, std::int64_t target, std::int64_t number) {
    std::memmove(entries + target, entries + source,
                 static_cast<std::size_t>(number) * sizeof(Entry));
  };
  copy(from, to, count);
  const std::int64_t below = std::clamp<std::int64_t>(capacity - to, 0, count);
  copy(to, to + capacity, below);
  copy(to + below, to + below - capacity, count - below);
}

}  // namespace

RowBuffer::RowBuffer(std::int64_t capacity, std::int64_t kept, std::int64_t first_slot,
                     std::int64_t robots)
    : capacity_(capacity),
      kept_(kept),
      robots_(static_cast<std::size_t>(robots)),
      times_(static_cast<std::size_t>(entries())),
      valid_(std::make_unique<bool[]>(static_cast<std::size_t>(entries()))),
      slots_(static_cast<std::size_t>(entries())) {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    slots_[i] = static_cast<std::int32_t>(first_slot + static_cast<std::int64_t>(i) % capacity);
  }
  for (Robot& robot : robots_) {
    robot.counters.newest.set(INT64_MIN);
    robot.counters.period.set(-1);
  }
}

std::int64_t RowBuffer::rows_not_after(std::int64_t robot, std::int64_t time_ns) const {
  const std::int64_t* const oldest = times_.data() + begin(robot);
  return std::upper_bound(oldest, oldest + count(robot), time_ns) - oldest;
}

std::int32_t RowBuffer::insert(std::int64_t robot, std::int64_t time_ns, std::int64_t now_ns,
                               bool is_valid, std::int32_t slot) {
  Robot& rows = at(robot);
  Counters& counters = rows.counters;
  note_arrival(rows, time_ns);
  if (rows.count == capacity_ && must_give_up_newest(robot, time_ns, now_ns)) {
    counters.future.add(1);
    lose(rows, std::max(time_ns, newest_time(robot)));
    if (time_ns >= newest_time(robot)) return slot;
    --rows.count;
  }
  std::int64_t index = rows.count;
  if (rows.count > 0 && time_ns < newest_time(robot)) {
    index = rows_not_after(robot, time_ns);
    if (index == 0 && rows.count == capacity_) {
      counters.too_late.add(1);
      rows.has_given_up = true;
      return slot;
    }
    counters.late.add(1);
  }
  if (index > 0 && time_at(robot, index - 1) == time_ns) counters.repeated.add(1);
  if (rows.count == capacity_) {
    give_up_oldest(rows);
    --index;
  }
  const std::int32_t free_slot = make_room(robot, index);
  write(robot, index, time_ns, is_valid, slot);
  if (rows.is_missing) rows.complete_since = std::max(rows.complete_since, time_ns);
  rows.is_missing = false;
  publish(rows, robot);
  return free_slot;
}

bool RowBuffer::is_complete_since(std::int64_t robot, std::int64_t time_ns) const {
  const Robot& rows = at(robot);
  const bool has_oldest = !rows.has_given_up || (rows.count > 0 && time_at(robot, 0) <= time_ns);
  return has_oldest && !rows.is_missing && rows.complete_since <= time_ns;
}

std::int64_t RowBuffer::complete_rows(std::int64_t robot, std::int64_t until_ns) const {
  const Robot& rows = at(robot);
  if (rows.is_missing) return 0;
  const std::int64_t since = rows.complete_since;
  const std::int64_t before = since == INT64_MIN ? 0 : rows_not_after(robot, since - 1);
  return std::max<std::int64_t>(rows_not_after(robot, until_ns) - before, 0);
}

void RowBuffer::refuse_future(std::int64_t robot, std::int64_t time_ns) {
  note_arrival(at(robot), time_ns);
  at(robot).counters.future.add(1);
}

void RowBuffer::forget(std::int64_t robot) {
  Robot& rows = at(robot);
  rows.counters.forgotten.add(rows.count);
  rows.first = rows.count = 0;
  rows.last_arrived = INT64_MIN;
  rows.has_given_up = rows.is_missing = false;
  rows.complete_since = INT64_MIN;
  publish(rows, robot);
}

void RowBuffer::note_arrival(Robot& robot, std::int64_t time_ns) {
  if (time_ns < robot.last_arrived) robot.counters.clock_back.add(1);
  robot.last_arrived = time_ns;
}

/// Whether a full buffer must drop its newest row for an incoming one: the newest of all of them is
/// later than now, and without the oldest, fewer than `kept_` rows up to now would remain.
bool RowBuffer::must_give_up_newest(std::int64_t robot, std::int64_t time_ns,
                                    std::int64_t now_ns) const {
  if (std::max(time_ns, newest_time(robot)) <= now_ns) return false;
  return rows_not_after(robot, now_ns) + (time_ns <= now_ns ? 1 : 0) <= kept_;
}

void RowBuffer::give_up_oldest(Robot& robot) {
  robot.first = robot.first + 1 == capacity_ ? 0 : robot.first + 1;
  --robot.count;
  robot.has_given_up = true;
  robot.counters.outdated.add(1);
}

/// Records that a row stamped `time_ns` is lost.
void RowBuffer::lose(Robot& robot, std::int64_t time_ns) {
  const std::int64_t after = time_ns < INT64_MAX ? time_ns + 1 : INT64_MAX;
  robot.complete_since = std::max(robot.complete_since, after);
}

/// Writes the entry of row `index`, counted from the oldest, to both of its places.
void RowBuffer::write(std::int64_t robot, std::int64_t index, std::int64_t time_ns, bool is_valid,
                      std::int32_t slot) {
  const std::int64_t turned = at(robot).first + index;
  const std::int64_t entry =
      first_entry(robot) + (turned < capacity_ ? turned : turned - capacity_);
  for (const std::int64_t place : {entry, entry + capacity_}) {
    times_[static_cast<std::size_t>(place)] = time_ns;
    valid_[static_cast<std::size_t>(place)] = is_valid;
    slots_[static_cast<std::size_t>(place)] = slot;
  }
}

/// Makes room for the entry of a row `index`: moves those of the newer rows up or of the older ones
/// down, whichever are fewer. A row that is a little late has few newer rows; after a clock has
/// jumped back, the rows by the new clock are few and older than the others. Returns the free slot
/// whose entry the row takes.
std::int32_t RowBuffer::make_room(std::int64_t robot, std::int64_t index) {
  Robot& rows = at(robot);
  const std::int64_t newer = rows.count - index;
  const bool moves_newer = newer <= index;
  if (!moves_newer) rows.first = rows.first == 0 ? capacity_ - 1 : rows.first - 1;
  const std::int64_t free_entry = rows.first + (moves_newer ? rows.count : 0);
  const std::int32_t slot = slots_[static_cast<std::size_t>(first_entry(robot) + free_entry)];
  if (moves_newer) {
    move_entries(robot, rows.first + index, rows.first + index + 1, newer);
  } else {
    move_entries(robot, rows.first + 1, rows.first, index);
  }
  ++rows.count;
  return slot;
}

/// Moves a robot's entries; `from` and `to` count from its first entry in memory.
void RowBuffer::move_entries(std::int64_t robot, std::int64_t from, std::int64_t to,
                             std::int64_t count) {
  if (count == 0) return;
  const std::int64_t first = first_entry(robot);
  move_in_ring(times_.data() + first, capacity_, from, to, count);
  move_in_ring(valid_.get() + first, capacity_, from, to, count);
  move_in_ring(slots_.data() + first, capacity_, from, to, count);
}

void RowBuffer::publish(Robot& robot, std::int64_t number) {
  robot.counters.held.set(robot.count);
  robot.counters.newest.set(robot.count > 0 ? newest_time(number) : INT64_MIN);
}

}  // namespace robocache
