// Searches that the forward and the backward kernels share: for a target's rows on the GPU, and for
// the run that a unit belongs to.
#pragma once

#include <cstdint>

#include "align/episode.h"
#include "align/locate.h"
#include "align/plan.h"
#include "align/window.h"

namespace robocache::cuda {

// Rows that are read together around a guess. The times of a steady recording deviate from even
// spacing by about a row at most, and then these rows hold the bracket: one memory access latency
// instead of several.
constexpr int kWindow = 4;

/// Searches the rows around `guess` for the bracket of `t`; returns false if it is not among them.
/// NaN is before every row. There are no branches, so that the GPU issues the loads together.
template <typename Time, typename Index, bool kIsOffset>
__device__ bool look_around(const EpisodeTimes<Time, Index, kIsOffset>& episode, Time t,
                            Index guess, Bracket<Time, Index>& bracket) {
  const Index last = episode.count - 1;
  const Index wanted = max(guess, Index{0}) - (kWindow / 2 - 1);
  const Index begin = max(min(wanted, episode.count - kWindow), Index{0});
  Time times[kWindow];
#pragma unroll
  for (int i = 0; i < kWindow; ++i) times[i] = episode[min(begin + i, last)];

  bracket = {begin, times[0], times[0]};
#pragma unroll
  for (int i = 0; i < kWindow; ++i) {
    const bool is_not_after = begin + i <= last && times[i] <= t;
    bracket.not_after += is_not_after ? 1 : 0;
    if (is_not_after) bracket.time_lo = times[i];
  }
#pragma unroll
  for (int i = kWindow - 1; i >= 0; --i) {
    if (begin + i == bracket.not_after) bracket.time_hi = times[i];
  }
  const bool is_below = bracket.not_after == begin && begin > 0;
  const bool is_above = bracket.not_after == begin + kWindow && begin + kWindow < episode.count;
  return !is_below && !is_above;
}

/// The bracket of `t`, which may be NaN, in an episode with at least one row, from its first and
/// last times. Searches where `t` would be if the rows were evenly spaced, and gallops from there.
template <typename Time, typename Index, bool kIsOffset>
__device__ __forceinline__ Bracket<Time, Index> find_bracket_between(
    const EpisodeTimes<Time, Index, kIsOffset>& episode, Time t, Time first_time, Time last_time) {
  const Index last = episode.count - 1;
  // Precision does not matter: the search accepts any row, and the guess is clamped to one.
  const float share = __fdividef(static_cast<float>(elapsed(first_time, t)),
                                 static_cast<float>(elapsed(first_time, last_time)));
  Index guess = static_cast<Index>(share * static_cast<float>(last));
  if (!(t > first_time)) guess = 0;
  if (t >= last_time) guess = last;
  Bracket<Time, Index> bracket;
  if (look_around(episode, t, guess, bracket)) return bracket;

  return bracket_of(episode, rows_not_after(episode, t, min(max(guess, Index{0}), last)));
}

/// The bracket of `t`, which it first searches around `first_guess`: those loads need not wait for
/// the load of `t`.
template <typename Time, typename Index, bool kIsOffset>
__device__ Bracket<Time, Index> find_bracket(const EpisodeTimes<Time, Index, kIsOffset>& episode,
                                             Time t, Index first_guess) {
  const Time first_time = episode[0];
  const Time last_time = episode[episode.count - 1];
  Bracket<Time, Index> bracket;
  if (look_around(episode, t, first_guess, bracket)) return bracket;
  return find_bracket_between(episode, t, first_time, last_time);
}

/// The row of target t among `count` rows if the targets were spread evenly over them.
template <typename Index>
__device__ Index even_guess(Index count, Index targets, Index t) {
  const float rows_per_target = __fdividef(static_cast<float>(count), static_cast<float>(targets));
  return static_cast<Index>(static_cast<float>(t) * rows_per_target);
}

/// Calls `use(times, time, bracket)` for target t of batch row b.
template <typename Time, bool kIsOffset, typename Index, typename Use>
__device__ void search_times(const BasicStreamPlan<Index>& plan, Index b, Index t,
                             const Episode<Index>& episode, const Use& use) {
  const auto times = times_of<Time, kIsOffset>(plan, b, episode);
  const Time time = target_time<Time, kIsOffset>(plan, b, t);
  Bracket<Time, Index> bracket{};
  if (times.count > 0) {
    bracket = find_bracket(times, time, even_guess(times.count, plan.targets, t));
  }
  use(times, time, bracket);
}

/// Calls `use(times, time, bracket)` for target t of batch row b, with the plan's type of times.
template <bool kIsOffset, typename Index, typename Use>
__device__ void search(const BasicStreamPlan<Index>& plan, Index b, Index t,
                       const Episode<Index>& episode, const Use& use) {
  switch (plan.time_type) {
    case DataType::kInt64:
      return search_times<std::int64_t, kIsOffset>(plan, b, t, episode, use);
    case DataType::kFloat64:
      return search_times<double, kIsOffset>(plan, b, t, episode, use);
    default:
      return search_times<float, kIsOffset>(plan, b, t, episode, use);
  }
}

/// The location of target t of batch row b, in a stream without means and sums. Writes its age if
/// the plan has that output. With `kIsBare` the stream has no clock offset and no such output.
template <typename Compute, bool kIsBare = false, typename Index>
__device__ Location<Compute> locate_target(const BasicStreamPlan<Index>& plan, Index b, Index t,
                                           const Episode<Index>& episode) {
  Location<Compute> location;
  search<!kIsBare>(plan, b, t, episode, [&](const auto& times, auto time, const auto& bracket) {
    location = locate<Compute>(plan, times, time, bracket);
    if (!kIsBare && plan.out_age != nullptr) {
      write_age(plan, times, b, t, time, newest_row(plan.row_kinds, location));
    }
  });
  return location;
}

/// The location and windows of target t of batch row b, in any stream. Writes its age if the plan
/// has that output.
template <typename Compute, typename Index>
__device__ Located<Compute, Index> locate_target_all(const BasicStreamPlan<Index>& plan, Index b,
                                                     Index t, const Episode<Index>& episode) {
  Located<Compute, Index> located;
  search<true>(plan, b, t, episode, [&](const auto& times, auto time, const auto& bracket) {
    located = locate_all<Compute>(plan, times, b, t, time, bracket);
  });
  return located;
}

/// The run that contains a unit: the last one that starts at or before it.
template <typename Index>
__device__ int run_of_unit(const BasicRunTable<Index>& runs, Index unit) {
  int run = 0;
  int last = runs.count - 1;
  while (run < last) {
    const int middle = (run + last + 1) / 2;
    if (runs[middle].first_unit <= unit) {
      run = middle;
    } else {
      last = middle - 1;
    }
  }
  return run;
}

}  // namespace robocache::cuda
