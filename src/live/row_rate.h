// Whether rows arrive at the rate that a window by rows was trained with.
#pragma once

#include <algorithm>
#include <cstdint>

#include "live/row_buffer.h"
#include "window/windows.h"

namespace robocache {

// A rate is measured over the newest 33 rows, or those of the window if they are more, and never
// over fewer than 9: a third of a period of jitter at each end then changes it by 8% at most, and a
// missing row by 12.5%.
inline constexpr std::int64_t kRateIntervals = 32, kFewestIntervals = 8;
// 15%: 25 Hz instead of 30 is reported.
inline constexpr double kRateTolerance = 1.15;

/// The mean time in ns between the newest rows up to now, `rows` of them without a loss, for a
/// window that reads `reach` rows before the newest; -1 if they are too few.
inline std::int64_t mean_period_ns(const RowBuffer& buffer, std::int64_t robot, std::int64_t now_ns,
                                   std::int64_t rows, std::int64_t reach) {
  const std::int64_t intervals = std::min(rows - 1, std::max(reach, kRateIntervals));
  if (intervals < kFewestIntervals) return -1;
  const std::int64_t newest = buffer.rows_not_after(robot, now_ns) - 1;
  const auto last = static_cast<std::uint64_t>(buffer.time_at(robot, newest));
  const auto first = static_cast<std::uint64_t>(buffer.time_at(robot, newest - intervals));
  return static_cast<std::int64_t>((last - first) / static_cast<std::uint64_t>(intervals));
}

/// Whether a period in ns is that of a nominal rate in Hz; true if it has not been measured.
inline bool is_nominal_period(std::int64_t period_ns, double rate) {
  if (period_ns < 0) return true;
  const double ratio = static_cast<double>(period_ns) * rate / 1e9;
  return ratio <= kRateTolerance && ratio * kRateTolerance >= 1;
}

}  // namespace robocache
