// The exchange of candidates for the next sample: between the threads of a warp, the warps of a
// block, and the blocks that sample one cloud.
#pragma once

#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace robocache::cuda {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xffffffffu;
inline constexpr int kMostClusterBlocks = 8;  // that every GPU with clusters can launch

/// How the blocks that sample one cloud exchange their candidates.
enum class Across : std::uint8_t {
  kBlock,    // the cloud has one block
  kCluster,  // through the shared memory of a thread-block cluster (compute capability 9.0)
  kGrid,     // through global memory, in a cooperative launch
};

/// A point that may be the next sample.
template <typename Real>
struct Candidate {
  static constexpr std::int64_t kNoIndex = INT64_MAX;

  Real distance;       // squared, to the nearest sample; -1: no point
  Real x[3];           // undefined without a point
  std::int64_t index;  // within the cloud; kNoIndex without a point
};

/// Whether a candidate precedes another: it is farther, or as far and has the lower index.
template <typename Real>
__device__ __forceinline__ bool precedes(Real distance, std::int64_t index, Real other_distance,
                                         std::int64_t other_index) {
  return distance > other_distance || (distance == other_distance && index < other_index);
}

/// The largest distance in a warp; distances are not negative, or -1.
__device__ __forceinline__ float largest_of_warp(float distance) {
#if __CUDA_ARCH__ >= 800
  // The bits of such numbers are in the order of the numbers.
  return __int_as_float(__reduce_max_sync(kAllLanes, __float_as_int(distance)));
#else
  for (int step = kWarp / 2; step > 0; step /= 2) {
    distance = fmaxf(distance, __shfl_xor_sync(kAllLanes, distance, step));
  }
  return distance;
#endif
}

__device__ __forceinline__ double largest_of_warp(double distance) {
  for (int step = kWarp / 2; step > 0; step /= 2) {
    distance = fmax(distance, __shfl_xor_sync(kAllLanes, distance, step));
  }
  return distance;
}

/// The lane of the warp's first candidate in the order of `precedes`.
template <typename Real>
__device__ __forceinline__ int first_lane(Real distance, std::int64_t index) {
  const bool is_farthest = distance == largest_of_warp(distance);
  const unsigned tied = __ballot_sync(kAllLanes, is_farthest);
  if ((tied & (tied - 1)) == 0) return __ffs(static_cast<int>(tied)) - 1;
  long long lowest = is_farthest ? index : Candidate<Real>::kNoIndex;
  for (int step = kWarp / 2; step > 0; step /= 2) {
    const long long other = __shfl_xor_sync(kAllLanes, lowest, step);
    lowest = other < lowest ? other : lowest;
  }
  const unsigned first = __ballot_sync(kAllLanes, is_farthest && index == lowest);
  return __ffs(static_cast<int>(first)) - 1;
}

/// The first of `count` candidates, at least one, in shared or, `kFromL2`, in global memory that
/// other blocks have written. Every warp reads them all.
template <bool kFromL2, typename Real>
__device__ Candidate<Real> first_of(const Candidate<Real>* candidates, int count) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  Real distance = -1;
  long long index = Candidate<Real>::kNoIndex;
  int at = 0;
  for (int i = lane; i < count; i += kWarp) {
    Real other_distance;
    long long other_index;
    if constexpr (kFromL2) {
      other_distance = __ldcg(&candidates[i].distance);
      other_index = __ldcg(reinterpret_cast<const long long*>(&candidates[i].index));
    } else {
      other_distance = candidates[i].distance;
      other_index = candidates[i].index;
    }
    if (precedes<Real>(other_distance, other_index, distance, index)) {
      distance = other_distance;
      index = other_index;
      at = i;
    }
  }
  at = __shfl_sync(kAllLanes, at, first_lane<Real>(distance, index));
  Candidate<Real> first;
  const Candidate<Real>& found = candidates[at];
  if constexpr (kFromL2) {
    first.distance = __ldcg(&found.distance);
    for (int axis = 0; axis < 3; ++axis) first.x[axis] = __ldcg(&found.x[axis]);
    first.index = __ldcg(reinterpret_cast<const long long*>(&found.index));
  } else {
    first = found;
  }
  return first;
}

/// The exchange between the blocks of a cloud. All threads of these blocks call `first`, equally
/// often; with Across::kGrid those of all blocks of the launch.
///
/// Candidates alternate between two halves of the memory: a block writes a half again only after
/// every block has passed the barrier behind the other half, and so has read this one.
template <typename Real, int kThreadsOfBlock, Across kAcross>
class Exchange {
  static constexpr int kWarps = kThreadsOfBlock / kWarp;
  static constexpr int kCandidates =
      kWarps * (kAcross == Across::kCluster ? kMostClusterBlocks : 1);

 public:
  using Shared = Candidate<Real>[2][kCandidates];

  /// `rank`: of this block among the `blocks` of its cloud. `global`: with Across::kGrid, [2,
  /// stride] candidates of all blocks, of which `global_start` is the first of this cloud's.
  __device__ Exchange(Shared& shared, int rank, int blocks, Candidate<Real>* global,
                      std::int64_t global_start, std::int64_t global_stride)
      : shared_(shared),
        rank_(rank),
        blocks_(blocks),
        global_(global),
        global_start_(global_start),
        global_stride_(global_stride) {
#if __CUDA_ARCH__ >= 900
    // The shared memory of a block may be written once the block has started.
    if constexpr (kAcross == Across::kCluster) cooperative_groups::this_cluster().sync();
#endif
  }

  /// The first candidate of the cloud, given that of each warp, which all its lanes know.
  __device__ Candidate<Real> first(const Candidate<Real>& of_warp) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    half_ ^= 1;
    if constexpr (kAcross == Across::kCluster) {
#if __CUDA_ARCH__ >= 900
      const auto cluster = cooperative_groups::this_cluster();
      Candidate<Real>* const own = &shared_[half_][rank_ * kWarps + warp];
      if (lane < blocks_) *cluster.map_shared_rank(own, static_cast<unsigned>(lane)) = of_warp;
      cluster.sync();
      return first_of<false>(shared_[half_], blocks_ * kWarps);
#endif
    }
    if (lane == 0) shared_[half_][warp] = of_warp;
    __syncthreads();
    Candidate<Real> first = first_of<false>(shared_[half_], kWarps);
    if constexpr (kAcross == Across::kGrid) {
      Candidate<Real>* const half = global_ + half_ * global_stride_ + global_start_;
      if (threadIdx.x == 0) half[rank_] = first;
      cooperative_groups::this_grid().sync();
      first = first_of<true>(half, blocks_);
    }
    return first;
  }

 private:
  Shared& shared_;
  int rank_, blocks_;
  Candidate<Real>* global_;
  std::int64_t global_start_, global_stride_;
  int half_ = 0;
};

}  // namespace robocache::cuda
