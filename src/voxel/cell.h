// Which cell a point lies in: for every CPU target and for CUDA.
#pragma once

#include <cstdint>

#include "core/number.h"
#include "core/target.h"
#include "voxel/plan.h"

namespace robocache::ROBOCACHE_TARGET {

struct Point {
  double x[3];
};

template <typename T>
ROBOCACHE_HOST_DEVICE Point load_point(const RowPlan& rows, std::int64_t start) {
  const T* const p = static_cast<const T*>(rows.data) + start;
  return {{static_cast<double>(widen(p[0])), static_cast<double>(widen(p[rows.column_stride])),
           static_cast<double>(widen(p[2 * rows.column_stride]))}};
}

/// How many cells a coordinate is past the origin; its floor is the cell. This expression, in this
/// order, decides.
ROBOCACHE_HOST_DEVICE double cells_from_origin(double coordinate, double origin, double size) {
  return (coordinate - origin) / size;
}

/// The cell of a point in one cloud's dense grid, in row-major order; -1 outside, which NaN is too.
ROBOCACHE_HOST_DEVICE std::int64_t dense_cell(const GridPlan& grid, const Point& point) {
  const double x =
      cells_from_origin(point.x[0], grid.geometry.origin[0], grid.geometry.voxel_size[0]);
  const double y =
      cells_from_origin(point.x[1], grid.geometry.origin[1], grid.geometry.voxel_size[1]);
  const double z =
      cells_from_origin(point.x[2], grid.geometry.origin[2], grid.geometry.voxel_size[2]);
  // From 0 on, conversion to an integer is the floor. Without branches, so that loops vectorise.
  const bool inside = bool(int(x >= 0) & int(x < static_cast<double>(grid.shape[0])) & int(y >= 0) &
                           int(y < static_cast<double>(grid.shape[1])) & int(z >= 0) &
                           int(z < static_cast<double>(grid.shape[2])));
  const auto i = static_cast<std::int64_t>(inside ? x : 0);
  const auto j = static_cast<std::int64_t>(inside ? y : 0);
  const auto k = static_cast<std::int64_t>(inside ? z : 0);
  return inside ? (i * grid.shape[1] + j) * grid.shape[2] + k : -1;
}

enum class SparsePoint : std::uint8_t {
  kInVoxel,
  kDropped,  // NaN or infinite
  kBeyond,   // a cell that does not fit int32
};

struct SparseCell {
  std::int32_t x[3];
  SparsePoint kind;
};

ROBOCACHE_HOST_DEVICE SparseCell sparse_cell(const VoxelGeometry& geometry, const Point& point) {
  SparseCell cell{{0, 0, 0}, SparsePoint::kInVoxel};
  for (int axis = 0; axis < 3; ++axis) {
    const double x = point.x[axis];
    const double q = cells_from_origin(x, geometry.origin[axis], geometry.voxel_size[axis]);
    if (!(x - x == 0)) {
      cell.kind = SparsePoint::kDropped;
    } else if (!(q >= -2147483648.0) || !(q < 2147483648.0)) {
      if (cell.kind == SparsePoint::kInVoxel) cell.kind = SparsePoint::kBeyond;
    } else {
      const auto towards_zero = static_cast<std::int32_t>(q);
      cell.x[axis] = towards_zero - (static_cast<double>(towards_zero) > q ? 1 : 0);
    }
  }
  return cell;
}

}  // namespace robocache::ROBOCACHE_TARGET
