// What the forward and the backward kernels share: the search for a target's rows on the GPU, and the
// run that a unit belongs to.
#pragma once

#include <cstdint>

#include "align/episode.h"
#include "align/locate.h"
#include "align/plan.h"

namespace robocache::cuda {

/// Where to look first for `t`: as if the rows were evenly spaced. Any row will do.
template <typename Time>
__device__ std::int64_t guess_row(const EpisodeTimes<Time>& episode, Time t) {
  const Time first = episode[0];
  const Time last = episode[episode.count - 1];
  if (!(t > first)) return 0;
  if (!(t < last)) return episode.count - 1;
  const float share =
      static_cast<float>(elapsed(first, t)) / static_cast<float>(elapsed(first, last));
  const std::int64_t row = static_cast<std::int64_t>(share * static_cast<float>(episode.count - 1));
  return min(max(row, std::int64_t{0}), episode.count - 1);
}

template <typename Compute, typename Time>
__device__ Location<Compute> search_times(const StreamPlan& plan, std::int64_t b, std::int64_t t,
                                          const Episode& episode) {
  const Time time = target_time<Time>(plan, b, t);
  const EpisodeTimes<Time> times = times_of<Time>(plan, b, episode);
  std::int64_t not_after = 0;
  if (times.count > 0 && !is_nan(time)) {
    not_after = rows_not_after(times, time, guess_row(times, time));
  }
  return locate<Compute>(plan, times, time, not_after);
}

template <typename Compute>
__device__ Location<Compute> search(const StreamPlan& plan, std::int64_t b, std::int64_t t,
                                    const Episode& episode) {
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
