// Images whose rows [pixels, colors] are written as [colors, pixels]: on every backend.
#pragma once

#include <cstdint>

#include "core/number.h"
#include "core/target.h"
#include "loader/plan.h"

namespace robocache::ROBOCACHE_TARGET {

/// The scale of a color, (x - subtract) * multiply. The defaults, x - 0 and x * 1, keep the bits of
/// x.
struct ColorScale {
  double subtract, multiply;
};

template <typename Index>
ROBOCACHE_HOST_DEVICE ColorScale scale_of_color(const BasicStreamPlan<Index>& plan,
                                                std::int32_t color) {
  ColorScale scale{0, 1};
  if (plan.subtract != nullptr) scale.subtract = static_cast<const double*>(plan.subtract)[color];
  if (plan.multiply != nullptr) scale.multiply = static_cast<const double*>(plan.multiply)[color];
  return scale;
}

/// Scales and rounds a color's value for the output. It computes in float64 for every output type:
/// x / 255 then has the bits of a float32 division.
template <typename Out, typename Compute>
ROBOCACHE_HOST_DEVICE Out scale_color(const ColorScale& scale, Compute x) {
  return Round<Out>::from((static_cast<double>(x) - scale.subtract) * scale.multiply);
}

}  // namespace robocache::ROBOCACHE_TARGET
