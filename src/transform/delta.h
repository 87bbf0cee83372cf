// One step of a delta, on its way to an absolute value or back.
#pragma once

#include "core/target.h"
#include "robocache/transform.h"

namespace robocache::ROBOCACHE_TARGET {

/// What a row becomes, step after step; `last` is the absolute row before it, and becomes its own.
template <typename Compute>
ROBOCACHE_HOST_DEVICE Compute convert_one_delta(Compute x, Compute duration,
                                                DeltaDirection direction, Compute* last) {
  const Compute before = *last;
  if (direction == DeltaDirection::kToAbsolute) return *last = before + x * duration;
  *last = x;
  return (x - before) / duration;
}

}  // namespace robocache::ROBOCACHE_TARGET
