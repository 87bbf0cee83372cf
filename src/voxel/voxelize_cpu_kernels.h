// What `voxelize_cpu_kernels.cpp` defines, once for every instruction set.
#pragma once

#include <cstdint>

#include "voxel/plan.h"

namespace robocache {

/// A point and the number of the cell it lies in, counted over all clouds.
struct KeyedPoint {
  std::uint64_t key;
  std::int64_t point;
};

/// Points sorted by key, and by index within a key; voxel v is those from starts[v] up to starts[v
/// + 1].
struct SortedPoints {
  std::int64_t count;
  const KeyedPoint* points;
  const std::int64_t* starts;
};

/// One instruction set's kernels.
struct VoxelCpuKernels {
  /// Of the points [begin, end), the cells in their own cloud's grid; -1 outside.
  void (*dense_cells)(const CloudPlan& cloud, const GridPlan& grid, std::int64_t begin,
                      std::int64_t end, std::int64_t* cells);
  /// Widens `bounds` by the points [begin, end), and returns how many of them are dropped.
  std::int64_t (*sparse_bounds)(const CloudPlan& cloud, const VoxelGeometry& geometry,
                                std::int64_t begin, std::int64_t end, SparseBounds& bounds);
  /// The points [begin, end), all of cloud b, with their keys in the box.
  void (*sparse_keys)(const CloudPlan& cloud, const VoxelGeometry& geometry, const SparseBox& box,
                      std::int64_t b, std::int64_t begin, std::int64_t end, KeyedPoint* keyed);
  /// The coordinates of the voxels [begin, end).
  void (*coordinates)(const CloudPlan& cloud, const VoxelGeometry& geometry,
                      const SortedPoints& sorted, std::int64_t begin, std::int64_t end,
                      std::int32_t* coordinates);
  /// Reduces the features of the voxels [begin, end).
  void (*reduce)(const FeaturePlan& features, const SortedPoints& sorted, std::int64_t begin,
                 std::int64_t end, const FeatureOutput& out);
  /// Gives the gradient of the voxels [begin, end) to the points that won them: max and min.
  void (*scatter_to_winners)(const GradientPlan& plan, const SortedPoints& sorted,
                             std::int64_t begin, std::int64_t end);
  /// The gradient of the points [begin, end): mean (with `counts`, by voxel) and sum. A voxel of -1
  /// gives 0.
  void (*gather)(const GradientPlan& plan, const std::int64_t* voxels, const std::int32_t* counts,
                 std::int64_t begin, std::int64_t end);
};

namespace baseline {
const VoxelCpuKernels& voxel_cpu_kernels();
}
namespace avx2 {
const VoxelCpuKernels& voxel_cpu_kernels();
}
namespace avx512 {
const VoxelCpuKernels& voxel_cpu_kernels();
}

}  // namespace robocache
