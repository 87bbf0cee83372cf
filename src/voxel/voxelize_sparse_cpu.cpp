// The CPU backend, sparse: computes the box around all points and their keys in it, and sorts by
// key.
#include <cstdint>

#include "core/parallel.h"
#include "voxel/sort_cpu.h"
#include "voxel/voxelize_cpu.h"

namespace robocache {
namespace {

/// The workspace that the two steps share: the box around all points, then the sort's.
struct SparseWorkspace {
  WorkspaceCutter cutter;
  SparseBox* box;
  SortWorkspace sort;

  SparseWorkspace(std::int64_t points, void* workspace)
      : cutter(workspace, DeviceType::kCpu), box(cutter.cut<SparseBox>(1)), sort(points, cutter) {}
};

void lower(std::int64_t& shared, std::int64_t x) {
  std::int64_t seen = __atomic_load_n(&shared, __ATOMIC_RELAXED);
  while (x < seen && !__atomic_compare_exchange_n(&shared, &seen, x, true, __ATOMIC_RELAXED,
                                                  __ATOMIC_RELAXED)) {
  }
}

void raise(std::int64_t& shared, std::int64_t x) {
  std::int64_t seen = __atomic_load_n(&shared, __ATOMIC_RELAXED);
  while (x > seen && !__atomic_compare_exchange_n(&shared, &seen, x, true, __ATOMIC_RELAXED,
                                                  __ATOMIC_RELAXED)) {
  }
}

SparseBounds find_bounds(const SparsePlan& plan, const ExecutionContext& context) {
  SparseBounds bounds = SparseBounds::of_nothing();
  const CloudPlan& cloud = plan.cloud;
  parallel_for(context, cloud.count, kGrainPoints, [&](std::int64_t begin, std::int64_t end) {
    SparseBounds own = SparseBounds::of_nothing();
    for_each_piece(cloud, begin, end, [&](std::int64_t b, std::int64_t first, std::int64_t last) {
      const std::int64_t dropped =
          voxel_kernels().sparse_bounds(cloud, plan.geometry, first, last, own);
      if (plan.dropped != nullptr && dropped > 0) add_shared(plan.dropped[b], dropped);
    });
    for (int axis = 0; axis < 3; ++axis) {
      lower(bounds.lowest[axis], own.lowest[axis]);
      raise(bounds.highest[axis], own.highest[axis]);
    }
    lower(bounds.first_beyond, own.first_beyond);
  });
  return bounds;
}

/// Sets offsets[b] to the first voxel of cloud b or of a later one.
void find_offsets(const SortedPoints& sorted, std::int64_t voxels, const SparseBox& box,
                  std::int64_t batch, std::int64_t* offsets) {
  std::int64_t low = 0;
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::uint64_t first_key = static_cast<std::uint64_t>(b) * box.cells;
    std::int64_t high = voxels;
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      if (sorted.keys[middle] < first_key) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    offsets[b] = low;
  }
  offsets[batch] = voxels;
}

}  // namespace

std::size_t voxelize_sparse_workspace_bytes_on_cpu(const CloudPlan& cloud) {
  return SparseWorkspace(cloud.count, nullptr).sort.bytes;
}

std::int64_t voxelize_sparse_index_on_cpu(const SparsePlan& plan, void* workspace,
                                          const ExecutionContext& context) {
  const CloudPlan& cloud = plan.cloud;
  if (plan.dropped != nullptr) std::fill_n(plan.dropped, cloud.batch, 0);
  const SparseBounds bounds = find_bounds(plan, context);
  check_bounds(cloud, bounds);
  const SparseBox box = SparseBox::around(bounds, cloud.batch);

  const SparseWorkspace work(cloud.count, workspace);
  *work.box = box;
  parallel_for(context, cloud.count, kGrainPoints, [&](std::int64_t begin, std::int64_t end) {
    for_each_piece(cloud, begin, end, [&](std::int64_t b, std::int64_t first, std::int64_t last) {
      voxel_kernels().sparse_keys(cloud, plan.geometry, box, b, first, last,
                                  work.sort.keys + first);
    });
  });
  const std::int64_t voxels = sort_into_voxels(work.sort, box.limit, plan.point_to_voxel, context);
  find_offsets(work.sort.sorted(), voxels, box, cloud.batch, plan.offsets);
  return voxels;
}

void voxelize_sparse_write_on_cpu(const SparseWritePlan& plan, const void* workspace,
                                  const ExecutionContext& context) {
  const SparseWorkspace work(plan.cloud.count, const_cast<void*>(workspace));
  const SortedPoints sorted = work.sort.sorted();
  const FeatureOutput out{plan.features_out, 0, plan.features.channels};
  parallel_for(context, plan.voxels, grain_voxels(plan.features.channels),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t voxel = begin; voxel < end; ++voxel) {
                   work.box->cell_of(sorted.keys[voxel], plan.coordinates + 3 * voxel);
                   plan.counts[voxel] =
                       static_cast<std::int32_t>(sorted.starts[voxel + 1] - sorted.starts[voxel]);
                 }
                 voxel_kernels().reduce(plan.features, sorted, begin, end, out);
               });
}

}  // namespace robocache
