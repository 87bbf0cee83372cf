// The first half of alignment: determines the rows that a target reads and their weight, which
// depend on times only. docs/meaning.md states the rules; this file implements each of them once,
// for every backend of the library.
#pragma once

#include <cstdint>

#include "align/plan.h"
#include "core/target.h"

namespace robocache::ROBOCACHE_TARGET {

/// The source of a target's value.
enum class Source : int {
  kZero,               // a literal 0
  kNan,                // a literal NaN
  kRow,                // row `lo` alone: a hit, or a held row
  kPair,               // rows lo and lo + 1, the target between them
  kExtrapolateBefore,  // rows lo and lo + 1, the target before both
  kExtrapolateAfter,   // rows lo and lo + 1, the target after both
};

ROBOCACHE_HOST_DEVICE bool is_literal(Source source) {
  return source == Source::kZero || source == Source::kNan;
}

/// The rows that a target's value is computed from, and their weight.
template <typename Compute>
struct Location {
  std::int64_t lo;  // counted from the episode's first row
  Compute weight;   // of row lo + 1, where there is a pair
  Source source;
  bool nearest_is_later;  // kPair: row lo + 1 is the closer one
  bool valid;             // the mask, before zero quaternions clear it
};

// A stream's clock offset is added to floating-point times as they are read, so that they round as
// if the recording held the sums. Integer sums are exact, so the offset is subtracted from the
// target instead, once, and saturates.
ROBOCACHE_HOST_DEVICE std::int64_t offset_row_time(std::int64_t time, TimeValue) { return time; }
ROBOCACHE_HOST_DEVICE double offset_row_time(double time, TimeValue clock_offset) {
  return time + clock_offset.f64;
}
ROBOCACHE_HOST_DEVICE float offset_row_time(float time, TimeValue clock_offset) {
  return time + clock_offset.f32;
}
ROBOCACHE_HOST_DEVICE std::int64_t offset_target_time(std::int64_t time, TimeValue clock_offset) {
  const std::int64_t by = clock_offset.i64;
  const std::int64_t shifted =
      static_cast<std::int64_t>(static_cast<std::uint64_t>(time) - static_cast<std::uint64_t>(by));
  const bool overflows = by > 0 ? shifted > time : shifted < time;
  return !overflows ? shifted : by > 0 ? INT64_MIN : INT64_MAX;
}
ROBOCACHE_HOST_DEVICE double offset_target_time(double time, TimeValue) { return time; }
ROBOCACHE_HOST_DEVICE float offset_target_time(float time, TimeValue) { return time; }

/// The times and validity flags of the rows of one episode. Index can count the rows. Without
/// kIsOffset the stream has no clock offset; leaving out even one addition speeds up a search on
/// the GPU.
template <typename Time, typename Index, bool kIsOffset = true>
struct EpisodeTimes {
  const Time* times;
  Index stride;
  Index count;
  TimeValue clock_offset;
  const bool* valid;  // may be null
  Index valid_stride;

  ROBOCACHE_HOST_DEVICE Time operator[](Index row) const {
    const Time time = times[offset(row, stride)];
    if constexpr (kIsOffset) return offset_row_time(time, clock_offset);
    return time;
  }
  ROBOCACHE_HOST_DEVICE bool is_valid(Index row) const {
    return valid == nullptr || valid[offset(row, valid_stride)];
  }
};

/// The position of a target among the rows: `not_after` rows are at or before it. `time_lo` is the
/// time of the last of them, `time_hi` that of the next row; each is set only if the row exists.
template <typename Time, typename Index>
struct Bracket {
  Index not_after;
  Time time_lo, time_hi;
};

// The time from `earlier` to `later`, which is not before it. Differences of int64 are unsigned, so
// that they are exact over the whole range.
ROBOCACHE_HOST_DEVICE std::uint64_t elapsed(std::int64_t earlier, std::int64_t later) {
  return static_cast<std::uint64_t>(later) - static_cast<std::uint64_t>(earlier);
}
ROBOCACHE_HOST_DEVICE double elapsed(double earlier, double later) { return later - earlier; }
ROBOCACHE_HOST_DEVICE float elapsed(float earlier, float later) { return later - earlier; }

/// The signed difference a - b; with integers it wraps on overflow.
ROBOCACHE_HOST_DEVICE std::int64_t difference(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(elapsed(b, a));
}
ROBOCACHE_HOST_DEVICE double difference(double a, double b) { return a - b; }
ROBOCACHE_HOST_DEVICE float difference(float a, float b) { return a - b; }

ROBOCACHE_HOST_DEVICE bool is_nan(std::int64_t) { return false; }
ROBOCACHE_HOST_DEVICE bool is_nan(double t) { return t != t; }
ROBOCACHE_HOST_DEVICE bool is_nan(float t) { return t != t; }

/// A duration in the type that `elapsed` has for these times.
template <typename Time>
struct DurationOf;
template <>
struct DurationOf<std::int64_t> {
  ROBOCACHE_HOST_DEVICE static std::uint64_t from(TimeValue value) {
    return static_cast<std::uint64_t>(value.i64);
  }
};
template <>
struct DurationOf<double> {
  ROBOCACHE_HOST_DEVICE static double from(TimeValue value) { return value.f64; }
};
template <>
struct DurationOf<float> {
  ROBOCACHE_HOST_DEVICE static float from(TimeValue value) { return value.f32; }
};

/// The number of rows for which `is_before(time)` holds; they precede all others. Gallops from
/// `guess`, a row in [0, count), then bisects: about 2 log2(distance) reads. With times that do not
/// ascend, the result is some number in [0, count], after at most as many steps.
/// Source: Bentley and Yao, "An almost optimal algorithm for unbounded searching", 1976.
template <typename Time, typename Index, typename IsBefore, bool kIsOffset>
ROBOCACHE_HOST_DEVICE Index rows_before(const EpisodeTimes<Time, Index, kIsOffset>& episode,
                                        Index guess, const IsBefore& is_before) {
  Index low = 0;               // is_before holds for all rows before this one
  Index high = episode.count;  // and for no row from this one on
  const bool upwards = is_before(episode[guess]);
  if (upwards) {
    low = guess + 1;
  } else {
    high = guess;
  }
  for (Index step = 1; step < high - low; step *= 2) {
    const Index probe = upwards ? low + step - 1 : high - step;
    const bool holds = is_before(episode[probe]);
    if (holds) {
      low = probe + 1;
    } else {
      high = probe;
    }
    if (holds != upwards) break;
  }
  while (low < high) {
    const Index middle = low + (high - low) / 2;
    if (is_before(episode[middle])) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/// The number of rows whose time is at or before `t`.
template <typename Time, typename Index, bool kIsOffset>
ROBOCACHE_HOST_DEVICE Index rows_not_after(const EpisodeTimes<Time, Index, kIsOffset>& episode,
                                           Time t, Index guess) {
  return rows_before(episode, guess, [t](Time time) { return time <= t; });
}

template <typename Time, typename Index, bool kIsOffset>
ROBOCACHE_HOST_DEVICE Bracket<Time, Index> bracket_of(
    const EpisodeTimes<Time, Index, kIsOffset>& episode, Index not_after) {
  Bracket<Time, Index> bracket{not_after, Time(0), Time(0)};
  if (not_after > 0) bracket.time_lo = episode[not_after - 1];
  if (not_after < episode.count) bracket.time_hi = episode[not_after];
  return bracket;
}

/// The location of a target before the first row (`before`) or after the last one that is not a
/// hit.
template <typename Compute, typename Time, typename Index, bool kIsOffset>
ROBOCACHE_HOST_DEVICE Location<Compute> locate_outside(
    const EpisodeTimes<Time, Index, kIsOffset>& episode, Time t, bool before, Outside outside) {
  Location<Compute> location{before ? 0 : episode.count - 1, Compute(0), Source::kRow, false,
                             false};
  if (outside == Outside::kZero) {
    location.source = Source::kZero;
  } else if (outside == Outside::kNan) {
    location.source = Source::kNan;
  } else if (outside == Outside::kExtrapolate && episode.count >= 2) {
    const Index a = before ? 0 : episode.count - 2;
    const Time time_a = episode[a];
    const Time time_b = episode[a + 1];
    if (time_a < time_b) {
      const Compute apart = static_cast<Compute>(elapsed(time_a, time_b));
      location.lo = a;
      if (before) {
        location.source = Source::kExtrapolateBefore;
        location.weight = -(static_cast<Compute>(elapsed(t, time_a)) / apart);
      } else {
        location.source = Source::kExtrapolateAfter;
        location.weight = static_cast<Compute>(elapsed(time_a, t)) / apart;
      }
    }
  }
  return location;
}

/// Whether a later target at `t` that holds row `newest` is valid: the row is valid, and at most
/// `max_gap` older.
template <typename Time, typename Index, bool kIsOffset>
ROBOCACHE_HOST_DEVICE bool held_is_valid(const BasicStreamPlan<Index>& plan,
                                         const EpisodeTimes<Time, Index, kIsOffset>& episode,
                                         Time t, Index newest) {
  return episode.is_valid(newest) &&
         (!plan.has_max_gap || elapsed(episode[newest], t) <= DurationOf<Time>::from(plan.max_gap));
}

/// The location of a target after the newest row in a causal window, which holds that row with
/// every method.
template <typename Compute, typename Time, typename Index, bool kIsOffset>
ROBOCACHE_HOST_DEVICE Location<Compute> locate_held(
    const BasicStreamPlan<Index>& plan, const EpisodeTimes<Time, Index, kIsOffset>& episode,
    Time t) {
  const Index newest = episode.count - 1;
  return {newest, Compute(0), Source::kRow, false, held_is_valid(plan, episode, t, newest)};
}

/// Whether the rows of a pair that the methods of `kinds` read are valid and within `max_gap`.
template <typename Time, typename Index, bool kIsOffset>
ROBOCACHE_HOST_DEVICE bool pair_is_valid(const BasicStreamPlan<Index>& plan,
                                         const EpisodeTimes<Time, Index, kIsOffset>& episode,
                                         Time t, const Bracket<Time, Index>& bracket,
                                         bool nearest_is_later, std::uint8_t kinds) {
  const bool lo_is_valid = episode.is_valid(bracket.not_after - 1);
  const bool hi_is_valid = episode.is_valid(bracket.not_after);
  bool valid = true;
  if (kinds & kReadsPair) valid = valid && lo_is_valid && hi_is_valid;
  if (kinds & kReadsPrevious) valid = valid && lo_is_valid;
  if (kinds & kReadsNearest) valid = valid && (nearest_is_later ? hi_is_valid : lo_is_valid);
  if (plan.has_max_gap) {
    const auto max_gap = DurationOf<Time>::from(plan.max_gap);
    const auto after_lo = elapsed(bracket.time_lo, t);
    const auto before_hi = elapsed(t, bracket.time_hi);
    if (kinds & kReadsPair) {
      valid = valid && elapsed(bracket.time_lo, bracket.time_hi) <= max_gap;
    }
    if (kinds & kReadsPrevious) valid = valid && after_lo <= max_gap;
    if (kinds & kReadsNearest) {
      valid = valid && (nearest_is_later ? before_hi : after_lo) <= max_gap;
    }
  }
  return valid;
}

/// The location of the target at `t`, from its bracket (which is ignored where the episode is empty
/// or `t` is NaN) and the plan's options. `holds_newest`: the window is causal, the rows are those
/// that had arrived, and a later target holds the last of them; otherwise such a target lies
/// outside the recording. window.h locates means and sums.
template <typename Compute, typename Time, typename Index, bool kIsOffset>
ROBOCACHE_HOST_DEVICE Location<Compute> locate(const BasicStreamPlan<Index>& plan,
                                               const EpisodeTimes<Time, Index, kIsOffset>& episode,
                                               Time t, const Bracket<Time, Index>& bracket,
                                               bool holds_newest = false) {
  Location<Compute> location{0, Compute(0), Source::kZero, false, false};
  if (episode.count <= 0) {
    return location;
  }
  if (is_nan(t)) {
    location.source = Source::kNan;
    return location;
  }
  const Index lo = bracket.not_after - 1;  // -1: before the first row
  const Index hi = bracket.not_after;      // count: after the last row
  const bool has_lo = lo >= 0;
  const bool has_hi = hi < episode.count;
  const auto after_lo = elapsed(bracket.time_lo, t);
  const auto before_hi = elapsed(t, bracket.time_hi);
  const bool nearest_is_later = has_hi && (!has_lo || before_hi < after_lo);

  const auto tolerance = DurationOf<Time>::from(plan.tolerance);
  // Equal times are compared separately, since the difference of equal infinite times is NaN.
  const bool is_hit = (has_lo && (bracket.time_lo == t || after_lo <= tolerance)) ||
                      (has_hi && before_hi <= tolerance);
  if (is_hit) {
    location.lo = nearest_is_later ? hi : lo;
    location.source = Source::kRow;
    location.valid = episode.is_valid(location.lo);
    return location;
  }
  if (!has_lo || !has_hi) {
    if (holds_newest && has_lo) return locate_held<Compute>(plan, episode, t);
    return locate_outside<Compute>(episode, t, !has_lo, plan.outside);
  }

  location.lo = lo;
  location.source = Source::kPair;
  location.weight = static_cast<Compute>(after_lo) /
                    static_cast<Compute>(elapsed(bracket.time_lo, bracket.time_hi));
  location.nearest_is_later = nearest_is_later;
  if (plan.out_valid != nullptr) {  // otherwise the mask is not used
    location.valid = pair_is_valid(plan, episode, t, bracket, nearest_is_later, plan.row_kinds);
  }
  return location;
}

/// The rows that a method reads at a location: row lo + `step` or, for a pair, that row and the
/// next.
struct MethodRows {
  int step;
  bool is_pair;
};

// Without branches, since a GPU computes it for every target.
template <typename Compute>
ROBOCACHE_HOST_DEVICE MethodRows rows_for(Method method, const Location<Compute>& location) {
  const bool is_between = location.source == Source::kPair;
  const bool is_linear = method == Method::kLinear;
  const bool takes_one = method == Method::kPrevious || method == Method::kNearest;
  const bool takes_later = is_between ? method == Method::kNearest && location.nearest_is_later
                                      : location.source == Source::kExtrapolateAfter && !is_linear;
  const bool is_pair = is_between ? !takes_one : location.source > Source::kPair && is_linear;
  return {takes_later ? 1 : 0, is_pair};
}

/// The newest row that methods of `kinds`, except means and sums, read at a location, or would read
/// if the target were held. The episode has rows.
template <typename Compute>
ROBOCACHE_HOST_DEVICE std::int64_t newest_row(std::uint8_t kinds,
                                              const Location<Compute>& location) {
  bool is_later = false;
  if (location.source == Source::kPair) {
    is_later = (kinds & kReadsPair) || ((kinds & kReadsNearest) && location.nearest_is_later);
  } else if (location.source == Source::kExtrapolateBefore) {
    is_later = kinds & kExtrapolates;
  } else if (location.source == Source::kExtrapolateAfter) {
    is_later = true;
  }
  return location.lo + (is_later ? 1 : 0);
}

/// Writes the age of target t of batch row b, whose time is `time`, to `out_age`.
template <typename Time, typename Index, bool kIsOffset>
ROBOCACHE_HOST_DEVICE void write_age(const BasicStreamPlan<Index>& plan,
                                     const EpisodeTimes<Time, Index, kIsOffset>& episode, Index b,
                                     Index t, Time time, std::int64_t newest) {
  Time age = Time(0);
  if (episode.count > 0 && !is_nan(time)) {
    // Adding 0 makes the age of equal times +0, whatever the signs of their zeros are and whether a
    // clock offset was added.
    age = difference(time, episode[static_cast<Index>(newest)]) + Time(0);
  }
  static_cast<Time*>(
      plan.out_age)[offset(b, plan.out_age_batch_stride) + offset(t, plan.out_age_target_stride)] =
      age;
}

}  // namespace robocache::ROBOCACHE_TARGET
