// What the forward and the backward kernels share: the search for a target's rows on the GPU, and the
// run that a unit belongs to.
#pragma once

#include <cstdint>

#include "align/episode.h"
#include "align/locate.h"
#include "align/plan.h"

namespace robocache::cuda {

// Rows read at once around a guess. The times of a steady recording stray from an even spacing by less
// than a row or so, and then these hold the bracket: one trip to memory in place of several.
constexpr int kWindow = 4;

/// Looks for the bracket of `t` in the rows around `guess`; false if it is not there. NaN is before
/// every row. No branches, so that the loads leave together.
template <typename Time, typename Index>
__device__ bool look_around(const EpisodeTimes<Time, Index>& episode, Time t, Index guess,
                            Bracket<Time, Index>& bracket) {
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

/// The bracket of `t`, NaN or not, in an episode that has rows. Looks first around `first_guess`,
/// which does not wait for `t` to be read, then where `t` would be if the rows were evenly spaced, and
/// then gallops from there.
template <typename Time, typename Index>
__device__ Bracket<Time, Index> find_bracket(const EpisodeTimes<Time, Index>& episode, Time t,
                                             Index first_guess) {
  const Index last = episode.count - 1;
  const Time first_time = episode[0];
  const Time last_time = episode[last];
  Bracket<Time, Index> bracket;
  if (look_around(episode, t, first_guess, bracket)) return bracket;

  // As rough as it likes to be: any row would do, and any number is cut to one.
  const float share = __fdividef(static_cast<float>(elapsed(first_time, t)),
                                 static_cast<float>(elapsed(first_time, last_time)));
  Index guess = static_cast<Index>(share * static_cast<float>(last));
  if (!(t > first_time)) guess = 0;
  if (t >= last_time) guess = last;
  if (look_around(episode, t, guess, bracket)) return bracket;

  return bracket_of(episode, rows_not_after(episode, t, min(max(guess, Index{0}), last)));
}

template <typename Compute, typename Time, typename Index>
__device__ Location<Compute> search_times(const BasicStreamPlan<Index>& plan, Index b, Index t,
                                          const Episode<Index>& episode) {
  const auto times = times_of<Time>(plan, b, episode);
  const Time time = target_time<Time>(plan, b, t);
  Bracket<Time, Index> bracket{};
  if (times.count > 0) {
    // As if the targets were spread evenly over the rows.
    const float rows_per_target =
        __fdividef(static_cast<float>(times.count), static_cast<float>(plan.targets));
    const Index guess = static_cast<Index>(static_cast<float>(t) * rows_per_target);
    bracket = find_bracket(times, time, guess);
  }
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
