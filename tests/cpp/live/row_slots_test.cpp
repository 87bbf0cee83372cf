// Rows stay where the producer wrote them: inserting a late row moves no values, only the entries
// that have the rows' order.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

// A shared library hides these classes.
#if defined(ROBOCACHE_TEST_KERNELS)
#include "live/live_source.h"
#include "support/random.h"

namespace robocache::testing {
namespace {

constexpr std::int64_t kRobots = 2;
constexpr std::size_t kNumbers = 9;  // int64 values of a row: more than a cache line

struct Row {
  std::int64_t time_ns, serial;
  bool is_valid;
};

/// A LiveSource and the rows that it is expected to hold.
class Pair {
 public:
  Pair(std::int64_t capacity, std::int64_t ring_rows)
      : capacity_(static_cast<std::size_t>(capacity)),
        ring_rows_(static_cast<std::size_t>(ring_rows)),
        source_(capacity, capacity, ring_rows, kNumbers * sizeof(std::int64_t), kRobots) {}

  void push(std::int64_t robot, std::int64_t time_ns, bool is_valid) {
    const std::vector<std::int64_t> values(kNumbers, ++serial_);
    source_.ring(robot).push(time_ns, values.data(), is_valid);
    std::vector<Row>& pending = robots_[robot].pending;
    if (pending.size() == ring_rows_) pending.erase(pending.begin());
    pending.push_back({time_ns, serial_, is_valid});
  }

  void drain(std::int64_t robot) {
    source_.drain(robot, INT64_MAX, INT64_MAX);
    for (const Row& row : robots_[robot].pending) insert(robots_[robot].rows, row);
    robots_[robot].pending.clear();
  }

  void forget(std::int64_t robot) {
    source_.forget(robot);
    robots_[robot] = {};
  }

  /// Validates the entries and values of all robots, and that each row is where it was when it was
  /// first seen; returns an error message or "".
  std::string difference() {
    for (std::int64_t r = 0; r < kRobots; ++r) {
      const std::string found = difference_of(r);
      if (!found.empty()) return found + " of robot " + std::to_string(r);
    }
    return "";
  }

 private:
  struct Robot {
    std::vector<Row> pending, rows;
    std::map<std::int64_t, const std::byte*> seen;  // the address of each row's values
  };

  void insert(std::vector<Row>& rows, const Row& row) const {
    const bool is_full = rows.size() == capacity_;
    if (is_full && row.time_ns < rows.front().time_ns) return;
    const auto later = [](std::int64_t time_ns, const Row& other) {
      return time_ns < other.time_ns;
    };
    rows.insert(std::upper_bound(rows.begin(), rows.end(), row.time_ns, later), row);
    if (is_full) rows.erase(rows.begin());
  }

  const std::byte* values_in(std::int64_t robot, std::int32_t slot) const {
    const std::int64_t number = robot * source_.slots() + slot;
    return source_.values() + static_cast<std::size_t>(number) * source_.slot_bytes();
  }

  std::string difference_of(std::int64_t robot) {
    Robot& expected = robots_[robot];
    const RowBuffer& buffer = source_.buffer;
    const auto count = static_cast<std::int64_t>(expected.rows.size());
    if (buffer.count(robot) != count) return "the number of rows";
    std::map<std::int64_t, const std::byte*> now_seen;
    std::set<std::int32_t> slots;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t entry = buffer.begin(robot) + i;
      const Row& row = expected.rows[static_cast<std::size_t>(i)];
      const std::string at = " [" + std::to_string(i) + "]";
      if (buffer.times()[entry] != row.time_ns) return "times" + at;
      if (buffer.valid()[entry] != row.is_valid) return "valid" + at;
      const std::int32_t slot = buffer.slots()[entry];
      if (slot < 0 || slot >= source_.slots()) return "the range of slots" + at;
      slots.insert(slot);
      const std::byte* const values = values_in(robot, slot);
      const std::vector<std::int64_t> wanted(kNumbers, row.serial);
      if (std::memcmp(values, wanted.data(), kNumbers * sizeof(std::int64_t)) != 0) {
        return "values" + at;
      }
      const auto before = expected.seen.find(row.serial);
      if (before != expected.seen.end() && before->second != values) return "the address" + at;
      now_seen[row.serial] = values;
    }
    if (slots.size() != expected.rows.size()) return "slots that differ";
    expected.seen = now_seen;
    return "";
  }

  const std::size_t capacity_, ring_rows_;
  LiveSource source_;
  std::int64_t serial_ = 0;
  std::map<std::int64_t, Robot> robots_;
};

/// The stamp of the next row: on time, late, older than all rows, equal to another one, or after a
/// jump of the clock.
std::int64_t next_time(Random& random, std::int64_t* clock, std::int64_t capacity) {
  *clock += 10;
  if (random.one_in(40)) *clock += 10 * random.below(4 * capacity + 1) - 20 * capacity;
  switch (random.below(5)) {
    case 0:
      return *clock - 10 * random.below(capacity + 2);  // equal to an older row's, mostly
    case 1:
      return *clock - random.below(15 * capacity);
    default:
      return *clock;
  }
}

TEST(LiveRowSlots, LateRowsMoveNoValues) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    const std::int64_t capacity = random.pick({1, 2, 3, 4, 7, 32, 100});
    const std::int64_t ring_rows = random.pick({1, 2, 5, 40});
    Pair pair(capacity, ring_rows);
    std::int64_t clocks[kRobots] = {0, INT64_MAX / 2};
    for (int query = 0; query < 60; ++query) {
      for (std::int64_t r = 0; r < kRobots; ++r) {
        const std::int64_t rows = random.below(2 * ring_rows + 2);
        for (std::int64_t i = 0; i < rows; ++i) {
          pair.push(r, next_time(random, &clocks[r], capacity), !random.one_in(4));
        }
        if (random.one_in(40)) {
          pair.forget(r);
        } else {
          pair.drain(r);
        }
      }
      ASSERT_EQ(pair.difference(), "") << "seed " << seed << ", query " << query << ", capacity "
                                       << capacity << ", ring of " << ring_rows;
    }
  }
}

TEST(LiveRowSlots, ADroppedRowGivesItsSlotInExchange) {
  RowBuffer buffer(2, 2, 10, 1);  // slots 10 and 11
  EXPECT_EQ(buffer.insert(0, 100, 100, true, 0), 10);
  EXPECT_EQ(buffer.insert(0, 200, 200, true, 1), 11);
  EXPECT_EQ(buffer.insert(0, 300, 300, true, 2), 0);  // the oldest row's
  EXPECT_EQ(buffer.insert(0, 250, 300, true, 3), 1);
  EXPECT_EQ(buffer.insert(0, 50, 300, true, 4), 4);   // too late: its own
  EXPECT_EQ(buffer.insert(0, 900, 300, true, 5), 5);  // later than now, and so dropped
  buffer.forget(0);
  std::set<std::int32_t> slots;
  for (std::int32_t i = 0; i < 2; ++i) slots.insert(buffer.insert(0, i, i, true, 20 + i));
  EXPECT_EQ(slots, (std::set<std::int32_t>{2, 3}));
}

}  // namespace
}  // namespace robocache::testing
#endif
