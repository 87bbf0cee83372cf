// What policies ask for after alignment, and its inverse: rotations in another representation,
// poses relative to that of the anchor, and values as steps from one row to the next. The meaning
// of all of it is in docs/transforms.md.
//
// Shapes: N windows, K steps of each, D channels. Inputs have any strides; outputs are contiguous
// and of their inputs' type, float16, bfloat16, float32 or float64. Numbers are float64 for
// float64, else float32, and are rounded once at the end: the same bits on CPU and CUDA.
//
// All functions enqueue only, on CUDA. They throw ValueError or TypeError before anything is
// written, and DeviceError where a launch fails.
#pragma once

#include <cstdint>

#include "robocache/execution.h"
#include "robocache/export.h"
#include "robocache/tensor_view.h"

namespace robocache {

/// How numbers stand for a rotation.
///
/// What is read need not be exact: quaternions of any length, and the first two rows of a matrix,
/// made orthonormal by the rule of Gram and Schmidt, are taken for the rotation that they stand
/// for; the third row of a matrix is not read. A zero quaternion, and first rows that are zero or
/// parallel, stand for none: the result is all zeros, and has no gradient.
///
/// What is written is exact up to rounding. Quaternions have w >= 0, and if that is 0 the first of
/// x, y, z that is not 0 is positive; only one that is made of a quaternion keeps its sign.
/// Rotation vectors are at most pi long, and those of pi have the sign of such a quaternion.
enum class RotationForm : std::uint8_t {
  kQuaternionXyzw,
  kQuaternionWxyz,
  kRotationVector,  // the axis, as long as the angle in radians
  kMatrix,          // 9 numbers, row-major: rotated = matrix * vector
  k6d,              // the first two rows of the matrix (Zhou et al. 2019, as PyTorch3D has it)
};

/// How many numbers it has; 0 of a value that is no form.
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

/// Rotations in another form.
///
/// `x`: [N, width of source]. `out`: [N, width of target].
ROBOCACHE_API void convert_rotation(const ConstTensorView& x, RotationForm source,
                                    RotationForm target, const TensorView& out,
                                    const ExecutionContext& context);

/// The gradient of a loss with respect to `x`, given its gradient with respect to `out`.
///
/// `grad_out`: shaped and typed as `out`, any strides. `grad_x`: as `x`, contiguous.
ROBOCACHE_API void convert_rotation_backward(const ConstTensorView& x, RotationForm source,
                                             RotationForm target, const ConstTensorView& grad_out,
                                             const TensorView& grad_x,
                                             const ExecutionContext& context);

enum class PoseDirection : std::uint8_t {
  kToRelative,  // inverse(anchor) * pose: the pose as the anchor sees it
  kToAbsolute,  // anchor * pose, which undoes it
};

/// Poses relative to an anchor's, or back. A pose is a position, 3 numbers, and a rotation: P
/// numbers. Quaternions of relative poses have w >= 0; those of absolute ones have the sign of the
/// product.
///
/// `poses`: [N,K,P]. `anchor`: [N,P], of the same type. `out`: [N,K,P].
ROBOCACHE_API void convert_pose(const ConstTensorView& poses, const ConstTensorView& anchor,
                                RotationForm form, PoseDirection direction, const TensorView& out,
                                const ExecutionContext& context);

/// Its gradients. `grad_out`: shaped and typed as `out`, any strides. `grad_poses`, `grad_anchor`:
/// as `poses` and `anchor`, contiguous; one that is absent is not made. The anchor's is summed in
/// the order of the steps.
ROBOCACHE_API void convert_pose_backward(const ConstTensorView& poses,
                                         const ConstTensorView& anchor, RotationForm form,
                                         PoseDirection direction, const ConstTensorView& grad_out,
                                         const TensorView& grad_poses,
                                         const TensorView& grad_anchor,
                                         const ExecutionContext& context);

enum class DeltaDirection : std::uint8_t {
  kToAbsolute,  // row k = row k-1 + delta k * duration k, added in this order
  kToDelta,     // delta k = (row k - row k-1) / duration k, which undoes it
};

/// How long steps take: with durations, deltas are velocities.
struct DeltaTiming {
  double duration = 1;  // of every step
  /// In place of it: the time of the start, then that of each row, [N,K+1] or [K+1]; int64
  /// nanoseconds, or float32 or float64 seconds. A duration is the difference of two, in seconds.
  ConstTensorView times;
};

/// Deltas to absolute values, or back.
///
/// `x`: [N,K,D]. `start`: [N,D], of the same type: row -1. `out`: [N,K,D].
ROBOCACHE_API void convert_delta(const ConstTensorView& x, const ConstTensorView& start,
                                 DeltaDirection direction, const DeltaTiming& timing,
                                 const TensorView& out, const ExecutionContext& context);

/// Its gradients. `grad_out`: [N,K,D], any strides. `grad_x`: [N,K,D] and `grad_start`: [N,D], of
/// its type, contiguous.
ROBOCACHE_API void convert_delta_backward(const ConstTensorView& grad_out, DeltaDirection direction,
                                          const DeltaTiming& timing, const TensorView& grad_x,
                                          const TensorView& grad_start,
                                          const ExecutionContext& context);

}  // namespace robocache
