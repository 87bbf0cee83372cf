// Images whose rows [pixels, colors] are written as [colors, pixels]: on every backend.
#pragma once

#include <cstdint>

#include "core/number.h"
#include "core/target.h"
#include "loader/plan.h"

namespace robocache::ROBOCACHE_TARGET {

/// What is done to a color's values: x - 0 and x * 1, where nothing is, have x's bits.
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

/// A color's value as it is written. The scale is worked in float64, whatever the output: x / 255
/// then comes out as those have it who divide in float32.
template <typename Out, typename Compute>
ROBOCACHE_HOST_DEVICE Out scale_color(const ColorScale& scale, Compute x) {
  return Round<Out>::from((static_cast<double>(x) - scale.subtract) * scale.multiply);
}

}  // namespace robocache::ROBOCACHE_TARGET
