// The rows that a target is made from: the half of the reference that values do not come into. The
// forward reference and that of the gradient share it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <vector>

#include "robocache/align.h"
#include "support/numbers.h"

namespace robocache::testing::reference {

using Int128 = __int128;

/// The element at `indices`, a leading one of which is dropped where the view has no batch.
inline std::int64_t position(const ConstTensorView& view,
                             std::initializer_list<std::int64_t> indices) {
  const std::int64_t* index = indices.begin() + (static_cast<int>(indices.size()) - view.rank);
  std::int64_t position = 0;
  for (int axis = 0; axis < view.rank; ++axis) position += index[axis] * view.strides[axis];
  return position;
}

inline double number_at(const ConstTensorView& view, std::initializer_list<std::int64_t> indices) {
  return load_number(view.data, view.dtype, position(view, indices));
}

// The later minus the earlier time, or the other way round: integers in 128 bits, floating times in
// their own type.
inline Int128 minus(std::int64_t a, std::int64_t b) { return Int128{a} - Int128{b}; }
inline float minus(float a, float b) { return a - b; }
inline double minus(double a, double b) { return a - b; }

inline bool is_nan(std::int64_t) { return false; }
inline bool is_nan(double t) { return std::isnan(t); }

template <typename Time>
auto distance(Time a, Time b) {
  return a < b ? minus(b, a) : minus(a, b);
}

inline void assign(const Duration& duration, Int128& to) { to = duration.nanoseconds(); }
inline void assign(const Duration& duration, float& to) {
  to = static_cast<float>(duration.seconds());
}
inline void assign(const Duration& duration, double& to) { to = duration.seconds(); }

/// The rows of one episode, as far as time goes, and how its gaps and ends are meant.
template <typename Time>
struct Episode {
  using Difference = decltype(minus(Time{}, Time{}));
  std::int64_t first_row;
  std::vector<Time> times;
  std::vector<bool> valid;
  Difference clock_offset, tolerance, half_window;
  std::optional<Difference> max_gap;
  Outside outside;
  bool holds_newest = false;  // a target after the last row holds it: a causal window of the loader
};

/// A clock offset moves floating rows, each sum rounded; and integer targets the other way, up to
/// the ends of int64.
inline std::int64_t moved_row(std::int64_t time, Int128) { return time; }
inline float moved_row(float time, float by) { return time + by; }
inline double moved_row(double time, double by) { return time + by; }
inline std::int64_t moved_target(std::int64_t time, Int128 by) {
  return static_cast<std::int64_t>(std::clamp<Int128>(time - by,
                                                      std::numeric_limits<std::int64_t>::min(),
                                                      std::numeric_limits<std::int64_t>::max()));
}
inline float moved_target(float time, float) { return time; }
inline double moved_target(double time, double) { return time; }

template <typename Time>
Episode<Time> episode_of(const Stream& stream, std::int64_t b, Outside outside) {
  Episode<Time> episode{};
  std::int64_t count = stream.values.shape[stream.values.rank - 2];
  if (stream.begins.present()) {
    episode.first_row =
        static_cast<const std::int64_t*>(stream.begins.data)[position(stream.begins, {b})];
    count -= episode.first_row;
  }
  if (stream.lengths.present()) {
    count = std::clamp<std::int64_t>(static_cast<std::int64_t>(number_at(stream.lengths, {b})), 0,
                                     count);
  }
  if (stream.clock_offset) assign(*stream.clock_offset, episode.clock_offset);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row = episode.first_row + i;
    const Time time = static_cast<const Time*>(stream.times.data)[position(stream.times, {b, row})];
    episode.times.push_back(moved_row(time, episode.clock_offset));
    episode.valid.push_back(!stream.valid.present() || number_at(stream.valid, {b, row}) != 0);
  }
  if (stream.tolerance) assign(*stream.tolerance, episode.tolerance);
  if (stream.mean_window) assign(*stream.mean_window, episode.half_window);
  episode.half_window /= 2;
  if (stream.max_gap) assign(*stream.max_gap, episode.max_gap.emplace());
  episode.outside = outside;
  return episode;
}

/// A target, as its episode's clock has it.
template <typename Time>
struct Target {
  Time time;
  std::optional<Time> previous;  // the closest one before it that is not NaN
};

template <typename Time>
Target<Time> target_of(const ConstTensorView& target_times, const Episode<Time>& episode,
                       std::int64_t b, std::int64_t i) {
  const auto time_at = [&](std::int64_t index) {
    return static_cast<const Time*>(target_times.data)[position(target_times, {b, index})];
  };
  Target<Time> target{moved_target(time_at(i), episode.clock_offset), std::nullopt};
  for (std::int64_t before = i - 1; before >= 0 && !target.previous; --before) {
    if (is_nan(time_at(before))) continue;
    target.previous = moved_target(time_at(before), episode.clock_offset);
  }
  return target;
}

/// The rows, weight and validity of one run of a target.
template <typename Compute>
struct Made {
  enum From { kZero, kNan, kOneRow, kTwoRows, kSum, kMean } from;
  std::vector<std::int64_t> rows;  // none for a literal, any number for sum and mean
  Compute weight;                  // of the second of two rows
  bool valid;
  std::int64_t newest;  // the row that the target's age goes by; -1 where it has none
};

template <typename Compute, typename Time>
Made<Compute> make(Method method, const Episode<Time>& episode, const Target<Time>& target) {
  using M = Made<Compute>;
  const Time t = target.time;
  const std::vector<Time>& times = episode.times;
  const std::int64_t n = static_cast<std::int64_t>(times.size());
  if (n == 0) return {M::kZero, {}, 0, false, -1};
  if (is_nan(t)) return {M::kNan, {}, 0, false, -1};

  std::int64_t lo = -1;  // the last row at or before t
  for (std::int64_t row = 0; row < n; ++row) {
    if (times[row] <= t) lo = row;
  }
  const std::int64_t hi = lo + 1;
  const bool before = lo < 0;
  const auto at_the_end = [&]() -> M {
    const std::int64_t row = before ? 0 : n - 1;
    if (episode.outside == Outside::kZero) return {M::kZero, {}, 0, false, row};
    if (episode.outside == Outside::kNan) return {M::kNan, {}, 0, false, row};
    return {M::kOneRow, {row}, 0, false, row};
  };

  const bool after = hi == n && times[lo] != t;
  const bool is_held = after && episode.holds_newest;
  const bool held_is_valid = is_held && episode.valid[lo] &&
                             (!episode.max_gap || distance(times[lo], t) <= *episode.max_gap);
  if (method == Method::kMean || method == Method::kSum) {
    if (before || (after && !is_held)) return at_the_end();
    M made{method == Method::kMean ? M::kMean : M::kSum, {}, 0, true, lo};
    for (std::int64_t row = 0; row < n; ++row) {
      const bool is_in =
          method == Method::kMean
              ? times[row] == t || distance(times[row], t) <= episode.half_window
              : times[row] <= t && !(target.previous && times[row] <= *target.previous);
      if (!is_in) continue;
      if (episode.valid[row]) {
        made.rows.push_back(row);
        made.newest = row;
      } else if (method == Method::kSum) {
        made.valid = false;
      }
    }
    if (method == Method::kSum && is_held) made.valid = made.valid && held_is_valid;
    if (method == Method::kSum || !made.rows.empty()) return made;
    return make<Compute>(Method::kLinear, episode, target);
  }

  // A row of the same time is the answer alone; else the nearest of those within the tolerance is.
  std::int64_t hit = -1;
  if (lo >= 0 && times[lo] == t) {
    hit = lo;
  } else {
    for (const std::int64_t row : {lo, hi}) {
      if (row < 0 || row >= n || !(distance(times[row], t) <= episode.tolerance)) continue;
      if (hit < 0 || distance(times[row], t) < distance(times[hit], t)) hit = row;
    }
  }
  if (hit >= 0) return {M::kOneRow, {hit}, 0, episode.valid[hit], hit};

  if (is_held) return {M::kOneRow, {lo}, 0, held_is_valid, lo};

  const auto weight_between = [&](std::int64_t a) {
    return static_cast<Compute>(minus(t, times[a])) /
           static_cast<Compute>(minus(times[a + 1], times[a]));
  };
  if (before || hi == n) {
    const std::int64_t a = before ? 0 : n - 2;
    if (episode.outside == Outside::kExtrapolate && method == Method::kLinear && n >= 2 &&
        times[a] < times[a + 1]) {
      return {M::kTwoRows, {a, a + 1}, weight_between(a), false, a + 1};
    }
    return at_the_end();
  }

  if (method == Method::kPrevious || method == Method::kNearest) {
    const bool later = method == Method::kNearest && minus(times[hi], t) < minus(t, times[lo]);
    const std::int64_t row = later ? hi : lo;
    const bool near = !episode.max_gap || distance(times[row], t) <= *episode.max_gap;
    return {M::kOneRow, {row}, 0, near && episode.valid[row], row};
  }
  const bool near = !episode.max_gap || minus(times[hi], times[lo]) <= *episode.max_gap;
  return {M::kTwoRows,
          {lo, hi},
          weight_between(lo),
          near && episode.valid[lo] && episode.valid[hi],
          hi};
}

inline bool is_slerp(Method method) {
  return method == Method::kSlerpXyzw || method == Method::kSlerpWxyz;
}

inline std::vector<Run> runs_of(const Stream& stream) {
  if (!stream.layout.empty()) return stream.layout;
  return {{stream.method, stream.values.shape[stream.values.rank - 1]}};
}

struct Sizes {
  std::int64_t batch, targets;
};

/// One where nothing has a batch.
inline Sizes sizes_of(const std::vector<Stream>& streams, const ConstTensorView& target_times) {
  std::int64_t batch = target_times.rank == 2 ? target_times.shape[0] : 1;
  for (const Stream& stream : streams) {
    if (stream.values.rank == 3) batch = stream.values.shape[0];
    if (stream.times.rank == 2) batch = stream.times.shape[0];
    if (stream.lengths.rank == 1) batch = stream.lengths.shape[0];
    if (stream.begins.rank == 1) batch = stream.begins.shape[0];
    if (stream.valid.rank == 2) batch = stream.valid.shape[0];
  }
  return {batch, target_times.shape[target_times.rank - 1]};
}

/// Calls `body` with a number of the compute type and one of the times' type.
template <typename Body>
void with_types(DataType value_type, DataType out_type, DataType time_type, const Body& body) {
  const auto with_time = [&](auto compute) {
    if (time_type == DataType::kInt64) return body(compute, std::int64_t{});
    if (time_type == DataType::kFloat64) return body(compute, double{});
    body(compute, float{});
  };
  if (value_type == DataType::kFloat64 || out_type == DataType::kFloat64)
    return with_time(double{});
  with_time(float{});
}

}  // namespace robocache::testing::reference
