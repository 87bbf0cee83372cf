// The gradients of voxelization: for every CPU target and for CUDA.
#pragma once

#include <cstdint>

#include "core/number.h"
#include "core/target.h"
#include "voxel/plan.h"
#include "voxel/reduce.h"

namespace robocache::ROBOCACHE_TARGET {

/// Writes the gradient of one channel of one point, for mean and sum. The point's voxel is `cell`
/// (-1: none), which has counts[cell] points.
template <typename Compute>
ROBOCACHE_HOST_DEVICE void gather_gradient(const GradientPlan& plan, std::int64_t point,
                                           std::int64_t channel, std::int64_t cell,
                                           const std::int32_t* counts) {
  Compute gradient = 0;
  if (cell >= 0 && cell < plan.cells) {
    const std::int64_t at = plan.start(cell) + channel * plan.channel_stride;
    gradient = load_as<Compute>(plan.features.out_type, plan.grad_output, at);
    if (plan.features.mode == VoxelMode::kMean) {
      gradient = gradient / static_cast<Compute>(counts[cell]);
    }
  }
  store_as<Compute>(plan.features.rows.type, plan.grad_features,
                    point * plan.features.channels + channel, gradient);
}

/// Writes the gradient of one channel of one voxel to the point that won it, for max and min. The
/// voxel's points are point_at(begin) up to point_at(end), ascending.
template <typename Compute, typename PointAt>
ROBOCACHE_HOST_DEVICE void scatter_gradient_to_winner(const GradientPlan& plan, std::int64_t cell,
                                                      std::int64_t channel, std::int64_t begin,
                                                      std::int64_t end, const PointAt& point_at) {
  const RowPlan& rows = plan.features.rows;
  std::int64_t winner = -1;
  Compute best = 0;
  for (std::int64_t i = begin; i < end; ++i) {
    const std::int64_t point = point_at(i);
    const Compute x =
        load_as<Compute>(rows.type, rows.data, rows.start(point) + channel * rows.column_stride);
    if (winner < 0 || wins(plan.features.mode, x, best)) {
      winner = point;
      best = x;
    }
  }
  const std::int64_t at = plan.start(cell) + channel * plan.channel_stride;
  store_as<Compute>(rows.type, plan.grad_features, winner * plan.features.channels + channel,
                    load_as<Compute>(plan.features.out_type, plan.grad_output, at));
}

}  // namespace robocache::ROBOCACHE_TARGET
