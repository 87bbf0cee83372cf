// Validates a sparse voxelization, builds a plan per step, and dispatches it to a backend.
#include <string>

#include "core/workspace.h"
#include "voxel/checks.h"

namespace robocache {
namespace {

CheckedCloud check(const PointCloud& cloud, const VoxelGeometry& geometry,
                   const ExecutionContext& context) {
  CheckedCloud checked = check_cloud(cloud, context);
  check_geometry(geometry);
  check_count(checked.plan.count, "sparse voxels");
  return checked;
}

void check_point_to_voxel(const char* name, const ConstTensorView& view,
                          const ConstTensorView& points, DeviceType device) {
  if (points.rank == 3) {
    check_contiguous(name, view, DataType::kInt64, {points.shape[0], points.shape[1]}, device);
  } else {
    check_contiguous(name, view, DataType::kInt64, {points.shape[0]}, device);
  }
}

}  // namespace

#if !defined(ROBOCACHE_HAS_CUDA)
// Never called: the checks throw first. With them, the dispatch below reads alike in every build.
std::size_t voxelize_sparse_workspace_bytes_on_cuda(const CloudPlan&) { return 0; }
std::int64_t voxelize_sparse_index_on_cuda(const SparsePlan&, void*, CUstream_st*) { return 0; }
void voxelize_sparse_write_on_cuda(const SparseWritePlan&, const void*, CUstream_st*) {}
std::size_t voxelize_sparse_backward_workspace_bytes_on_cuda(const GradientPlan&) { return 0; }
void voxelize_sparse_backward_on_cuda(const SparseGradientPlan&, void*, CUstream_st*) {}
#endif

namespace {

std::size_t workspace_bytes(const CloudPlan& plan, const ExecutionContext& context) {
  return context.device == DeviceType::kCuda ? voxelize_sparse_workspace_bytes_on_cuda(plan)
                                             : voxelize_sparse_workspace_bytes_on_cpu(plan);
}

std::size_t workspace_bytes(const GradientPlan& plan, const ExecutionContext& context) {
  return context.device == DeviceType::kCuda
             ? voxelize_sparse_backward_workspace_bytes_on_cuda(plan)
             : voxelize_sparse_backward_workspace_bytes_on_cpu(plan);
}

}  // namespace

std::size_t voxelize_sparse_workspace_bytes(const PointCloud& cloud, const VoxelGeometry& geometry,
                                            const ExecutionContext& context) {
  return workspace_bytes(check(cloud, geometry, context).plan, context);
}

std::int64_t voxelize_sparse_index(const PointCloud& cloud, const VoxelGeometry& geometry,
                                   const TensorView& point_to_voxel_out,
                                   const TensorView& offsets_out, const TensorView& dropped_out,
                                   const Workspace& workspace, const ExecutionContext& context) {
  const CheckedCloud checked = check(cloud, geometry, context);
  check_point_to_voxel("point_to_voxel_out", point_to_voxel_out, cloud.points, context.device);
  check_contiguous("offsets_out", offsets_out, DataType::kInt64, {checked.plan.batch + 1},
                   context.device);
  SparsePlan plan{};
  plan.cloud = checked.plan;
  plan.geometry = geometry;
  plan.point_to_voxel = static_cast<std::int64_t*>(point_to_voxel_out.data);
  plan.offsets = static_cast<std::int64_t*>(offsets_out.data);
  plan.dropped = check_dropped(dropped_out, checked, context.device);
  void* const memory =
      check_workspace(workspace, workspace_bytes(plan.cloud, context), context.device);
  if (context.device == DeviceType::kCuda) {
    return voxelize_sparse_index_on_cuda(plan, memory, context.stream);
  }
  check_offsets_on_cpu(plan.cloud);
  return voxelize_sparse_index_on_cpu(plan, memory, context);
}

void voxelize_sparse_write(const PointCloud& cloud, const VoxelGeometry& geometry, VoxelMode reduce,
                           std::int64_t voxels, const TensorView& coordinates_out,
                           const TensorView& counts_out, const TensorView& features_out,
                           const Workspace& workspace, const ExecutionContext& context) {
  const CheckedCloud checked = check(cloud, geometry, context);
  check_contiguous("coordinates_out", coordinates_out, DataType::kInt32, {voxels, 3},
                   context.device);
  check_contiguous("counts_out", counts_out, DataType::kInt32, {voxels}, context.device);
  SparseWritePlan plan{};
  plan.cloud = checked.plan;
  plan.geometry = geometry;
  plan.voxels = voxels;
  plan.coordinates = static_cast<std::int32_t*>(coordinates_out.data);
  plan.counts = static_cast<std::int32_t*>(counts_out.data);
  if (checked.has_features) {
    check_reduce(reduce, "reduce");
    const Argument out{"features_out", features_out};
    out.expect_type(is_value_type(features_out.dtype), kValueTypes);
    check_contiguous("features_out", features_out, features_out.dtype,
                     {voxels, checked.features.channels}, context.device);
    plan.features = checked.features;
    plan.features.mode = reduce;
    plan.features.out_type = features_out.dtype;
    plan.features_out = features_out.data;
  } else if (features_out.present()) {
    throw_value_error("features_out", "none without features", shape_text(features_out));
  }
  if (voxels == 0) return;
  const void* const memory =
      check_workspace(workspace, workspace_bytes(plan.cloud, context), context.device);
  if (context.device == DeviceType::kCuda) {
    voxelize_sparse_write_on_cuda(plan, memory, context.stream);
  } else {
    voxelize_sparse_write_on_cpu(plan, memory, context);
  }
}

namespace {

/// Builds a gradient plan without the gradients.
GradientPlan check_assignment(const ConstTensorView& features, const SparseAssignment& assignment,
                              VoxelMode reduce, const ExecutionContext& context) {
  check_backend(context);
  check_reduce(reduce, "reduce");
  const Argument rows{"features", features};
  rows.expect_type(is_floating_type(features.dtype), kFloatingTypes);
  rows.expect_shape(features.rank == 2 || features.rank == 3, "[B,N,C] or [P,C]");
  if (features.data != nullptr) rows.expect_device(context.device);
  const ConstTensorView& counts = assignment.counts;
  check_point_to_voxel("point_to_voxel", assignment.point_to_voxel, features, context.device);
  check_contiguous("counts", counts, DataType::kInt32, {counts.rank == 1 ? counts.shape[0] : 0},
                   context.device);
  GradientPlan plan{};
  plan.features.rows = rows_of(features);
  plan.features.channels = features.shape[features.rank - 1];
  plan.features.mode = reduce;
  plan.points = product(features.shape[0], features.rank == 3 ? features.shape[1] : 1);
  plan.cells = counts.shape[0];
  check_count(plan.points, "sparse voxels");
  if (plan.cells > plan.points) {
    throw_value_error("counts", "at most as many voxels as points, " + std::to_string(plan.points),
                      std::to_string(plan.cells));
  }
  return plan;
}

}  // namespace

std::size_t voxelize_sparse_backward_workspace_bytes(const ConstTensorView& features,
                                                     const SparseAssignment& assignment,
                                                     VoxelMode reduce,
                                                     const ExecutionContext& context) {
  return workspace_bytes(check_assignment(features, assignment, reduce, context), context);
}

void voxelize_sparse_backward(const ConstTensorView& features, const SparseAssignment& assignment,
                              VoxelMode reduce, const ConstTensorView& grad_output,
                              const TensorView& grad_features, const Workspace& workspace,
                              const ExecutionContext& context) {
  const GradientPlan checked = check_assignment(features, assignment, reduce, context);
  const std::int64_t voxels = checked.cells;
  const std::int64_t channels = checked.features.channels;
  SparseGradientPlan plan{};
  plan.gradient = check_gradients(checked.features, checked.points, features, grad_output,
                                  grad_features, context.device);
  const Argument grad{"grad_output", grad_output};
  grad.expect_shape(
      grad_output.rank == 2 && grad_output.shape[0] == voxels && grad_output.shape[1] == channels,
      [&] { return bracket({dimension("V", voxels), dimension("C", channels)}); });
  GradientPlan& gradient = plan.gradient;
  gradient.batch = 1;
  gradient.cells = voxels;
  gradient.shape[0] = voxels;
  gradient.shape[1] = 1;
  gradient.shape[2] = 1;
  gradient.grad_output = grad_output.data;
  gradient.strides[0] = stride_along(grad_output, 2);
  gradient.channel_stride = stride_along(grad_output, 1);
  plan.point_to_voxel = static_cast<const std::int64_t*>(assignment.point_to_voxel.data);
  plan.counts = static_cast<const std::int32_t*>(assignment.counts.data);
  if (gradient.points == 0 || channels == 0) return;
  void* const memory =
      check_workspace(workspace, workspace_bytes(gradient, context), context.device);
  if (context.device == DeviceType::kCuda) {
    voxelize_sparse_backward_on_cuda(plan, memory, context.stream);
  } else {
    voxelize_sparse_backward_on_cpu(plan, memory, context);
  }
}

}  // namespace robocache
