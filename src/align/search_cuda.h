// What the forward and the backward kernels share: the search for a target's rows on the GPU, and the
// run that a unit belongs to.
#pragma once

#include <cstdint>

#include "align/episode.h"
#include "align/locate.h"
#include "align/plan.h"

namespace robocache::cuda {

// Rows read at once around the guess. The times of a steady recording stray from an even spacing by
// less than a row or so, and then these hold the bracket: one trip to memory in place of several.
constexpr int kWindow = 4;

/// The bracket of `t`. Looks first where `t` would be if the rows were evenly spaced.
template <typename Time, typename Index>
__device__ Bracket<Time, Index> find_bracket(const EpisodeTimes<Time, Index>& episode, Time t) {
  const Index last = episode.count - 1;
  const Time first_time = episode[0];
  const Time last_time = episode[last];
  Index guess = 0;
  if (t > first_time) {
    // As rough as it likes to be: any row would do.
    const float share = t < last_time ? __fdividef(static_cast<float>(elapsed(first_time, t)),
                                                   static_cast<float>(elapsed(first_time, last_time)))
                                      : 1.0f;
    guess = static_cast<Index>(share * static_cast<float>(last));
  }
  const Index begin = max(min(guess - (kWindow / 2 - 1), episode.count - kWindow), Index{0});
  Time times[kWindow];
#pragma unroll
  for (int i = 0; i < kWindow; ++i) times[i] = episode[min(begin + i, last)];

  Bracket<Time, Index> bracket{begin, times[0], times[0]};
  bool is_open_above = true;  // no row of the window is later than t
#pragma unroll
  for (int i = 0; i < kWindow; ++i) {
    if (!is_open_above || begin + i > last) continue;
    if (times[i] <= t) {
      ++bracket.not_after;
      bracket.time_lo = times[i];
    } else {
      bracket.time_hi = times[i];
      is_open_above = false;
    }
  }
  const bool is_open_below = bracket.not_after == begin && begin > 0;
  const bool is_missed = is_open_below || (is_open_above && bracket.not_after < episode.count);
  if (is_missed) {
    const Index nearest = is_open_below ? begin : bracket.not_after - 1;
    bracket = bracket_of(episode, rows_not_after(episode, t, nearest));
  }
  return bracket;
}

template <typename Compute, typename Time, typename Index>
__device__ Location<Compute> search_times(const BasicStreamPlan<Index>& plan, Index b, Index t,
                                          const Episode<Index>& episode) {
  const Time time = target_time<Time>(plan, b, t);
  const auto times = times_of<Time>(plan, b, episode);
  Bracket<Time, Index> bracket{};
  if (times.count > 0 && !is_nan(time)) bracket = find_bracket(times, time);
  return locate<Compute>(plan, times, time, bracket);
}

/// The location of target t of batch row b.
template <typename Compute, typename Index>
__device__ Location<Compute> search(const BasicStreamPlan<Index>& plan, Index b, Index t,
                                    const Episode<Index>& episode) {
  switch (plan.time_type) {
    case DataType::kInt64:
      return search_times<Compute, std::int64_t>(plan, b, t, episode);
    case DataType::kFloat64:
      return search_times<Compute, double>(plan, b, t, episode);
    default:
      return search_times<Compute, float>(plan, b, t, episode);
  }
}

/// The run that has a unit: the last one that starts at or before it.
inline __device__ int run_of_unit(const RunTable& runs, std::int64_t unit) {
  int run = 0;
  int last = runs.count - 1;
  while (run < last) {
    const int middle = (run + last + 1) / 2;
    if (runs.first_unit[middle] <= unit) {
      run = middle;
    } else {
      last = middle - 1;
    }
  }
  return run;
}

}  // namespace robocache::cuda
