// A validated call in the form that the backends run on: plain data, copied into a CUDA kernel's
// parameters as is. `transform.cpp` builds plans; no later code checks a shape again.
#pragma once

#include <cstdint>

#include "core/target.h"
#include "robocache/transform.h"

namespace robocache {

/// The size of the widest pose: a position and a matrix.
inline constexpr int kMostNumbers = 12;

/// The layout of a floating-point array, [N,K,width] or without K or N, whose strides are then 0.
/// Strides are in elements.
struct ArrayPlan {
  const void* data;
  DataType type;
  std::int64_t window_stride, step_stride, column_stride;

  ROBOCACHE_HOST_DEVICE_INLINE std::int64_t start(std::int64_t window, std::int64_t step) const {
    return window * window_stride + step * step_stride;
  }
};

// Outputs are contiguous, and have the type of their inputs. An output that is not needed is null.

struct RotationPlan {
  std::int64_t count;  // N
  RotationForm source, target;
  std::int64_t source_width, target_width;
  ArrayPlan x;
  void* out;
  ArrayPlan grad_out;  // backward only, as is grad_x
  void* grad_x;
};

struct PosePlan {
  std::int64_t windows, steps, width;  // N, K, P
  RotationForm form;
  PoseDirection direction;
  ArrayPlan poses, anchor;
  void* out;
  ArrayPlan grad_out;  // backward only, as are the gradients
  void *grad_poses, *grad_anchor;
};

struct DeltaPlan {
  std::int64_t windows, steps, channels;  // N, K, D
  DeltaDirection direction;
  double duration;
  ArrayPlan times;  // null data: use `duration`
  ArrayPlan x;      // backward: the gradient of the output
  ArrayPlan start;  // forward only
  void* out;        // backward: the gradient of `x`
  void* grad_start;
};

}  // namespace robocache
