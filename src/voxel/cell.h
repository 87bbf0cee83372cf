// The cell of a point, for every CPU target and for CUDA.
#pragma once

#include <cstdint>

#include "core/number.h"
#include "core/target.h"
#include "voxel/plan.h"

namespace robocache::ROBOCACHE_TARGET {

struct Point {
  double x[3];
};

/// The distance of a coordinate from the origin in cells; its floor is the cell. This expression,
/// in this order of operations, defines the cell on every backend.
ROBOCACHE_HOST_DEVICE double cells_from_origin(double coordinate, double origin, double size) {
  return (coordinate - origin) / size;
}

// The functions below have no branches, so that loops over points vectorize.

/// The cell along one axis of a dense grid; -1 for points outside and for NaN. `Index` must hold
/// the grid's size along the axis.
template <typename Index>
ROBOCACHE_HOST_DEVICE Index dense_index(const GridPlan& grid, int axis, double coordinate) {
  const double q =
      cells_from_origin(coordinate, grid.geometry.origin[axis], grid.geometry.voxel_size[axis]);
  const bool inside = bool(int(q >= 0) & int(q < static_cast<double>(grid.shape[axis])));
  // For numbers from 0 on, conversion to an integer is the floor.
  const auto index = static_cast<Index>(inside ? q : 0);
  return inside ? index : -1;
}

/// The number of a cell in row-major order, from its indices; -1 if one of them is -1.
template <typename Index>
ROBOCACHE_HOST_DEVICE std::int64_t dense_cell(const GridPlan& grid, Index i, Index j, Index k) {
  const std::int64_t cell = (static_cast<std::int64_t>(i) * grid.shape[1] + j) * grid.shape[2] + k;
  return (i | j | k) < 0 ? -1 : cell;
}

/// The cell of a point in one cloud's dense grid; -1 if the point is outside.
ROBOCACHE_HOST_DEVICE std::int64_t dense_cell(const GridPlan& grid, const Point& point) {
  return dense_cell(grid, dense_index<std::int64_t>(grid, 0, point.x[0]),
                    dense_index<std::int64_t>(grid, 1, point.x[1]),
                    dense_index<std::int64_t>(grid, 2, point.x[2]));
}

/// The cell along one axis of a sparse grid.
struct SparseIndex {
  std::int32_t x;
  std::int32_t problems;  // 0: `x` is the cell. Otherwise bits, the more severe first:
  static constexpr std::int32_t kNotFinite = 1;
  static constexpr std::int32_t kDoesNotFit = 2;  // int32
};

ROBOCACHE_HOST_DEVICE SparseIndex sparse_index(const VoxelGeometry& geometry, int axis,
                                               double coordinate) {
  const double q = cells_from_origin(coordinate, geometry.origin[axis], geometry.voxel_size[axis]);
  const bool fits = bool(int(q >= -2147483648.0) & int(q < 2147483648.0));
  const bool is_finite = coordinate - coordinate == 0;
  const auto towards_zero = static_cast<std::int32_t>(fits ? q : 0);
  return {towards_zero - int(static_cast<double>(towards_zero) > q),
          int(!is_finite) * SparseIndex::kNotFinite | int(!fits) * SparseIndex::kDoesNotFit};
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
  SparseCell cell{};
  std::int32_t problems = 0;
  for (int axis = 0; axis < 3; ++axis) {
    const SparseIndex index = sparse_index(geometry, axis, point.x[axis]);
    cell.x[axis] = index.x;
    problems |= index.problems;
  }
  cell.kind = problems == 0                               ? SparsePoint::kInVoxel
              : (problems & SparseIndex::kNotFinite) != 0 ? SparsePoint::kDropped
                                                          : SparsePoint::kBeyond;
  return cell;
}

}  // namespace robocache::ROBOCACHE_TARGET
