// Subtracts another stream's value at the anchor, on every backend, and on the robot, which
// computes the same values as training.
#pragma once

#include <cstdint>

#include "align/trigonometry.h"
#include "core/target.h"
#include "loader/windows.h"

namespace robocache::ROBOCACHE_TARGET {

/// `x` minus its reference; an angle's difference is wrapped into (-pi, pi].
template <typename Compute>
ROBOCACHE_HOST_DEVICE Compute less_reference(bool is_angle, Compute x, Compute reference) {
  const Compute difference = x - reference;
  return is_angle ? wrap_angle(difference) : difference;
}

/// The channel of the reference that is subtracted from a channel; -1 for a channel that is not
/// relative. Columns out of the reference's range, which the plan does not validate on CUDA, count
/// as -1.
ROBOCACHE_HOST_DEVICE std::int32_t reference_column(const std::int32_t* columns,
                                                    std::int64_t channel,
                                                    std::int64_t reference_channels) {
  const std::int32_t column = columns[channel];
  return column >= 0 && column < reference_channels ? column : -1;
}

}  // namespace robocache::ROBOCACHE_TARGET
