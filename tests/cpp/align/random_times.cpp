#include "align/random_times.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace robocache::testing {

Clock::Clock(DataType time_type, Random& random) : type(time_type) {
  constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();
  first = random.pick<std::int64_t>({0, 0, -1000, 1'700'000'000'000'000'000, kLowest,
                                     std::numeric_limits<std::int64_t>::max() - 2000});
  step = random.pick<std::int64_t>({1, 7, 1000, 33'333'333, std::int64_t{1} << 57});
  first_seconds = type == DataType::kFloat64 ? random.pick({0.0, -3.0, 1.7e9})
                                             : random.pick({0.0, -3.0, 1000.0});
  step_seconds = random.pick({0.25, 0.01, 1.0 / 30, 1e-4});
}

std::int64_t Clock::time(std::int64_t tick) const {
  const __int128 time = __int128{first} + __int128{tick} * step;
  return static_cast<std::int64_t>(std::clamp<__int128>(
      time, std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()));
}

void Clock::set(Tensor& times, std::int64_t index, std::int64_t tick) const {
  if (type == DataType::kInt64) {
    times.set_int(index, time(tick));
  } else {
    times.set(index, first_seconds + static_cast<double>(tick) * step_seconds);
  }
}

Duration Clock::duration(std::int64_t ticks, Random& random) const {
  if (type == DataType::kInt64) {
    const __int128 length = __int128{ticks} * step;
    return Duration::nanoseconds(static_cast<std::int64_t>(
        std::min<__int128>(length, std::numeric_limits<std::int64_t>::max())));
  }
  if (random.one_in(12)) return Duration::seconds(std::numeric_limits<double>::infinity());
  return Duration::seconds(static_cast<double>(ticks) * step_seconds);
}

Duration Clock::clock_offset(Random& random) const {
  const std::int64_t ticks = random.below(9) - 4;
  if (type != DataType::kInt64) {
    return Duration::seconds(static_cast<double>(ticks) * step_seconds / 3);
  }
  if (random.one_in(8)) {
    return Duration::nanoseconds(random.pick(
        {std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()}));
  }
  return Duration::nanoseconds(ticks * (step / 3));
}

void fill_times(Tensor& times, std::int64_t first, const Usage& usage, const Clock& clock,
                Random& random) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::int64_t tick = 0;
  for (std::size_t row = 0; row < usage.is_used.size(); ++row) {
    const std::int64_t index = first + static_cast<std::int64_t>(row);
    tick = usage.follows[row] ? tick + random.pick({0, 1, 1, 2, 3, 10}) : random.below(4);
    clock.set(times, index, tick);
    if (clock.type == DataType::kInt64) continue;
    if (!usage.is_used[row] && random.one_in(3)) {
      times.set(index, std::numeric_limits<double>::quiet_NaN());
    } else if (!usage.follows[row] && random.one_in(12)) {
      times.set(index, -kInfinity);
    } else if (!usage.follows[row + 1] && random.one_in(12)) {
      times.set(index, kInfinity);
    }
  }
}

namespace {

/// Puts each batch row's times in order; NaN ones stay where they are.
void order(Tensor& targets) {
  const std::int64_t count = targets.shape().back();
  for (std::int64_t first = 0; first < targets.size(); first += count) {
    if (targets.type() == DataType::kInt64) {
      std::vector<std::int64_t> times;
      for (std::int64_t i = 0; i < count; ++i) times.push_back(targets.get_int(first + i));
      std::sort(times.begin(), times.end());
      for (std::int64_t i = 0; i < count; ++i) targets.set_int(first + i, times[i]);
      continue;
    }
    std::vector<double> times;
    std::vector<std::int64_t> places;
    for (std::int64_t i = first; i < first + count; ++i) {
      if (std::isnan(targets.get(i))) continue;
      times.push_back(targets.get(i));
      places.push_back(i);
    }
    std::sort(times.begin(), times.end());
    for (std::size_t i = 0; i < places.size(); ++i) targets.set(places[i], times[i]);
  }
}

}  // namespace

void fill_targets(Tensor& targets, std::int64_t rows, bool are_ordered, const Clock& clock,
                  Random& random) {
  const std::int64_t last = 2 * rows + 8;  // about a quarter lies outside the recording
  std::int64_t tick = -6;
  for (std::int64_t i = 0; i < targets.size(); ++i) {
    tick = random.one_in(3) ? random.below(last + 12) - 6 : tick + random.below(3);
    if (clock.type == DataType::kInt64) {
      std::int64_t time = clock.time(tick);
      if (random.one_in(3)) {  // between ticks
        time = clock.time(tick) / 2 + clock.time(tick + 1) / 2;
      }
      if (random.one_in(40)) {
        time = random.pick(
            {std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()});
      }
      targets.set_int(i, time);
      continue;
    }
    double time = clock.first_seconds + static_cast<double>(tick) * clock.step_seconds;
    if (random.one_in(2)) time += random.between(-1, 1) * clock.step_seconds;
    if (random.one_in(25)) time = std::numeric_limits<double>::quiet_NaN();
    if (random.one_in(40)) time = std::copysign(std::numeric_limits<double>::infinity(), time);
    targets.set(i, time);
  }
  if (are_ordered) order(targets);
}

}  // namespace robocache::testing
