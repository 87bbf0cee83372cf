// The table of CPU kernels that `voxelize_cpu_kernels.cpp` defines once per instruction set.
#pragma once

#include <cstdint>

#include "voxel/plan.h"

namespace robocache {

/// A point, and the key that it is sorted by.
template <typename Integer>
struct Keyed {
  Integer key, point;
};

/// Points in order of their voxels, and by index within a voxel.
struct SortedPoints {
  std::int64_t count;
  const std::uint32_t* points;
  const std::int64_t* starts;  // voxel v has the points from starts[v] up to starts[v + 1]
  const std::uint64_t* keys;   // per voxel: the number of its cell, over all clouds
};

/// The points of a dense grid in order of their blocks, and by index within a block. Block k is the
/// cells from k << bits up to (k + 1) << bits, numbered over all clouds, or up to the last.
struct BlockedPoints {
  static constexpr int kMaxBits = 11;  // a block's cells, some channels each, fit a thread's cache

  std::int64_t cells;  // of all clouds
  int bits;
  std::int64_t count;                  // points
  const Keyed<std::uint32_t>* points;  // keys are cells within the block
  const std::int64_t* starts;          // block k has the points from starts[k] up to starts[k + 1]
  bool is_zeroed;                      // all cells are zero already

  std::int64_t first_cell(std::int64_t block) const { return block << bits; }
  std::int64_t end_cell(std::int64_t block) const {
    const std::int64_t end = (block + 1) << bits;
    return end < cells ? end : cells;
  }
};

/// One instruction set's kernels.
struct VoxelCpuKernels {
  /// Writes the cells of the points [begin, end) in the grid of their cloud; -1 outside.
  void (*dense_cells)(const CloudPlan& cloud, const GridPlan& grid, std::int64_t begin,
                      std::int64_t end, std::int64_t* cells);
  /// Extends `bounds` by the points [begin, end), and returns the number of dropped points.
  std::int64_t (*sparse_bounds)(const CloudPlan& cloud, const VoxelGeometry& geometry,
                                std::int64_t begin, std::int64_t end, SparseBounds& bounds);
  /// Writes the keys of the points [begin, end), all of cloud b, in the box.
  void (*sparse_keys)(const CloudPlan& cloud, const VoxelGeometry& geometry, const SparseBox& box,
                      std::int64_t b, std::int64_t begin, std::int64_t end, std::uint64_t* keys);
  /// Reduces the features of the voxels [begin, end).
  void (*reduce)(const FeaturePlan& features, const SortedPoints& sorted, std::int64_t begin,
                 std::int64_t end, const FeatureOutput& out);
  /// Writes the cells of the blocks [begin, end), empty ones too unless all are zero already.
  void (*reduce_blocks)(const FeaturePlan& features, const BlockedPoints& blocked,
                        std::int64_t begin, std::int64_t end, const FeatureOutput& out);
  /// Writes the gradient of the voxels [begin, end) to the points that won them: max and min.
  void (*scatter_to_winners)(const GradientPlan& plan, const SortedPoints& sorted,
                             std::int64_t begin, std::int64_t end);
  /// Writes the gradient of the points [begin, end): mean (with `counts`, by voxel) and sum. A
  /// voxel of -1 yields 0.
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
