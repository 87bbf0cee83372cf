// The source rows of a batch row, their times, and the times of its targets.
#pragma once

#include <cstdint>

#include "align/locate.h"
#include "align/plan.h"
#include "core/target.h"

namespace robocache::ROBOCACHE_TARGET {

/// A batch row's episode: its first source row and its row count, clamped to the existing rows.
template <typename Index>
struct Episode {
  Index first_row;
  Index count;
};

template <typename Index>
ROBOCACHE_HOST_DEVICE Episode<Index> episode_of(const BasicStreamPlan<Index>& plan, Index b) {
  Episode<Index> episode{0, plan.rows};
  if (plan.begins != nullptr) {
    const std::int64_t begin = plan.begins[offset(b, plan.begins_stride)];
    episode.first_row = static_cast<Index>(begin < 0 ? 0 : begin > plan.rows ? plan.rows : begin);
    episode.count -= episode.first_row;
  }
  if (plan.lengths != nullptr) {
    const std::int64_t index = offset(b, plan.lengths_stride);
    const std::int64_t length = plan.lengths_are_int32
                                    ? static_cast<const std::int32_t*>(plan.lengths)[index]
                                    : static_cast<const std::int64_t*>(plan.lengths)[index];
    if (length < episode.count) episode.count = static_cast<Index>(length < 0 ? 0 : length);
  }
  return episode;
}

template <typename Time, bool kIsOffset = true, typename Index>
ROBOCACHE_HOST_DEVICE EpisodeTimes<Time, Index, kIsOffset> times_of(
    const BasicStreamPlan<Index>& plan, Index b, const Episode<Index>& episode) {
  EpisodeTimes<Time, Index, kIsOffset> times{static_cast<const Time*>(plan.times) +
                                                 offset(b, plan.times_batch_stride) +
                                                 offset(episode.first_row, plan.times_row_stride),
                                             plan.times_row_stride,
                                             episode.count,
                                             plan.clock_offset,
                                             plan.valid,
                                             plan.valid_row_stride};
  if (plan.valid != nullptr) {
    times.valid +=
        offset(b, plan.valid_batch_stride) + offset(episode.first_row, plan.valid_row_stride);
  }
  return times;
}

template <typename Time, bool kIsOffset = true, typename Index>
ROBOCACHE_HOST_DEVICE Time target_time(const BasicStreamPlan<Index>& plan, Index b, Index t) {
  const Time time =
      static_cast<const Time*>(plan.target_times)[offset(b, plan.target_times_batch_stride) +
                                                  offset(t, plan.target_times_stride)];
  if constexpr (kIsOffset) return offset_target_time(time, plan.clock_offset);
  return time;
}

}  // namespace robocache::ROBOCACHE_TARGET
