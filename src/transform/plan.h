// A checked call, in the form the backends run on: plain data, copied into a CUDA kernel's
// parameters as it is. `transform.cpp` makes plans; nothing after it checks a shape again.
#pragma once

#include <cstdint>

#include "core/target.h"
#include "robocache/transform.h"

namespace robocache {

/// The widest pose: a position and a matrix.
inline constexpr int kMostNumbers = 12;

/// Where an array of a floating type lies, [N,K,width] or one without K or N, whose strides are 0
/// then. Strides are in elements.
struct ArrayPlan {
  const void* data;
  DataType type;
  std::int64_t window_stride, step_stride, column_stride;

  ROBOCACHE_HOST_DEVICE_INLINE std::int64_t start(std::int64_t window, std::int64_t step) const {
    return window * window_stride + step * step_stride;
  }
};

// Outputs are contiguous, and of the type of their inputs. One that is not wanted is null.

struct RotationPlan {
  std::int64_t count;  // N
  RotationForm source, target;
  std::int64_t source_width, target_width;
  ArrayPlan x;
  void* out;
  ArrayPlan grad_out;  // backward only, as is the next
  void* grad_x;
};

struct PosePlan {
  std::int64_t windows, steps, width;  // N, K, P
  RotationForm form;
  PoseDirection direction;
  ArrayPlan poses, anchor;
  void* out;
  ArrayPlan grad_out;  // backward only, as are the next
  void *grad_poses, *grad_anchor;
};

struct DeltaPlan {
  std::int64_t windows, steps, channels;  // N, K, D
  DeltaDirection direction;
  double duration;
  ArrayPlan times;  // without data: `duration`
  ArrayPlan x;      // backward: the gradient of the output
  ArrayPlan start;  // forward only
  void* out;        // backward: the gradient of `x`
  void* grad_start;
};

}  // namespace robocache
