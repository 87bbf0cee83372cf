// The CUDA backend of farthest-point sampling: one kernel takes all samples of all clouds.
//
// One or several blocks sample a cloud. Each thread keeps some points, its slots, in registers,
// with their distance to the nearest sample. Two blocks of 512 threads:
//
//              block 0                    block 1
//   thread     0     1    ...  511        0     1    ...  511
//   slot 0     0     1    ...  511        512   513  ...  1023    numbers of points
//   slot 1     1024  1025 ...  1535       1536  1537 ...  2047
//   ...
//   Points beyond the slots are read again for each sample; their distances are in the workspace.
//
// For each sample, a thread updates its distances and so finds its farthest point; the exchange
// (candidate.cuh) finds the cloud's. The latency of this exchange and the arithmetic of a pass,
// 12 instructions a point, take about as long each for 20,000 points on two blocks.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "core/cuda_error.h"
#include "core/number.h"
#include "core/workspace.h"
#include "points/backends.h"
#include "points/candidate.cuh"

namespace robocache {
namespace cuda {
namespace {

// 16 warps hide the latency of a pass; more would leave fewer registers for points.
constexpr int kSampleThreads = 512;
// Slots whose arithmetic the compiler may interleave; a pass ends after the last such group in use.
constexpr int kSlotGroup = 4;
// The most groups of blocks of a launch; a group samples one cloud after another.
constexpr std::int64_t kMostGroups = 1 << 20;

/// The slots of a thread. `kMany` takes the registers of an SM: 20 points of 4 numbers and 48 more.
template <typename Real>
struct Slots {
  static constexpr int kFew = 8;
  static constexpr int kMany = 20;
};
template <>
struct Slots<double> {
  static constexpr int kFew = 4;
  static constexpr int kMany = 8;
};

template <typename Real>
struct SampleLaunch {
  SamplePlan plan;
  std::int64_t groups;          // of blocks, which sample a cloud each
  int blocks;                   // of a group
  Real* distances;              // [points of all clouds], for points beyond the slots
  Candidate<Real>* candidates;  // [2, groups, blocks] with Across::kGrid
};

template <typename Real>
struct Position {
  Real x[3];

  __device__ __forceinline__ bool is_finite() const {
    return x[0] - x[0] == 0 && x[1] - x[1] == 0 && x[2] - x[2] == 0;
  }
  /// The squared distance, in the order of operations that defines it.
  __device__ __forceinline__ Real distance_to(const Real (&other)[3]) const {
    const Real dx = x[0] - other[0];
    const Real dy = x[1] - other[1];
    const Real dz = x[2] - other[2];
    return dx * dx + dy * dy + dz * dz;
  }
};

__device__ __forceinline__ float smaller(float a, float b) { return fminf(a, b); }
__device__ __forceinline__ double smaller(double a, double b) { return fmin(a, b); }

/// The points of one cloud in memory.
template <typename Real>
struct CloudPoints {
  const RowPlan& rows;
  std::int64_t start;  // of the first point, in elements

  __device__ __forceinline__ Position<Real> operator[](std::int64_t i) const {
    const std::int64_t at = start + i * rows.row_stride;
    Position<Real> point;
    for (int axis = 0; axis < 3; ++axis) {
      point.x[axis] = load_as<Real>(rows.type, rows.data, at + axis * rows.column_stride);
    }
    return point;
  }
};

/// A thread's farthest point so far, of points in ascending order.
template <typename Real>
struct Farthest {
  Real distance = -1;
  std::int64_t index = Candidate<Real>::kNoIndex;

  __device__ __forceinline__ void consider(Real other, std::int64_t i) {
    if (other > distance) {
      distance = other;
      index = i;
    }
  }
};

/// The first candidate of a warp, with its coordinates.
template <typename Real>
__device__ __forceinline__ Candidate<Real> first_of_warp(const Farthest<Real>& of_thread,
                                                         const CloudPoints<Real>& points) {
  const int lane = first_lane<Real>(of_thread.distance, of_thread.index);
  Candidate<Real> first;
  first.distance = __shfl_sync(kAllLanes, of_thread.distance, lane);
  first.index = __shfl_sync(kAllLanes, static_cast<long long>(of_thread.index), lane);
  Position<Real> position{};
  if (first.index != Candidate<Real>::kNoIndex) position = points[first.index];
  for (int axis = 0; axis < 3; ++axis) first.x[axis] = position.x[axis];
  return first;
}

template <typename Real, int kSlots, Across kAcross>
__global__ void __launch_bounds__(kSampleThreads, kSlots == Slots<Real>::kFew ? 2 : 1)
    sample_kernel(const __grid_constant__ SampleLaunch<Real> launch) {
  const SamplePlan& plan = launch.plan;
  const std::int64_t group = blockIdx.x / static_cast<unsigned>(launch.blocks);
  const int rank = static_cast<int>(blockIdx.x % static_cast<unsigned>(launch.blocks));
  const int thread = rank * kSampleThreads + static_cast<int>(threadIdx.x);
  const int threads = launch.blocks * kSampleThreads;
  using CloudExchange = Exchange<Real, kSampleThreads, kAcross>;
  __shared__ typename CloudExchange::Shared shared;
  CloudExchange exchange(shared, rank, launch.blocks, launch.candidates, group * launch.blocks,
                         launch.groups * launch.blocks);

  // With Across::kGrid, whose barrier is for all blocks, every group has one cloud.
  for (std::int64_t b = group; b < plan.cloud.batch; b += launch.groups) {
    const CloudRange range = range_of(plan.cloud, b);
    const CloudPoints<Real> points{plan.cloud.points,
                                   range.count > 0 ? plan.cloud.points.start(range.first) : 0};
    const std::int64_t in_slots = std::int64_t{kSlots} * threads;
    const std::int64_t used = (range.count + threads - 1) / threads;
    const int used_slots = used < kSlots ? static_cast<int>(used) : kSlots;
    Real* const distances = launch.distances + range.first;

    Position<Real> position[kSlots];
    Real distance[kSlots];
    Farthest<Real> farthest;
#pragma unroll
    for (int slot = 0; slot < kSlots; ++slot) {
      const std::int64_t i = std::int64_t{slot} * threads + thread;
      position[slot] = {};
      distance[slot] = -1;
      if (i < range.count) {
        position[slot] = points[i];
        if (position[slot].is_finite()) {
          distance[slot] = static_cast<Real>(INFINITY);
        } else {
          position[slot] = {};
        }
      }
      farthest.consider(distance[slot], i);
    }
    for (std::int64_t i = in_slots + thread; i < range.count; i += threads) {
      distances[i] = points[i].is_finite() ? static_cast<Real>(INFINITY) : Real{-1};
      farthest.consider(distances[i], i);
    }

    for (std::int64_t s = 0;; ++s) {
      Candidate<Real> sample = exchange.first(first_of_warp(farthest, points));
      if (s == 0 && plan.start < range.count) {
        const Position<Real> first = points[plan.start];
        if (first.is_finite()) sample = {0, {first.x[0], first.x[1], first.x[2]}, plan.start};
      }
      if (thread == 0) {
        plan.indices[b * plan.samples + s] =
            sample.distance < 0 ? -1 : index_base(plan.cloud, range) + sample.index;
      }
      if (s + 1 == plan.samples) break;

      Real most = -1;
      int slot_of_most = 0;
#pragma unroll
      for (int first = 0; first < kSlots; first += kSlotGroup) {
        if (first >= used_slots) break;
#pragma unroll
        for (int slot = first; slot < first + kSlotGroup; ++slot) {
          distance[slot] = smaller(distance[slot], position[slot].distance_to(sample.x));
          if (distance[slot] > most) {
            most = distance[slot];
            slot_of_most = slot;
          }
        }
      }
      farthest = {};
      farthest.consider(most, std::int64_t{slot_of_most} * threads + thread);
      for (std::int64_t i = in_slots + thread; i < range.count; i += threads) {
        const Real before = distances[i];
        if (before < 0) continue;
        const Real now = smaller(before, points[i].distance_to(sample.x));
        if (now < before) distances[i] = now;
        farthest.consider(now, i);
      }
    }
  }
}

// ---- launches ----------------------------------------------------------------------------------

constexpr char kWhat[] = "farthest-point sampling";

int attribute(cudaDeviceAttr which) {
  int device = 0;
  int value = 0;
  check_cuda(cudaGetDevice(&device), kWhat);
  check_cuda(cudaDeviceGetAttribute(&value, which, device), kWhat);
  return value;
}

/// A launch, and the attributes that its configuration points to.
struct Configuration {
  cudaLaunchConfig_t config{};
  cudaLaunchAttribute attribute{};

  Configuration(Across across, std::int64_t groups, int blocks, cudaStream_t stream) {
    config.gridDim = dim3(static_cast<unsigned>(groups * blocks));
    config.blockDim = dim3(kSampleThreads);
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = across == Across::kBlock ? 0 : 1;
    if (across == Across::kCluster) {
      attribute.id = cudaLaunchAttributeClusterDimension;
      attribute.val.clusterDim.x = static_cast<unsigned>(blocks);
      attribute.val.clusterDim.y = 1;
      attribute.val.clusterDim.z = 1;
    } else {
      attribute.id = cudaLaunchAttributeCooperative;
      attribute.val.cooperative = 1;
    }
  }
  Configuration(const Configuration&) = delete;
  Configuration& operator=(const Configuration&) = delete;
};

/// The division of clouds among blocks.
template <typename Real>
struct Division {
  static constexpr std::int64_t kBlockPoints = Slots<Real>::kMany * kSampleThreads;

  Across across = Across::kBlock;
  std::int64_t groups;
  int blocks = 1;  // of a group
  bool has_few_points;

  explicit Division(const CloudPlan& cloud) {
    // The sizes of ragged clouds are in device memory: they are taken for equal.
    const std::int64_t points =
        cloud.offsets == nullptr ? cloud.per_cloud : (cloud.count + cloud.batch - 1) / cloud.batch;
    groups = std::min(cloud.batch, kMostGroups);
    has_few_points = points <= Slots<Real>::kFew * kSampleThreads;
    if (points <= kBlockPoints) return;
    // As many blocks as have slots for all points. A cluster exchanges candidates several times
    // faster than a grid, which is for clouds that are few and large.
    const std::int64_t wanted = (points + kBlockPoints - 1) / kBlockPoints;
    const std::int64_t sms = attribute(cudaDevAttrMultiProcessorCount);
    const std::int64_t available = std::min(wanted, sms / std::min(cloud.batch, sms));
    if (available <= kMostClusterBlocks && use_clusters(wanted)) return;
    if (available > 1 && attribute(cudaDevAttrCooperativeLaunch) != 0) {
      across = Across::kGrid;
      blocks = static_cast<int>(available);
      groups = cloud.batch;  // all blocks run at once, one an SM
    }
  }

  /// Divides each cloud among the blocks of a cluster, if this device has clusters.
  bool use_clusters(std::int64_t wanted) {
    if (attribute(cudaDevAttrComputeCapabilityMajor) < 9) return false;
    int cluster = 2;
    while (cluster < wanted && cluster < kMostClusterBlocks) cluster *= 2;
    // A part of a GPU may be too small for a large cluster.
    for (; cluster > 1; cluster /= 2) {
      const Configuration configuration(Across::kCluster, 1, cluster, nullptr);
      int active = 0;
      const cudaError_t status = cudaOccupancyMaxActiveClusters(
          &active, sample_kernel<Real, Slots<Real>::kMany, Across::kCluster>,
          &configuration.config);
      if (status != cudaSuccess) cudaGetLastError();
      if (status == cudaSuccess && active > 0) break;
    }
    if (cluster == 1) return false;
    across = Across::kCluster;
    blocks = cluster;
    return true;
  }

  /// Whether a cloud may have points beyond the slots.
  bool needs_distances(const CloudPlan& cloud) const {
    const std::int64_t most = cloud.offsets == nullptr ? cloud.per_cloud : cloud.count;
    const int slots = has_few_points ? Slots<Real>::kFew : Slots<Real>::kMany;
    return most > std::int64_t{slots} * kSampleThreads * blocks;
  }
};

template <typename Real>
struct SampleWorkspace {
  WorkspaceCutter cutter;
  Division<Real> division;
  Real* distances;
  Candidate<Real>* candidates;

  SampleWorkspace(const CloudPlan& cloud, void* workspace)
      : cutter(workspace, DeviceType::kCuda),
        division(cloud),
        distances(cutter.cut<Real>(division.needs_distances(cloud) ? cloud.count : 0)),
        candidates(cutter.cut<Candidate<Real>>(
            division.across == Across::kGrid ? 2 * division.groups * division.blocks : 0)) {}
};

template <typename Real>
void sample(const SamplePlan& plan, void* workspace, cudaStream_t stream) {
  const SampleWorkspace<Real> work(plan.cloud, workspace);
  const Division<Real>& division = work.division;
  const SampleLaunch<Real> launch{plan, division.groups, division.blocks, work.distances,
                                  work.candidates};
  const Configuration configuration(division.across, division.groups, division.blocks, stream);
  constexpr int kFew = Slots<Real>::kFew;
  constexpr int kMany = Slots<Real>::kMany;
  const auto kernel = division.across == Across::kCluster
                          ? sample_kernel<Real, kMany, Across::kCluster>
                      : division.across == Across::kGrid ? sample_kernel<Real, kMany, Across::kGrid>
                      : division.has_few_points          ? sample_kernel<Real, kFew, Across::kBlock>
                                                : sample_kernel<Real, kMany, Across::kBlock>;
  check_cuda(cudaLaunchKernelEx(&configuration.config, kernel, launch), kWhat);
}

}  // namespace
}  // namespace cuda

std::size_t sample_workspace_bytes_on_cuda(const CloudPlan& cloud) {
  return computes_in_double(cloud) ? cuda::SampleWorkspace<double>(cloud, nullptr).cutter.bytes()
                                   : cuda::SampleWorkspace<float>(cloud, nullptr).cutter.bytes();
}

void sample_farthest_on_cuda(const SamplePlan& plan, void* workspace, CUstream_st* stream) {
  if (computes_in_double(plan.cloud)) {
    cuda::sample<double>(plan, workspace, stream);
  } else {
    cuda::sample<float>(plan, workspace, stream);
  }
}

}  // namespace robocache
