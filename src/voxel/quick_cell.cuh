// Computes the cell of a float32 point in float32 where that is provably the cell of the formula in
// double, as it is for most points, which are far enough from a face. GPUs are slow at double, some
// of them 64 times slower than at float32.
//
// Proof. Let o, s be origin and size, of, r the float32 of o and 1/s, and q = (p - of) * r in
// float32. Three roundings make q differ from (p - of) / s by at most 3.01 * 2^-24 |q|, and (p -
// of) / s from (p - o) / s by |of - o| / s; the double formula's roundings are below 2^-51 of it.
// If no whole number is within |q| * 2^-21 + 1.001 |of - o| / s + 2^-30 of q, q and the formula's
// result have the same floor. From |q| = 2^20 on, and for NaN, this condition never holds, and the
// formula decides.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "voxel/cell.h"

namespace robocache::cuda {

struct QuickGrid {
  float origin[3], inverse[3], slack[3];
  std::int32_t shape[3];  // at most 2^30, more than any cell computed here
  bool is_narrow;         // whether the cells of a cloud fit int32

  explicit QuickGrid(const GridPlan& grid) : is_narrow(grid.cells <= INT32_MAX) {
    for (int axis = 0; axis < 3; ++axis) {
      const double o = grid.geometry.origin[axis];
      const double size = grid.geometry.voxel_size[axis];
      origin[axis] = static_cast<float>(o);
      inverse[axis] = static_cast<float>(1 / size);
      slack[axis] = static_cast<float>(
          std::fabs(static_cast<double>(origin[axis]) - o) / size * 1.001 + 0x1p-30);
      // Near the limits of float32's exponents, always use the formula.
      if (!(size > 0x1p-100 && size < 0x1p100 && std::fabs(o) < 0x1p100)) {
        slack[axis] = std::numeric_limits<float>::infinity();
      }
      constexpr std::int64_t kEnough = std::int64_t{1} << 30;
      shape[axis] =
          static_cast<std::int32_t>(grid.shape[axis] < kEnough ? grid.shape[axis] : kEnough);
    }
  }
};

/// The cell of a point, as `dense_cell` without `quick` computes it.
__device__ __forceinline__ std::int64_t dense_cell(const GridPlan& grid, const QuickGrid& quick,
                                                   float x, float y, float z) {
  const float p[3] = {x, y, z};
  std::int32_t cell[3];
  bool is_sure = true;
  bool is_inside = true;
  for (int axis = 0; axis < 3; ++axis) {
    const float q = (p[axis] - quick.origin[axis]) * quick.inverse[axis];
    is_sure = is_sure && fabsf(q - rintf(q)) > fabsf(q) * 0x1p-21f + quick.slack[axis];
    cell[axis] = __float2int_rd(q);
    is_inside = is_inside && cell[axis] >= 0 && cell[axis] < quick.shape[axis];
  }
  if (!is_sure) return dense_cell(grid, Point{{x, y, z}});
  if (!is_inside) return -1;
  if (quick.is_narrow) return (cell[0] * quick.shape[1] + cell[1]) * quick.shape[2] + cell[2];
  return (cell[0] * grid.shape[1] + cell[1]) * grid.shape[2] + cell[2];
}

}  // namespace robocache::cuda
