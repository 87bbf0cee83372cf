// Images whose rows [pixels, colours] are written as [colours, pixels]: on every backend.
#pragma once

#include <cstdint>

#include "core/number.h"
#include "core/target.h"
#include "loader/plan.h"

namespace robocache::ROBOCACHE_TARGET {

/// A colour's value as it is written. The scale is worked in float64, whatever the output: x / 255
/// then comes out as those have it who divide in float32.
template <typename Out, typename Compute, typename Index>
ROBOCACHE_HOST_DEVICE Out scale_colour(const BasicStreamPlan<Index>& plan, std::int32_t colour,
                                       Compute x) {
  double scaled = static_cast<double>(x);
  if (plan.subtract != nullptr) {
    scaled = scaled - static_cast<const double*>(plan.subtract)[colour];
  }
  if (plan.multiply != nullptr) {
    scaled = scaled * static_cast<const double*>(plan.multiply)[colour];
  }
  return Round<Out>::from(scaled);
}

}  // namespace robocache::ROBOCACHE_TARGET
