// Declarations that the files of the CUDA backend share.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "core/launch.cuh"
#include "core/workspace.h"
#include "voxel/backends.h"
#include "voxel/cell.h"

namespace robocache::cuda {

/// Loads a point of any floating type as double, in which cells are computed.
__device__ __forceinline__ Point load_any_point(const RowPlan& rows, std::int64_t i) {
  const std::int64_t start = rows.start(i);
  Point point;
  for (int axis = 0; axis < 3; ++axis) {
    point.x[axis] = load_as<double>(rows.type, rows.data, start + axis * rows.column_stride);
  }
  return point;
}

/// Counts a dropped point of cloud b (-1: of no cloud). All threads of a warp must call it; threads
/// that drop points of one cloud sum them first.
__device__ __forceinline__ void count_dropped(std::int64_t* dropped, bool is_dropped,
                                              std::int64_t b) {
  if (dropped == nullptr) return;
  const bool counts = is_dropped && b >= 0;
  const unsigned those = __ballot_sync(0xffffffffu, counts);
  if (!counts) return;
  const unsigned same = __match_any_sync(those, static_cast<unsigned long long>(b));
  if (threadIdx.x % 32 == static_cast<unsigned>(__ffs(static_cast<int>(same)) - 1)) {
    atomicAdd(reinterpret_cast<unsigned long long*>(dropped + b),
              static_cast<unsigned long long>(__popc(same)));
  }
}

/// voxelize_cuda.cu: writes zeros to `bytes` bytes and to `batch` numbers of `dropped`, which may
/// be null. The next kernel may be launched with `launch_marks`.
void fill_with_zeros(void* memory, std::int64_t bytes, std::int64_t* dropped, std::int64_t batch,
                     cudaStream_t stream);

/// Adds 1 to the int32 count of each point's cell, numbered over all clouds.
void count_points(const CloudPlan& cloud, const GridPlan& grid, std::int32_t* counts,
                  cudaStream_t stream);

/// voxelize_reduce_cuda.cu: dense voxelization with features.
std::size_t reduce_workspace_bytes(const DensePlan& plan);
void reduce(const DensePlan& plan, void* workspace, cudaStream_t stream);

/// sort_cuda.cu: points sorted by their cell or voxel.
struct SortedByKey {
  std::int64_t count;
  bool is_wide;         // keys are uint64, not uint32
  bool is_merged;       // sorted in place
  std::uint64_t limit;  // the key of points in no cell or voxel
  void *keys, *sorted_keys;
  std::uint32_t *points, *sorted_points;
  void* storage;
  std::size_t storage_bytes;

  /// Lays out the workspace for `count` points and keys up to `limit`.
  SortedByKey(std::int64_t count, std::uint64_t limit, WorkspaceCutter& cutter);
  /// Sorts `keys` and `points` stably; the caller has filled them.
  void sort(cudaStream_t stream) const;
};

}  // namespace robocache::cuda
