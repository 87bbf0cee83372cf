// Draws the anchor of a sample and writes its metadata, on every backend.
#pragma once

#include <cstdint>

#include "core/target.h"
#include "loader/mixture.h"
#include "loader/permutation.h"
#include "loader/plan.h"

namespace robocache::ROBOCACHE_TARGET {

/// A drawn sample: its anchor and the anchor's index. Where no anchor exists, the index is -1 and
/// the anchor is zero.
struct Sample {
  std::int64_t index;
  Anchor anchor;
};

/// The index of the anchor of sample b; outside [0, A) where no anchor exists.
ROBOCACHE_HOST_DEVICE std::int64_t index_of_sample(const DrawPlan& plan, std::int64_t b) {
  if (plan.indices != nullptr) return plan.indices[b];
  const std::int64_t place = plan.state[1] + plan.rank + plan.ranks * b;
  if (place < 0 || place >= plan.samples) return -1;
  if (!plan.is_shuffled) return place;
  if (plan.mixture.parts == nullptr) return permute(plan.permutation, plan.state[0], place);
  return draw_from_mixture(plan.mixture, epoch_key(plan.permutation, plan.state[0]), place);
}

ROBOCACHE_HOST_DEVICE Sample draw(const DrawPlan& plan, std::int64_t b) {
  const std::int64_t index = index_of_sample(plan, b);
  if (index < 0 || index >= plan.permutation.count) return {-1, {}};
  const std::int64_t place = plan.anchors[2 * index];
  const Anchor anchor{static_cast<std::int32_t>(place), static_cast<std::int32_t>(place >> 32),
                      plan.anchors[2 * index + 1]};
  // On CUDA the plan did not validate the anchors.
  if (anchor.episode < 0 || anchor.episode >= plan.episode_count) return {-1, {}};
  return {index, anchor};
}

/// Writes the metadata of sample b to the outputs that are not null; of sample 0 the epoch too.
ROBOCACHE_HOST_DEVICE void write_metadata(const DrawPlan& plan, const BatchMetadata& metadata,
                                          const Sample& sample, std::int64_t b) {
  if (b == 0 && metadata.epoch != nullptr && plan.state != nullptr) {
    *metadata.epoch = plan.state[0];
  }
  const bool exists = sample.index >= 0;
  const std::int64_t* const episode = plan.episodes + 4 * std::int64_t{sample.anchor.episode};
  const auto write = [b](std::int64_t* to, std::int64_t fact) {
    if (to != nullptr) to[b] = fact;
  };
  write(metadata.index, sample.index);
  write(metadata.episode_index, exists ? episode[0] : 0);
  write(metadata.frame_index, sample.anchor.frame);
  write(metadata.task_index, exists ? episode[1] : 0);
  write(metadata.timestamp_ns, sample.anchor.time_ns);
  write(metadata.dataset_index, exists ? episode[3] : 0);
  if (metadata.timestamp != nullptr) {
    const std::int64_t time = sample.anchor.time_ns;
    const std::int64_t start = exists ? episode[2] : 0;
    // Unsigned: an episode may last longer than int64 counts.
    const auto after = static_cast<std::uint64_t>(time) - static_cast<std::uint64_t>(start);
    const double since_start =
        time < start ? -static_cast<double>(0 - after) : static_cast<double>(after);
    metadata.timestamp[b] = static_cast<float>(since_start * 1e-9);
  }
}

}  // namespace robocache::ROBOCACHE_TARGET
