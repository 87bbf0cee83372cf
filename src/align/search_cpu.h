// The search for the rows of many targets, which the forward and the backward kernels of the CPU
// share.
#pragma once

#include <cstdint>

#include "align/episode.h"
#include "align/locate.h"
#include "align/plan.h"
#include "core/target.h"

namespace robocache::ROBOCACHE_TARGET {

/// Calls `use(i, b, t, episode, times, time, bracket)` for the targets [begin, end). Targets mostly
/// ascend, so each search starts where the last one ended.
template <typename Time, typename Use>
inline void for_each_bracket(const StreamPlan& plan, std::int64_t begin, std::int64_t end,
                             const Use& use) {
  std::int64_t b = begin / plan.targets;
  std::int64_t t = begin % plan.targets;
  Episode<std::int64_t> episode = episode_of(plan, b);
  auto times = times_of<Time>(plan, b, episode);
  std::int64_t not_after = 0;
  for (std::int64_t i = begin; i < end; ++i) {
    const Time time = target_time<Time>(plan, b, t);
    if (episode.count > 0 && !is_nan(time)) {
      const std::int64_t guess = not_after > 0 ? not_after - 1 : 0;
      not_after = rows_not_after(times, time, guess);
    }
    use(i, b, t, episode, times, time, bracket_of(times, not_after));
    if (++t == plan.targets && i + 1 < end) {
      t = 0;
      ++b;
      episode = episode_of(plan, b);
      times = times_of<Time>(plan, b, episode);
      not_after = 0;
    }
  }
}

}  // namespace robocache::ROBOCACHE_TARGET
