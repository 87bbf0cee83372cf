// The CUDA backend for streams of one linear, previous or nearest run: one launch that searches,
// combines and masks.
//
// A block makes a tile of consecutive targets, in two steps:
//
//   1. locate   thread i searches for target i of the tile, and leaves its rows and weight in shared
//               memory; so each target is searched for once
//   2. combine  an output row is cut into pieces of 16 bytes; a thread keeps to one column of them,
//               and walks down the tile
//
//                           column 0    column 1    column 2      (a row of 3 pieces: 42 rows at a time)
//               target 0    thread 0    thread 1    thread 2
//               target 1    thread 3    thread 4    thread 5
//               ...
//               target 42   thread 0    thread 1    thread 2
//
// Neighbouring targets share a source row, which the L1 cache serves the second time. Everything else
// (layouts, slerp, angle, very large strides) is align_runs_cuda.cu's.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "align/align_cuda.h"
#include "align/combine.h"
#include "align/search_cuda.h"
#include "align/vector_cuda.h"
#include "core/cuda_error.h"
#include "core/number.h"

namespace robocache {
namespace cuda {
namespace {

using NarrowPlan = BasicStreamPlan<std::int32_t>;

// Threads of a block, which is also the most targets in a tile: few enough that a block waits for few
// others' searches, enough that one warp's searches serve four.
constexpr int kThreads = 128;
// Pieces that a thread makes in one go, their loads in flight together, and blocks that an SM holds,
// which sets how many registers a thread may have for them. Measured on an H200, bf16: 4 and 6 are no
// faster where memory is the limit, and slower where the searches are (1 x 1e6 -> 1e6 x 8: 24.8 us
// against 20.9, by `benchmarks/run.py --device cuda --no-peers`, as are the times below).
constexpr int kPiecesAtOnce = 2;
constexpr int kBlocksPerSm = 8;
// Pieces of a row that one block makes; blockIdx.y counts these stretches of wider rows.
constexpr int kMaxRowPieces = kThreads;

// How large a tile grows. A search costs as many instructions as five pieces, so threads are first given
// pieces for one go, while there are four blocks for each SM. Beyond that a larger tile saves searches
// but reads more scattered memory (256 x 1000 -> 1000 x 512: 135 us at 16 pieces, 139 at 32).
constexpr int kEnoughTiles = 512;
constexpr int kManyTiles = 2048;
constexpr int kMaxPiecesPerThread = 16;

/// Division of numbers below 2^31 by a number that all threads share.
/// Source: Granlund and Montgomery, "Division by invariant integers using multiplication", 1994.
class Divisor {
 public:
  explicit Divisor(std::uint32_t divisor) {
    while ((std::uint64_t{1} << shift_) < divisor) ++shift_;
    const std::uint64_t power = std::uint64_t{1} << shift_;
    multiplier_ = static_cast<std::uint32_t>(((power - divisor) << 32) / divisor + 1);
  }

  __device__ std::uint32_t quotient(std::uint32_t number) const {
    return (__umulhi(multiplier_, number) + number) >> shift_;
  }

 private:
  std::uint32_t multiplier_;
  std::uint32_t shift_ = 0;
};

/// How the output is shared out among blocks.
struct Tiling {
  std::int32_t targets;  // over the batch
  std::int32_t tiles;
  std::int32_t targets_per_tile;
  std::int32_t pieces;        // in an output row
  std::int32_t columns;       // of pieces, that a block makes side by side
  std::int32_t rows_at_once;  // targets that a block makes side by side
  Divisor targets_per_batch_row;
  Divisor columns_divisor;

  Tiling(const NarrowPlan& plan, std::int32_t pieces_in_row)
      : targets(plan.batch * plan.targets),
        pieces(pieces_in_row),
        columns(std::clamp(pieces_in_row, 1, kMaxRowPieces)),
        rows_at_once(kThreads / columns),
        targets_per_batch_row(static_cast<std::uint32_t>(plan.targets)),
        columns_divisor(static_cast<std::uint32_t>(columns)) {
    const auto may_grow = [&](int tiles_left, int pieces_per_thread) {
      const int doubled = targets_per_tile * 2;
      return doubled <= kThreads && targets / doubled >= tiles_left &&
             doubled <= rows_at_once * pieces_per_thread;
    };
    targets_per_tile = rows_at_once;
    while (may_grow(kEnoughTiles, kPiecesAtOnce) || may_grow(kManyTiles, kMaxPiecesPerThread)) {
      targets_per_tile *= 2;
    }
    tiles = (targets + targets_per_tile - 1) / targets_per_tile;
  }

  dim3 grid() const {
    return {static_cast<unsigned>(tiles),
            static_cast<unsigned>((pieces + kMaxRowPieces - 1) / kMaxRowPieces), 1};
  }
};

enum class Recipe : std::uint32_t { kZero, kNan, kRow, kPair };

/// A target as step 1 leaves it for step 2: a literal, row a, or rows a and b, the one after it.
template <typename Value, typename Compute>
struct alignas(16) TileTarget {
  const Value* a;
  Compute weight;
  Recipe recipe;
};

/// Step 1, for one target.
template <typename Value, typename Compute>
__device__ TileTarget<Value, Compute> locate_target(const NarrowPlan& plan, const Tiling& tiling,
                                                    std::int32_t target) {
  const std::int32_t b = static_cast<std::int32_t>(
      tiling.targets_per_batch_row.quotient(static_cast<std::uint32_t>(target)));
  const std::int32_t t = target - b * plan.targets;
  const Episode<std::int32_t> episode = episode_of(plan, b);
  const Location<Compute> location = search<Compute>(plan, b, t, episode);
  if (plan.out_valid != nullptr && blockIdx.y == 0) {
    plan.out_valid[offset(b, plan.out_valid_batch_stride) +
                   offset(t, plan.out_valid_target_stride)] = location.valid;
  }
  const MethodRows picked = rows_for(plan.method, location);
  const std::int32_t row = episode.first_row + static_cast<std::int32_t>(location.lo) + picked.step;
  TileTarget<Value, Compute> made;
  made.a = static_cast<const Value*>(plan.values) + offset(b, plan.values_batch_stride) +
           offset(row, plan.values_row_stride);
  made.weight = location.weight;
  made.recipe = location.source == Source::kZero  ? Recipe::kZero
                : location.source == Source::kNan ? Recipe::kNan
                : picked.is_pair                  ? Recipe::kPair
                                                  : Recipe::kRow;
  return made;
}

/// kWidth is 1, with any strides, or the number of elements in 16 bytes of the wider type, with
/// aligned rows whose channels are neighbours.
template <typename Value, typename Out, int kWidth>
__global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    align_kernel(const __grid_constant__ Tiling tiling, const __grid_constant__ NarrowPlan plan) {
  using Compute = typename ComputeOf<Value, Out>::type;
  using Target = TileTarget<Value, Compute>;
  __shared__ Target targets[kThreads];
  const int thread = static_cast<int>(threadIdx.x);
  const int first = static_cast<int>(blockIdx.x) * tiling.targets_per_tile;
  const int count = min(tiling.targets - first, tiling.targets_per_tile);
  if (thread < count) targets[thread] = locate_target<Value, Compute>(plan, tiling, first + thread);
  __syncthreads();

  const int thread_row =
      static_cast<int>(tiling.columns_divisor.quotient(static_cast<std::uint32_t>(thread)));
  const int column =
      static_cast<int>(blockIdx.y) * kMaxRowPieces + thread - thread_row * tiling.columns;
  // What 128 threads leave over, and what the last stretch of a wide row leaves.
  if (thread_row >= tiling.rows_at_once || column >= tiling.pieces) return;
  const int channel = column * kWidth;
  const std::int64_t in_row =
      kWidth == 1 ? offset(channel, plan.values_channel_stride) : std::int64_t{channel};
  const std::int64_t row_stride = plan.values_row_stride;
  const bool is_scaled = plan.subtract != nullptr || plan.multiply != nullptr;

#pragma unroll 1
  for (int top = thread_row; top < count; top += kPiecesAtOnce * tiling.rows_at_once) {
    Target target[kPiecesAtOnce];
    Vector<Value, kWidth> a[kPiecesAtOnce];
    Vector<Value, kWidth> b[kPiecesAtOnce];
#pragma unroll
    for (int i = 0; i < kPiecesAtOnce; ++i) {
      const int row = top + i * tiling.rows_at_once;
      if (row >= count) break;
      target[i] = targets[row];
      const Value* from = target[i].a + in_row;
      if (target[i].recipe >= Recipe::kRow) a[i] = load_vector<Value, kWidth>(from);
      if (target[i].recipe == Recipe::kPair) b[i] = load_vector<Value, kWidth>(from + row_stride);
    }
#pragma unroll
    for (int i = 0; i < kPiecesAtOnce; ++i) {
      const int row = top + i * tiling.rows_at_once;
      if (row >= count) break;
      Compute x[kWidth];
      if (target[i].recipe == Recipe::kPair) {
#pragma unroll
        for (int e = 0; e < kWidth; ++e) {
          x[e] = lerp(Compute(widen(a[i].elements[e])), Compute(widen(b[i].elements[e])),
                      target[i].weight);
        }
        if (is_scaled) scale(plan, channel, x);
      } else if (target[i].recipe == Recipe::kRow) {
#pragma unroll
        for (int e = 0; e < kWidth; ++e) x[e] = Compute(widen(a[i].elements[e]));
        if (is_scaled) scale(plan, channel, x);
      } else {
        const bool is_nan = target[i].recipe == Recipe::kNan;
#pragma unroll
        for (int e = 0; e < kWidth; ++e) x[e] = is_nan ? not_a_number<Compute>() : Compute(0);
      }
      Out* const to =
          static_cast<Out*>(plan.out) + offset(first + row, plan.out_target_stride) + channel;
      store_vector(to, round_vector<Out>(x));
    }
  }
}

bool is_multiple(std::int64_t number, std::int64_t of) { return number % of == 0; }

bool is_aligned(const void* pointer, std::int64_t bytes) {
  return is_multiple(static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(pointer)), bytes);
}

/// Whether every row can be read and written as vectors of `width` elements.
bool fits_vectors(const NarrowPlan& plan, std::int64_t width) {
  return plan.values_channel_stride == 1 && is_multiple(plan.channels, width) &&
         is_multiple(plan.values_row_stride, width) &&
         is_multiple(plan.values_batch_stride, width) &&
         is_multiple(plan.out_target_stride, width) &&
         is_aligned(plan.values, width * size_of(plan.value_type)) &&
         is_aligned(plan.out, width * size_of(plan.out_type));
}

template <typename Value, typename Out, int kWidth>
void launch(const NarrowPlan& plan, cudaStream_t stream) {
  const Tiling tiling(plan, plan.channels / kWidth);
  cudaLaunchConfig_t config{};
  config.gridDim = tiling.grid();
  config.blockDim = kThreads;
  config.stream = stream;
  check_cuda(cudaLaunchKernelEx(&config, align_kernel<Value, Out, kWidth>, tiling, plan),
             "align_kernel");
}

template <typename Value, typename Out>
void launch_aligned_or_not(const NarrowPlan& plan, cudaStream_t stream) {
  constexpr int kWidth = 16 / (sizeof(Value) > sizeof(Out) ? sizeof(Value) : sizeof(Out));
  if (fits_vectors(plan, kWidth)) {
    launch<Value, Out, kWidth>(plan, stream);
  } else {
    launch<Value, Out, 1>(plan, stream);
  }
}

template <typename Value>
void launch_to(const NarrowPlan& plan, cudaStream_t stream) {
  switch (plan.out_type) {
    case DataType::kFloat16:
      return launch_aligned_or_not<Value, Float16>(plan, stream);
    case DataType::kBFloat16:
      return launch_aligned_or_not<Value, BFloat16>(plan, stream);
    case DataType::kFloat32:
      return launch_aligned_or_not<Value, float>(plan, stream);
    case DataType::kFloat64:
      return launch_aligned_or_not<Value, double>(plan, stream);
    default:
      return launch_aligned_or_not<Value, std::uint8_t>(plan, stream);
  }
}

void launch_plain(const NarrowPlan& plan, cudaStream_t stream) {
  switch (plan.value_type) {
    case DataType::kFloat16:
      return launch_to<Float16>(plan, stream);
    case DataType::kBFloat16:
      return launch_to<BFloat16>(plan, stream);
    case DataType::kFloat32:
      return launch_to<float>(plan, stream);
    case DataType::kFloat64:
      return launch_to<double>(plan, stream);
    default:
      return launch_to<std::uint8_t>(plan, stream);
  }
}

/// The plan with narrow sizes and strides. False where one does not fit, with room to double an index
/// in the search, or where the output has gaps between batch rows; `narrow` is then of no use.
bool narrow_plan(const StreamPlan& wide, NarrowPlan& narrow) {
  // As many stretches of a row as blockIdx.y counts, and at least one.
  bool fits = wide.channels > 0 && wide.channels <= std::int64_t{65535} * kMaxRowPieces;
  fits = fits &&
         (wide.batch == 1 || wide.out_batch_stride == offset(wide.targets, wide.out_target_stride));
  const auto take = [&](std::int32_t& to, std::int64_t from) {
    fits = fits && from >= 0 && from < (std::int64_t{1} << 30);
    to = static_cast<std::int32_t>(from);
  };
  take(narrow.batch, wide.batch);
  take(narrow.rows, wide.rows);
  take(narrow.targets, wide.targets);
  take(narrow.channels, wide.channels);
  narrow.values = wide.values;
  take(narrow.values_batch_stride, wide.values_batch_stride);
  take(narrow.values_row_stride, wide.values_row_stride);
  take(narrow.values_channel_stride, wide.values_channel_stride);
  narrow.times = wide.times;
  take(narrow.times_batch_stride, wide.times_batch_stride);
  take(narrow.times_row_stride, wide.times_row_stride);
  narrow.target_times = wide.target_times;
  take(narrow.target_times_batch_stride, wide.target_times_batch_stride);
  take(narrow.target_times_stride, wide.target_times_stride);
  narrow.lengths = wide.lengths;
  take(narrow.lengths_stride, wide.lengths_stride);
  narrow.begins = wide.begins;
  take(narrow.begins_stride, wide.begins_stride);
  narrow.valid = wide.valid;
  take(narrow.valid_batch_stride, wide.valid_batch_stride);
  take(narrow.valid_row_stride, wide.valid_row_stride);
  narrow.subtract = wide.subtract;
  take(narrow.subtract_stride, wide.subtract_stride);
  narrow.multiply = wide.multiply;
  take(narrow.multiply_stride, wide.multiply_stride);
  narrow.out = wide.out;
  narrow.out_batch_stride = 0;  // the output is one array of rows
  take(narrow.out_target_stride, wide.out_target_stride);
  narrow.out_valid = wide.out_valid;
  take(narrow.out_valid_batch_stride, wide.out_valid_batch_stride);
  take(narrow.out_valid_target_stride, wide.out_valid_target_stride);
  narrow.max_gap = wide.max_gap;
  narrow.tolerance = wide.tolerance;
  narrow.time_type = wide.time_type;
  narrow.value_type = wide.value_type;
  narrow.out_type = wide.out_type;
  narrow.lengths_are_int32 = wide.lengths_are_int32;
  narrow.has_max_gap = wide.has_max_gap;
  narrow.outside = wide.outside;
  narrow.method = wide.method;
  narrow.row_kinds = wide.row_kinds;
  std::int32_t targets = 0;
  take(targets, wide.batch * wide.targets);
  return fits;
}

}  // namespace
}  // namespace cuda

void align_on_cuda(const StreamPlan& plan, const RunTable& runs, CUstream_st* stream) {
  const bool is_plain = runs.count == 1 && copies_or_lerps(plan.method);
  cuda::NarrowPlan narrow;
  if (is_plain && cuda::narrow_plan(plan, narrow)) {
    cuda::launch_plain(narrow, stream);
  } else {
    cuda::launch_runs(plan, runs, stream);
  }
}

}  // namespace robocache
