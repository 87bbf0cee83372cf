// The methods that add rows: the rows of a target's mean or sum. docs/meaning.md states the rules;
// this file implements each of them once, for every backend of the library.
#pragma once

#include <cstdint>

#include "align/episode.h"
#include "align/locate.h"
#include "align/plan.h"
#include "core/target.h"

namespace robocache::ROBOCACHE_TARGET {

enum class WindowSource : std::uint8_t {
  kZero,      // a literal 0
  kNan,       // a literal NaN
  kRow,       // row `begin`, held
  kRows,      // the `count` valid rows among [begin, end)
  kAsLinear,  // the value of a linear run
};

/// The rows of a mean or a sum, counted from the episode's first.
template <typename Index>
struct Window {
  WindowSource source;
  bool valid;  // the mask
  Index begin, end;
  Index count;   // the number of valid rows
  Index newest;  // the row that the target's age refers to
};

/// Whether a target lies after the last row.
template <typename Time, typename Index, bool kIsOffset>
ROBOCACHE_HOST_DEVICE bool is_after_rows(const EpisodeTimes<Time, Index, kIsOffset>& episode,
                                         Time t, const Bracket<Time, Index>& bracket) {
  return bracket.not_after == episode.count && !(bracket.time_lo == t);
}

/// Sets the window of a target outside the recording, of a NaN target, and of any target of an
/// episode without rows, for every method that adds rows. Returns false for other targets. With
/// `holds_newest` (see `locate`), a target after the last row is not outside.
template <typename Time, typename Index, bool kIsOffset>
ROBOCACHE_HOST_DEVICE bool window_outside(const BasicStreamPlan<Index>& plan,
                                          const EpisodeTimes<Time, Index, kIsOffset>& episode,
                                          Time t, const Bracket<Time, Index>& bracket,
                                          bool holds_newest, Window<Index>& window) {
  window = {WindowSource::kZero, false, 0, 0, 0, 0};
  if (episode.count <= 0) return true;
  if (is_nan(t)) {
    window.source = WindowSource::kNan;
    return true;
  }
  const bool is_after = !holds_newest && is_after_rows(episode, t, bracket);
  if (bracket.not_after > 0 && !is_after) return false;
  window.begin = window.newest = is_after ? episode.count - 1 : 0;
  window.source = plan.outside == Outside::kZero  ? WindowSource::kZero
                  : plan.outside == Outside::kNan ? WindowSource::kNan
                                                  : WindowSource::kRow;
  return true;
}

/// Sets `count`, and `newest` if any row is valid.
template <typename Time, typename Index, bool kIsOffset>
ROBOCACHE_HOST_DEVICE void count_valid(const EpisodeTimes<Time, Index, kIsOffset>& episode,
                                       Window<Index>& window) {
  if (episode.valid == nullptr) {
    window.count = window.end - window.begin;
    if (window.count > 0) window.newest = window.end - 1;
    return;
  }
  for (Index row = window.begin; row < window.end; ++row) {
    if (!episode.is_valid(row)) continue;
    ++window.count;
    window.newest = row;
  }
}

/// The rows of a mean: those within half the window of `t`, on either side. Where no row is valid,
/// the mean is linear, at `location`.
template <typename Compute, typename Time, typename Index, bool kIsOffset>
ROBOCACHE_HOST_DEVICE Window<Index> locate_mean(const BasicStreamPlan<Index>& plan,
                                                const EpisodeTimes<Time, Index, kIsOffset>& episode,
                                                Time t, const Bracket<Time, Index>& bracket,
                                                const Location<Compute>& location,
                                                bool holds_newest) {
  Window<Index> window;
  if (window_outside(plan, episode, t, bracket, holds_newest, window)) return window;
  const auto half = DurationOf<Time>::from(plan.half_mean_window);
  const Index lo = bracket.not_after - 1;
  window.begin =
      rows_before(episode, lo, [=](Time time) { return time < t && elapsed(time, t) > half; });
  window.end =
      rows_before(episode, lo, [=](Time time) { return time <= t || elapsed(t, time) <= half; });
  count_valid(episode, window);
  window.source = WindowSource::kRows;
  window.valid = true;
  if (window.count == 0) {
    window.source = WindowSource::kAsLinear;
    window.newest = static_cast<Index>(newest_row(kReadsPair, location));
    window.valid = location.valid;
    if (location.source == Source::kPair) {
      window.valid =
          pair_is_valid(plan, episode, t, bracket, location.nearest_is_later, kReadsPair);
    }
  }
  return window;
}

/// The rows of a sum: those after the previous target and not after `t`. `find_previous(time)` sets
/// the time of the previous target; it returns false if there is none.
template <typename Time, typename Index, bool kIsOffset, typename FindPrevious>
ROBOCACHE_HOST_DEVICE Window<Index> locate_sum(const BasicStreamPlan<Index>& plan,
                                               const EpisodeTimes<Time, Index, kIsOffset>& episode,
                                               Time t, const Bracket<Time, Index>& bracket,
                                               const FindPrevious& find_previous,
                                               bool holds_newest) {
  Window<Index> window;
  if (window_outside(plan, episode, t, bracket, holds_newest, window)) return window;
  window.source = WindowSource::kRows;
  window.end = bracket.not_after;
  window.newest = bracket.not_after - 1;
  Time previous = Time(0);
  if (find_previous(previous)) {
    const Index not_after_previous = rows_not_after(episode, previous, window.newest);
    window.begin = not_after_previous < window.end ? not_after_previous : window.end;
  }
  count_valid(episode, window);
  window.valid = window.count == window.end - window.begin;
  if (holds_newest && is_after_rows(episode, t, bracket)) {
    window.valid = window.valid && held_is_valid(plan, episode, t, episode.count - 1);
  }
  return window;
}

/// The windows of a target; each is set only where the stream has such a run.
template <typename Index>
struct Windows {
  Window<Index> mean, sum;

  /// The window of a method that adds rows.
  ROBOCACHE_HOST_DEVICE const Window<Index>& of(Method method) const {
    return method == Method::kMean ? mean : sum;
  }
};

/// The location and the windows of a target.
template <typename Compute, typename Index>
struct Located {
  Location<Compute> location;  // its `valid` is the mask of all runs
  Windows<Index> windows;
};

/// Locates the target at `t` for all runs. Sets `newest` to the row that its age refers to.
/// `holds_newest`: see `locate`.
template <typename Compute, typename Time, typename Index, bool kIsOffset, typename FindPrevious>
ROBOCACHE_HOST_DEVICE Located<Compute, Index> locate_all(
    const BasicStreamPlan<Index>& plan, const EpisodeTimes<Time, Index, kIsOffset>& episode, Time t,
    const Bracket<Time, Index>& bracket, const FindPrevious& find_previous, std::int64_t& newest,
    bool holds_newest = false) {
  Located<Compute, Index> located{};
  Location<Compute>& location = located.location;
  location = locate<Compute>(plan, episode, t, bracket, holds_newest);
  const std::uint8_t kinds = plan.row_kinds;
  const bool only_adds_rows = !(kinds & ~(kReadsWindow | kReadsInterval));
  bool valid = only_adds_rows || location.valid;
  newest = only_adds_rows ? 0 : newest_row(kinds, location);
  const auto join = [&](const Window<Index>& window) {
    valid = valid && window.valid;
    if (window.newest > newest) newest = window.newest;
  };
  if (kinds & kReadsWindow) {
    located.windows.mean = locate_mean(plan, episode, t, bracket, location, holds_newest);
    join(located.windows.mean);
  }
  if (kinds & kReadsInterval) {
    located.windows.sum = locate_sum(plan, episode, t, bracket, find_previous, holds_newest);
    join(located.windows.sum);
  }
  location.valid = valid;
  return located;
}

/// Locates target `index` of batch row `b`, at time `t`, and writes its age if the plan has that
/// output.
template <typename Compute, typename Time, typename Index, bool kIsOffset>
ROBOCACHE_HOST_DEVICE Located<Compute, Index> locate_all(
    const BasicStreamPlan<Index>& plan, const EpisodeTimes<Time, Index, kIsOffset>& episode,
    Index b, Index index, Time t, const Bracket<Time, Index>& bracket) {
  const auto find_previous = [&](Time& previous) {
    Index before = index - 1;
    while (before >= 0 && is_nan(target_time<Time>(plan, b, before))) --before;
    if (before < 0) return false;
    previous = target_time<Time, kIsOffset>(plan, b, before);
    return true;
  };
  std::int64_t newest = 0;
  const Located<Compute, Index> located =
      locate_all<Compute>(plan, episode, t, bracket, find_previous, newest);
  if (plan.out_age != nullptr) write_age(plan, episode, b, index, t, newest);
  return located;
}

}  // namespace robocache::ROBOCACHE_TARGET
