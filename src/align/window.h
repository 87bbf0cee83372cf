// The methods that add rows up: which rows a target's mean or sum is made of, and adding them.
// docs/meaning.md states the rules; here too each stands once, for every backend of the library.
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
  kRows,      // the valid ones of rows [begin, end), `count` of them
  kAsLinear,  // what a linear run is at this target
};

/// The rows of a mean or a sum, counted from the episode's first.
template <typename Index>
struct Window {
  WindowSource source;
  bool valid;  // the mask
  Index begin, end;
  Index count;   // of them valid
  Index newest;  // what the target's age goes by
};

/// Whether a target lies after the last row.
template <typename Time, typename Index, bool kIsOffset>
ROBOCACHE_HOST_DEVICE bool is_after_rows(const EpisodeTimes<Time, Index, kIsOffset>& episode,
                                         Time t, const Bracket<Time, Index>& bracket) {
  return bracket.not_after == episode.count && !(bracket.time_lo == t);
}

/// What every method that adds rows does with a target outside the recording, a NaN, and an episode
/// without rows. False if the target is none of these; with `holds_newest` (see `locate`), one
/// after the last row is none.
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

/// Sets `count` and, if any row is valid, `newest`.
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

/// The rows of a mean: those within half the window of `t`, on either side. `location` is that of a
/// linear run, which takes over where no row is valid.
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

/// The rows of a sum: those after the target before the one at `t`, and not after `t`.
/// `find_previous(time)` gives the time of that target; false if there is none.
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

/// The windows of a target, each only where its stream has such a run.
template <typename Index>
struct Windows {
  Window<Index> mean, sum;

  /// Of a method that adds rows.
  ROBOCACHE_HOST_DEVICE const Window<Index>& of(Method method) const {
    return method == Method::kMean ? mean : sum;
  }
};

/// Where a target stands, for all kinds of runs that its stream has.
template <typename Compute, typename Index>
struct Located {
  Location<Compute> location;  // its mask is that of all runs
  Windows<Index> windows;
};

/// Locates the target at `t`. `newest` becomes the row that its age goes by. `holds_newest`: see
/// `locate`.
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

/// Locates target `index` of batch row `b`, which stands at `t`, and writes its age if that is
/// asked for.
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
