// The CUDA backend, dense, with features: sorts points by cell, then reduces each cell's run.
#include <cuda_runtime.h>

#include <cstdint>

#include "voxel/gradient.h"
#include "voxel/reduce.cuh"
#include "voxel/voxel_launch.cuh"

namespace robocache {
namespace cuda {
namespace {

// Names in this file: keys [P], a point's cell numbered over all clouds, or the limit for dropped
// points; points [P], their indices; dropped [B], or null. After the sort, points of a cell are
// contiguous, in ascending order.

template <typename Key>
__global__ void __launch_bounds__(kThreads)
    keys_kernel(const __grid_constant__ CloudPlan cloud, const __grid_constant__ GridPlan grid,
                Key limit, Key* keys, std::uint32_t* points, std::int64_t* dropped) {
  wait_for_stream();
  const std::int64_t i = thread_index();
  std::int64_t cell = -1;
  std::int64_t b = -1;
  if (i < cloud.count) {
    cell = dense_cell(grid, load_any_point(cloud.points, i));
    b = cloud.cloud_of(i);
    keys[i] = cell < 0 || b < 0 ? limit : static_cast<Key>(b * grid.cells + cell);
    points[i] = static_cast<std::uint32_t>(i);
  }
  count_dropped(dropped, cell < 0, b);
}

/// The thread at the first point of a run reduces the run.
template <typename Key, typename Compute>
__global__ void __launch_bounds__(kThreads)
    reduce_kernel(const __grid_constant__ FeaturePlan features, const Key* keys,
                  const std::uint32_t* points, std::int64_t count, Key limit, FeatureOutput out) {
  wait_for_stream();
  const std::int64_t i = thread_index();
  if (i >= count) return;
  const Key key = keys[i];
  if (key == limit || (i > 0 && keys[i - 1] == key)) return;
  const std::int64_t end = end_of_run(keys, i, count);
  const std::int64_t out_start = out.start(0, key);
  for (std::int64_t channel = std::int64_t{blockIdx.y} * kChannelsPerThread;
       channel < features.channels; channel += std::int64_t{gridDim.y} * kChannelsPerThread) {
    reduce_run<Compute>(features, points, i, end, channel, out, out_start);
  }
}

/// The thread at the first point of a run writes the gradient to the points that won the voxel.
template <typename Key, typename Compute>
__global__ void __launch_bounds__(kThreads)
    winners_kernel(const __grid_constant__ GradientPlan plan, const Key* keys,
                   const std::uint32_t* points, std::int64_t count, Key limit) {
  wait_for_stream();
  const std::int64_t i = thread_index();
  if (i >= count) return;
  const Key key = keys[i];
  if (key == limit || (i > 0 && keys[i - 1] == key)) return;
  const std::int64_t end = end_of_run(keys, i, count);
  for (std::int64_t c = blockIdx.y; c < plan.features.channels; c += gridDim.y) {
    scatter_gradient_to_winner<Compute>(plan, static_cast<std::int64_t>(key), c, i, end,
                                        [&](std::int64_t at) { return std::int64_t{points[at]}; });
  }
}

/// Writes the cell of each point, numbered over all clouds.
__global__ void __launch_bounds__(kThreads)
    cells_kernel(const __grid_constant__ CloudPlan cloud, const __grid_constant__ GridPlan grid,
                 std::int64_t* cells) {  // [P], -1 where dropped
  wait_for_stream();
  const std::int64_t i = thread_index();
  if (i >= cloud.count) return;
  const std::int64_t cell = dense_cell(grid, load_any_point(cloud.points, i));
  const std::int64_t b = cloud.cloud_of(i);
  cells[i] = cell < 0 || b < 0 ? -1 : b * grid.cells + cell;
}

/// One thread computes one channel of one point.
template <typename Compute>
__global__ void __launch_bounds__(kThreads)
    gather_kernel(const __grid_constant__ GradientPlan plan,
                  const std::int64_t* voxels,    // [P]: the voxel per point, -1 if dropped
                  const std::int32_t* counts) {  // [V]: points per voxel, for the mean
  wait_for_stream();
  const std::int64_t i = thread_index();
  if (i >= plan.points * plan.features.channels) return;
  const std::int64_t point = i / plan.features.channels;
  gather_gradient<Compute>(plan, point, i - point * plan.features.channels, voxels[point], counts);
}

__global__ void __launch_bounds__(kThreads)
    voxel_keys_kernel(const std::int64_t* voxels,  // [P]
                      std::int64_t count, std::uint32_t limit, std::uint32_t* keys,
                      std::uint32_t* points) {
  wait_for_stream();
  const std::int64_t i = thread_index();
  if (i >= count) return;
  const std::int64_t voxel = voxels[i];
  keys[i] = voxel < 0 || voxel >= limit ? limit : static_cast<std::uint32_t>(voxel);
  points[i] = static_cast<std::uint32_t>(i);
}

template <typename Key>
void sort_by_cell(const CloudPlan& cloud, const GridPlan& grid, std::int64_t* dropped,
                  const SortedByKey& sorted, cudaStream_t stream) {
  launch("voxelization, finding cells", keys_kernel<Key>, blocks_for(cloud.count), stream, cloud,
         grid, static_cast<Key>(sorted.limit), static_cast<Key*>(sorted.keys), sorted.points,
         dropped);
  sorted.sort(stream);
}

template <typename Key, typename Compute>
void reduce_as(const DensePlan& plan, const SortedByKey& sorted, cudaStream_t stream) {
  sort_by_cell<Key>(plan.cloud, plan.grid, plan.dropped, sorted, stream);
  const dim3 blocks(blocks_for(plan.cloud.count), channel_blocks(plan.features.channels));
  launch("voxelization, reducing features", reduce_kernel<Key, Compute>, blocks, stream,
         plan.features, static_cast<const Key*>(sorted.sorted_keys), sorted.sorted_points,
         plan.cloud.count, static_cast<Key>(sorted.limit),
         FeatureOutput{plan.out, plan.grid.cells, plan.features.channels});
}

template <typename Key>
void scatter_to_winners(const GradientPlan& plan, const SortedByKey& sorted, cudaStream_t stream) {
  fill_with_zeros(plan.grad_features,
                  plan.points * plan.features.channels * size_of(plan.features.rows.type), nullptr,
                  0, stream);
  const std::int64_t channels = plan.features.channels;
  const dim3 blocks(blocks_for(plan.points),
                    static_cast<unsigned>(channels < 65535 ? channels : 65535));
  const auto kernel =
      computes_in_double(plan.features) ? winners_kernel<Key, double> : winners_kernel<Key, float>;
  launch("voxelization backward, finding winners", kernel, blocks, stream, plan,
         static_cast<const Key*>(sorted.sorted_keys), sorted.sorted_points, plan.points,
         static_cast<Key>(sorted.limit));
}

void gather(const GradientPlan& plan, const std::int64_t* voxels, const std::int32_t* counts,
            cudaStream_t stream) {
  const auto kernel =
      computes_in_double(plan.features) ? gather_kernel<double> : gather_kernel<float>;
  launch("voxelization backward, gathering", kernel,
         blocks_for(plan.points * plan.features.channels), stream, plan, voxels, counts);
}

/// The workspace of a sort of `count` points by cells below `limit`.
struct SortWorkspace {
  WorkspaceCutter cutter;
  SortedByKey sorted;

  SortWorkspace(std::int64_t count, std::int64_t limit, void* workspace)
      : cutter(workspace, DeviceType::kCuda),
        sorted(count, static_cast<std::uint64_t>(limit), cutter) {}
};

/// The workspace of the dense backward pass of mean and sum.
struct GatherWorkspace {
  WorkspaceCutter cutter;
  std::int64_t* voxels;
  std::int32_t* counts;

  GatherWorkspace(const GradientPlan& plan, void* workspace)
      : cutter(workspace, DeviceType::kCuda),
        voxels(cutter.cut<std::int64_t>(plan.points)),
        counts(cutter.cut<std::int32_t>(plan.features.mode == VoxelMode::kMean ? plan.cells : 0)) {}
};

}  // namespace

std::size_t reduce_workspace_bytes(const DensePlan& plan) {
  return SortWorkspace(plan.cloud.count, plan.cloud.batch * plan.grid.cells, nullptr)
      .cutter.bytes();
}

void reduce(const DensePlan& plan, void* workspace, cudaStream_t stream) {
  const std::int64_t cells = plan.cloud.batch * plan.grid.cells;
  fill_with_zeros(plan.out, cells * plan.features.channels * size_of(plan.features.out_type),
                  plan.dropped, plan.cloud.batch, stream);
  if (plan.cloud.count == 0) return;
  const SortWorkspace work(plan.cloud.count, cells, workspace);
  const bool in_double = computes_in_double(plan.features);
  if (work.sorted.is_wide) {
    in_double ? reduce_as<std::uint64_t, double>(plan, work.sorted, stream)
              : reduce_as<std::uint64_t, float>(plan, work.sorted, stream);
  } else {
    in_double ? reduce_as<std::uint32_t, double>(plan, work.sorted, stream)
              : reduce_as<std::uint32_t, float>(plan, work.sorted, stream);
  }
}

}  // namespace cuda

std::size_t voxelize_backward_workspace_bytes_on_cuda(const DenseGradientPlan& plan) {
  const GradientPlan& gradient = plan.gradient;
  return picks_one(gradient.features.mode)
             ? cuda::SortWorkspace(gradient.points, gradient.cells, nullptr).cutter.bytes()
             : cuda::GatherWorkspace(gradient, nullptr).cutter.bytes();
}

void voxelize_backward_on_cuda(const DenseGradientPlan& plan, void* workspace,
                               CUstream_st* stream) {
  const GradientPlan& gradient = plan.gradient;
  if (picks_one(gradient.features.mode)) {
    const cuda::SortWorkspace work(gradient.points, gradient.cells, workspace);
    if (work.sorted.is_wide) {
      cuda::sort_by_cell<std::uint64_t>(plan.cloud, plan.grid, nullptr, work.sorted, stream);
      cuda::scatter_to_winners<std::uint64_t>(gradient, work.sorted, stream);
    } else {
      cuda::sort_by_cell<std::uint32_t>(plan.cloud, plan.grid, nullptr, work.sorted, stream);
      cuda::scatter_to_winners<std::uint32_t>(gradient, work.sorted, stream);
    }
    return;
  }
  const cuda::GatherWorkspace work(gradient, workspace);
  cuda::launch("voxelization backward, finding cells", cuda::cells_kernel,
               cuda::blocks_for(gradient.points), stream, plan.cloud, plan.grid, work.voxels);
  if (gradient.features.mode == VoxelMode::kMean) {
    cuda::fill_with_zeros(work.counts, gradient.cells * size_of(DataType::kInt32), nullptr, 0,
                          stream);
    cuda::count_points(plan.cloud, plan.grid, work.counts, stream);
  }
  cuda::gather(gradient, work.voxels, work.counts, stream);
}

std::size_t voxelize_sparse_backward_workspace_bytes_on_cuda(const GradientPlan& plan) {
  return picks_one(plan.features.mode)
             ? cuda::SortWorkspace(plan.points, plan.cells, nullptr).cutter.bytes()
             : 0;
}

void voxelize_sparse_backward_on_cuda(const SparseGradientPlan& plan, void* workspace,
                                      CUstream_st* stream) {
  const GradientPlan& gradient = plan.gradient;
  if (!picks_one(gradient.features.mode)) {
    return cuda::gather(gradient, plan.point_to_voxel, plan.counts, stream);
  }
  // There are at most as many voxels as points, so 32-bit keys suffice.
  const cuda::SortWorkspace work(gradient.points, gradient.cells, workspace);
  cuda::launch("voxelization backward, taking voxels", cuda::voxel_keys_kernel,
               cuda::blocks_for(gradient.points), stream, plan.point_to_voxel, gradient.points,
               static_cast<std::uint32_t>(gradient.cells),
               static_cast<std::uint32_t*>(work.sorted.keys), work.sorted.points);
  work.sorted.sort(stream);
  cuda::scatter_to_winners<std::uint32_t>(gradient, work.sorted, stream);
}

}  // namespace robocache
