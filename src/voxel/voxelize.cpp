// Validates a dense voxelization, builds its plan, and dispatches it to a backend.
#include <algorithm>
#include <initializer_list>

#include "core/workspace.h"
#include "voxel/checks.h"

namespace robocache {
namespace {

bool is_one_of(DataType type, std::initializer_list<DataType> types) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

void check_out_type(VoxelMode mode, DataType type, const char* name) {
  const Argument out{name, {nullptr, type, {}}};
  if (mode == VoxelMode::kOccupancy) {
    out.expect_type(is_floating_type(type) ||
                        is_one_of(type, {DataType::kUInt8, DataType::kInt32, DataType::kBool}),
                    "float16, bfloat16, float32, float64, uint8, int32 or bool");
  } else if (mode == VoxelMode::kCount) {
    out.expect_type(is_one_of(type, {DataType::kInt32, DataType::kInt64, DataType::kFloat32,
                                     DataType::kFloat64}),
                    "int32, int64, float32 or float64");
  } else {
    out.expect_type(is_value_type(type), kValueTypes);
  }
}

struct Checked {
  CheckedCloud cloud;
  DensePlan plan;
  VoxelizedShape shape;
};

Checked check(const PointCloud& cloud, const VoxelGrid& grid, VoxelMode mode, DataType out_type,
              const char* out_name, const ExecutionContext& context) {
  Checked checked{};
  checked.cloud = check_cloud(cloud, context);
  check_mode(mode, checked.cloud);
  check_out_type(mode, out_type, out_name);
  DensePlan& plan = checked.plan;
  plan.grid = check_grid(grid, checked.cloud, mode, out_type);
  plan.cloud = checked.cloud.plan;
  plan.features = checked.cloud.features;
  plan.features.mode = mode;
  plan.features.out_type = out_type;
  VoxelizedShape& shape = checked.shape;
  shape.is_batched = checked.cloud.is_batched;
  shape.has_channels = mode >= VoxelMode::kMean;
  shape.batch = plan.cloud.batch;
  shape.channels = shape.has_channels ? plan.features.channels : 1;
  plan.features.channels = shape.channels;
  if (mode != VoxelMode::kOccupancy && out_type != DataType::kInt64) {
    check_count(plan.cloud.count, mode_text(mode));
  }
  return checked;
}

/// Checks that a grid, or its gradient, has the shape of the output.
void check_grid_shape(const Argument& argument, const VoxelizedShape& shape, const GridPlan& grid,
                      const char* how) {
  const ConstTensorView& view = argument.view;
  std::int64_t expected[5];
  int rank = 0;
  if (shape.is_batched) expected[rank++] = shape.batch;
  if (shape.has_channels) expected[rank++] = shape.channels;
  for (const std::int64_t size : grid.shape) expected[rank++] = size;
  argument.expect_shape(
      view.rank == rank && std::equal(expected, expected + rank, view.shape), [&] {
        std::string text = std::string(how) + "[";
        if (shape.is_batched) text += dimension("B", shape.batch) + ",";
        if (shape.has_channels) text += dimension("C", shape.channels) + ",";
        return text + dimension("X", grid.shape[0]) + "," + dimension("Y", grid.shape[1]) + "," +
               dimension("Z", grid.shape[2]) + "]";
      });
}

}  // namespace

#if !defined(ROBOCACHE_HAS_CUDA)
// Never called: the checks throw first. With them, the dispatch below reads alike in every build.
std::size_t voxelize_workspace_bytes_on_cuda(const DensePlan&) { return 0; }
void voxelize_on_cuda(const DensePlan&, void*, CUstream_st*) {}
std::size_t voxelize_backward_workspace_bytes_on_cuda(const DenseGradientPlan&) { return 0; }
void voxelize_backward_on_cuda(const DenseGradientPlan&, void*, CUstream_st*) {}
#endif

VoxelizedShape voxelized_shape(const PointCloud& cloud, const VoxelGrid& grid, VoxelMode mode,
                               DataType out_type, const ExecutionContext& context) {
  return check(cloud, grid, mode, out_type, "out_dtype", context).shape;
}

namespace {

std::size_t workspace_bytes(const DensePlan& plan, const ExecutionContext& context) {
  if (plan.cloud.batch == 0) return 0;
  return context.device == DeviceType::kCuda ? voxelize_workspace_bytes_on_cuda(plan)
                                             : voxelize_workspace_bytes_on_cpu(plan);
}

std::size_t workspace_bytes(const DenseGradientPlan& plan, const ExecutionContext& context) {
  return context.device == DeviceType::kCuda ? voxelize_backward_workspace_bytes_on_cuda(plan)
                                             : voxelize_backward_workspace_bytes_on_cpu(plan);
}

}  // namespace

std::size_t voxelize_workspace_bytes(const PointCloud& cloud, const VoxelGrid& grid, VoxelMode mode,
                                     DataType out_type, const ExecutionContext& context) {
  return workspace_bytes(check(cloud, grid, mode, out_type, "out_dtype", context).plan, context);
}

void voxelize(const PointCloud& cloud, const VoxelGrid& grid, VoxelMode mode,
              const TensorView& grid_out, const TensorView& dropped_out, const Workspace& workspace,
              const ExecutionContext& context) {
  Checked checked = check(cloud, grid, mode, grid_out.dtype, "grid_out", context);
  const Argument out{"grid_out", grid_out};
  check_grid_shape(out, checked.shape, checked.plan.grid, "contiguous ");
  out.expect_shape(is_contiguous(grid_out), "contiguous elements");
  out.expect_device(context.device);
  DensePlan& plan = checked.plan;
  plan.out = grid_out.data;
  plan.dropped = check_dropped(dropped_out, checked.cloud, context.device);
  if (context.device == DeviceType::kCpu) check_offsets_on_cpu(plan.cloud);
  if (plan.cloud.batch == 0) return;
  void* const memory = check_workspace(workspace, workspace_bytes(plan, context), context.device);
  if (context.device == DeviceType::kCuda) {
    voxelize_on_cuda(plan, memory, context.stream);
  } else {
    voxelize_on_cpu(plan, memory, context);
  }
}

namespace {

struct CheckedBackward {
  Checked forward;
  DenseGradientPlan plan;  // without the gradients
};

CheckedBackward check_backward(const PointCloud& cloud, const VoxelGrid& grid, VoxelMode mode,
                               DataType grad_type, const ExecutionContext& context) {
  check_reduce(mode, "mode");
  CheckedBackward checked{check(cloud, grid, mode, grad_type, "grad_output", context), {}};
  checked.plan.cloud = checked.forward.plan.cloud;
  checked.plan.grid = checked.forward.plan.grid;
  checked.plan.gradient.features = checked.forward.plan.features;
  checked.plan.gradient.points = checked.plan.cloud.count;
  checked.plan.gradient.cells = checked.plan.cloud.batch * checked.plan.grid.cells;
  return checked;
}

/// Sets the layout of a gradient [B,C,X,Y,Z] or [C,X,Y,Z].
void place_gradient(const ConstTensorView& grad, const GridPlan& grid, std::int64_t batch,
                    GradientPlan& plan) {
  plan.grad_output = grad.data;
  plan.batch = batch;
  plan.cells = batch * grid.cells;
  plan.batch_stride = stride_along(grad, 5);
  plan.channel_stride = stride_along(grad, 4);
  for (int axis = 0; axis < 3; ++axis) {
    plan.shape[axis] = grid.shape[axis];
    plan.strides[axis] = stride_along(grad, 3 - axis);
  }
}

}  // namespace

std::size_t voxelize_backward_workspace_bytes(const PointCloud& cloud, const VoxelGrid& grid,
                                              VoxelMode mode, const ExecutionContext& context) {
  // The workspace does not depend on the type of the gradient.
  const CheckedBackward checked = check_backward(cloud, grid, mode, DataType::kFloat32, context);
  return workspace_bytes(checked.plan, context);
}

void voxelize_backward(const PointCloud& cloud, const VoxelGrid& grid, VoxelMode mode,
                       const ConstTensorView& grad_output, const TensorView& grad_features,
                       const Workspace& workspace, const ExecutionContext& context) {
  CheckedBackward checked = check_backward(cloud, grid, mode, grad_output.dtype, context);
  DenseGradientPlan& plan = checked.plan;
  const Argument grad{"grad_output", grad_output};
  check_grid_shape(grad, checked.forward.shape, plan.grid, "");
  plan.gradient = check_gradients(plan.gradient.features, plan.cloud.count, cloud.features,
                                  grad_output, grad_features, context.device);
  place_gradient(grad_output, plan.grid, plan.cloud.batch, plan.gradient);
  if (context.device == DeviceType::kCpu) check_offsets_on_cpu(plan.cloud);
  if (plan.cloud.count == 0 || plan.gradient.features.channels == 0) return;
  void* const memory = check_workspace(workspace, workspace_bytes(plan, context), context.device);
  if (context.device == DeviceType::kCuda) {
    voxelize_backward_on_cuda(plan, memory, context.stream);
  } else {
    voxelize_backward_on_cpu(plan, memory, context);
  }
}

}  // namespace robocache
