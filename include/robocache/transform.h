// Transforms of aligned values, with their inverses and gradients: rotations in another
// representation, poses relative to the anchor's pose, and deltas between rows. docs/transforms.md
// defines them.
//
// Shapes: N windows, K steps of each, D channels. Inputs have any strides; outputs are contiguous
// and of their inputs' type, float16, bfloat16, float32 or float64. Functions compute in float64
// for float64, else in float32, and round once at the end: the same bits on CPU and CUDA.
//
// On CUDA all functions only enqueue work. They throw ValueError or TypeError before they write
// anything, and DeviceError where a launch fails.
#pragma once

#include <cstdint>

#include "robocache/execution.h"
#include "robocache/export.h"
#include "robocache/tensor_view.h"

namespace robocache {

/// The representation of a rotation.
///
/// Inputs need not be normalized: quaternions may have any length, and the first two rows of a
/// matrix are made orthonormal by the Gram-Schmidt process; the third row of a matrix is not read.
/// A zero quaternion, and first rows that are zero or parallel, represent no rotation: the output
/// is all zeros, and the gradient is zero.
///
/// Outputs are normalized up to rounding. Quaternions have w >= 0; if w is 0, the first nonzero one
/// of x, y, z is positive. Only a quaternion converted from a quaternion keeps its sign. Rotation
/// vectors are at most pi long; those of length pi have the sign of such a quaternion.
enum class RotationForm : std::uint8_t {
  kQuaternionXyzw,
  kQuaternionWxyz,
  kRotationVector,  // the axis, as long as the angle in radians
  kMatrix,          // 9 numbers, row-major: rotated = matrix * vector
  k6d,              // the first two rows of the matrix (Zhou et al. 2019, as PyTorch3D has it)
};

/// The number of elements of a rotation in this form; 0 for an invalid value.
constexpr std::int64_t width_of(RotationForm form) {
  switch (form) {
    case RotationForm::kQuaternionXyzw:
    case RotationForm::kQuaternionWxyz:
      return 4;
    case RotationForm::kRotationVector:
      return 3;
    case RotationForm::kMatrix:
      return 9;
    case RotationForm::k6d:
      return 6;
  }
  return 0;
}

/// Converts rotations to another form.
///
/// `x`: [N, width of source]. `out`: [N, width of target].
ROBOCACHE_API void convert_rotation(const ConstTensorView& x, RotationForm source,
                                    RotationForm target, const TensorView& out,
                                    const ExecutionContext& context);

/// Computes the gradient of a loss with respect to `x` from its gradient with respect to `out`.
///
/// `grad_out`: shaped and typed as `out`, any strides. `grad_x`: as `x`, contiguous.
ROBOCACHE_API void convert_rotation_backward(const ConstTensorView& x, RotationForm source,
                                             RotationForm target, const ConstTensorView& grad_out,
                                             const TensorView& grad_x,
                                             const ExecutionContext& context);

enum class PoseDirection : std::uint8_t {
  kToRelative,  // inverse(anchor) * pose: the pose in the anchor's frame
  kToAbsolute,  // anchor * pose: the inverse of kToRelative
};

/// Converts poses to poses relative to an anchor's pose, or back. A pose has P numbers: a position,
/// 3 numbers, and a rotation. Quaternions of relative poses have w >= 0; those of absolute poses
/// have the sign of the product.
///
/// `poses`: [N,K,P]. `anchor`: [N,P], of the same type. `out`: [N,K,P].
ROBOCACHE_API void convert_pose(const ConstTensorView& poses, const ConstTensorView& anchor,
                                RotationForm form, PoseDirection direction, const TensorView& out,
                                const ExecutionContext& context);

/// Computes the gradients of `convert_pose`. `grad_out`: shaped and typed as `out`, any strides.
/// `grad_poses`, `grad_anchor`: as `poses` and `anchor`, contiguous; an absent one is not computed.
/// The anchor's gradient is summed in the order of the steps.
ROBOCACHE_API void convert_pose_backward(const ConstTensorView& poses,
                                         const ConstTensorView& anchor, RotationForm form,
                                         PoseDirection direction, const ConstTensorView& grad_out,
                                         const TensorView& grad_poses,
                                         const TensorView& grad_anchor,
                                         const ExecutionContext& context);

enum class DeltaDirection : std::uint8_t {
  kToAbsolute,  // row k = row k-1 + delta k * duration k, added in this order
  kToDelta,     // delta k = (row k - row k-1) / duration k: the inverse of kToAbsolute
};

/// The durations of steps. With durations, deltas are velocities.
struct DeltaTiming {
  double duration = 1;  // of every step
  /// In place of `duration`: the time of the start, then of each row, [N,K+1] or [K+1]; int64
  /// nanoseconds, or float32 or float64 seconds. A duration is the difference of two neighbors, in
  /// seconds.
  ConstTensorView times;
};

/// Converts deltas to absolute values, or back.
///
/// `x`: [N,K,D]. `start`: [N,D], of the same type: the row before row 0. `out`: [N,K,D].
ROBOCACHE_API void convert_delta(const ConstTensorView& x, const ConstTensorView& start,
                                 DeltaDirection direction, const DeltaTiming& timing,
                                 const TensorView& out, const ExecutionContext& context);

/// Computes the gradients of `convert_delta`. `grad_out`: [N,K,D], any strides. `grad_x`: [N,K,D]
/// and `grad_start`: [N,D], of the type of `grad_out`, contiguous.
ROBOCACHE_API void convert_delta_backward(const ConstTensorView& grad_out, DeltaDirection direction,
                                          const DeltaTiming& timing, const TensorView& grad_x,
                                          const TensorView& grad_start,
                                          const ExecutionContext& context);

}  // namespace robocache
