// The CUDA backend, sparse. The first step enqueues, in one stream and without synchronizing:
//
//   bounds   the box around all points               (device memory)
//   keys     the cell of each point in that box
//   sort     points by key; the host does not know the bits of the box's keys, so all 63
//   scan     the number of voxels that begin at or before each place in the order
//   number   each point's voxel, each voxel's first place, each cloud's first voxel
//
//     keys     3  3  7  9  9  limit     sorted; the limit: dropped, or in no cloud
//     begun    1  1  2  3  3  3         voxels that begin at or before each place
//     starts   0     2  3     5         where voxels 0, 1 and 2 begin, and where the last ends
//     voxel    0  0  1  2  2  -1        of the point in each place
//
// The host then synchronizes once, and reads the bounds and the number of voxels.
#include <cuda_runtime.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <cub/device/device_scan.cuh>

#include <cstdint>

#include "core/lower_bound.cuh"
#include "voxel/reduce.cuh"
#include "voxel/voxel_launch.cuh"

namespace robocache {
namespace cuda {
namespace {

/// The results that the device computes for the host.
struct Findings {
  SparseBounds bounds;
  std::int64_t voxels;
  SparseBox box;  // used by the device only
};

constexpr std::uint64_t kHighestKey = INT64_MAX;

/// Whether a voxel begins at a place in the order.
struct BeginsVoxel {
  const std::uint64_t* keys;
  const Findings* findings;

  __device__ std::uint32_t operator()(std::int32_t i) const {
    const std::uint64_t key = keys[i];
    const bool is_first = i == 0 || keys[i - 1] != key;
    return is_first && key != findings->box.limit ? 1 : 0;
  }
};

/// The workspace of both steps.
struct SparseWorkspace {
  WorkspaceCutter cutter;
  std::int64_t count;
  Findings* findings;
  SortedByKey sorted;
  std::uint32_t* begun;   // [count]: voxels that begin at or before a place
  std::uint32_t* starts;  // [count + 1]
  std::size_t scan_bytes = 0;
  void* scan_storage;

  SparseWorkspace(const CloudPlan& cloud, void* workspace)
      : cutter(workspace, DeviceType::kCuda),
        count(cloud.count),
        findings(cutter.cut<Findings>(1)),
        sorted(count, kHighestKey, cutter),
        begun(cutter.cut<std::uint32_t>(count)),
        starts(cutter.cut<std::uint32_t>(count + 1)) {
    check_cuda(scan(nullptr, nullptr), "voxelization, workspace of the scan");
    scan_storage = cutter.cut<char>(static_cast<std::int64_t>(scan_bytes));
  }

  const std::uint64_t* sorted_keys() const {
    return static_cast<const std::uint64_t*>(sorted.sorted_keys);
  }

  /// Fills `begun`; without storage, only sets `scan_bytes`.
  cudaError_t scan(void* storage, cudaStream_t stream) {
    const auto begins = thrust::make_transform_iterator(
        thrust::make_counting_iterator<std::int32_t>(0), BeginsVoxel{sorted_keys(), findings});
    return cub::DeviceScan::InclusiveSum(storage, scan_bytes, begins, begun,
                                         static_cast<std::int32_t>(count), stream);
  }
};

__global__ void __launch_bounds__(kThreads)
    begin_kernel(Findings* findings, std::int64_t* dropped, std::int64_t batch) {
  wait_for_stream();
  const std::int64_t i = thread_index();
  if (i == 0) {
    findings->bounds = SparseBounds::of_nothing();
    findings->voxels = 0;
  }
  if (dropped != nullptr && i < batch) dropped[i] = 0;
}

/// Lowers a shared number atomically; if it is low enough, this costs a read only.
__device__ __forceinline__ void lower(std::int64_t* shared, std::int64_t x) {
  if (x < *static_cast<volatile std::int64_t*>(shared)) {
    atomicMin(reinterpret_cast<long long*>(shared), static_cast<long long>(x));
  }
}
__device__ __forceinline__ void raise(std::int64_t* shared, std::int64_t x) {
  if (x > *static_cast<volatile std::int64_t*>(shared)) {
    atomicMax(reinterpret_cast<long long*>(shared), static_cast<long long>(x));
  }
}

__global__ void __launch_bounds__(kThreads)
    bounds_kernel(const __grid_constant__ CloudPlan cloud,
                  const __grid_constant__ VoxelGeometry geometry, Findings* findings,
                  std::int64_t* dropped) {
  wait_for_stream();
  const std::int64_t i = thread_index();
  SparseCell cell{{0, 0, 0}, SparsePoint::kDropped};
  std::int64_t b = -1;
  if (i < cloud.count) {
    cell = sparse_cell(geometry, load_any_point(cloud.points, i));
    b = cloud.cloud_of(i);
  }
  count_dropped(dropped, cell.kind == SparsePoint::kDropped, b);
  if (cell.kind == SparsePoint::kBeyond && b >= 0) lower(&findings->bounds.first_beyond, i);
  const bool is_in = cell.kind == SparsePoint::kInVoxel && b >= 0;
  __shared__ std::int32_t lowest[3][kThreads / 32];
  __shared__ std::int32_t highest[3][kThreads / 32];
  const unsigned warp = threadIdx.x / 32;
  const unsigned lane = threadIdx.x % 32;
  for (int axis = 0; axis < 3; ++axis) {
    std::int32_t low = is_in ? cell.x[axis] : INT32_MAX;
    std::int32_t high = is_in ? cell.x[axis] : INT32_MIN;
    for (int distance = 16; distance > 0; distance /= 2) {
      low = min(low, __shfl_xor_sync(0xffffffffu, low, distance));
      high = max(high, __shfl_xor_sync(0xffffffffu, high, distance));
    }
    if (lane == 0) {
      lowest[axis][warp] = low;
      highest[axis][warp] = high;
    }
  }
  if (__syncthreads_or(is_in ? 1 : 0) == 0) return;
  if (threadIdx.x < 3) {
    std::int32_t low = lowest[threadIdx.x][0];
    std::int32_t high = highest[threadIdx.x][0];
    for (int w = 1; w < kThreads / 32; ++w) {
      low = min(low, lowest[threadIdx.x][w]);
      high = max(high, highest[threadIdx.x][w]);
    }
    lower(&findings->bounds.lowest[threadIdx.x], low);
    raise(&findings->bounds.highest[threadIdx.x], high);
  }
}

__global__ void __launch_bounds__(kThreads)
    keys_kernel(const __grid_constant__ CloudPlan cloud,
                const __grid_constant__ VoxelGeometry geometry, Findings* findings,
                std::uint64_t* keys, std::uint32_t* points) {
  wait_for_stream();
  const std::int64_t i = thread_index();
  if (i >= cloud.count) return;
  const SparseBox box = SparseBox::around(findings->bounds, cloud.batch);
  if (i == 0) findings->box = box;
  const SparseCell cell = sparse_cell(geometry, load_any_point(cloud.points, i));
  const std::int64_t b = cloud.cloud_of(i);
  const bool is_in = cell.kind == SparsePoint::kInVoxel && b >= 0;
  keys[i] = is_in ? box.key(b, cell.x[0], cell.x[1], cell.x[2]) : box.limit;
  points[i] = static_cast<std::uint32_t>(i);
}

/// The number of voxels that begin before the first key of a cloud other than the first.
__device__ __forceinline__ std::int64_t voxels_before(const std::uint64_t* keys,
                                                      const std::uint32_t* begun,
                                                      std::int64_t count, std::uint64_t first_key) {
  const std::int64_t points = lower_bound(keys, count, first_key);
  return points == 0 ? 0 : begun[points - 1];
}

/// The first threads write offsets, one per cloud and one for the end; each of the others has a
/// place in the order.
__global__ void __launch_bounds__(kThreads)
    number_kernel(const std::uint64_t* keys,    // [P], ascending
                  const std::uint32_t* points,  // [P]: the point in each place
                  const std::uint32_t* begun,   // [P]
                  std::int64_t count, std::int64_t batch, Findings* findings,
                  std::int64_t* offsets,         // [B+1]
                  std::int64_t* point_to_voxel,  // [P]
                  std::uint32_t* starts) {       // [V+1]
  wait_for_stream();
  const std::int64_t b = thread_index();
  if (b <= batch) {
    const std::int64_t voxels = count == 0 ? 0 : begun[count - 1];
    if (b == 0 || voxels == 0) {
      offsets[b] = 0;
    } else if (b == batch) {
      offsets[b] = voxels;
    } else {
      const std::uint64_t first_key = static_cast<std::uint64_t>(b) * findings->box.cells;
      offsets[b] = voxels_before(keys, begun, count, first_key);
    }
    return;
  }
  const std::int64_t i = b - batch - 1;
  if (i >= count) return;
  const std::uint64_t limit = findings->box.limit;
  const bool is_in = keys[i] != limit;
  const std::uint32_t voxel = begun[i] - 1;
  point_to_voxel[points[i]] = is_in ? std::int64_t{voxel} : -1;
  if (is_in && (i == 0 || begun[i - 1] == voxel)) starts[voxel] = static_cast<std::uint32_t>(i);
  if (is_in && (i + 1 == count || keys[i + 1] == limit)) {
    starts[voxel + 1] = static_cast<std::uint32_t>(i + 1);
  }
  if (i + 1 == count) findings->voxels = begun[i];
}

/// Writes a voxel's coordinates and count, and some channels of its features.
template <typename Compute>
__global__ void __launch_bounds__(kThreads)
    write_kernel(const __grid_constant__ SparseWritePlan plan, const std::uint32_t* points,
                 const std::uint32_t* starts) {
  wait_for_stream();
  const std::int64_t voxel = thread_index();
  if (voxel >= plan.voxels) return;
  const std::int64_t begin = starts[voxel];
  const std::int64_t end = starts[voxel + 1];
  if (blockIdx.y == 0) {
    const SparseCell cell =
        sparse_cell(plan.geometry, load_any_point(plan.cloud.points, points[begin]));
    for (int axis = 0; axis < 3; ++axis) plan.coordinates[3 * voxel + axis] = cell.x[axis];
    plan.counts[voxel] = static_cast<std::int32_t>(end - begin);
  }
  const FeatureOutput out{plan.features_out, 0, plan.features.channels};
  for (std::int64_t channel = std::int64_t{blockIdx.y} * kChannelsPerThread;
       channel < plan.features.channels; channel += std::int64_t{gridDim.y} * kChannelsPerThread) {
    reduce_run<Compute>(plan.features, points, begin, end, channel, out, out.start(voxel, 0));
  }
}

}  // namespace
}  // namespace cuda

std::size_t voxelize_sparse_workspace_bytes_on_cuda(const CloudPlan& cloud) {
  return cuda::SparseWorkspace(cloud, nullptr).cutter.bytes();
}

std::int64_t voxelize_sparse_index_on_cuda(const SparsePlan& plan, void* workspace,
                                           CUstream_st* stream) {
  using cuda::blocks_for;
  using cuda::launch;
  const CloudPlan& cloud = plan.cloud;
  cuda::SparseWorkspace work(cloud, workspace);
  const std::int64_t count = cloud.count;
  launch("voxelization, beginning", cuda::begin_kernel, blocks_for(cloud.batch + 1), stream,
         work.findings, plan.dropped, cloud.batch);
  if (count > 0) {
    launch("voxelization, finding the box", cuda::bounds_kernel, blocks_for(count), stream, cloud,
           plan.geometry, work.findings, plan.dropped);
    launch("voxelization, finding keys", cuda::keys_kernel, blocks_for(count), stream, cloud,
           plan.geometry, work.findings, static_cast<std::uint64_t*>(work.sorted.keys),
           work.sorted.points);
    work.sorted.sort(stream);
    check_cuda(work.scan(work.scan_storage, stream), "voxelization, numbering voxels");
  }
  launch("voxelization, assigning points", cuda::number_kernel, blocks_for(cloud.batch + 1 + count),
         stream, work.sorted_keys(), work.sorted.sorted_points, work.begun, count, cloud.batch,
         work.findings, plan.offsets, plan.point_to_voxel, work.starts);
  cuda::Findings findings;
  check_cuda(
      cudaMemcpyAsync(&findings, work.findings, sizeof(findings), cudaMemcpyDeviceToHost, stream),
      "voxelization, reading the number of voxels");
  check_cuda(cudaStreamSynchronize(stream), "voxelization");
  check_bounds(cloud, findings.bounds);
  return findings.voxels;
}

void voxelize_sparse_write_on_cuda(const SparseWritePlan& plan, const void* workspace,
                                   CUstream_st* stream) {
  const cuda::SparseWorkspace work(plan.cloud, const_cast<void*>(workspace));
  const dim3 blocks(cuda::blocks_for(plan.voxels), cuda::channel_blocks(plan.features.channels));
  const auto kernel =
      computes_in_double(plan.features) ? cuda::write_kernel<double> : cuda::write_kernel<float>;
  cuda::launch("voxelization, writing voxels", kernel, blocks, stream, plan,
               work.sorted.sorted_points, work.starts);
}

}  // namespace robocache
