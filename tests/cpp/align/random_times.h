// Times for problems made at random: sources that ascend where they must, and targets.
#pragma once

#include <cstdint>
#include <vector>

#include "robocache/align.h"
#include "support/random.h"
#include "support/tensor.h"

namespace robocache::testing {

/// Times are made of ticks: `first + tick * step`, in int64 without overflow, or in seconds.
struct Clock {
  DataType type;
  std::int64_t first, step;
  double first_seconds, step_seconds;

  Clock(DataType time_type, Random& random);

  std::int64_t time(std::int64_t tick) const;
  void set(Tensor& times, std::int64_t index, std::int64_t tick) const;
  /// Now and then without end, where times are floating.
  Duration duration(std::int64_t ticks, Random& random) const;
  /// A few ticks either way, and now and then as far as integers go.
  Duration clock_offset(Random& random) const;
};

/// How one array of times is used: which rows are of some episode, and which must not be before the
/// row in front of them.
struct Usage {
  std::vector<bool> is_used, follows;

  explicit Usage(std::int64_t rows)
      : is_used(static_cast<std::size_t>(rows)), follows(static_cast<std::size_t>(rows) + 1) {}

  void add(std::int64_t begin, std::int64_t count) {
    for (std::int64_t row = begin; row < begin + count; ++row) {
      is_used[row] = true;
      if (row > begin) follows[row] = true;
    }
  }
};

/// Times that ascend where they must and jump back elsewhere, from element `first` on. Now and then
/// they begin at -infinity or end at infinity; rows that are not used hold anything.
void fill_times(Tensor& times, std::int64_t first, const Usage& usage, const Clock& clock,
                Random& random);

/// Targets for recordings of up to `rows` rows; those of a batch row ascend if `are_ordered`, but
/// for NaN ones.
void fill_targets(Tensor& targets, std::int64_t rows, bool are_ordered, const Clock& clock,
                  Random& random);

}  // namespace robocache::testing
