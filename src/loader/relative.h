// How a value is made relative to another stream's at the anchor: on every backend, and on the
// robot, which sees what training saw.
#pragma once

#include <cstdint>

#include "align/trigonometry.h"
#include "core/target.h"
#include "loader/windows.h"

namespace robocache::ROBOCACHE_TARGET {

/// `x` less its reference; of an angle the short way round, into (-pi, pi].
template <typename Compute>
ROBOCACHE_HOST_DEVICE Compute less_reference(bool is_angle, Compute x, Compute reference) {
  const Compute difference = x - reference;
  return is_angle ? wrap_angle(difference) : difference;
}

/// The channel of the reference that is subtracted from a channel; -1 where none is. Columns that
/// the reference has not, which a GPU has not looked at, are none.
ROBOCACHE_HOST_DEVICE std::int32_t reference_column(const std::int32_t* columns,
                                                    std::int64_t channel,
                                                    std::int64_t reference_channels) {
  const std::int32_t column = columns[channel];
  return column >= 0 && column < reference_channels ? column : -1;
}

}  // namespace robocache::ROBOCACHE_TARGET
