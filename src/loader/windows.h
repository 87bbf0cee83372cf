// Locates the rows of a stream that a sample sees, and the steps of its window among them, on every
// backend. src/align computes the values of a located step.
#pragma once

#include <cstdint>

#include "align/locate.h"
#include "align/window.h"
#include "core/target.h"
#include "loader/plan.h"

namespace robocache::ROBOCACHE_TARGET {

/// Times, or arrival times, of one episode's rows. The loader has no clock offsets.
template <typename Index>
using RowTimes = EpisodeTimes<std::int64_t, Index, false>;

/// The rows of a stream that belong to one episode.
template <typename Index>
struct EpisodeRows {
  std::int64_t first;  // index in the stream
  Index count;
  std::int64_t values;  // offset of the first row's values, in elements
};

/// Whether a stream covers an episode. The stream writes nothing for samples of other episodes.
template <typename Index>
ROBOCACHE_HOST_DEVICE bool is_of_episode(const BasicWindowPlan<Index>& window,
                                         std::int32_t episode) {
  return episode >= window.first_episode && episode - window.first_episode < window.episode_count;
}

/// The rows of an episode that the stream covers. Row offsets that are out of order or range, which
/// the plan does not validate on CUDA, yield fewer rows.
template <typename Index>
ROBOCACHE_HOST_DEVICE EpisodeRows<Index> rows_of_episode(const BasicWindowPlan<Index>& window,
                                                         std::int32_t episode) {
  const std::int32_t number = episode - window.first_episode;
  const std::int64_t begin = window.offsets[number];
  const std::int64_t end = window.offsets[std::int64_t{number} + 1];
  const bool is_inside = begin >= 0 && end > begin && end <= window.rows;
  const std::int64_t count = is_inside ? end - begin : 0;
  const std::int64_t first = is_inside ? begin : 0;
  return {
      first, static_cast<Index>(count < kMaxEpisodeRows ? count : kMaxEpisodeRows),
      window.begins != nullptr ? window.begins[number] : first * window.align.values_row_stride};
}

/// The times of an episode's rows, for a stream that has times.
template <typename Index>
ROBOCACHE_HOST_DEVICE RowTimes<Index> times_of_rows(const BasicWindowPlan<Index>& window,
                                                    const EpisodeRows<Index>& rows) {
  const bool* const valid = window.align.valid;
  return {static_cast<const std::int64_t*>(window.align.times) + rows.first,
          1,
          rows.count,
          {},
          valid == nullptr ? nullptr : valid + rows.first,
          1};
}

/// a + b, saturated to the range of int64.
ROBOCACHE_HOST_DEVICE std::int64_t saturating_sum(std::int64_t a, std::int64_t b) {
  const auto sum =
      static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  const bool overflows = b >= 0 ? sum < a : sum > a;
  return !overflows ? sum : b >= 0 ? INT64_MAX : INT64_MIN;
}

/// The number of the episode's rows that exist for a causal window. `count_not_after(times, t)`
/// returns the number of times at or before `t`, for one row or more.
template <typename Index, typename CountNotAfter>
ROBOCACHE_HOST_DEVICE Index count_existing(const BasicWindowPlan<Index>& window,
                                           const EpisodeRows<Index>& rows,
                                           const RowTimes<Index>& times, const Anchor& anchor,
                                           const CountNotAfter& count_not_after) {
  if (rows.count == 0) return 0;
  const std::int64_t now = anchor.time_ns;
  // A row exists if its time plus the latency is not after the anchor's time, nor is its arrival
  // time, where it is recorded.
  const auto latest = static_cast<std::int64_t>(static_cast<std::uint64_t>(now) -
                                                static_cast<std::uint64_t>(window.latency));
  const bool fits = latest <= now;  // else the sum wrapped below int64's least time
  const Index recorded = fits ? count_not_after(times, latest) : 0;
  if (window.received == nullptr) return recorded;
  const RowTimes<Index> arrivals{window.received + rows.first, 1, rows.count, {}, nullptr, 1};
  const Index arrived = count_not_after(arrivals, now);
  return recorded < arrived ? recorded : arrived;
}

/// A located step, for all kinds of runs of its stream, and its age in ns.
template <typename Compute, typename Index>
struct LocatedStep {
  Located<Compute, Index> located;
  std::int64_t age;
};

/// Locates a step of a window by row.
template <typename Compute, typename Index>
ROBOCACHE_HOST_DEVICE LocatedStep<Compute, Index> locate_by_row(
    const BasicWindowPlan<Index>& window, const EpisodeRows<Index>& rows, const Anchor& anchor,
    std::int64_t step_rows) {
  LocatedStep<Compute, Index> step{};
  Location<Compute>& location = step.located.location;
  location = {0, Compute(0), Source::kZero, false, false};
  if (rows.count == 0) return step;
  const std::int64_t wanted = saturating_sum(anchor.frame, step_rows);
  const std::int64_t last = std::int64_t{rows.count} - 1;
  location.lo = wanted < 0 ? 0 : wanted > last ? last : wanted;
  location.source = Source::kRow;
  const std::int64_t row = rows.first + location.lo;
  const bool* const valid = window.align.valid;
  location.valid = location.lo == wanted && (valid == nullptr || valid[row]);
  if (window.align.out_age != nullptr && window.align.times != nullptr) {
    step.age =
        difference(anchor.time_ns, static_cast<const std::int64_t*>(window.align.times)[row]);
  }
  return step;
}

/// Locates step k of a window by time, which is `step_ns` from the anchor, among the rows that
/// exist. A causal window holds the newest of them: a robot acts on its newest observation.
/// `find_bracket(times, t)` searches one row or more.
template <typename Compute, bool kAddsRows, typename Index, typename FindBracket>
ROBOCACHE_HOST_DEVICE LocatedStep<Compute, Index> locate_by_time(
    const BasicWindowPlan<Index>& window, const RowTimes<Index>& times, const Anchor& anchor,
    Index k, std::int64_t step_ns, const FindBracket& find_bracket) {
  const std::int64_t t = saturating_sum(anchor.time_ns, step_ns);
  Bracket<std::int64_t, Index> bracket{};
  if (times.count > 0) bracket = find_bracket(times, t);
  LocatedStep<Compute, Index> step{};
  std::int64_t newest = 0;
  if constexpr (kAddsRows) {
    const auto find_previous = [&](std::int64_t& previous) {
      if (k == 0) return false;
      previous = saturating_sum(anchor.time_ns, window.steps[k - 1]);
      return true;
    };
    step.located = locate_all<Compute>(window.align, times, t, bracket, find_previous, newest,
                                       window.is_causal);
  } else {
    step.located.location = locate<Compute>(window.align, times, t, bracket, window.is_causal);
    newest = newest_row(window.align.row_kinds, step.located.location);
  }
  if (window.align.out_age != nullptr && times.count > 0) {
    step.age = difference(t, times[static_cast<Index>(newest)]);
  }
  return step;
}

}  // namespace robocache::ROBOCACHE_TARGET
