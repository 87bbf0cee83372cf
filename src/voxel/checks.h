// The checks of voxelization, which make plans of arguments.
#pragma once

#include <cstdint>

#include "core/argument.h"
#include "robocache/voxel.h"
#include "voxel/backends.h"

namespace robocache {

/// A call's clouds, checked: what `voxelize` and `voxelize_sparse_index` have in common.
struct CheckedCloud {
  CloudPlan plan;
  FeaturePlan features;  // without mode and output; no channels where there are none
  bool is_batched;
  bool has_features;
};

/// The product of two sizes; INT64_MAX where it does not fit.
std::int64_t product(std::int64_t a, std::int64_t b);

/// That this build has the backend that the context asks for.
void check_backend(const ExecutionContext& context);

/// Checks shapes, types and devices.
CheckedCloud check_cloud(const PointCloud& cloud, const ExecutionContext& context);

/// `voxel_size` and `origin`.
void check_geometry(const VoxelGeometry& geometry);

/// That `mode` is one, and has features where it needs them and none where it does not.
void check_mode(VoxelMode mode, const CheckedCloud& cloud);
/// That it is one of those with features.
void check_reduce(VoxelMode reduce, const char* name);

/// That the points can be counted or sorted for `purpose`.
void check_count(std::int64_t points, const char* purpose);

/// The grid of a dense voxelization, its bytes in `type` within int64.
GridPlan check_grid(const VoxelGrid& grid, const CheckedCloud& cloud, VoxelMode mode,
                    DataType type);

/// `dropped_out`, absent or int64 [B] or []: a pointer, or null.
std::int64_t* check_dropped(const TensorView& dropped_out, const CheckedCloud& cloud,
                            DeviceType device);

/// An output, or what one was: its type, shape, device, and that it is contiguous.
void check_contiguous(const char* name, const ConstTensorView& view, DataType type,
                      std::initializer_list<std::int64_t> shape, DeviceType device);

/// The gradients of a backward pass, but for where a voxel's lies in `grad_output`. `features` has
/// the mode.
GradientPlan check_gradients(const FeaturePlan& features, std::int64_t points,
                             const ConstTensorView& features_view,
                             const ConstTensorView& grad_output, const TensorView& grad_features,
                             DeviceType device);

/// The rows of [B,N,width] or [P,width].
RowPlan rows_of(const ConstTensorView& view);

const char* mode_text(VoxelMode mode);

}  // namespace robocache
