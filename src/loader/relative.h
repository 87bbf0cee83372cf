// How a value is made relative to another stream's at the anchor: on every backend, and on the robot,
// which sees what training saw.
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

/// Whether the newest row that an anchor knows of stands for it, though it is older: a causal window
/// holds it, and a step there is padding, but what an action is relative to is where the robot was last
/// known to be. It has to be real and within the gap limit. `times`: of the rows that exist.
template <typename Index>
ROBOCACHE_HOST_DEVICE bool newest_row_stands(const BasicWindowPlan<Index>& window,
                                             const RowTimes<Index>& times, const Anchor& anchor) {
  const BasicStreamPlan<Index>& plan = window.align;
  const bool is_held = window.is_causal && !window.is_by_row && times.count > 0 &&
                       plan.outside == Outside::kHold &&
                       (plan.row_kinds & (kReadsWindow | kReadsInterval)) == 0;
  if (!is_held) return false;
  const Index newest = times.count - 1;
  if (times[newest] >= anchor.time_ns || !times.is_valid(newest)) return false;
  return !plan.has_max_gap ||
         elapsed(times[newest], anchor.time_ns) <= DurationOf<std::int64_t>::from(plan.max_gap);
}

}  // namespace robocache::ROBOCACHE_TARGET
