// The CUDA backend: one launch per batch, which draws the samples, locates and aligns their windows
// of every stream, and advances the sampler state. Targets and channels are divided among blocks as
// drawn in align/tiling.cuh, except that a stream's targets are the steps of all samples; the
// samples' metadata are one more stream, whose targets are the samples.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "align/narrow_plan.h"
#include "align/tile_dispatch.cuh"
#include "align/tiling.cuh"
#include "core/early_launch.cuh"
#include "loader/backends.h"
#include "loader/copy.cuh"
#include "loader/image_tile.cuh"
#include "loader/locate.cuh"
#include "loader/relative.cuh"

namespace robocache {
namespace cuda {
namespace {

/// The kernel parameters of a launch, in constant memory, which holds at most 32,764 bytes of
/// parameters. Small launches have small parameters, since every launch copies them.
template <int kWindows_, int kRuns_>
struct BatchLaunch {
  static constexpr int kWindows = kWindows_;
  static constexpr int kStreams = kWindows + 1;  // with the metadata stream, which is the last
  static constexpr int kRuns = kRuns_;
  static constexpr bool kIsRelative = false;

  // In the order in which a kernel reads them: a GPU fetches parameters 64 bytes at a time.
  std::int32_t stream_count;
  std::int32_t blocks_per_sweep;
  Divisor by_sweep;
  std::int32_t size;  // B
  Tiling tilings[kStreams];
  DrawPlan draw;
  WindowTargets targets[kWindows];
  Columns columns[kWindows];
  NarrowWindow windows[kWindows];
  BatchMetadata metadata;
  std::int16_t first_run[kWindows];
  std::int16_t run_count[kWindows];
  NarrowRun runs[kRuns];
};

using SmallBatch = BatchLaunch<6, 24>;
using LargeBatch = BatchLaunch<kMaxStreams, kMaxRunsInAll>;
static_assert(sizeof(SmallBatch) <= 4096 && sizeof(RelativeLaunch<LargeBatch>) <= 32764);

/// Steps 1 and 2 of a tile of a stream that is copied or interpolated, after its samples are
/// located. `combine(plan, columns, made, count)` is step 2.
template <typename Compute, typename Launch, typename Combine>
__device__ void make_plain_tile(const Launch& launch, const WindowTile& tile,
                                const Combine& combine) {
  auto* const made = static_cast<PlainTarget<Compute>*>(tile.made);
  const NarrowWindow& window = launch.windows[tile.stream];
  if (tile.has_target()) {
    made[threadIdx.x] =
        locate_plain_step<Compute>(window, tile.sample(), tile.target, tile.stretch == 0);
  }
  __syncthreads();
  combine(window.align, launch.columns[tile.stream], made, tile.count);
}

/// Steps 1 and 2 of a tile of a stream of any layout, after its samples are located.
template <typename Compute, typename Launch>
__device__ void make_runs_tile(const Launch& launch, const WindowTile& tile) {
  auto* const made = static_cast<RunsTarget<Compute, std::int32_t>*>(tile.made);
  const NarrowWindow& window = launch.windows[tile.stream];
  const Columns& columns = launch.columns[tile.stream];
  const BasicRunTable<std::int32_t> runs{launch.runs + launch.first_run[tile.stream],
                                         launch.run_count[tile.stream], columns.pieces};
  if (tile.has_target()) {
    made[threadIdx.x] =
        locate_runs_step<Compute>(window, runs, tile.sample(), tile.target, tile.stretch == 0);
  }
  __syncthreads();
  combine_runs(window.align, runs, columns, tile.stretch, made, tile.count);
}

/// The default of MakeRun: windows may be by time, and tiles that are runs take the general path.
struct NoRuns {};

/// Computes a block's tile: of a stream, with `make_tile(tile)` after the tile's samples are
/// located, or of the metadata. It also takes part in advancing the sampler state.
/// `make_run(sample, tile)` computes a tile of one sample that is a run, in kernels whose windows
/// are all by row.
///
/// Each sample of a tile is drawn once; the only sample of a tile is drawn by every thread. As soon
/// as a barrier guarantees that all threads of the block have read the state, one thread counts the
/// block among the readers. The block that counts last writes the new state at its end, by when the
/// result of the atomic add has long returned. So no block waits for another.
template <typename Launch, typename MakeTile, typename MakeRun = NoRuns>
__device__ void make_share(const Launch& launch, uint4* shared, const MakeTile& make_tile,
                           const MakeRun& make_run = {}) {
  constexpr bool kIsByRow = !std::is_same_v<MakeRun, NoRuns>;
  const int thread = static_cast<int>(threadIdx.x);
  unsigned int before = ~0u;  // blocks that read the state earlier; a grid has fewer than 2^31
  // Metadata blocks come first: they wait long for little data.
  int block = static_cast<int>(blockIdx.x) + launch.tilings[launch.stream_count - 1].first_block;
  if (block >= static_cast<int>(gridDim.x)) block -= static_cast<int>(gridDim.x);
  make_tile_of_block(launch, block, [&](int stream, const Tile& tile) {
    const bool is_metadata = stream == launch.stream_count - 1;
    WindowTile found(stream, tile, shared);
    const int sample_count = is_metadata ? found.cut_metadata(launch) : found.cut_targets(launch);
    const auto count_this_block = [&] {
      if (thread == kThreads - 1 && launch.draw.state != nullptr) {
        before = count_reader(launch.draw);
      }
    };
    if constexpr (kIsByRow) {
      if (!is_metadata && launch.targets[stream].most_samples == 1) {
        const SingleSample sample(launch, found, count_this_block);
        if (sample.is_run) return make_run(sample, found);
        if (thread == 0) found.samples[0] = sample.found;
        __syncthreads();
        return make_tile(found);
      }
    }
    if (thread < sample_count) {
      const int b = found.first_sample + thread;
      const Sample sample = draw(launch.draw, b);
      if (is_metadata) {
        write_metadata(launch.draw, launch.metadata, sample, b);
      } else {
        found.samples[thread] = find_rows<kIsByRow>(launch.windows[stream], sample);
      }
    }
    __syncthreads();
    count_this_block();
    if (!is_metadata) make_tile(found);
  });
  if (before == gridDim.x - 1) move_on(launch.draw);
}

/// Kernel for batches whose streams are all copied.
template <typename Launch>
__global__ void __launch_bounds__(kThreads, kCopyBlocksPerSm)
    copy_batch_kernel(const __grid_constant__ Launch launch) {
  extern __shared__ uint4 shared[];
  make_share(
      launch, shared, [&](const WindowTile& tile) { make_copied_tile(launch, tile); },
      [&](const SingleSample& sample, const WindowTile& tile) { sample.copy_run(launch, tile); });
}

/// Kernel for batches of copied streams and of images by row that are written channels first.
template <typename Launch>
__global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    image_batch_kernel(const __grid_constant__ Launch launch) {
  extern __shared__ uint4 shared[];
  make_share(
      launch, shared,
      [&](const WindowTile& tile) {
        if (launch.targets[tile.stream].is_copied) return make_copied_tile(launch, tile);
        make_wide_tile<float>(launch, tile);
      },
      [&](const SingleSample& sample, const WindowTile& tile) {
        if (launch.targets[tile.stream].is_copied) return sample.copy_run(launch, tile);
        make_wide_run(launch, sample, tile);
      });
}

/// Step 2 of a stream with float32 values and output.
__device__ __forceinline__ void combine_floats(const NarrowPlan& plan, const Columns& columns,
                                               int stretch, const PlainTarget<float>* made,
                                               int count) {
  switch (columns.access) {
    case Access::kVector:
      return combine_plain<float, float, 4>(plan, columns, stretch, made, count);
    case Access::kHalfVector:
      return combine_plain<float, float, 2>(plan, columns, stretch, made, count);
    default:
      return combine_plain<float, float, 1>(plan, columns, stretch, made, count);
  }
}

// Blocks per SM. A block waits for a chain of dependent loads before it moves any data: more blocks
// hide that latency.
constexpr int kFloatBlocksPerSm = 10;

/// Kernel for batches of copied streams and of float32 streams that are copied or interpolated:
/// most policies train on these.
template <typename Launch>
__global__ void __launch_bounds__(kThreads, kFloatBlocksPerSm)
    float_batch_kernel(const __grid_constant__ Launch launch) {
  extern __shared__ uint4 shared[];
  make_share(launch, shared, [&](const WindowTile& tile) {
    if (launch.targets[tile.stream].is_copied) return make_copied_tile(launch, tile);
    make_plain_tile<float>(
        launch, tile,
        [&](const NarrowPlan& plan, const Columns& columns, const PlainTarget<float>* made,
            int count) { combine_floats(plan, columns, tile.stretch, made, count); });
  });
}

/// Whether kernels are instantiated for a pair of value and output types; streams of other pairs
/// take the layout path, which converts one element at a time. Each pair costs build time.
bool is_common(DataType values, DataType out) {
  if (values == out) return true;
  if (values == DataType::kFloat64) return out == DataType::kFloat32;
  const bool is_cast_from = values == DataType::kFloat32 || values == DataType::kUInt8;
  return is_cast_from &&
         (out == DataType::kFloat32 || out == DataType::kFloat16 || out == DataType::kBFloat16);
}

/// Step 2 of a stream whose values are float32 or uint8, and whose output has another type.
template <typename Value>
__device__ void combine_cast(const NarrowPlan& plan, const Columns& columns, int stretch,
                             const PlainTarget<float>* made, int count) {
  switch (plan.out_type) {
    case DataType::kBFloat16:
      return combine_either_way<Value, BFloat16>(plan, columns, stretch, made, count);
    case DataType::kFloat16:
      return combine_either_way<Value, Float16>(plan, columns, stretch, made, count);
    default:
      if constexpr (sizeof(Value) == 1) {
        combine_either_way<Value, float>(plan, columns, stretch, made, count);
      }
  }
}

/// Step 2 of a stream of common types, overloaded by compute type.
__device__ __forceinline__ void combine_any(const NarrowPlan& plan, const Columns& columns,
                                            int stretch, const PlainTarget<float>* made,
                                            int count) {
  const bool is_cast = plan.value_type != plan.out_type;
  switch (plan.value_type) {
    case DataType::kFloat32:
      return is_cast ? combine_cast<float>(plan, columns, stretch, made, count)
                     : combine_floats(plan, columns, stretch, made, count);
    case DataType::kBFloat16:
      return combine_either_way<BFloat16, BFloat16>(plan, columns, stretch, made, count);
    case DataType::kFloat16:
      return combine_either_way<Float16, Float16>(plan, columns, stretch, made, count);
    default:
      return is_cast ? combine_cast<std::uint8_t>(plan, columns, stretch, made, count)
                     : combine_either_way<std::uint8_t, std::uint8_t>(plan, columns, stretch, made,
                                                                      count);
  }
}
__device__ __forceinline__ void combine_any(const NarrowPlan& plan, const Columns& columns,
                                            int stretch, const PlainTarget<double>* made,
                                            int count) {
  if (plan.out_type == DataType::kFloat64) {
    combine_either_way<double, double>(plan, columns, stretch, made, count);
  } else {
    combine_either_way<double, float>(plan, columns, stretch, made, count);
  }
}

/// Kernel for any streams; those of a `RelativeLaunch` may be relative.
template <typename Launch>
__global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    batch_kernel(const __grid_constant__ Launch launch) {
  extern __shared__ uint4 shared[];
  make_share(launch, shared, [&](const WindowTile& tile) {
    if (launch.targets[tile.stream].is_copied) return make_copied_tile(launch, tile);
    const NarrowPlan& align = launch.windows[tile.stream].align;
    const auto make = [&](auto compute) {
      using Compute = decltype(compute);
      if constexpr (Launch::kIsRelative) {
        if (launch.references[tile.stream] >= 0) return make_relative_tile<Compute>(launch, tile);
      }
      if (launch.targets[tile.stream].span > 0) {
        make_wide_tile<Compute>(launch, tile);
      } else if (launch.columns[tile.stream].access == Access::kRuns) {
        make_runs_tile<Compute>(launch, tile);
      } else {
        make_plain_tile<Compute>(
            launch, tile,
            [&](const NarrowPlan& plan, const Columns& columns, const PlainTarget<Compute>* made,
                int count) { combine_any(plan, columns, tile.stretch, made, count); });
      }
    };
    if (computes_in_double(align.value_type, align.out_type)) {
      make(double{});
    } else {
      make(float{});
    }
  });
}

NarrowWindow narrow_window(const WindowPlan& wide) {
  WindowPlan plan = wide;
  plan.align.rows = 0;  // a stream may have more rows than 32 bits hold; its episodes have not
  NarrowWindow narrow{};
  narrow_plan(plan.align, narrow.align);
  narrow.offsets = wide.offsets;
  narrow.begins = wide.begins;
  narrow.steps = wide.steps;
  narrow.received = wide.received;
  narrow.rows = wide.rows;
  narrow.latency = wide.latency;
  narrow.first_episode = wide.first_episode;
  narrow.episode_count = wide.episode_count;
  narrow.colors = wide.colors;
  narrow.is_by_row = wide.is_by_row;
  narrow.is_causal = wide.is_causal;
  return narrow;
}

Cut cut_rows(const NarrowWindow& window, const RunTable& runs, std::int32_t targets,
             bool is_relative) {
  const NarrowPlan& plan = window.align;
  const auto cut_narrow = [&](const Columns& columns) -> Cut {
    const Tiling tiling(columns.pieces, targets);
    // Whole samples where that changes the tile size little: each sample is then drawn and located
    // once.
    const std::int32_t samples = (tiling.targets_per_tile + plan.targets / 2) / plan.targets;
    const std::int32_t in_tile = samples > 0 && plan.targets <= kThreads
                                     ? std::min(samples, kThreads / plan.targets) * plan.targets
                                     : tiling.targets_per_tile;
    return {columns, Tiling::of_neighbors(in_tile, tiling.stretches), 0};
  };
  if (window.colors > 0) return cut_wide(cut_image(window), kMostPixelPieces, kStagedUnit);
  if (is_relative || !is_common(plan.value_type, plan.out_type)) {
    return cut_narrow({static_cast<std::int32_t>(runs.units), Access::kRuns});
  }
  const Columns columns = columns_of(plan, runs);
  if (columns.access == Access::kScalar && plan.value_type == DataType::kFloat32 &&
      plan.out_type == DataType::kFloat32 && fits_vectors(plan, 2)) {
    return cut_narrow({plan.channels / 2, Access::kHalfVector});
  }
  const bool is_copied = plan.value_type == DataType::kUInt8 && plan.out_type == DataType::kUInt8 &&
                         plan.subtract == nullptr && plan.multiply == nullptr &&
                         plan.method != Method::kLinear;
  const bool is_wide = is_copied && columns.access == Access::kVector && columns.pieces > kThreads;
  return is_wide ? cut_wide(columns, kMostWidePieces) : cut_narrow(columns);
}

/// Shared memory, in bytes, that a block of a stream needs per target.
std::size_t target_bytes(const NarrowPlan& plan, Access access) {
  const bool is_double = computes_in_double(plan.value_type, plan.out_type);
  std::size_t each = is_double ? sizeof(PlainTarget<double>) : sizeof(PlainTarget<float>);
  if (access == Access::kRuns) {
    each = is_double ? sizeof(RunsTarget<double, std::int32_t>)
                     : sizeof(RunsTarget<float, std::int32_t>);
  }
  return each;
}

/// The largest number of samples among `count` neighboring targets of one tile.
std::int32_t most_samples(std::int32_t count, std::int32_t steps) {
  if (count % steps == 0) return count / steps;
  if (steps % count == 0) return 1;
  return std::min((count - 1) / steps + 2, count);
}

/// Whether a stream has any output to write.
bool has_work(const WindowPlan& window) {
  const StreamPlan& align = window.align;
  return align.targets > 0 &&
         (align.channels > 0 || align.out_valid != nullptr || align.out_age != nullptr);
}

template <typename Launch>
void launch_batch(const BatchCall& call, cudaStream_t stream) {
  Launch launch;
  launch.draw = call.draw;
  launch.metadata = call.metadata;
  launch.size = static_cast<std::int32_t>(call.size);
  int count = 0;
  const RunTable* tables[Launch::kStreams];
  const RelativePlan* relatives[Launch::kStreams];
  for (std::int64_t i = 0; i < call.count; ++i) {
    if (!has_work(call.windows[i])) continue;
    const bool is_relative = call.relatives != nullptr && call.relatives[i].is_relative;
    relatives[count] = is_relative ? &call.relatives[i] : nullptr;
    launch.windows[count] = narrow_window(call.windows[i]);
    tables[count++] = &call.runs[i];
  }
  int runs = 0;
  std::int32_t sweeps = 1;
  bool is_all_copied = true;
  bool is_all_copied_or_image = true;
  bool is_all_float = true;
  const auto add_runs = [&](int window, const RunTable& table) {
    launch.first_run[window] = static_cast<std::int16_t>(runs);
    launch.run_count[window] = static_cast<std::int16_t>(table.count);
    for (int run = 0; run < table.count; ++run) {
      launch.runs[runs++] = {static_cast<std::int32_t>(table[run].first_channel),
                             static_cast<std::int32_t>(table[run].first_unit), table[run].method};
    }
  };
  for (int i = 0; i < count; ++i) {
    const NarrowWindow& window = launch.windows[i];
    const std::int32_t targets = launch.size * window.align.targets;
    const bool is_relative = relatives[i] != nullptr;
    const bool is_copied = !is_relative && copied_part_bytes(window) > 0;
    const Cut cut = is_copied ? cut_copied_rows(window, targets)
                              : cut_rows(window, *tables[i], targets, is_relative);
    launch.columns[i] = cut.columns;
    launch.tilings[i] = cut.tiling;
    launch.targets[i] = {targets, Divisor(static_cast<std::uint32_t>(window.align.targets)),
                         cut.span, most_samples(cut.tiling.targets_per_tile, window.align.targets),
                         is_copied};
    is_all_copied = is_all_copied && is_copied;
    const bool is_image = !is_relative && window.is_by_row && window.colors > 0 &&
                          window.align.out_type != DataType::kFloat64;
    is_all_copied_or_image = is_all_copied_or_image && (is_copied || is_image);
    is_all_float = is_all_float && (is_copied || (cut.columns.access != Access::kRuns &&
                                                  window.align.value_type == DataType::kFloat32 &&
                                                  window.align.out_type == DataType::kFloat32));
    sweeps = std::max(sweeps, launch.tilings[i].sweeps(targets));
    add_runs(i, *tables[i]);
  }
  if constexpr (Launch::kIsRelative) {
    int window = count;
    for (int i = 0; i < count; ++i) {
      launch.references[i] = -1;
      if (relatives[i] == nullptr) continue;
      launch.references[i] = static_cast<std::int16_t>(window);
      launch.reference_columns[i] = relatives[i]->columns;
      launch.windows[window] = narrow_window(relatives[i]->reference);
      add_runs(window++, relatives[i]->runs);
    }
  }
  // Copied rows need no search: one sweep, in output order, is fastest.
  if (is_all_copied_or_image) sweeps = 1;
  launch.tilings[count] = Tiling(1, launch.size);
  launch.stream_count = count + 1;

  launch.blocks_per_sweep = 0;
  std::size_t shared = 0;
  for (int i = 0; i <= count; ++i) {
    Tiling& tiling = launch.tilings[i];
    // At least one tile of metadata, which advances the state even for a batch of 0 samples.
    tiling.cut(i < count ? launch.targets[i].count : std::max(launch.size, 1), sweeps);
    tiling.first_block = launch.blocks_per_sweep;
    launch.blocks_per_sweep += tiling.blocks_per_sweep();
    if (i == count) break;
    const NarrowPlan& plan = launch.windows[i].align;
    const std::size_t of_target = launch.targets[i].is_copied
                                      ? sizeof(CopiedRow)
                                      : target_bytes(plan, launch.columns[i].access);
    // A relative stream locates one reference per sample, which takes as much memory as a target.
    const std::size_t of_sample =
        sizeof(WindowSample) + (relatives[i] != nullptr ? of_target : std::size_t{0});
    const std::size_t stage = may_be_staged(launch.windows[i], launch.columns[i]) ? kStageBytes : 0;
    shared = std::max(
        shared, of_target * static_cast<std::size_t>(tiling.targets_per_tile) +
                    of_sample * static_cast<std::size_t>(launch.targets[i].most_samples) + stage);
  }
  launch.by_sweep = Divisor(static_cast<std::uint32_t>(launch.blocks_per_sweep));
  const auto run = [&](void (*kernel)(Launch)) {
    launch_early("a batch", kernel, static_cast<unsigned>(sweeps * launch.blocks_per_sweep),
                 kThreads, shared, stream, launch);
  };
  if constexpr (Launch::kIsRelative) {
    run(batch_kernel<Launch>);
  } else {
    run(is_all_copied            ? copy_batch_kernel<Launch>
        : is_all_copied_or_image ? image_batch_kernel<Launch>
        : is_all_float           ? float_batch_kernel<Launch>
                                 : batch_kernel<Launch>);
  }
}

}  // namespace
}  // namespace cuda

void make_batch_on_cuda(const BatchCall& call, CUstream_st* stream) {
  if (call.size == 0 && call.draw.state == nullptr) return;
  std::int64_t windows = call.count;
  std::int64_t runs = 0;
  for (std::int64_t i = 0; i < call.count; ++i) {
    runs += call.runs[i].count;
    if (call.relatives == nullptr || !call.relatives[i].is_relative) continue;
    ++windows;
    runs += call.relatives[i].runs.count;
  }
  const bool is_small = windows < cuda::SmallBatch::kStreams && runs <= cuda::SmallBatch::kRuns;
  if (call.relatives != nullptr) {
    if (is_small) {
      cuda::launch_batch<cuda::RelativeLaunch<cuda::SmallBatch>>(call, stream);
    } else {
      cuda::launch_batch<cuda::RelativeLaunch<cuda::LargeBatch>>(call, stream);
    }
  } else if (is_small) {
    cuda::launch_batch<cuda::SmallBatch>(call, stream);
  } else {
    cuda::launch_batch<cuda::LargeBatch>(call, stream);
  }
}

}  // namespace robocache
