// The work of each transform, split into independent pieces: one per thread on CUDA, one per
// iteration on the CPU. A task has `count` pieces, and runs the i-th.
#pragma once

#include <cstdint>

#include "core/number.h"
#include "core/target.h"
#include "transform/delta.h"
#include "transform/plan.h"
#include "transform/rotation.h"

namespace robocache::ROBOCACHE_TARGET {

template <typename Compute>
ROBOCACHE_HOST_DEVICE Compute load_number(const ArrayPlan& array, std::int64_t start,
                                          std::int64_t column) {
  return load_as<Compute>(array.type, array.data, start + column * array.column_stride);
}

template <typename Compute>
ROBOCACHE_HOST_DEVICE void load_row(const ArrayPlan& array, std::int64_t start, std::int64_t width,
                                    Compute* row) {
  for (std::int64_t i = 0; i < width; ++i) row[i] = load_number<Compute>(array, start, i);
}

/// Loads numbers as dual numbers, with the derivative taken in the number at `direction`; -1: in
/// none.
template <typename Compute>
ROBOCACHE_HOST_DEVICE void load_row(const ArrayPlan& array, std::int64_t start, std::int64_t width,
                                    Dual<Compute>* row, std::int64_t direction) {
  for (std::int64_t i = 0; i < width; ++i) {
    row[i] = {load_number<Compute>(array, start, i), Compute(i == direction ? 1 : 0)};
  }
}

/// The derivative of a loss along the slopes of `out`, from its gradient at `start` of `grad_out`.
template <typename Compute>
ROBOCACHE_HOST_DEVICE Compute slope_of_loss(const ArrayPlan& grad_out, std::int64_t start,
                                            std::int64_t width, const Dual<Compute>* out) {
  Compute sum = Compute(0);
  for (std::int64_t i = 0; i < width; ++i) {
    sum = sum + load_number<Compute>(grad_out, start, i) * out[i].slope;
  }
  return sum;
}

// ---- rotations: a piece is one of them ----------------------------------------------------------

template <typename Compute>
struct ConvertRotation {
  RotationPlan plan;

  std::int64_t count() const { return plan.count; }
  ROBOCACHE_HOST_DEVICE void run(std::int64_t i) const {
    Compute x[9] = {}, out[9] = {};
    load_row(plan.x, plan.x.start(i, 0), plan.source_width, x);
    convert(x, plan.source, plan.target, out);
    const std::int64_t width = plan.target_width;
    for (std::int64_t column = 0; column < width; ++column) {
      store_as<Compute>(plan.x.type, plan.out, i * width + column, out[column]);
    }
  }
};

/// The backward pass of ConvertRotation: a piece is one number of the gradient.
template <typename Compute>
struct ConvertRotationBackward {
  RotationPlan plan;

  std::int64_t count() const { return plan.count * plan.source_width; }
  ROBOCACHE_HOST_DEVICE void run(std::int64_t i) const {
    const std::int64_t width = plan.source_width;
    const std::int64_t row = i / width;
    Dual<Compute> x[9] = {}, out[9] = {};
    load_row(plan.x, plan.x.start(row, 0), width, x, i - row * width);
    convert(x, plan.source, plan.target, out);
    const Compute slope =
        slope_of_loss(plan.grad_out, plan.grad_out.start(row, 0), plan.target_width, out);
    store_as<Compute>(plan.x.type, plan.grad_x, i, slope);
  }
};

// ---- poses: a piece is one of them --------------------------------------------------------------

template <typename Compute>
struct ConvertPose {
  PosePlan plan;

  std::int64_t count() const { return plan.windows * plan.steps; }
  ROBOCACHE_HOST_DEVICE void run(std::int64_t i) const {
    const std::int64_t window = i / plan.steps;
    const std::int64_t width = plan.width;
    Compute pose[kMostNumbers] = {}, anchor[kMostNumbers] = {}, out[kMostNumbers] = {};
    load_row(plan.poses, plan.poses.start(window, i - window * plan.steps), width, pose);
    load_row(plan.anchor, plan.anchor.start(window, 0), width, anchor);
    convert_one_pose(pose, anchor, plan.form, plan.direction, out);
    for (std::int64_t column = 0; column < width; ++column) {
      store_as<Compute>(plan.poses.type, plan.out, i * width + column, out[column]);
    }
  }
};

/// The derivative of a loss with respect to one number of a pose, or, if `of_anchor`, to one number
/// of the anchor through that pose.
template <typename Compute>
ROBOCACHE_HOST_DEVICE Compute pose_gradient(const PosePlan& plan, std::int64_t window,
                                            std::int64_t step, std::int64_t direction,
                                            bool of_anchor) {
  const std::int64_t width = plan.width;
  Dual<Compute> pose[kMostNumbers], anchor[kMostNumbers], out[kMostNumbers];
  load_row(plan.poses, plan.poses.start(window, step), width, pose, of_anchor ? -1 : direction);
  load_row(plan.anchor, plan.anchor.start(window, 0), width, anchor, of_anchor ? direction : -1);
  convert_one_pose(pose, anchor, plan.form, plan.direction, out);
  return slope_of_loss(plan.grad_out, plan.grad_out.start(window, step), width, out);
}

/// The backward pass of ConvertPose: a piece is one number of the poses' gradient, then of the
/// anchors', which is summed in the order of the steps.
template <typename Compute>
struct ConvertPoseBackward {
  PosePlan plan;

  ROBOCACHE_HOST_DEVICE std::int64_t of_poses() const {
    return plan.grad_poses == nullptr ? 0 : plan.windows * plan.steps * plan.width;
  }
  std::int64_t count() const {
    return of_poses() + (plan.grad_anchor == nullptr ? 0 : plan.windows * plan.width);
  }
  ROBOCACHE_HOST_DEVICE void run(std::int64_t i) const {
    const std::int64_t width = plan.width;
    const bool of_anchor = i >= of_poses();
    const std::int64_t piece = of_anchor ? i - of_poses() : i;
    const std::int64_t row = piece / width;
    const std::int64_t window = of_anchor ? row : row / plan.steps;
    const std::int64_t first = of_anchor ? 0 : row - window * plan.steps;
    const std::int64_t end = of_anchor ? plan.steps : first + 1;
    Compute sum = Compute(0);
    for (std::int64_t step = first; step < end; ++step) {
      sum = sum + pose_gradient<Compute>(plan, window, step, piece - row * width, of_anchor);
    }
    store_as<Compute>(plan.poses.type, of_anchor ? plan.grad_anchor : plan.grad_poses, piece, sum);
  }
};

// ---- deltas: a piece is one channel of a window, step after step --------------------------------

/// The duration of a step in seconds, from times[step] to times[step + 1].
template <typename Compute>
ROBOCACHE_HOST_DEVICE Compute duration_of(const DeltaPlan& plan, std::int64_t window,
                                          std::int64_t step) {
  const ArrayPlan& times = plan.times;
  if (times.data == nullptr) return static_cast<Compute>(plan.duration);
  const std::int64_t end = times.start(window, 0) + (step + 1) * times.column_stride;
  const std::int64_t begin = end - times.column_stride;
  switch (times.type) {
    case DataType::kInt64: {
      const auto* const t = static_cast<const std::int64_t*>(times.data);
      // As unsigned numbers: the two times may lie anywhere in the range of int64.
      const auto from = static_cast<std::uint64_t>(t[begin]),
                 to = static_cast<std::uint64_t>(t[end]);
      const double difference =
          t[end] >= t[begin] ? static_cast<double>(to - from) : -static_cast<double>(from - to);
      return static_cast<Compute>(difference / 1e9);
    }
    case DataType::kFloat64: {
      const auto* const t = static_cast<const double*>(times.data);
      return static_cast<Compute>(t[end] - t[begin]);
    }
    default: {
      const auto* const t = static_cast<const float*>(times.data);
      return static_cast<Compute>(t[end] - t[begin]);
    }
  }
}

template <typename Compute>
struct ConvertDelta {
  DeltaPlan plan;

  std::int64_t count() const { return plan.windows * plan.channels; }
  ROBOCACHE_HOST_DEVICE void run(std::int64_t i) const {
    const std::int64_t window = i / plan.channels;
    const std::int64_t channel = i - window * plan.channels;
    Compute last = load_number<Compute>(plan.start, plan.start.start(window, 0), channel);
    for (std::int64_t step = 0; step < plan.steps; ++step) {
      const Compute duration = duration_of<Compute>(plan, window, step);
      const Compute x = load_number<Compute>(plan.x, plan.x.start(window, step), channel);
      store_as<Compute>(plan.x.type, plan.out,
                        (window * plan.steps + step) * plan.channels + channel,
                        convert_one_delta(x, duration, plan.direction, &last));
    }
  }
};

/// The backward pass of ConvertDelta, from the last step to the first.
template <typename Compute>
struct ConvertDeltaBackward {
  DeltaPlan plan;

  std::int64_t count() const { return plan.windows * plan.channels; }
  ROBOCACHE_HOST_DEVICE void run(std::int64_t i) const {
    const std::int64_t window = i / plan.channels;
    const std::int64_t channel = i - window * plan.channels;
    const bool to_absolute = plan.direction == DeltaDirection::kToAbsolute;
    Compute of_row = Compute(0);  // the gradient of row `step`, through the later rows
    for (std::int64_t step = plan.steps - 1; step >= 0; --step) {
      const Compute duration = duration_of<Compute>(plan, window, step);
      const Compute gradient = load_number<Compute>(plan.x, plan.x.start(window, step), channel);
      Compute of_x;
      if (to_absolute) {
        of_row = of_row + gradient;
        of_x = of_row * duration;
      } else {
        const Compute share = gradient / duration;
        of_x = share + of_row;
        of_row = -share;
      }
      store_as<Compute>(plan.x.type, plan.out,
                        (window * plan.steps + step) * plan.channels + channel, of_x);
    }
    store_as<Compute>(plan.x.type, plan.grad_start, i, of_row);
  }
};

/// Calls `use` with the task for a plan of arrays of `type`.
template <template <typename> class Task, typename Plan, typename Use>
void with_task(DataType type, const Plan& plan, const Use& use) {
  if (type == DataType::kFloat64) {
    use(Task<double>{plan});
  } else {
    use(Task<float>{plan});
  }
}

}  // namespace robocache::ROBOCACHE_TARGET
