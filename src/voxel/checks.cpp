#include "voxel/checks.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>

#include "robocache/build_info.h"

namespace robocache {
namespace {

std::string number_text(double x) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.9g", x);
  return text;
}

std::string numbers_text(const double (&x)[3]) {
  return bracket({number_text(x[0]), number_text(x[1]), number_text(x[2])});
}

void check_points(const Argument& points, bool has_offsets) {
  const ConstTensorView& view = points.view;
  points.expect_type(is_floating_type(view.dtype), kFloatingTypes);
  if (has_offsets) {
    points.expect_shape(view.rank == 2 && view.shape[1] == 3, "[P,3] with offsets");
  } else {
    points.expect_shape((view.rank == 2 || view.rank == 3) && view.shape[view.rank - 1] == 3,
                        "[B,N,3] or [P,3]");
  }
}

std::string features_shape(const ConstTensorView& points) {
  if (points.rank == 2) return bracket({dimension("P", points.shape[0]), "C"});
  return bracket({dimension("B", points.shape[0]), dimension("N", points.shape[1]), "C"});
}

void check_features(const Argument& features, const ConstTensorView& points) {
  const ConstTensorView& view = features.view;
  features.expect_type(is_value_type(view.dtype), kValueTypes);
  bool fits = view.rank == points.rank;
  for (int axis = 0; fits && axis + 1 < view.rank; ++axis) {
    fits = view.shape[axis] == points.shape[axis];
  }
  features.expect_shape(fits, [&] { return features_shape(points); });
}

}  // namespace

std::int64_t product(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? std::numeric_limits<std::int64_t>::max() : result;
}

const char* mode_text(VoxelMode mode) {
  switch (mode) {
    case VoxelMode::kOccupancy:
      return "'occupancy'";
    case VoxelMode::kCount:
      return "'count'";
    case VoxelMode::kMean:
      return "'mean'";
    case VoxelMode::kSum:
      return "'sum'";
    case VoxelMode::kMax:
      return "'max'";
    case VoxelMode::kMin:
      return "'min'";
  }
  return "an unknown mode";
}

RowPlan rows_of(const ConstTensorView& view) {
  RowPlan rows{};
  rows.data = view.data;
  rows.type = view.dtype;
  rows.row_stride = stride_along(view, 2);
  rows.column_stride = stride_along(view, 1);
  rows.per_batch = view.shape[view.rank == 3 ? 1 : 0];
  if (view.rank == 3) {
    rows.batch_stride = stride_along(view, 3);
    // Clouds that are contiguous in memory count as one.
    if (view.shape[0] <= 1 || rows.batch_stride == rows.row_stride * view.shape[1]) {
      rows.per_batch = product(view.shape[0], view.shape[1]);
    }
  }
  return rows;
}

void check_backend([[maybe_unused]] const ExecutionContext& context) {
#if !defined(ROBOCACHE_HAS_CUDA)
  if (context.device == DeviceType::kCuda) {
    throw DeviceError("context: expected the CPU, got CUDA in " + cuda_problem(0));
  }
#endif
}

CheckedCloud check_cloud(const PointCloud& cloud, const ExecutionContext& context) {
  check_backend(context);
  const Argument points{"points", cloud.points};
  const Argument features{"features", cloud.features};
  const Argument offsets{"offsets", cloud.offsets};
  CheckedCloud checked{};
  CloudPlan& plan = checked.plan;
  const bool has_offsets = cloud.offsets.present();
  check_points(points, has_offsets);
  if (has_offsets) {
    const DataType type = cloud.offsets.dtype;
    offsets.expect_type(type == DataType::kInt64 || type == DataType::kInt32, "int64 or int32");
    offsets.expect_shape(cloud.offsets.rank == 1 && cloud.offsets.shape[0] > 0, "[B+1]");
  }
  checked.has_features = cloud.features.present();
  if (checked.has_features) {
    check_features(features, cloud.points);
    checked.features.rows = rows_of(cloud.features);
    checked.features.channels = cloud.features.shape[cloud.features.rank - 1];
  }
  for (const Argument* argument : {&points, &features, &offsets}) {
    if (argument->view.present()) argument->expect_device(context.device);
  }

  plan.points = rows_of(cloud.points);
  plan.per_cloud = cloud.points.shape[cloud.points.rank == 3 ? 1 : 0];
  plan.batch = cloud.points.rank == 3 ? cloud.points.shape[0] : 1;
  plan.count = product(plan.batch, plan.per_cloud);
  if (has_offsets) {
    plan.batch = cloud.offsets.shape[0] - 1;
    plan.offsets = cloud.offsets.data;
    plan.offsets_stride = cloud.offsets.strides[0];
    plan.offsets_are_int32 = cloud.offsets.dtype == DataType::kInt32;
  }
  checked.is_batched = has_offsets || cloud.points.rank == 3;
  return checked;
}

void check_geometry(const VoxelGeometry& geometry) {
  for (const double size : geometry.voxel_size) {
    if (!(size > 0) || !std::isfinite(size)) {
      throw_value_error("voxel_size", "positive finite sizes", numbers_text(geometry.voxel_size));
    }
  }
  for (const double x : geometry.origin) {
    if (!std::isfinite(x)) {
      throw_value_error("origin", "finite numbers", numbers_text(geometry.origin));
    }
  }
}

void check_mode(VoxelMode mode, const CheckedCloud& cloud) {
  if (mode > VoxelMode::kMin) {
    throw_value_error("mode", "a VoxelMode", std::to_string(static_cast<int>(mode)));
  }
  if (mode < VoxelMode::kMean && cloud.has_features) {
    throw_value_error("features", std::string("none for mode ") + mode_text(mode), "some");
  }
  if (mode >= VoxelMode::kMean && !cloud.has_features) {
    throw_value_error("features", std::string("some for mode ") + mode_text(mode), "none");
  }
}

void check_reduce(VoxelMode reduce, const char* name) {
  if (reduce < VoxelMode::kMean || reduce > VoxelMode::kMin) {
    throw_value_error(name, "'mean', 'sum', 'max' or 'min'", mode_text(reduce));
  }
}

void check_count(std::int64_t points, const char* purpose) {
  if (points > kMaxCountedPoints) {
    throw_value_error("points",
                      "at most " + std::to_string(kMaxCountedPoints) + " points for " + purpose,
                      std::to_string(points));
  }
}

GridPlan check_grid(const VoxelGrid& grid, const CheckedCloud& cloud, VoxelMode mode,
                    DataType type) {
  GridPlan plan{};
  plan.geometry = grid.geometry;
  plan.cells = 1;
  const auto shape_is = [&] {
    return bracket({std::to_string(grid.shape[0]), std::to_string(grid.shape[1]),
                    std::to_string(grid.shape[2])});
  };
  for (int axis = 0; axis < 3; ++axis) {
    plan.shape[axis] = grid.shape[axis];
    if (grid.shape[axis] < 1) throw_value_error("grid_size", "sizes of at least 1", shape_is());
    plan.cells = product(plan.cells, grid.shape[axis]);
  }
  check_geometry(grid.geometry);
  const std::int64_t channels = mode >= VoxelMode::kMean ? cloud.features.channels : 1;
  // The number of cells must fit int64 for empty outputs too.
  const std::int64_t grids =
      product(std::max<std::int64_t>(1, cloud.plan.batch), std::max<std::int64_t>(1, channels));
  const std::int64_t bytes = product(product(plan.cells, grids), size_of(type));
  if (bytes == std::numeric_limits<std::int64_t>::max()) {
    throw_value_error("grid_size", "a grid of less than 2^63 bytes",
                      shape_is() + " for " + dimension("B", cloud.plan.batch) +
                          (mode >= VoxelMode::kMean ? " and " + dimension("C", channels) : "") +
                          " of " + name_of(type));
  }
  return plan;
}

void check_contiguous(const char* name, const ConstTensorView& view, DataType type,
                      std::initializer_list<std::int64_t> shape, DeviceType device) {
  const Argument argument{name, view};
  argument.expect_type(view.dtype == type, name_of(type));
  bool fits = view.rank == static_cast<int>(shape.size());
  for (int axis = 0; fits && axis < view.rank; ++axis) {
    fits = view.shape[axis] == shape.begin()[axis];
  }
  argument.expect_shape(fits && is_contiguous(view), [&] {
    std::string text;
    for (const std::int64_t size : shape) text += (text.empty() ? "" : ",") + std::to_string(size);
    return "contiguous [" + text + "]";
  });
  argument.expect_device(device);
}

std::int64_t* check_dropped(const TensorView& dropped_out, const CheckedCloud& cloud,
                            DeviceType device) {
  if (!dropped_out.present()) return nullptr;
  if (cloud.is_batched) {
    check_contiguous("dropped_out", dropped_out, DataType::kInt64, {cloud.plan.batch}, device);
  } else {
    check_contiguous("dropped_out", dropped_out, DataType::kInt64, {}, device);
  }
  return static_cast<std::int64_t*>(dropped_out.data);
}

GradientPlan check_gradients(const FeaturePlan& features, std::int64_t points,
                             const ConstTensorView& features_view,
                             const ConstTensorView& grad_output, const TensorView& grad_features,
                             DeviceType device) {
  const Argument grad{"grad_output", grad_output};
  grad.expect_type(is_floating_type(grad_output.dtype), kFloatingTypes);
  grad.expect_device(device);
  const Argument result{"grad_features", grad_features};
  result.expect_type(
      grad_features.dtype == features_view.dtype && is_floating_type(grad_features.dtype),
      is_floating_type(features_view.dtype) ? name_of(features_view.dtype) : kFloatingTypes);
  bool fits = grad_features.rank == features_view.rank;
  for (int axis = 0; fits && axis < grad_features.rank; ++axis) {
    fits = grad_features.shape[axis] == features_view.shape[axis];
  }
  result.expect_shape(fits && is_contiguous(grad_features),
                      [&] { return "contiguous " + shape_text(features_view); });
  result.expect_device(device);
  const VoxelMode mode = features.mode;
  if (picks_one(mode) && points > 0 && features.channels > 0 && features_view.data == nullptr) {
    throw_value_error(
        "features",
        std::string("the data, which the gradient of ") + mode_text(mode) + " depends on", "none");
  }

  GradientPlan plan{};
  plan.features = features;
  plan.features.out_type = grad_output.dtype;
  plan.points = points;
  plan.grad_features = grad_features.data;
  return plan;
}

void check_bounds(const CloudPlan& cloud, const SparseBounds& bounds) {
  if (bounds.first_beyond != std::numeric_limits<std::int64_t>::max()) {
    throw_value_error("points",
                      "voxel coordinates from -2147483648 to 2147483647 (a larger voxel_size or an "
                      "origin nearer the points makes them smaller)",
                      "others for point " + std::to_string(bounds.first_beyond) + " of all clouds");
  }
  if (bounds.lowest[0] > bounds.highest[0]) return;
  std::int64_t cells = cloud.batch;
  std::string text = dimension("B", cloud.batch);
  std::string lowest;
  for (int axis = 0; axis < 3; ++axis) {
    const std::int64_t extent = bounds.highest[axis] - bounds.lowest[axis] + 1;
    cells = product(cells, extent);
    text += " x " + std::to_string(extent);
    lowest += (axis == 0 ? "" : ",") + std::to_string(bounds.lowest[axis]);
  }
  if (cells == std::numeric_limits<std::int64_t>::max()) {
    throw_value_error("points",
                      "fewer than 2^63 - 1 cells in the box around all of them, times B (a larger "
                      "voxel_size, no outliers or fewer clouds make it smaller)",
                      text + " from [" + lowest + "]");
  }
}

}  // namespace robocache
