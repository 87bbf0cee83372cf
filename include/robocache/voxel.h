// Voxelization: points in, grid out; dense grids of every cell, and sparse lists of the voxels that
// hold points. The meaning of every option is in docs/voxelization.md.
//
// Shapes: B clouds, N points of each, or P points of all; C channels of features; X, Y, Z cells of
// a dense grid; V voxels of a sparse one.
//
// The cell of a point is, along each axis, floor((double(p) - origin) / size), in IEEE double: this
// formula decides on every backend. A point that is NaN or infinite is dropped, and in dense
// voxelization one outside the grid is.
//
// Reductions take the points of a voxel in ascending order of their index, in the compute type,
// which is float64 if features or output are float64, else float32, and round once at the end: the
// same bits on every run, every number of threads, and on CPU and CUDA alike. Max and min give NaN
// where a point is NaN.
#pragma once

#include <cstddef>
#include <cstdint>

#include "robocache/execution.h"
#include "robocache/export.h"
#include "robocache/tensor_view.h"

namespace robocache {

/// What a voxel holds. Occupancy and count need no features and take none; the others need them.
enum class VoxelMode : std::uint8_t {
  kOccupancy,  // 1 where there is a point (dense only)
  kCount,      // how many there are (dense only)
  kMean,       // of their features, as are the rest
  kSum,
  kMax,
  kMin,
};

/// One or several clouds. Strides are free.
struct PointCloud {
  /// [B,N,3]: clouds of N points each; or [P,3]: one cloud, or with `offsets` several. float16,
  /// bfloat16, float32 or float64.
  ConstTensorView points;
  /// Optional: [B,N,C] or [P,C] like the points; float16, bfloat16, float32, float64 or uint8.
  ConstTensorView features;
  /// Optional, [B+1], int64 or int32, with points [P,3]: cloud b is the points from offsets[b] up
  /// to offsets[b+1]. They start at 0, do not descend and end at P. The CPU checks that. CUDA does
  /// not: there points that no cloud has are left out everywhere, and nothing is read or written
  /// out of bounds.
  ConstTensorView offsets;
};

/// Where cells lie: cell (i,j,k) begins at origin + (i,j,k) * voxel_size. Sizes are positive, all
/// finite.
struct VoxelGeometry {
  double voxel_size[3] = {1, 1, 1};
  double origin[3] = {0, 0, 0};
};

/// A dense grid of shape[0] x shape[1] x shape[2] cells, each at least 1.
struct VoxelGrid {
  std::int64_t shape[3] = {1, 1, 1};
  VoxelGeometry geometry;
};

/// Moves a grid's origin so that its center is at zero.
inline void center_on_zero(VoxelGrid& grid) {
  for (int axis = 0; axis < 3; ++axis) {
    grid.geometry.origin[axis] =
        -(static_cast<double>(grid.shape[axis]) * grid.geometry.voxel_size[axis]) / 2;
  }
}

/// What `voxelize` writes: [B,X,Y,Z], or [B,C,X,Y,Z] for a mode with features; without the B where
/// the points are one cloud, [P,3] without offsets. `dropped` is [B] then, or [].
struct VoxelizedShape {
  bool is_batched = false;
  bool has_channels = false;
  std::int64_t batch = 1;
  std::int64_t channels = 1;
};

/// Checks the arguments of `voxelize` as it does, and says how large an output of type `out_type`
/// is to be. Reads shapes and types only. A grid whose bytes overflow int64 is a ValueError.
///
/// `out_type`: for occupancy float16, bfloat16, float32, float64, uint8, int32 or bool; for count
/// int32, int64, float32 or float64; for the others float16, bfloat16, float32, float64 or uint8
/// (saturating).
ROBOCACHE_API VoxelizedShape voxelized_shape(const PointCloud& cloud, const VoxelGrid& grid,
                                             VoxelMode mode, DataType out_type,
                                             const ExecutionContext& context);

/// Bytes of scratch, in the context's memory, that `voxelize` needs for these arguments.
ROBOCACHE_API std::size_t voxelize_workspace_bytes(const PointCloud& cloud, const VoxelGrid& grid,
                                                   VoxelMode mode, DataType out_type,
                                                   const ExecutionContext& context);

/// Voxelizes into a dense grid. An empty cell is 0 in every mode.
///
/// `grid_out`: contiguous, of the shape that `voxelized_shape` tells.
/// `dropped_out`: absent, or int64 [B] ([] without B), contiguous: how many points of each cloud
/// were dropped.
/// `workspace`: at least the bytes asked for above.
///
/// Enqueues only, on CUDA. Throws ValueError or TypeError before anything is written, and
/// DeviceError where a launch fails.
ROBOCACHE_API void voxelize(const PointCloud& cloud, const VoxelGrid& grid, VoxelMode mode,
                            const TensorView& grid_out, const TensorView& dropped_out,
                            const Workspace& workspace, const ExecutionContext& context);

/// Bytes of scratch, in the context's memory, that `voxelize_backward` needs for these arguments.
ROBOCACHE_API std::size_t voxelize_backward_workspace_bytes(const PointCloud& cloud,
                                                            const VoxelGrid& grid, VoxelMode mode,
                                                            const ExecutionContext& context);

/// The gradient of a loss with respect to `cloud.features`, given its gradient with respect to the
/// grid that `voxelize` writes in one of the modes with features. Of equal largest (smallest)
/// features the one of lowest index takes the gradient; where there is a NaN, the first NaN does.
/// Dropped points get 0.
///
/// `cloud.features` gives shape and type; its data are read for max and min only and may be null
/// otherwise. `grad_output`: shaped like the grid, any strides; float16, bfloat16, float32 or
/// float64.
/// `grad_features`: shaped and typed as the features, contiguous. `workspace`: as above.
ROBOCACHE_API void voxelize_backward(const PointCloud& cloud, const VoxelGrid& grid, VoxelMode mode,
                                     const ConstTensorView& grad_output,
                                     const TensorView& grad_features, const Workspace& workspace,
                                     const ExecutionContext& context);

/// Bytes of scratch, in the context's memory, that the two steps of a sparse voxelization share.
ROBOCACHE_API std::size_t voxelize_sparse_workspace_bytes(const PointCloud& cloud,
                                                          const VoxelGeometry& geometry,
                                                          const ExecutionContext& context);

/// The first step of a sparse voxelization, of two, since how many voxels there are must be known
/// before there can be memory for them:
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
/// Finds the voxels that hold points, numbers them in order of (cloud, x, y, z), and returns their
/// number V.
///
/// `point_to_voxel_out`: int64 [B,N] or [P], contiguous: the voxel of each point, -1 if it was
/// dropped.
/// `offsets_out`: int64 [B+1] ([2] without B), contiguous: the voxels of cloud b are those from
/// offsets_out[b] up to offsets_out[b+1].
/// `dropped_out`: absent, or int64 [B] ([] without B), contiguous.
/// `workspace`: at least the bytes asked for above. The second step reads it.
///
/// Waits for the context's stream, once, at the end. Throws ValueError as `voxelize` does, and
/// after waiting where a voxel's coordinate does not fit int32, or where the number of clouds times
/// the cells of the box around all points exceeds 2^63 - 1; outputs are then unspecified.
ROBOCACHE_API std::int64_t voxelize_sparse_index(
    const PointCloud& cloud, const VoxelGeometry& geometry, const TensorView& point_to_voxel_out,
    const TensorView& offsets_out, const TensorView& dropped_out, const Workspace& workspace,
    const ExecutionContext& context);

/// The second step: writes what the first has found.
///
/// `cloud`, `geometry`: as in the first step; `voxels` is what it returned; `workspace` is as it
/// left it.
/// `coordinates_out`: int32 [V,3], contiguous: cells as the formula above numbers them, from the
/// origin.
/// `counts_out`: int32 [V], contiguous (at most 2^31 - 1).
/// `features_out`: [V,C], contiguous, of any of the five value types; absent where the cloud has no
/// features. `reduce` (kMean, kSum, kMax or kMin) says how they are made.
ROBOCACHE_API void voxelize_sparse_write(const PointCloud& cloud, const VoxelGeometry& geometry,
                                         VoxelMode reduce, std::int64_t voxels,
                                         const TensorView& coordinates_out,
                                         const TensorView& counts_out,
                                         const TensorView& features_out, const Workspace& workspace,
                                         const ExecutionContext& context);

/// What `voxelize_sparse_backward` takes from the forward pass.
struct SparseAssignment {
  ConstTensorView point_to_voxel;  // int64 [B,N] or [P], contiguous
  ConstTensorView counts;          // int32 [V], contiguous
};

/// Bytes of scratch, in the context's memory, that `voxelize_sparse_backward` needs.
ROBOCACHE_API std::size_t voxelize_sparse_backward_workspace_bytes(
    const ConstTensorView& features, const SparseAssignment& assignment, VoxelMode reduce,
    const ExecutionContext& context);

/// The gradient of a loss with respect to the features of a sparse voxelization, given its gradient
/// with respect to `features_out`; ties as in `voxelize_backward`.
///
/// `features`: [B,N,C] or [P,C]; its data are read for max and min only and may be null otherwise.
/// `grad_output`: [V,C], any strides; float16, bfloat16, float32 or float64. `grad_features`:
/// shaped and typed as the features, contiguous. `workspace`: at least the bytes asked for above.
ROBOCACHE_API void voxelize_sparse_backward(const ConstTensorView& features,
                                            const SparseAssignment& assignment, VoxelMode reduce,
                                            const ConstTensorView& grad_output,
                                            const TensorView& grad_features,
                                            const Workspace& workspace,
                                            const ExecutionContext& context);

}  // namespace robocache
