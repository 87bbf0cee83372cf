// Sorting points by the voxel they lie in, on the CPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/workspace.h"
#include "robocache/execution.h"
#include "voxel/voxelize_cpu_kernels.h"

namespace robocache {

/// The scratch of a sort and of what it finds, in one block.
struct SortWorkspace {
  std::int64_t count;  // points
  KeyedPoint* points;  // [count], as are the spare ones
  KeyedPoint* spare;
  std::int64_t* starts;   // [count + 1]
  std::int64_t* tallies;  // for the sort's own use
  std::size_t bytes;      // of these, and of what was cut before them

  SortWorkspace(std::int64_t count, WorkspaceCutter cutter);
  SortWorkspace(std::int64_t count, void* workspace)
      : SortWorkspace(count, WorkspaceCutter(workspace, DeviceType::kCpu)) {}
};

/// Sorts `work.points` by their keys, stably; keys are at most `limit`, which is that of points in
/// no voxel. Writes where each voxel starts, and after the last one where it ends, and returns how
/// many there are. `sorted` becomes the sorted points.
std::int64_t sort_into_voxels(const SortWorkspace& work, std::uint64_t limit, SortedPoints& sorted,
                              const ExecutionContext& context);

}  // namespace robocache
