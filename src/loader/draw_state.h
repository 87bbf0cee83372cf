// The sampler state and how it advances, on every backend.
#pragma once

#include <cstdint>

#include "core/target.h"
#include "loader/plan.h"

namespace robocache {

/// The epoch and the position of a sampler state.
struct DrawState {
  std::int64_t epoch, position;
};

/// The size of this rank's batch at a position of an epoch.
ROBOCACHE_CONSTEXPR std::int64_t size_at(const DrawPlan& plan, std::int64_t position) {
  const std::int64_t left = plan.samples - position - plan.rank;
  const std::int64_t samples = left > 0 ? (left + plan.ranks - 1) / plan.ranks : 0;
  return samples < plan.batch_size ? samples : plan.batch_size;
}

/// An epoch ends when fewer samples than these are left.
ROBOCACHE_CONSTEXPR std::int64_t samples_needed(const DrawPlan& plan) {
  return plan.drops_last ? plan.ranks * plan.batch_size : plan.ranks;
}

/// The state after a batch.
ROBOCACHE_CONSTEXPR DrawState state_after(const DrawPlan& plan, DrawState state) {
  const std::int64_t position = state.position + plan.ranks * plan.batch_size;
  if (plan.samples - position < samples_needed(plan)) return {state.epoch + 1, 0};
  return {state.epoch, position};
}

}  // namespace robocache
