// Which source rows a batch row has, and where one of its targets stands.
#pragma once

#include <cstdint>

#include "align/locate.h"
#include "align/plan.h"
#include "core/target.h"

namespace robocache::ROBOCACHE_TARGET {

/// A batch row's episode: its first source row and how many it has, clamped to those there are.
struct Episode {
  std::int64_t first_row;
  std::int64_t count;
};

ROBOCACHE_HOST_DEVICE Episode episode_of(const StreamPlan& plan, std::int64_t b) {
  Episode episode{0, plan.rows};
  if (plan.begins != nullptr) {
    const std::int64_t begin = plan.begins[b * plan.begins_stride];
    episode.first_row = begin < 0 ? 0 : (begin > plan.rows ? plan.rows : begin);
    episode.count -= episode.first_row;
  }
  if (plan.lengths != nullptr) {
    const std::int64_t index = b * plan.lengths_stride;
    const std::int64_t length = plan.lengths_are_int32
                                    ? static_cast<const std::int32_t*>(plan.lengths)[index]
                                    : static_cast<const std::int64_t*>(plan.lengths)[index];
    if (length < episode.count) episode.count = length < 0 ? 0 : length;
  }
  return episode;
}

template <typename Time>
ROBOCACHE_HOST_DEVICE EpisodeTimes<Time> times_of(const StreamPlan& plan, std::int64_t b,
                                                  const Episode& episode) {
  const Time* times = static_cast<const Time*>(plan.times) + b * plan.times_batch_stride +
                      episode.first_row * plan.times_row_stride;
  const bool* valid = plan.valid == nullptr ? nullptr
                                            : plan.valid + b * plan.valid_batch_stride +
                                                  episode.first_row * plan.valid_row_stride;
  return {times, plan.times_row_stride, episode.count, valid, plan.valid_row_stride};
}

template <typename Time>
ROBOCACHE_HOST_DEVICE Time target_time(const StreamPlan& plan, std::int64_t b, std::int64_t t) {
  return static_cast<const Time*>(plan.target_times)[b * plan.target_times_batch_stride +
                                                     t * plan.target_times_stride];
}

/// The first element of a source row; rows count from the first of the values, not of the episode.
template <typename Value>
ROBOCACHE_HOST_DEVICE const Value* row_of(const StreamPlan& plan, std::int64_t b,
                                          std::int64_t absolute_row) {
  return static_cast<const Value*>(plan.values) + b * plan.values_batch_stride +
         absolute_row * plan.values_row_stride;
}

}  // namespace robocache::ROBOCACHE_TARGET
