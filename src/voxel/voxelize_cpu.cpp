// The CPU backend, dense: sorts the points by blocks of cells that fit a thread's cache, and
// computes block after block, points in order of their index. So every cell is in the cache when it
// is written, by one thread, and any number of threads computes the same bits.
#include "voxel/voxelize_cpu.h"

#include <cstring>
#include <string>
#include <type_traits>

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
constexpr std::int64_t kCellsLikeAPoint = 16;
constexpr std::int64_t kLineBytes = 64;

void fill_with_zeros(void* memory, std::int64_t bytes, const ExecutionContext& context) {
  parallel_for(context, bytes, kGrainBytes, [&](std::int64_t begin, std::int64_t end) {
    std::memset(static_cast<char*>(memory) + begin, 0, static_cast<std::size_t>(end - begin));
  });
}

/// Writes the cell of each point, numbered over all clouds, or `none`. Counts dropped points.
void find_cells(const CloudPlan& cloud, const GridPlan& grid, std::int64_t none,
                std::int64_t* cells, std::int64_t* dropped, const ExecutionContext& context) {
  parallel_for(context, cloud.count, kGrainPoints, [&](std::int64_t begin, std::int64_t end) {
    for_each_piece(cloud, begin, end, [&](std::int64_t b, std::int64_t first, std::int64_t last) {
      voxel_kernels().dense_cells(cloud, grid, first, last, cells + first);
      const std::int64_t first_cell = b * grid.cells;
      std::int64_t outside = 0;
      for (std::int64_t i = first; i < last; ++i) {
        const bool is_outside = cells[i] < 0;
        outside += is_outside ? 1 : 0;
        cells[i] = is_outside ? none : first_cell + cells[i];
      }
      if (dropped != nullptr && outside > 0) add_shared(dropped[b], outside);
    });
  });
}

/// The workspace of a dense voxelization.
struct BlockWorkspace {
  WorkspaceCutter cutter;
  std::int64_t all_cells;  // of all clouds
  int bits;                // a block has 1 << bits cells, the last one fewer
  std::int64_t blocks;
  std::int64_t* cells;  // [points]
  Keyed<std::uint32_t>* points;
  CountingPass pass;  // the last digit is for points in no cell

  BlockWorkspace(const DensePlan& plan, void* workspace)
      : cutter(workspace, DeviceType::kCpu),
        all_cells(plan.cloud.batch * plan.grid.cells),
        // Several blocks per thread, but none smaller than a cache line.
        bits(std::clamp(bits_of(static_cast<std::uint64_t>(all_cells)) - 6, 4,
                        BlockedPoints::kMaxBits)),
        blocks(((all_cells - 1) >> bits) + 1),
        cells(cutter.cut<std::int64_t>(plan.cloud.count)),
        points(cutter.cut<Keyed<std::uint32_t>>(plan.cloud.count)),
        pass(plan.cloud.count, blocks + 1, cutter) {}
};

BlockedPoints sort_into_blocks(const DensePlan& plan, const BlockWorkspace& work, bool is_zeroed,
                               const ExecutionContext& context) {
  find_cells(plan.cloud, plan.grid, work.blocks << work.bits, work.cells, plan.dropped, context);
  const int bits = work.bits;
  const std::int64_t within = (std::int64_t{1} << bits) - 1;
  const std::int64_t* const cells = work.cells;
  Keyed<std::uint32_t>* const points = work.points;
  work.pass.run(
      context, [=](std::int64_t i) { return cells[i] >> bits; },
      [=](std::int64_t i, std::int64_t place) {
        points[place] = {static_cast<std::uint32_t>(cells[i] & within),
                         static_cast<std::uint32_t>(i)};
      });
  const std::int64_t* const starts = work.pass.starts();
  return {work.all_cells, bits, starts[work.blocks], points, starts, is_zeroed};
}

/// Zeros the cells of the blocks [begin, end) unless they are zero already, and calls `use(cells,
/// first, last, count)` for the blocks that have points: `count` cells, and the points [first,
/// last).
template <typename Cell, typename Use>
void fill_blocks(const BlockedPoints& blocked, void* out, std::int64_t begin, std::int64_t end,
                 const Use& use) {
  for (std::int64_t block = begin; block < end; ++block) {
    Cell* const cells = static_cast<Cell*>(out) + blocked.first_cell(block);
    const std::int64_t count = blocked.end_cell(block) - blocked.first_cell(block);
    const std::int64_t first = blocked.starts[block];
    const std::int64_t last = blocked.starts[block + 1];
    if (!blocked.is_zeroed) std::fill_n(cells, count, Cell{0});
    if (first < last) use(cells, blocked.points + first, blocked.points + last, count);
  }
}

template <typename Bits>
void mark(const DensePlan& plan, const BlockedPoints& blocked, std::int64_t begin,
          std::int64_t end) {
  const auto one = static_cast<Bits>(bits_of_one(plan.features.out_type));
  fill_blocks<Bits>(blocked, plan.out, begin, end,
                    [&](Bits* cells, const auto* first, const auto* last, std::int64_t) {
                      for (const auto* point = first; point < last; ++point) {
                        cells[point->key] = one;
                      }
                    });
}

void mark_occupied(const DensePlan& plan, const BlockedPoints& blocked, std::int64_t begin,
                   std::int64_t end) {
  switch (size_of(plan.features.out_type)) {
    case 1:
      return mark<std::uint8_t>(plan, blocked, begin, end);
    case 2:
      return mark<std::uint16_t>(plan, blocked, begin, end);
    case 4:
      return mark<std::uint32_t>(plan, blocked, begin, end);
    default:
      return mark<std::uint64_t>(plan, blocked, begin, end);
  }
}

/// Counts in integers of the size of Out, in place, and then converts them.
template <typename Integer, typename Out>
void count_as(const DensePlan& plan, const BlockedPoints& blocked, std::int64_t begin,
              std::int64_t end) {
  static_assert(sizeof(Integer) == sizeof(Out));
  fill_blocks<Integer>(
      blocked, plan.out, begin, end,
      [](Integer* cells, const auto* first, const auto* last, [[maybe_unused]] std::int64_t count) {
        for (const auto* point = first; point < last; ++point) {
          ++cells[point->key];
        }
        if constexpr (!std::is_same_v<Integer, Out>) {
          for (std::int64_t i = 0; i < count; ++i) {
            const auto converted = static_cast<Out>(cells[i]);
            std::memcpy(cells + i, &converted, sizeof(Out));
          }
        }
      });
}

void count(const DensePlan& plan, const BlockedPoints& blocked, std::int64_t begin,
           std::int64_t end) {
  switch (plan.features.out_type) {
    case DataType::kInt32:
      return count_as<std::int32_t, std::int32_t>(plan, blocked, begin, end);
    case DataType::kFloat32:
      return count_as<std::int32_t, float>(plan, blocked, begin, end);
    case DataType::kInt64:
      return count_as<std::int64_t, std::int64_t>(plan, blocked, begin, end);
    default:
      return count_as<std::int64_t, double>(plan, blocked, begin, end);
  }
}

}  // namespace

std::size_t voxelize_workspace_bytes_on_cpu(const DensePlan& plan) {
  return BlockWorkspace(plan, nullptr).cutter.bytes();
}

void voxelize_on_cpu(const DensePlan& plan, void* workspace, const ExecutionContext& context) {
  if (plan.dropped != nullptr) std::fill_n(plan.dropped, plan.cloud.batch, 0);
  const BlockWorkspace work(plan, workspace);
  const std::int64_t cell_bytes = size_of(plan.features.out_type);
  const std::int64_t channels = plan.features.channels;
  // If few of the grid's cache lines have points, one large fill is the fastest.
  const bool is_zeroed = plan.cloud.count < work.all_cells * cell_bytes / (2 * kLineBytes);
  if (is_zeroed) fill_with_zeros(plan.out, work.all_cells * channels * cell_bytes, context);
  const BlockedPoints blocked = sort_into_blocks(plan, work, is_zeroed, context);
  const FeatureOutput out{plan.out, plan.grid.cells, channels};
  // Zeroing a cell costs less than a point.
  const std::int64_t points_worth =
      plan.cloud.count + (is_zeroed ? 0 : work.all_cells / kCellsLikeAPoint * channels);
  const std::int64_t grain = work.blocks / (1 + points_worth / kGrainPoints);
  parallel_for(context, work.blocks, std::max<std::int64_t>(1, grain),
               [&](std::int64_t begin, std::int64_t end) {
                 switch (plan.features.mode) {
                   case VoxelMode::kOccupancy:
                     return mark_occupied(plan, blocked, begin, end);
                   case VoxelMode::kCount:
                     return count(plan, blocked, begin, end);
                   default:
                     return voxel_kernels().reduce_blocks(plan.features, blocked, begin, end, out);
                 }
               });
}

namespace {

/// Fills `work` and sorts points by cell. Returns the number of cells that have points.
std::int64_t sort_by_cell(const CloudPlan& cloud, const GridPlan& grid, const SortWorkspace& work,
                          const ExecutionContext& context) {
  const auto limit = static_cast<std::uint64_t>(cloud.batch * grid.cells);
  // An unsigned integer may be accessed as a signed one; no cell exceeds INT64_MAX.
  find_cells(cloud, grid, cloud.batch * grid.cells, reinterpret_cast<std::int64_t*>(work.keys),
             nullptr, context);
  return sort_into_voxels(work, limit, nullptr, context);
}

/// The workspace of the dense backward pass of mean and sum.
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
    const SortWorkspace work(plan.cloud.count, workspace);
    const std::int64_t cells = sort_by_cell(plan.cloud, plan.grid, work, context);
    return scatter_to_winners(plan.gradient, work.sorted(), cells, context);
  }
  const GatherWorkspace work(plan.gradient, workspace);
  find_cells(plan.cloud, plan.grid, -1, work.voxels, nullptr, context);
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
      // Numbers that are no voxel, above all -1, become `limit`.
      const auto voxel = static_cast<std::uint64_t>(plan.point_to_voxel[i]);
      work.keys[i] = std::min(voxel, limit);
    }
  });
  const std::int64_t voxels = sort_into_voxels(work, limit, nullptr, context);
  scatter_to_winners(plan.gradient, work.sorted(), voxels, context);
}

}  // namespace robocache
