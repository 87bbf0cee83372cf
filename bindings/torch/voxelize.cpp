// Voxelization as torch operators: converts the arguments to views, which the library checks, and
// allocates the outputs. Modes travel as the numbers of robocache::VoxelMode.
#include "robocache/voxel.h"

#include <torch/csrc/stable/tensor.h>

#include <string>

#include "errors.h"
#include "operators.h"
#include "tensors.h"

namespace robocache::torch_binding {
namespace {

/// `geometry`: three sizes and the three numbers of the origin.
VoxelGeometry geometry_of(const std::vector<double>& geometry) {
  if (geometry.size() != 6) {
    throw ValueError("geometry: expected 6 numbers, got " + std::to_string(geometry.size()));
  }
  VoxelGeometry result;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    result.voxel_size[axis] = geometry[axis];
    result.origin[axis] = geometry[axis + 3];
  }
  return result;
}

VoxelGrid grid_of(const std::vector<int64_t>& grid_size, const std::vector<double>& geometry) {
  if (grid_size.size() != 3) {
    throw ValueError("grid_size: expected 3 numbers, got " + std::to_string(grid_size.size()));
  }
  VoxelGrid grid;
  for (std::size_t axis = 0; axis < 3; ++axis) grid.shape[axis] = grid_size[axis];
  grid.geometry = geometry_of(geometry);
  return grid;
}

/// The clouds of a call. Views of all tensors get the device of the points, so that the library
/// checks shapes first; `expect_one_device` checks devices after that.
PointCloud cloud_of(const Tensor& points, const std::optional<Tensor>& features,
                    const std::optional<Tensor>& offsets) {
  PointCloud cloud;
  cloud.points = view_of("points", points);
  cloud.features = view_of("features", features);
  cloud.offsets = view_of("offsets", offsets);
  cloud.features.device = cloud.points.device;
  cloud.offsets.device = cloud.points.device;
  return cloud;
}

void expect_one_device(const Device& device, const std::optional<Tensor>& features,
                       const std::optional<Tensor>& offsets) {
  device.expect("features", features, "points");
  device.expect("offsets", offsets, "points");
}

struct Size {
  std::int64_t extents[5];
  int rank = 0;

  void push(std::int64_t extent) { extents[rank++] = extent; }
  Tensor empty(const Device& device, DataType type) const {
    return device.empty(extents, rank, type);
  }
};

struct Voxelized {
  Tensor grid;
  std::optional<Tensor> dropped;
};

Voxelized voxelize_checked(const Tensor& points, const std::optional<Tensor>& features,
                           const std::optional<Tensor>& offsets,
                           const std::vector<int64_t>& grid_size,
                           const std::vector<double>& geometry, VoxelMode mode, int64_t out_dtype,
                           bool wants_dropped) {
  const Device device(points);
  const PointCloud cloud = cloud_of(points, features, offsets);
  const VoxelGrid grid = grid_of(grid_size, geometry);
  const DataType out_type = static_cast<DataType>(out_dtype);
  const ExecutionContext context = device.context();
  const VoxelizedShape shape = voxelized_shape(cloud, grid, mode, out_type, context);
  expect_one_device(device, features, offsets);

  Size size;
  Size batch;
  if (shape.is_batched) {
    size.push(shape.batch);
    batch.push(shape.batch);
  }
  if (shape.has_channels) size.push(shape.channels);
  for (const std::int64_t extent : grid.shape) size.push(extent);
  Voxelized result{size.empty(device, out_type), std::nullopt};
  TensorView dropped;
  if (wants_dropped) {
    result.dropped = batch.empty(device, DataType::kInt64);
    dropped = mutable_view_of(*result.dropped);
  }
  const Scratch scratch(device, voxelize_workspace_bytes(cloud, grid, mode, out_type, context));
  robocache::voxelize(cloud, grid, mode, mutable_view_of(result.grid), dropped, scratch.workspace(),
                      context);
  return result;
}

/// The gradient of features, [B,N,C] or [P,C], and a view without data that stands for features
/// whose values the gradient does not depend on.
struct FeatureGradient {
  Tensor tensor;
  ConstTensorView shape_only;

  FeatureGradient(const Device& device, const Tensor& points, std::int64_t point_rank,
                  std::int64_t channels, DataType type)
      : tensor(size_of_features(points, point_rank, channels).empty(device, type)),
        shape_only(mutable_view_of(tensor)) {
    shape_only.data = nullptr;
  }

 private:
  static Size size_of_features(const Tensor& points, std::int64_t point_rank,
                               std::int64_t channels) {
    Size size;
    for (std::int64_t axis = 0; axis < point_rank; ++axis) size.push(points.size(axis));
    size.push(channels);
    return size;
  }
};

}  // namespace

Tensor voxelize(Tensor points, std::optional<Tensor> features, std::optional<Tensor> offsets,
                std::vector<int64_t> grid_size, std::vector<double> geometry, int64_t mode,
                int64_t out_dtype) {
  return translate_errors([&] {
    return voxelize_checked(points, features, offsets, grid_size, geometry,
                            static_cast<VoxelMode>(mode), out_dtype, false)
        .grid;
  });
}

std::tuple<Tensor, Tensor> voxelize_dropped(Tensor points, std::optional<Tensor> features,
                                            std::optional<Tensor> offsets,
                                            std::vector<int64_t> grid_size,
                                            std::vector<double> geometry, int64_t mode,
                                            int64_t out_dtype) {
  return translate_errors([&] {
    const Voxelized result = voxelize_checked(points, features, offsets, grid_size, geometry,
                                              static_cast<VoxelMode>(mode), out_dtype, true);
    return std::make_tuple(result.grid, *result.dropped);
  });
}

Tensor voxelize_backward(Tensor grad, Tensor points, std::optional<Tensor> features,
                         std::optional<Tensor> offsets, std::vector<int64_t> grid_size,
                         std::vector<double> geometry, int64_t mode_number,
                         int64_t features_dtype) {
  return translate_errors([&] {
    const auto mode = static_cast<VoxelMode>(mode_number);
    const Device device(grad);
    const std::int64_t point_rank = points.dim() - 1;
    if (point_rank < 1 || point_rank > 2 || grad.dim() < 4) {
      throw ValueError("grad: expected [B,C,X,Y,Z] or [C,X,Y,Z], got " +
                       std::to_string(grad.dim()) + " dimensions");
    }
    const ConstTensorView grad_output = view_of("grad", grad);
    const FeatureGradient result(device, points, point_rank, grad.size(grad.dim() - 4),
                                 static_cast<DataType>(features_dtype));
    PointCloud cloud = cloud_of(points, features, offsets);
    if (!features) cloud.features = result.shape_only;
    device.expect("points", points, "grad");
    device.expect("features", features, "grad");
    device.expect("offsets", offsets, "grad");
    const VoxelGrid grid = grid_of(grid_size, geometry);
    const ExecutionContext context = device.context();
    const Scratch scratch(device, voxelize_backward_workspace_bytes(cloud, grid, mode, context));
    robocache::voxelize_backward(cloud, grid, mode, grad_output, mutable_view_of(result.tensor),
                                 scratch.workspace(), context);
    return result.tensor;
  });
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> voxelize_sparse(
    Tensor points, std::optional<Tensor> features, std::optional<Tensor> offsets,
    std::vector<double> geometry_numbers, int64_t mode_number) {
  return translate_errors([&] {
    const auto mode = static_cast<VoxelMode>(mode_number);
    const Device device(points);
    const PointCloud cloud = cloud_of(points, features, offsets);
    const VoxelGeometry geometry = geometry_of(geometry_numbers);
    const ExecutionContext context = device.context();
    const std::size_t bytes = voxelize_sparse_workspace_bytes(cloud, geometry, context);
    expect_one_device(device, features, offsets);

    const bool is_batched = cloud.points.rank == 3 || offsets;
    Size rows;
    for (int axis = 0; axis + 1 < cloud.points.rank; ++axis) rows.push(cloud.points.shape[axis]);
    Size batch;
    if (is_batched) batch.push(offsets ? cloud.offsets.shape[0] - 1 : cloud.points.shape[0]);
    Size bounds;
    bounds.push((is_batched ? batch.extents[0] : 1) + 1);
    const Tensor point_to_voxel = rows.empty(device, DataType::kInt64);
    const Tensor voxel_offsets = bounds.empty(device, DataType::kInt64);
    const Tensor dropped = batch.empty(device, DataType::kInt64);
    const Scratch scratch(device, bytes);
    const std::int64_t voxels = voxelize_sparse_index(
        cloud, geometry, mutable_view_of(point_to_voxel), mutable_view_of(voxel_offsets),
        mutable_view_of(dropped), scratch.workspace(), context);

    Size voxel_rows;
    voxel_rows.push(voxels);
    const Tensor counts = voxel_rows.empty(device, DataType::kInt32);
    voxel_rows.push(3);
    const Tensor coordinates = voxel_rows.empty(device, DataType::kInt32);
    voxel_rows.extents[1] = features ? cloud.features.shape[cloud.features.rank - 1] : 0;
    const Tensor reduced =
        voxel_rows.empty(device, features ? cloud.features.dtype : DataType::kFloat32);
    voxelize_sparse_write(
        cloud, geometry, mode, voxels, mutable_view_of(coordinates), mutable_view_of(counts),
        features ? mutable_view_of(reduced) : TensorView{}, scratch.workspace(), context);
    return std::make_tuple(coordinates, counts, reduced, point_to_voxel, voxel_offsets, dropped);
  });
}

Tensor voxelize_sparse_backward(Tensor grad, std::optional<Tensor> features, Tensor point_to_voxel,
                                Tensor counts, int64_t mode_number, int64_t features_dtype) {
  return translate_errors([&] {
    const auto mode = static_cast<VoxelMode>(mode_number);
    const Device device(grad);
    const ConstTensorView grad_output = view_of("grad", grad);
    if (grad_output.rank != 2 || point_to_voxel.dim() < 1 || point_to_voxel.dim() > 2) {
      throw ValueError("grad: expected [V,C], got " + std::to_string(grad_output.rank) +
                       " dimensions");
    }
    const FeatureGradient result(device, point_to_voxel, point_to_voxel.dim(), grad.size(1),
                                 static_cast<DataType>(features_dtype));
    device.expect("features", features, "grad");
    device.expect("point_to_voxel", point_to_voxel, "grad");
    device.expect("counts", counts, "grad");
    const ConstTensorView values = features ? view_of("features", *features) : result.shape_only;
    const SparseAssignment assignment{view_of("point_to_voxel", point_to_voxel),
                                      view_of("counts", counts)};
    const ExecutionContext context = device.context();
    const Scratch scratch(
        device, voxelize_sparse_backward_workspace_bytes(values, assignment, mode, context));
    robocache::voxelize_sparse_backward(values, assignment, mode, grad_output,
                                        mutable_view_of(result.tensor), scratch.workspace(),
                                        context);
    return result.tensor;
  });
}

}  // namespace robocache::torch_binding
