// The reduction of the features of a voxel's points, for every CPU target and for CUDA.
#pragma once

#include <cstdint>

#include "core/target.h"
#include "voxel/plan.h"

namespace robocache::ROBOCACHE_TARGET {

/// Whether `x` replaces `best` as the maximum or minimum: of equal values the first stays, and so
/// does a NaN.
template <typename Compute>
ROBOCACHE_HOST_DEVICE bool wins(VoxelMode mode, Compute x, Compute best) {
  const bool is_better = mode == VoxelMode::kMax ? x > best : x < best;
  return best == best && (is_better || x != x);
}

/// The reduction of one channel of a voxel; points are added in ascending order of their index.
template <typename Compute>
struct Reduction {
  Compute value = 0;

  ROBOCACHE_HOST_DEVICE void add(VoxelMode mode, bool is_first, Compute x) {
    if (picks_one(mode)) {
      if (is_first || wins(mode, x, value)) value = x;
    } else {
      value += x;
    }
  }

  ROBOCACHE_HOST_DEVICE Compute result(VoxelMode mode, std::int64_t count) const {
    return mode == VoxelMode::kMean ? value / static_cast<Compute>(count) : value;
  }
};

}  // namespace robocache::ROBOCACHE_TARGET
