#include "live/row_buffer.h"

#include <algorithm>
#include <cstring>

namespace robocache {

RowBuffer::RowBuffer(std::int64_t capacity, std::int64_t kept, std::size_t row_bytes,
                     std::int64_t robots)
    : capacity_(capacity),
      kept_(kept),
      row_bytes_(row_bytes),
      robots_(static_cast<std::size_t>(robots)),
      times_(static_cast<std::size_t>(rows_in_memory())),
      valid_(std::make_unique<bool[]>(static_cast<std::size_t>(rows_in_memory()))),
      values_(make_aligned(static_cast<std::size_t>(rows_in_memory()) * row_bytes)) {
  for (Robot& robot : robots_) {
    robot.counters.newest.set(INT64_MIN);
    robot.counters.period.set(-1);
  }
}

std::int64_t RowBuffer::rows_not_after(std::int64_t robot, std::int64_t time_ns) const {
  const std::int64_t* const oldest = times_.data() + begin(robot);
  return std::upper_bound(oldest, oldest + count(robot), time_ns) - oldest;
}

void RowBuffer::insert(std::int64_t robot, std::int64_t time_ns, std::int64_t now_ns, bool is_valid,
                       const std::byte* values) {
  Robot& rows = at(robot);
  Counters& counters = rows.counters;
  note_arrival(rows, time_ns);
  if (rows.count == capacity_ && must_give_up_newest(robot, time_ns, now_ns)) {
    counters.future.add(1);
    lose(rows, std::max(time_ns, newest_time(robot)));
    if (time_ns >= newest_time(robot)) return;
    --rows.count;
  }
  std::int64_t index = rows.count;
  if (rows.count > 0 && time_ns < newest_time(robot)) {
    index = rows_not_after(robot, time_ns);
    if (index == 0 && rows.count == capacity_) {
      counters.too_late.add(1);
      rows.has_given_up = true;
      return;
    }
    counters.late.add(1);
  }
  if (index > 0 && time_at(robot, index - 1) == time_ns) counters.repeated.add(1);
  if (rows.count == capacity_) {
    give_up_oldest(rows);
    --index;
  }
  make_room(robot, index);
  write(robot, index, time_ns, is_valid, values);
  if (rows.is_missing) rows.complete_since = std::max(rows.complete_since, time_ns);
  rows.is_missing = false;
  publish(rows, robot);
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

/// Writes row `index`, counted from the oldest, to both of its places.
void RowBuffer::write(std::int64_t robot, std::int64_t index, std::int64_t time_ns, bool is_valid,
                      const std::byte* values) {
  const std::int64_t turned = at(robot).first + index;
  const std::int64_t place = first_row(robot) + (turned < capacity_ ? turned : turned - capacity_);
  for (const std::int64_t row : {place, place + capacity_}) {
    const auto at_row = static_cast<std::size_t>(row);
    times_[at_row] = time_ns;
    valid_[at_row] = is_valid;
    std::memcpy(values_.get() + at_row * row_bytes_, values, row_bytes_);
  }
}

/// Makes room for a row `index`: moves the newer rows up or the older ones down, whichever are
/// fewer. A row that is a little late moves few newer rows; after a clock has jumped back, the rows
/// by the new clock are few and older than the others.
void RowBuffer::make_room(std::int64_t robot, std::int64_t index) {
  Robot& rows = at(robot);
  const std::int64_t newer = rows.count - index;
  ++rows.count;
  if (newer <= index) {
    for (std::int64_t i = rows.count - 1; i > index; --i) copy_row(robot, i - 1, i);
    return;
  }
  rows.first = rows.first == 0 ? capacity_ - 1 : rows.first - 1;
  for (std::int64_t i = 0; i < index; ++i) copy_row(robot, i + 1, i);
}

void RowBuffer::copy_row(std::int64_t robot, std::int64_t from, std::int64_t to) {
  const auto row = static_cast<std::size_t>(begin(robot) + from);
  write(robot, to, times_[row], valid_[row], values_.get() + row * row_bytes_);
}

void RowBuffer::publish(Robot& robot, std::int64_t number) {
  robot.counters.held.set(robot.count);
  robot.counters.newest.set(robot.count > 0 ? newest_time(number) : INT64_MIN);
}

}  // namespace robocache
