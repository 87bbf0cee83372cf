// Validates the arguments of voxelization, and builds plans from them.
#pragma once

#include <cstdint>

#include "core/argument.h"
#include "robocache/voxel.h"
#include "voxel/backends.h"

namespace robocache {

/// The validated clouds of a call: the part that `voxelize` and `voxelize_sparse_index` share.
struct CheckedCloud {
  CloudPlan plan;
  FeaturePlan features;  // without mode and output; 0 channels without features
  bool is_batched;
  bool has_features;
};

/// The product of two sizes; INT64_MAX if it overflows.
std::int64_t product(std::int64_t a, std::int64_t b);

/// Checks that this build has the backend of the context.
void check_backend(const ExecutionContext& context);

/// Checks shapes, types and devices.
CheckedCloud check_cloud(const PointCloud& cloud, const ExecutionContext& context);

/// Checks `voxel_size` and `origin`.
void check_geometry(const VoxelGeometry& geometry);

/// Checks that `mode` is a VoxelMode, and has features exactly if it needs them.
void check_mode(VoxelMode mode, const CheckedCloud& cloud);
/// Checks that `reduce` is a mode with features.
void check_reduce(VoxelMode reduce, const char* name);

/// Checks that the points can be counted or sorted for `purpose`.
void check_count(std::int64_t points, const char* purpose);

/// Checks the grid of a dense voxelization: its size in bytes, with elements of `type`, must fit
/// int64.
GridPlan check_grid(const VoxelGrid& grid, const CheckedCloud& cloud, VoxelMode mode,
                    DataType type);

/// Checks `dropped_out`, absent or int64 [B] or []; returns its address, or null.
std::int64_t* check_dropped(const TensorView& dropped_out, const CheckedCloud& cloud,
                            DeviceType device);

/// Checks an output, or an output of the forward pass: type, shape, device and contiguity.
void check_contiguous(const char* name, const ConstTensorView& view, DataType type,
                      std::initializer_list<std::int64_t> shape, DeviceType device);

/// Plans the gradients of a backward pass, except for the layout of `grad_output`. `features` has
/// the mode.
GradientPlan check_gradients(const FeaturePlan& features, std::int64_t points,
                             const ConstTensorView& features_view,
                             const ConstTensorView& grad_output, const TensorView& grad_features,
                             DeviceType device);

/// The layout of the rows of [B,N,width] or [P,width].
RowPlan rows_of(const ConstTensorView& view);

const char* mode_text(VoxelMode mode);

}  // namespace robocache
