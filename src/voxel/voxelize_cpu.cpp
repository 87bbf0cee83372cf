// The CPU backend, dense: finds each point's cell; marks or counts there, or sorts points by cell
// and reduces cell after cell. Any number of threads gives the same bits: marks and integer counts
// do not depend on order, and sums follow the sorted one.
#include "voxel/voxelize_cpu.h"

#include <cstring>
#include <string>

#include "core/check.h"
#include "core/cpu_target.h"
#include "core/parallel.h"
#include "voxel/sort_cpu.h"

namespace robocache {

const VoxelCpuKernels& voxel_kernels() {
  static const VoxelCpuKernels& chosen = ROBOCACHE_FOR_CPU(voxel_cpu_kernels)();
  return chosen;
}

void check_offsets_on_cpu(const CloudPlan& cloud) {
  if (cloud.offsets == nullptr) return;
  if (cloud.offset(0) != 0) {
    throw_value_error("offsets", "0 first", std::to_string(cloud.offset(0)));
  }
  for (std::int64_t b = 1; b <= cloud.batch; ++b) {
    if (cloud.offset(b) < cloud.offset(b - 1)) {
      throw_value_error("offsets", "ascending offsets",
                        std::to_string(cloud.offset(b)) + " after " +
                            std::to_string(cloud.offset(b - 1)) + " at [" + std::to_string(b) +
                            "]");
    }
  }
  if (cloud.offset(cloud.batch) != cloud.count) {
    throw_value_error("offsets", dimension("P", cloud.count) + " last",
                      std::to_string(cloud.offset(cloud.batch)));
  }
}

namespace {

constexpr std::int64_t kGrainBytes = 256 << 10;

void fill_with_zeros(void* memory, std::int64_t bytes, const ExecutionContext& context) {
  parallel_for(context, bytes, kGrainBytes, [&](std::int64_t begin, std::int64_t end) {
    std::memset(static_cast<char*>(memory) + begin, 0, static_cast<std::size_t>(end - begin));
  });
}

/// Calls `use(i, key)` for every point: its cell counted over all clouds, or -1. Counts dropped
/// points.
template <typename Use>
void for_each_cell(const CloudPlan& cloud, const GridPlan& grid, std::int64_t* dropped,
                   const ExecutionContext& context, const Use& use) {
  parallel_for(context, cloud.count, kGrainPoints, [&](std::int64_t begin, std::int64_t end) {
    for_each_piece(cloud, begin, end, [&](std::int64_t b, std::int64_t first, std::int64_t last) {
      std::int64_t cells[kPiecePoints];
      voxel_kernels().dense_cells(cloud, grid, first, last, cells);
      std::int64_t outside = 0;
      for (std::int64_t i = first; i < last; ++i) {
        const std::int64_t cell = cells[i - first];
        outside += cell < 0 ? 1 : 0;
        use(i, cell < 0 ? -1 : b * grid.cells + cell);
      }
      if (dropped != nullptr && outside > 0) add_shared(dropped[b], outside);
    });
  });
}

/// Several threads may mark a cell: they write the same.
template <typename Bits>
void mark(const DensePlan& plan, Bits one, const ExecutionContext& context) {
  Bits* const out = static_cast<Bits*>(plan.out);
  for_each_cell(plan.cloud, plan.grid, plan.dropped, context, [&](std::int64_t, std::int64_t cell) {
    if (cell >= 0) __atomic_store_n(out + cell, one, __ATOMIC_RELAXED);
  });
}

void mark_occupied(const DensePlan& plan, const ExecutionContext& context) {
  const std::uint64_t one = bits_of_one(plan.features.out_type);
  switch (size_of(plan.features.out_type)) {
    case 1:
      return mark(plan, static_cast<std::uint8_t>(one), context);
    case 2:
      return mark(plan, static_cast<std::uint16_t>(one), context);
    case 4:
      return mark(plan, static_cast<std::uint32_t>(one), context);
    default:
      return mark(plan, one, context);
  }
}

template <typename Integer>
void count_points(const CloudPlan& cloud, const GridPlan& grid, Integer* counts,
                  std::int64_t* dropped, const ExecutionContext& context) {
  for_each_cell(cloud, grid, dropped, context, [&](std::int64_t, std::int64_t cell) {
    if (cell >= 0) add_shared(counts[cell], Integer{1});
  });
}

template <typename Out>
void write_counts(const std::int32_t* counts, void* out, std::int64_t cells,
                  const ExecutionContext& context) {
  parallel_for(context, cells, kGrainBytes / sizeof(Out),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   static_cast<Out*>(out)[i] = static_cast<Out>(counts[i]);
                 }
               });
}

void count(const DensePlan& plan, void* workspace, const ExecutionContext& context) {
  const std::int64_t cells = plan.cloud.batch * plan.grid.cells;
  if (plan.features.out_type == DataType::kInt64) {
    return count_points(plan.cloud, plan.grid, static_cast<std::int64_t*>(plan.out), plan.dropped,
                        context);
  }
  if (!counts_elsewhere(plan)) {
    return count_points(plan.cloud, plan.grid, static_cast<std::int32_t*>(plan.out), plan.dropped,
                        context);
  }
  auto* const counts = static_cast<std::int32_t*>(workspace);
  fill_with_zeros(counts, cells * size_of(DataType::kInt32), context);
  count_points(plan.cloud, plan.grid, counts, plan.dropped, context);
  if (plan.features.out_type == DataType::kFloat32) {
    write_counts<float>(counts, plan.out, cells, context);
  } else {
    write_counts<double>(counts, plan.out, cells, context);
  }
}

/// Fills `work.points` and sorts them by cell.
std::int64_t sort_by_cell(const CloudPlan& cloud, const GridPlan& grid, std::int64_t* dropped,
                          const SortWorkspace& work, SortedPoints& sorted,
                          const ExecutionContext& context) {
  const auto limit = static_cast<std::uint64_t>(cloud.batch * grid.cells);
  for_each_cell(cloud, grid, dropped, context, [&](std::int64_t i, std::int64_t cell) {
    work.points[i] = {cell < 0 ? limit : static_cast<std::uint64_t>(cell), i};
  });
  return sort_into_voxels(work, limit, sorted, context);
}

void reduce(const DensePlan& plan, void* workspace, const ExecutionContext& context) {
  SortedPoints sorted{};
  const std::int64_t voxels =
      sort_by_cell(plan.cloud, plan.grid, plan.dropped, SortWorkspace(plan.cloud.count, workspace),
                   sorted, context);
  const FeatureOutput out{plan.out, plan.grid.cells, plan.features.channels};
  parallel_for(context, voxels, grain_voxels(plan.features.channels),
               [&](std::int64_t begin, std::int64_t end) {
                 voxel_kernels().reduce(plan.features, sorted, begin, end, out);
               });
}

}  // namespace

std::size_t voxelize_workspace_bytes_on_cpu(const DensePlan& plan) {
  if (plan.features.mode >= VoxelMode::kMean) return SortWorkspace(plan.cloud.count, nullptr).bytes;
  return counts_elsewhere(plan)
             ? static_cast<std::size_t>(plan.cloud.batch * plan.grid.cells) * sizeof(std::int32_t)
             : 0;
}

void voxelize_on_cpu(const DensePlan& plan, void* workspace, const ExecutionContext& context) {
  if (plan.dropped != nullptr) std::fill_n(plan.dropped, plan.cloud.batch, 0);
  if (!counts_elsewhere(plan)) {
    fill_with_zeros(plan.out,
                    plan.cloud.batch * plan.features.channels * plan.grid.cells *
                        size_of(plan.features.out_type),
                    context);
  }
  switch (plan.features.mode) {
    case VoxelMode::kOccupancy:
      return mark_occupied(plan, context);
    case VoxelMode::kCount:
      return count(plan, workspace, context);
    default:
      return reduce(plan, workspace, context);
  }
}

namespace {

/// The scratch of the dense backward pass of mean and sum.
struct GatherWorkspace {
  WorkspaceCutter cutter;
  std::int64_t* voxels;  // [points]
  std::int32_t* counts;  // [cells of all clouds], for mean

  GatherWorkspace(const GradientPlan& plan, void* workspace)
      : cutter(workspace, DeviceType::kCpu),
        voxels(cutter.cut<std::int64_t>(plan.points)),
        counts(cutter.cut<std::int32_t>(plan.features.mode == VoxelMode::kMean ? plan.cells : 0)) {}
};

void gather(const GradientPlan& plan, const std::int64_t* voxels, const std::int32_t* counts,
            const ExecutionContext& context) {
  parallel_for(context, plan.points, grain_voxels(plan.features.channels),
               [&](std::int64_t begin, std::int64_t end) {
                 voxel_kernels().gather(plan, voxels, counts, begin, end);
               });
}

void scatter_to_winners(const GradientPlan& plan, const SortedPoints& sorted, std::int64_t voxels,
                        const ExecutionContext& context) {
  fill_with_zeros(plan.grad_features,
                  plan.points * plan.features.channels * size_of(plan.features.rows.type), context);
  parallel_for(context, voxels, grain_voxels(plan.features.channels),
               [&](std::int64_t begin, std::int64_t end) {
                 voxel_kernels().scatter_to_winners(plan, sorted, begin, end);
               });
}

}  // namespace

std::size_t voxelize_backward_workspace_bytes_on_cpu(const DenseGradientPlan& plan) {
  return picks_one(plan.gradient.features.mode)
             ? SortWorkspace(plan.cloud.count, nullptr).bytes
             : GatherWorkspace(plan.gradient, nullptr).cutter.bytes();
}

void voxelize_backward_on_cpu(const DenseGradientPlan& plan, void* workspace,
                              const ExecutionContext& context) {
  if (picks_one(plan.gradient.features.mode)) {
    SortedPoints sorted{};
    const std::int64_t voxels =
        sort_by_cell(plan.cloud, plan.grid, nullptr, SortWorkspace(plan.cloud.count, workspace),
                     sorted, context);
    return scatter_to_winners(plan.gradient, sorted, voxels, context);
  }
  const GatherWorkspace work(plan.gradient, workspace);
  for_each_cell(plan.cloud, plan.grid, nullptr, context,
                [&](std::int64_t i, std::int64_t cell) { work.voxels[i] = cell; });
  if (plan.gradient.features.mode == VoxelMode::kMean) {
    fill_with_zeros(work.counts, plan.gradient.cells * size_of(DataType::kInt32), context);
    parallel_for(context, plan.cloud.count, kGrainPoints,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i) {
                     if (work.voxels[i] >= 0) add_shared(work.counts[work.voxels[i]], 1);
                   }
                 });
  }
  gather(plan.gradient, work.voxels, work.counts, context);
}

std::size_t voxelize_sparse_backward_workspace_bytes_on_cpu(const GradientPlan& plan) {
  return picks_one(plan.features.mode) ? SortWorkspace(plan.points, nullptr).bytes : 0;
}

void voxelize_sparse_backward_on_cpu(const SparseGradientPlan& plan, void* workspace,
                                     const ExecutionContext& context) {
  if (!picks_one(plan.gradient.features.mode)) {
    return gather(plan.gradient, plan.point_to_voxel, plan.counts, context);
  }
  const SortWorkspace work(plan.gradient.points, workspace);
  const auto limit = static_cast<std::uint64_t>(plan.gradient.cells);
  parallel_for(context, work.count, kGrainPoints, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      // One that is not a voxel, -1 above all, becomes none.
      const auto voxel = static_cast<std::uint64_t>(plan.point_to_voxel[i]);
      work.points[i] = {std::min(voxel, limit), i};
    }
  });
  SortedPoints sorted{};
  const std::int64_t voxels = sort_into_voxels(work, limit, sorted, context);
  scatter_to_winners(plan.gradient, sorted, voxels, context);
}

}  // namespace robocache
