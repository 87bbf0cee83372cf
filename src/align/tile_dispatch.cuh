// Dispatch of a launch's tiles, which alignment and the loader share: selects the stream and the
// tile of a block, and combines the tile once its targets are located (step 2 of tiling.cuh).
#pragma once

#include <algorithm>
#include <cstdint>

#include "align/layout_tile.cuh"
#include "align/lerp_tile.cuh"
#include "align/plan.h"
#include "align/tiling.cuh"
#include "core/early_launch.cuh"

namespace robocache::cuda {

/// Step 2 of a tile of a stream that needs only copying and interpolating, in vectors or elements.
template <typename Value, typename Out>
__device__ void combine_either_way(const NarrowPlan& plan, const Columns& columns, int stretch,
                                   const void* made, int count) {
  constexpr int kWidth = 16 / (sizeof(Value) > sizeof(Out) ? sizeof(Value) : sizeof(Out));
  const auto* targets = static_cast<const PlainTarget<typename ComputeOf<Value, Out>::type>*>(made);
  if (columns.access == Access::kVector) {
    combine_plain<Value, Out, kWidth>(plan, columns, stretch, targets, count);
  } else {
    combine_plain<Value, Out, 1>(plan, columns, stretch, targets, count);
  }
}

/// Step 2 of a tile of a stream that needs only copying and interpolating, with the stream's value
/// type. Types with another compute type are not compiled.
template <typename Compute, typename Out>
__device__ void combine_stream(const NarrowPlan& plan, const Columns& columns, int stretch,
                               const void* made, int count) {
  if constexpr (sizeof(Compute) == 8) {
    if (plan.value_type == DataType::kFloat64) {
      return combine_either_way<double, Out>(plan, columns, stretch, made, count);
    }
  }
  if constexpr (sizeof(Compute) == 4 || sizeof(Out) == 8) {
    switch (plan.value_type) {
      case DataType::kFloat16:
        return combine_either_way<Float16, Out>(plan, columns, stretch, made, count);
      case DataType::kBFloat16:
        return combine_either_way<BFloat16, Out>(plan, columns, stretch, made, count);
      case DataType::kFloat32:
        return combine_either_way<float, Out>(plan, columns, stretch, made, count);
      default:
        return combine_either_way<std::uint8_t, Out>(plan, columns, stretch, made, count);
    }
  }
}

/// Step 2 of a tile of a stream of any layout.
template <typename Compute>
__device__ void combine_runs(const NarrowPlan& plan, const BasicRunTable<std::int32_t>& runs,
                             const Columns& columns, int stretch,
                             const RunsTarget<Compute, std::int32_t>* made, int count) {
  const int thread = static_cast<int>(threadIdx.x);
  const int thread_row = columns.divisor.quotient(thread);
  const int unit = stretch * kThreads + thread - thread_row * columns.side_by_side;
  if (thread_row >= columns.rows_at_once || unit >= columns.pieces) return;
  const NarrowRun run = runs[run_of_unit(runs, unit)];
  for (int row = thread_row; row < count; row += columns.rows_at_once) {
    if (made[row].out >= 0) make_unit(plan, run, unit, made[row]);
  }
}

/// Calls `make(stream, tile)` with the stream and the tile of block `block`, once the work before
/// this launch is done.
template <typename Launch, typename Make>
__device__ void make_tile_of_block(const Launch& launch, int block, const Make& make) {
  const int sweep = launch.by_sweep.quotient(block);
  block -= sweep * launch.blocks_per_sweep;
  int stream = 0;
  while (Launch::kStreams > 1 && stream + 1 < launch.stream_count &&
         launch.tilings[stream + 1].first_block <= block) {
    ++stream;
  }
  const Tiling& tiling = launch.tilings[stream];
  const Tile tile(tiling, sweep, block - tiling.first_block);
  wait_for_stream();
  make(stream, tile);
}

inline bool is_aligned(const void* pointer, std::int64_t bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % static_cast<std::uintptr_t>(bytes) == 0;
}

/// Whether every row can be read and written as vectors of `width` elements.
inline bool fits_vectors(const NarrowPlan& plan, std::int32_t width) {
  return plan.values_channel_stride == 1 && plan.channels % width == 0 &&
         plan.values_row_stride % width == 0 && plan.values_batch_stride % width == 0 &&
         plan.out_target_stride % width == 0 &&
         is_aligned(plan.values, width * size_of(plan.value_type)) &&
         is_aligned(plan.out, width * size_of(plan.out_type));
}

inline Columns columns_of(const NarrowPlan& plan, const RunTable& runs) {
  if (runs.count > 1 || !copies_or_lerps(plan.method)) {
    return {static_cast<std::int32_t>(runs.units), Access::kRuns};
  }
  const auto width =
      static_cast<std::int32_t>(16 / std::max(size_of(plan.value_type), size_of(plan.out_type)));
  if (fits_vectors(plan, width)) return {plan.channels / width, Access::kVector};
  return {plan.channels, Access::kScalar};
}

}  // namespace robocache::cuda
