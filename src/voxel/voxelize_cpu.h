// Declarations that the dense and the sparse part of the CPU backend share.
#pragma once

#include <algorithm>
#include <cstdint>

#include "voxel/backends.h"
#include "voxel/voxelize_cpu_kernels.h"

namespace robocache {

/// The kernels for this machine.
const VoxelCpuKernels& voxel_kernels();

// The fewest points that are worth a thread, and points whose cells stay in the L1 cache between
// two loops.
inline constexpr std::int64_t kGrainPoints = 8192;
inline constexpr std::int64_t kPiecePoints = 512;

/// The fewest voxels of `channels` channels that are worth a thread.
inline std::int64_t grain_voxels(std::int64_t channels) {
  return std::max<std::int64_t>(1, kGrainPoints / std::max<std::int64_t>(1, channels));
}

/// Calls `use(b, begin, end)` for short pieces of the points [begin, end), each of one cloud.
/// Offsets must be valid.
template <typename Use>
void for_each_piece(const CloudPlan& cloud, std::int64_t begin, std::int64_t end, const Use& use) {
  if (begin >= end) return;
  std::int64_t b = cloud.cloud_of(begin);
  const auto end_of = [&](std::int64_t cloud_index) {
    return cloud.offsets == nullptr ? (cloud_index + 1) * cloud.per_cloud
                                    : cloud.offset(cloud_index + 1);
  };
  std::int64_t cloud_end = end_of(b);
  while (begin < end) {
    while (cloud_end <= begin) cloud_end = end_of(++b);
    const std::int64_t piece_end = std::min({begin + kPiecePoints, cloud_end, end});
    use(b, begin, piece_end);
    begin = piece_end;
  }
}

/// Adds to a number that other threads add to, too.
template <typename Integer>
inline void add_shared(Integer& number, Integer more) {
  __atomic_fetch_add(&number, more, __ATOMIC_RELAXED);
}

}  // namespace robocache
