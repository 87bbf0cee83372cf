// Converts one step between a delta and an absolute value.
#pragma once

#include "core/target.h"
#include "robocache/transform.h"

namespace robocache::ROBOCACHE_TARGET {

/// Converts step after step; `last` is the absolute row before this step, and is set to this step's
/// absolute row.
template <typename Compute>
ROBOCACHE_HOST_DEVICE Compute convert_one_delta(Compute x, Compute duration,
                                                DeltaDirection direction, Compute* last) {
  const Compute before = *last;
  if (direction == DeltaDirection::kToAbsolute) return *last = before + x * duration;
  *last = x;
  return (x - before) / duration;
}

}  // namespace robocache::ROBOCACHE_TARGET
