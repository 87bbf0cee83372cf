// Copies windows by row whose rows keep their bits, on the GPU: most policies train on these, and
// on images as stored. The rows of a tile are neighbors in the output, which is written in pieces
// of 16 bytes, whatever a row's size. A window inside its episode is contiguous in the source too,
// a run, and is copied as one. Otherwise each piece is read in parts, each from one row:
//
//   output    | piece 0 | piece 1 | piece 2 | piece 3 | ...
//   parts     | 0  | 1  | 2  | 3  | 4  | 5  | 6  | 7  |       (rows of 56 bytes, parts of 8)
//   rows      |              row 0             | row 1 ...
//
// Such a batch is bound by memory latency, since each load depends on the one before it: the state,
// the anchor, the episode, the rows. So a thread issues the loads of several pieces before it
// writes any, and uses so few registers that an SM holds 12 blocks to hide the latency.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "align/tile_dispatch.cuh"
#include "align/tiling.cuh"
#include "align/vector.cuh"
#include "loader/locate.cuh"

namespace robocache::cuda {

constexpr int kCopyBlocksPerSm = 12;
// Pieces of 16 bytes whose loads a thread issues together: of a run, whose addresses are simple,
// and of other copies.
constexpr int kRunPiecesAtOnce = 6;
constexpr int kPartedPiecesAtOnce = 4;
// The most pieces of a wide row that a block copies. A row of more than half as many pieces is
// wide.
constexpr std::int32_t kMostWidePieces = kThreads * kRunPiecesAtOnce;
// For narrower rows: the most bytes that a block copies, and the number of rows above which tiles
// are halved while there are fewer than kEnoughTiles blocks.
constexpr std::int32_t kMostCopiedBytes = 16 << 10;
constexpr std::int32_t kFewRows = 32;

/// The address of a row that step 1 passes to step 2, or one of the markers below.
using CopiedRow = std::uintptr_t;
constexpr CopiedRow kZeros = 0;
constexpr CopiedRow kNothing = 1;  // the row is not written

/// Size of an element in bytes, for the types that are copied.
__device__ inline int copied_size(DataType type) {
  return type == DataType::kUInt8 ? 1 : type == DataType::kFloat64 ? 8 : 4;
}

/// Size of `rows` rows in bytes.
__device__ inline int bytes_of(const NarrowPlan& plan, int rows) {
  return rows * plan.channels * copied_size(plan.value_type);
}

/// The output address of a tile's first row.
__device__ inline std::uint8_t* tile_output(const NarrowPlan& plan, const WindowTile& tile) {
  return static_cast<std::uint8_t*>(plan.out) +
         offset(tile.first_target, plan.out_target_stride) * copied_size(plan.out_type);
}

/// Step 1. Sets `is_of_run` where the row is the episode's row `run_step` rows after the anchor.
__device__ inline CopiedRow locate_copied_row(const NarrowWindow& window,
                                              const WindowSample& sample, const TileTarget& target,
                                              bool writes, std::int64_t run_step, bool& is_of_run) {
  is_of_run = false;
  if (!sample.is_written) return kNothing;
  const LocatedStep<float, std::int32_t> step =
      locate_by_row<float>(window, sample.rows, sample.anchor, target.step_at);
  const Location<float>& location = step.located.location;
  const NarrowPlan& plan = window.align;
  if (writes && plan.out_valid != nullptr) plan.out_valid[target.target] = !location.valid;
  if (writes && plan.out_age != nullptr) {
    static_cast<std::int64_t*>(plan.out_age)[target.target] = step.age;
  }
  if (location.source != Source::kRow) return kZeros;
  is_of_run =
      target.step_at == run_step && location.lo == std::int64_t{sample.anchor.frame} + run_step;
  const std::int64_t first_element =
      sample.rows.values + offset(static_cast<std::int32_t>(location.lo), plan.values_row_stride);
  return reinterpret_cast<CopiedRow>(plan.values) +
         static_cast<CopiedRow>(first_element * copied_size(plan.value_type));
}

/// A piece of 16 bytes, as a whole and as parts of kPartBytes each.
template <int kPartBytes>
union CopiedPiece {
  using Part = typename Word<kPartBytes>::type;
  static constexpr int kParts = 16 / kPartBytes;
  uint4 whole;
  Part parts[kParts];
  __device__ CopiedPiece() {}
};

/// Step 2 of `count` rows, contiguous in the output from `out` on, read in parts.
template <int kPartBytes>
__device__ void copy_rows(const Columns& columns, const CopiedRow* rows, int count,
                          std::uint8_t* out) {
  using Piece = CopiedPiece<kPartBytes>;
  constexpr int kParts = Piece::kParts;
  const int parts = count * columns.pieces;
  const int pieces = (parts + kParts - 1) / kParts;
#pragma unroll 1
  for (int top = static_cast<int>(threadIdx.x); top < pieces;
       top += kPartedPiecesAtOnce * kThreads) {
    Piece made[kPartedPiecesAtOnce];
    unsigned int missing = 0;  // parts that are not written, one bit per part
#pragma unroll
    for (int i = 0; i < kPartedPiecesAtOnce; ++i) {
#pragma unroll
      for (int p = 0; p < kParts; ++p) {
        const int part = (top + i * kThreads) * kParts + p;
        made[i].parts[p] = {};
        const int row = columns.divisor.quotient(part);
        const CopiedRow from = part < parts ? rows[row] : kNothing;
        if (from > kNothing) {
          const int column = part - row * columns.pieces;
          made[i].parts[p] = __ldg(reinterpret_cast<const typename Piece::Part*>(from) + column);
        } else if (from == kNothing) {
          missing |= 1u << (i * kParts + p);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kPartedPiecesAtOnce; ++i) {
      const unsigned int missing_here = missing >> (i * kParts) & ((1u << kParts) - 1);
      uint4* const to = reinterpret_cast<uint4*>(out) + (top + i * kThreads);
      if (missing_here == 0) {
        *to = made[i].whole;
        continue;
      }
      // The tile's end, or rows that other streams write.
#pragma unroll
      for (int p = 0; p < kParts; ++p) {
        if (missing_here >> p & 1) continue;
        reinterpret_cast<typename Piece::Part*>(to)[p] = made[i].parts[p];
      }
    }
  }
}

/// Step 2 of a run: pieces [begin, end), contiguous in the source and in the output. `from` is
/// aligned to a part.
template <int kPartBytes>
__device__ void copy_run(const std::uint8_t* from, int begin, int end, std::uint8_t* out) {
  using Piece = CopiedPiece<kPartBytes>;
  constexpr int kParts = Piece::kParts;
#pragma unroll 1
  for (int top = begin + static_cast<int>(threadIdx.x); top < end;
       top += kRunPiecesAtOnce * kThreads) {
    const auto* const parts = reinterpret_cast<const typename Piece::Part*>(from) + top * kParts;
    auto* const to = reinterpret_cast<uint4*>(out) + top;
    Piece pieces[kRunPiecesAtOnce];
#pragma unroll
    for (int i = 0; i < kRunPiecesAtOnce; ++i) {
      if (top + i * kThreads >= end) continue;
#pragma unroll
      for (int p = 0; p < kParts; ++p)
        pieces[i].parts[p] = __ldg(parts + i * kThreads * kParts + p);
    }
#pragma unroll
    for (int i = 0; i < kRunPiecesAtOnce; ++i) {
      if (top + i * kThreads < end) to[i * kThreads] = pieces[i].whole;
    }
  }
}

/// Copies pieces [begin, end) of a run in the largest parts that `from` is aligned to; writes zeros
/// for kZeros, and returns for kNothing.
__device__ inline void copy_aligned_run(CopiedRow from, int begin, int end, std::uint8_t* out) {
  if (from == kNothing) return;
  if (from == kZeros) {
#pragma unroll 1
    for (int piece = begin + static_cast<int>(threadIdx.x); piece < end; piece += kThreads) {
      reinterpret_cast<uint4*>(out)[piece] = uint4{0, 0, 0, 0};
    }
    return;
  }
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(from);
  if (from % 16 == 0) return copy_run<16>(bytes, begin, end, out);
  if (from % 8 == 0) return copy_run<8>(bytes, begin, end, out);
  copy_run<4>(bytes, begin, end, out);
}

/// The sample of a tile that has exactly one. Most such tiles are a run: consecutive steps whose
/// rows all lie in the episode. Every thread locates the sample by itself, with loads of the same
/// addresses, so that no thread waits for others between the sample and its rows.
struct SingleSample {
  WindowSample found;
  bool is_run;
  std::int64_t first;  // first row of the run, counted from the episode's first

  /// All threads call `when_drawn()` after all of them have read the state.
  template <typename Launch, typename WhenDrawn>
  __device__ SingleSample(const Launch& launch, const WindowTile& tile, const WhenDrawn& when_drawn)
      : found{}, is_run(false), first(0) {
    const NarrowWindow& window = launch.windows[tile.stream];
    const NarrowPlan& plan = window.align;
    Sample sample{-1, {}};
    std::int64_t first_step = 0;
    if (tile.count > 0) {
      sample = draw(launch.draw, tile.first_sample);
      first_step = window.steps[tile.first_step(plan)];
    }
    const bool follows =
        !tile.has_target() || static_cast<std::uint64_t>(tile.target.step_at) ==
                                  static_cast<std::uint64_t>(first_step) + threadIdx.x;
    const bool all_follow = __syncthreads_and(follows && sample.index >= 0);
    when_drawn();
    found = find_rows<true>(window, sample);
    first = saturating_sum(sample.anchor.frame, first_step);
    const bool is_together =
        launch.targets[tile.stream].span > 0 ||
        (plan.values_row_stride == plan.channels && bytes_of(plan, tile.count) % 16 == 0);
    is_run = all_follow && found.is_written && first >= 0 &&
             first <= found.rows.count - tile.count && is_together && plan.out_age == nullptr;
  }

  /// The offset of the run's first element, in elements.
  __device__ std::int64_t element(const NarrowPlan& plan) const {
    return found.rows.values + offset(static_cast<std::int32_t>(first), plan.values_row_stride);
  }

  __device__ void write_mask(const NarrowPlan& plan, const WindowTile& tile) const {
    if (tile.stretch != 0 || !tile.has_target() || plan.out_valid == nullptr) return;
    plan.out_valid[tile.target.target] =
        plan.valid != nullptr && !plan.valid[found.rows.first + first + threadIdx.x];
  }

  template <typename Launch>
  __device__ void copy_run(const Launch& launch, const WindowTile& tile) const {
    const NarrowPlan& plan = launch.windows[tile.stream].align;
    write_mask(plan, tile);
    const CopiedRow from = reinterpret_cast<CopiedRow>(plan.values) +
                           static_cast<CopiedRow>(element(plan) * copied_size(plan.value_type));
    const int span = launch.targets[tile.stream].span;
    const int begin = tile.stretch * span;
    const int end = span > 0 ? min(begin + span, launch.columns[tile.stream].pieces)
                             : bytes_of(plan, tile.count) / 16;
    copy_aligned_run(from, begin, end, tile_output(plan, tile));
  }
};

/// Copies a tile of a copied stream, after its samples are located.
template <typename Launch>
__device__ void make_copied_tile(const Launch& launch, const WindowTile& tile) {
  const NarrowWindow& window = launch.windows[tile.stream];
  const NarrowPlan& plan = window.align;
  const Columns& columns = launch.columns[tile.stream];
  const int span = launch.targets[tile.stream].span;
  auto* const rows = static_cast<CopiedRow*>(tile.made);
  // Each thread checks its row: whether it is of the tile's first sample, lies in the episode, and
  // follows the row before it.
  bool is_run = true;
  if (tile.has_target()) {
    const std::int64_t run_step = window.steps[tile.first_step(plan)] + threadIdx.x;
    rows[threadIdx.x] =
        locate_copied_row(window, tile.sample(), tile.target, tile.stretch == 0, run_step, is_run);
    is_run = is_run && tile.target.sample == 0;
  }
  is_run = __syncthreads_and(is_run);
  if (tile.count <= 0) return;
  std::uint8_t* const out = tile_output(plan, tile);
  const int bytes = bytes_of(plan, tile.count);
  const bool is_together = is_run && plan.values_row_stride == plan.channels && bytes % 16 == 0;
  if (span > 0 || is_together) {
    const int begin = tile.stretch * span;
    const int end = span > 0 ? min(begin + span, columns.pieces) : bytes / 16;
    return copy_aligned_run(rows[0], begin, end, out);
  }
  switch (columns.access) {
    case Access::kVector:
      return copy_rows<16>(columns, rows, tile.count, out);
    case Access::kHalfVector:
      return copy_rows<8>(columns, rows, tile.count, out);
    default:
      return copy_rows<4>(columns, rows, tile.count, out);
  }
}

/// Pieces of a wide row per block, at most `most`, such that its blocks have about equally many.
inline std::int32_t span_of(std::int32_t pieces, std::int32_t most) {
  const std::int32_t stretches = std::max((pieces + most - 1) / most, 1);
  return std::max((pieces + stretches - 1) / stretches, 1);
}

/// Size in bytes of the largest parts in which a copied stream's rows can be read; 0 if the stream
/// is not copied.
inline std::int32_t copied_part_bytes(const NarrowWindow& window) {
  const NarrowPlan& plan = window.align;
  const bool is_copied = window.is_by_row && window.colors == 0 &&
                         plan.value_type == plan.out_type && plan.subtract == nullptr &&
                         plan.multiply == nullptr && plan.out_target_stride == plan.channels &&
                         is_aligned(plan.out, 16);
  // Half types are converted to float and rounded back, which changes the bits of some NaN.
  if (!is_copied || size_of(plan.value_type) == 2) return 0;
  const std::int64_t size = size_of(plan.value_type);
  for (const std::int32_t bytes : {16, 8, 4}) {
    if (plan.channels * size % bytes == 0 && plan.values_row_stride * size % bytes == 0 &&
        is_aligned(plan.values, bytes)) {
      return bytes;
    }
  }
  return 0;
}

/// Cuts rows that are wider than a block copies: each tile is one row, of which a block takes a
/// span, a multiple of `unit` pieces, as `most_pieces` is.
inline Cut cut_wide(const Columns& columns, std::int32_t most_pieces, std::int32_t unit = 1) {
  const std::int32_t span = (span_of(columns.pieces, most_pieces) + unit - 1) / unit * unit;
  return {columns, Tiling::of_neighbors(1, std::max((columns.pieces + span - 1) / span, 1)), span};
}

/// Cuts rows into tiles of whole samples where these fit. A tile's output begins at a multiple of
/// 16 bytes.
inline Cut cut_copied_rows(const NarrowWindow& window, std::int32_t targets) {
  const NarrowPlan& plan = window.align;
  const std::int32_t part_bytes = copied_part_bytes(window);
  const auto row_bytes = static_cast<std::int32_t>(plan.channels * size_of(plan.value_type));
  const std::int32_t pieces = row_bytes / part_bytes;
  Cut cut{};
  cut.columns.pieces = pieces;
  cut.columns.divisor = Divisor(static_cast<std::uint32_t>(std::max(pieces, 1)));
  cut.columns.access = part_bytes == 16  ? Access::kVector
                       : part_bytes == 8 ? Access::kHalfVector
                                         : Access::kScalar;
  if (part_bytes == 16 && pieces > kMostWidePieces / 2) {
    return cut_wide(cut.columns, kMostWidePieces);
  }
  const std::int32_t steps = plan.targets;
  const std::int32_t unit = row_bytes > 0 ? 16 / std::gcd(16, row_bytes) : 1;
  const auto in_units = [unit](std::int32_t rows) { return (rows + unit - 1) / unit * unit; };
  const std::int32_t most =
      row_bytes > 0 ? std::clamp(kMostCopiedBytes / row_bytes, 1, kThreads) : kThreads;
  const std::int32_t tiles_of_sample = (steps + most - 1) / most;
  std::int32_t in_tile = in_units(steps <= most ? most / steps * steps
                                                : (steps + tiles_of_sample - 1) / tiles_of_sample);
  while (in_tile > kFewRows && targets / in_tile < kEnoughTiles) in_tile = in_units(in_tile / 2);
  cut.tiling = Tiling::of_neighbors(in_tile, 1);
  return cut;
}

}  // namespace robocache::cuda
