// Voxelization of point clouds, into dense grids of all cells or into sparse lists of the voxels
// that contain points. docs/voxelization.md defines every option.
//
// Shapes: B clouds of N points each, or P points of all clouds; C channels of features; X, Y, Z
// cells of a dense grid; V voxels of a sparse one.
//
// Along each axis, the cell of a point is floor((double(p) - origin) / size), in IEEE double; every
// backend gives the result of this formula. NaN and infinite points are dropped; dense voxelization
// also drops points outside the grid.
//
// Reductions take the points of a voxel in ascending order of their index, in the compute type,
// which is float64 if features or output are float64, else float32, and round once at the end: the
// same bits on every run, with any number of threads, on CPU and CUDA. Max and min give NaN where a
// feature is NaN.
#pragma once

#include <cstddef>
#include <cstdint>

#include "robocache/execution.h"
#include "robocache/export.h"
#include "robocache/tensor_view.h"

namespace robocache {

/// The value of a voxel. Occupancy and count take no features; the others require them.
enum class VoxelMode : std::uint8_t {
  kOccupancy,  // 1 where the voxel contains a point (dense only)
  kCount,      // the number of points (dense only)
  kMean,       // the mean of the points' features; kSum, kMax and kMin reduce features as well
  kSum,
  kMax,
  kMin,
};

/// One or several point clouds, with any strides.
struct PointCloud {
  /// [B,N,3]: clouds of N points each; or [P,3]: one cloud, or with `offsets` several. float16,
  /// bfloat16, float32 or float64.
  ConstTensorView points;
  /// Optional: [B,N,C] or [P,C] like the points; float16, bfloat16, float32, float64 or uint8.
  ConstTensorView features;
  /// Optional, [B+1], int64 or int32, with points [P,3]: cloud b has the points from offsets[b] up
  /// to offsets[b+1]. Offsets start at 0, do not descend and end at P. The CPU backend validates
  /// them. CUDA does not: it ignores points that belong to no cloud, and never reads or writes out
  /// of bounds.
  ConstTensorView offsets;
};

/// The positions of cells: cell (i,j,k) begins at origin + (i,j,k) * voxel_size. Sizes are
/// positive; sizes and origin are finite.
struct VoxelGeometry {
  double voxel_size[3] = {1, 1, 1};
  double origin[3] = {0, 0, 0};
};

/// A dense grid of shape[0] x shape[1] x shape[2] cells, each at least 1.
struct VoxelGrid {
  std::int64_t shape[3] = {1, 1, 1};
  VoxelGeometry geometry;
};

/// Sets a grid's origin so that the grid is centered on zero.
inline void center_on_zero(VoxelGrid& grid) {
  for (int axis = 0; axis < 3; ++axis) {
    grid.geometry.origin[axis] =
        -(static_cast<double>(grid.shape[axis]) * grid.geometry.voxel_size[axis]) / 2;
  }
}

/// The shape of the output of `voxelize`: [B,X,Y,Z], or [B,C,X,Y,Z] for a mode with features. It
/// has no axis B where the points are one cloud: [P,3] without offsets. The number of dropped
/// points is [B], or [] without B.
struct VoxelizedShape {
  bool is_batched = false;
  bool has_channels = false;
  std::int64_t batch = 1;
  std::int64_t channels = 1;
};

/// Validates the arguments as `voxelize` does, and returns the shape of an output of type
/// `out_type`. Reads shapes and types only. A grid whose size in bytes overflows int64 is a
/// ValueError.
///
/// `out_type`: for occupancy float16, bfloat16, float32, float64, uint8, int32 or bool; for count
/// int32, int64, float32 or float64; for the others float16, bfloat16, float32, float64 or uint8
/// (saturating).
ROBOCACHE_API VoxelizedShape voxelized_shape(const PointCloud& cloud, const VoxelGrid& grid,
                                             VoxelMode mode, DataType out_type,
                                             const ExecutionContext& context);

/// Bytes of workspace, in the context's memory, that `voxelize` needs for these arguments.
ROBOCACHE_API std::size_t voxelize_workspace_bytes(const PointCloud& cloud, const VoxelGrid& grid,
                                                   VoxelMode mode, DataType out_type,
                                                   const ExecutionContext& context);

/// Voxelizes into a dense grid. An empty cell is 0 in every mode.
///
/// `grid_out`: contiguous, of the shape that `voxelized_shape` returns.
/// `dropped_out`: absent, or int64 [B] ([] without B), contiguous: the number of dropped points of
/// each cloud.
/// `workspace`: at least `voxelize_workspace_bytes`.
///
/// On CUDA it only enqueues work. Throws ValueError or TypeError before it writes anything, and
/// DeviceError where a launch fails.
ROBOCACHE_API void voxelize(const PointCloud& cloud, const VoxelGrid& grid, VoxelMode mode,
                            const TensorView& grid_out, const TensorView& dropped_out,
                            const Workspace& workspace, const ExecutionContext& context);

/// Bytes of workspace, in the context's memory, that `voxelize_backward` needs for these arguments.
ROBOCACHE_API std::size_t voxelize_backward_workspace_bytes(const PointCloud& cloud,
                                                            const VoxelGrid& grid, VoxelMode mode,
                                                            const ExecutionContext& context);

/// Computes the gradient of a loss with respect to `cloud.features` from its gradient with respect
/// to the grid that `voxelize` writes in one of the modes with features. Among equal largest
/// (smallest) features, the one with the lowest index takes the gradient; where a feature is NaN,
/// the first NaN does. Dropped points get 0.
///
/// `cloud.features` has the shape and the type; its data are read for max and min only and may be
/// null otherwise. `grad_output`: shaped like the grid, any strides; float16, bfloat16, float32 or
/// float64.
/// `grad_features`: shaped and typed as the features, contiguous. `workspace`: at least
/// `voxelize_backward_workspace_bytes`.
ROBOCACHE_API void voxelize_backward(const PointCloud& cloud, const VoxelGrid& grid, VoxelMode mode,
                                     const ConstTensorView& grad_output,
                                     const TensorView& grad_features, const Workspace& workspace,
                                     const ExecutionContext& context);

/// Bytes of workspace, in the context's memory, that the two steps of sparse voxelization share.
ROBOCACHE_API std::size_t voxelize_sparse_workspace_bytes(const PointCloud& cloud,
                                                          const VoxelGeometry& geometry,
                                                          const ExecutionContext& context);

/// Assigns points to voxels: the first of the two steps of sparse voxelization. The caller needs
/// the number of voxels, which it returns, to allocate the outputs of the second step:
///
///     const float points[] = {0.25f, 0, 0, -0.1f, 0, 0, 0.3f, 0.05f, 0};  // [P=3,3]
///     PointCloud cloud;
///     cloud.points = array(points, {3, 3});
///     const VoxelGeometry geometry{{0.2, 0.2, 0.2}, {0, 0, 0}};
///     const std::size_t bytes = voxelize_sparse_workspace_bytes(cloud, geometry, on_cpu());
///     std::vector<double> scratch(bytes / 8 + 1);
///     const Workspace workspace{scratch.data(), scratch.size() * 8};
///     std::int64_t voxel_of_point[3], offsets[2];
///     const std::int64_t voxels =
///         voxelize_sparse_index(cloud, geometry, array(voxel_of_point, {3}), array(offsets, {2}),
///                               {}, workspace, on_cpu());
///     std::vector<std::int32_t> coordinates(voxels * 3), counts(voxels);
///     voxelize_sparse_write(cloud, geometry, VoxelMode::kMean, voxels,
///                           array(coordinates.data(), {voxels, 3}),
///                           array(counts.data(), {voxels}), {}, workspace, on_cpu());
///     // voxels: (-1,0,0) with 1 point, (1,0,0) with 2
///
/// Numbers the voxels that contain points in order of (cloud, x, y, z), and returns their number V.
///
/// `point_to_voxel_out`: int64 [B,N] or [P], contiguous: the voxel of each point, -1 if it was
/// dropped.
/// `offsets_out`: int64 [B+1] ([2] without B), contiguous: cloud b has the voxels from
/// offsets_out[b] up to offsets_out[b+1].
/// `dropped_out`: absent, or int64 [B] ([] without B), contiguous: the number of dropped points of
/// each cloud.
/// `workspace`: at least `voxelize_sparse_workspace_bytes`. The second step reads it.
///
/// Waits for the context's stream, once, at the end. Throws ValueError as `voxelize` does. After
/// the wait, it also throws ValueError where a voxel's coordinate does not fit int32, or where the
/// number of clouds times the cells of the box around all points exceeds 2^63 - 1; outputs are then
/// unspecified.
ROBOCACHE_API std::int64_t voxelize_sparse_index(
    const PointCloud& cloud, const VoxelGeometry& geometry, const TensorView& point_to_voxel_out,
    const TensorView& offsets_out, const TensorView& dropped_out, const Workspace& workspace,
    const ExecutionContext& context);

/// Writes the voxels of a sparse voxelization: the second step, after `voxelize_sparse_index`.
///
/// `cloud`, `geometry`: as in the first step. `voxels`: its return value. `workspace`: unchanged
/// since the first step.
/// `coordinates_out`: int32 [V,3], contiguous: the cell of each voxel, by the formula above.
/// `counts_out`: int32 [V], contiguous: points of each voxel (at most 2^31 - 1).
/// `features_out`: [V,C], contiguous, of any of the five value types; absent where the cloud has no
/// features. `reduce` (kMean, kSum, kMax or kMin) is their reduction.
ROBOCACHE_API void voxelize_sparse_write(const PointCloud& cloud, const VoxelGeometry& geometry,
                                         VoxelMode reduce, std::int64_t voxels,
                                         const TensorView& coordinates_out,
                                         const TensorView& counts_out,
                                         const TensorView& features_out, const Workspace& workspace,
                                         const ExecutionContext& context);

/// The outputs of the forward pass that `voxelize_sparse_backward` reads.
struct SparseAssignment {
  ConstTensorView point_to_voxel;  // int64 [B,N] or [P], contiguous
  ConstTensorView counts;          // int32 [V], contiguous
};

/// Bytes of workspace, in the context's memory, that `voxelize_sparse_backward` needs.
ROBOCACHE_API std::size_t voxelize_sparse_backward_workspace_bytes(
    const ConstTensorView& features, const SparseAssignment& assignment, VoxelMode reduce,
    const ExecutionContext& context);

/// Computes the gradient of a loss with respect to the features of a sparse voxelization from its
/// gradient with respect to `features_out`; ties as in `voxelize_backward`.
///
/// `features`: [B,N,C] or [P,C]; its data are read for max and min only and may be null otherwise.
/// `grad_output`: [V,C], any strides; float16, bfloat16, float32 or float64. `grad_features`:
/// shaped and typed as the features, contiguous. `workspace`: at least
/// `voxelize_sparse_backward_workspace_bytes`.
ROBOCACHE_API void voxelize_sparse_backward(const ConstTensorView& features,
                                            const SparseAssignment& assignment, VoxelMode reduce,
                                            const ConstTensorView& grad_output,
                                            const TensorView& grad_features,
                                            const Workspace& workspace,
                                            const ExecutionContext& context);

}  // namespace robocache
