// Reduces a voxel's points on CUDA: their run in the sorted order, and its reduction.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/number.h"
#include "voxel/reduce.h"
#include "voxel/voxel_launch.cuh"

namespace robocache::cuda {

// Channels per thread, and points whose features a thread loads before it adds them: the additions
// of a sum depend on each other, the loads do not.
inline constexpr int kChannelsPerThread = 4;
inline constexpr int kPointsAtOnce = 4;

inline unsigned channel_blocks(std::int64_t channels) {
  constexpr std::int64_t kMost = 65535;  // of gridDim.y; threads loop over further channels
  const std::int64_t blocks = (channels + kChannelsPerThread - 1) / kChannelsPerThread;
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks < kMost ? blocks : kMost);
}

/// The end of the run of equal keys that begins at `begin`: a gallop, then a binary search.
template <typename Key>
__device__ __forceinline__ std::int64_t end_of_run(const Key* keys, std::int64_t begin,
                                                   std::int64_t count) {
  const Key key = keys[begin];
  std::int64_t step = 1;
  std::int64_t inside = begin;  // the last index known to have this key
  while (begin + step < count && keys[begin + step] == key) {
    inside = begin + step;
    step *= 2;
  }
  std::int64_t outside = begin + step < count ? begin + step : count;
  while (outside - inside > 1) {
    const std::int64_t middle = inside + (outside - inside) / 2;
    if (keys[middle] == key) {
      inside = middle;
    } else {
      outside = middle;
    }
  }
  return outside;
}

/// Reduces channels [channel, channel + kChannelsPerThread) of the points sorted[begin, end).
template <typename Compute>
__device__ __forceinline__ void reduce_run(const FeaturePlan& features, const std::uint32_t* sorted,
                                           std::int64_t begin, std::int64_t end,
                                           std::int64_t channel, const FeatureOutput& out,
                                           std::int64_t out_start) {
  const RowPlan& rows = features.rows;
  const std::int64_t rest = features.channels - channel;
  const int width = rest < kChannelsPerThread ? static_cast<int>(rest) : kChannelsPerThread;
  Reduction<Compute> reduced[kChannelsPerThread];
  const auto add = [&](auto points_at_once, std::int64_t i) {
    constexpr int kPoints = decltype(points_at_once)::value;
    Compute x[kPoints][kChannelsPerThread];
#pragma unroll
    for (int k = 0; k < kPoints; ++k) {
      const std::int64_t start = rows.start(sorted[i + k]) + channel * rows.column_stride;
#pragma unroll
      for (int c = 0; c < kChannelsPerThread; ++c) {
        x[k][c] = c < width ? load_as<Compute>(rows.type, rows.data, start + c * rows.column_stride)
                            : Compute(0);
      }
    }
#pragma unroll
    for (int k = 0; k < kPoints; ++k) {
#pragma unroll
      for (int c = 0; c < kChannelsPerThread; ++c) {
        reduced[c].add(features.mode, i + k == begin, x[k][c]);
      }
    }
  };
  std::int64_t i = begin;
  for (; i + kPointsAtOnce <= end; i += kPointsAtOnce) {
    add(std::integral_constant<int, kPointsAtOnce>{}, i);
  }
  for (; i < end; ++i) add(std::integral_constant<int, 1>{}, i);
#pragma unroll
  for (int c = 0; c < kChannelsPerThread; ++c) {
    if (c < width) {
      store_as<Compute>(features.out_type, out.data,
                        out_start + (channel + c) * out.channel_stride(),
                        reduced[c].result(features.mode, end - begin));
    }
  }
}

}  // namespace robocache::cuda
