// The division of a call's targets and channels among blocks.
//
// A block computes a tile of targets for one stream, in two steps:
//
//   1. locate   each thread searches the stream's times for a target, and stores its rows and
//               weight in shared memory; so each target is searched for once
//   2. combine  an output row is cut into pieces of 16 bytes; a thread computes one column of them,
//               down the tile
//
//                           column 0    column 1    column 2    (3 pieces a row: 42 rows at once)
//               target 0    thread 0    thread 1    thread 2
//               target 1    thread 3    thread 4    thread 5
//               ...
//               target 42   thread 0    thread 1    thread 2
//
// If a row of a stream is wider than a block, each block computes one stretch of it.
//
// A tile with more targets than a block has in flight is not contiguous. It consists of chunks that
// interleave with those of the other tiles of a sweep (about as many tiles as run at once):
//
//   targets     | 0 1 2 3 | 4 5 6 7 | ... |        |        | ...
//   tile of        0         1               0        1           (chunks of 4)
//
// All blocks then read and write the same few megabytes at any moment, which suits DRAM. Each sweep
// has tiles of all streams, so that blocks that wait for memory run beside blocks that search, and
// the pieces of an output row are written at about the same time:
//
//   blocks      | sweep 0: stream 0's tiles | stream 1's | ... | sweep 1: stream 0's tiles | ...
#pragma once

#include <algorithm>
#include <cstdint>

#include "align/narrow_plan.h"

namespace robocache::cuda {

// Threads of a block, and the most targets of a tile: few enough that threads wait for few searches
// of others, enough that the searches of one warp serve four.
constexpr int kThreads = 128;
// Pieces whose loads a thread has in flight together, and resident blocks of an SM, which limit the
// registers of a thread.
constexpr int kPiecesAtOnce = 2;
constexpr int kBlocksPerSm = 8;

// Limits for the growth of a tile. A search costs as many instructions as five pieces. So tiles
// first grow to kPiecesAtOnce pieces a thread, as long as four blocks for each SM remain; beyond
// that, to more pieces for each search.
constexpr int kEnoughTiles = 512;
constexpr int kManyTiles = 2048;
constexpr int kMaxPiecesPerThread = 16;
// Pieces that a thread computes in a chunk: enough that a row which two neighboring targets read is
// seldom fetched by two blocks.
constexpr int kPiecesPerChunk = 2 * kPiecesAtOnce;
// Tiles in a sweep of the stream that has the most: half as many blocks as an H200 holds at once,
// so that those of several streams and sweeps run concurrently.
constexpr int kTilesPerSweep = 512;

/// A divisor that all threads share, for numbers below 2^31.
/// Source: Granlund and Montgomery, "Division by invariant integers using multiplication", 1994.
class Divisor {
 public:
  Divisor() = default;
  explicit Divisor(std::uint32_t divisor) {
    shift_ = 0;
    while ((std::uint64_t{1} << shift_) < divisor) ++shift_;
    const std::uint64_t power = std::uint64_t{1} << shift_;
    multiplier_ = static_cast<std::uint32_t>(((power - divisor) << 32) / divisor + 1);
  }

  __device__ int quotient(int number) const {
    const auto n = static_cast<std::uint32_t>(number);
    return static_cast<int>((__umulhi(multiplier_, n) + n) >> shift_);
  }

 private:
  std::uint32_t multiplier_;
  std::uint32_t shift_;
};

/// The unit in which a stream's elements are loaded and stored.
enum class Access : std::uint8_t {
  kVector,      // one linear, previous or nearest run, in vectors of 16 bytes
  kScalar,      // one linear, previous or nearest run, one element at a time
  kRuns,        // any layout, one unit at a time
  kHalfVector,  // as kVector, with vectors of 8 bytes; only the loader's kernels use it
};

/// The division of one stream's rows among the threads of a block.
struct Columns {
  std::int32_t pieces;        // pieces of a row: vectors, elements or units
  std::int32_t side_by_side;  // pieces of one row that a block computes at once
  std::int32_t rows_at_once;  // targets that a block computes at once
  Divisor divisor;            // by side_by_side
  Access access;

  Columns() = default;
  Columns(std::int32_t pieces_in_row, Access how)
      : pieces(pieces_in_row),
        side_by_side(std::clamp(pieces_in_row, 1, kThreads)),
        rows_at_once(kThreads / side_by_side),
        divisor(static_cast<std::uint32_t>(side_by_side)),
        access(how) {}
};

/// The division of a stream's targets into tiles.
struct Tiling {
  std::int32_t first_block;  // the stream's first block in a sweep
  std::int32_t stretches;    // stretches of a row, each of kThreads pieces
  std::int32_t targets_per_tile, chunk;
  std::int32_t tiles_per_sweep;
  Divisor by_stretches, by_chunk;

  Tiling() = default;
  Tiling(std::int32_t pieces, std::int32_t targets)
      : first_block(0),
        stretches(std::max((pieces + kThreads - 1) / kThreads, 1)),
        tiles_per_sweep(0),
        by_stretches(static_cast<std::uint32_t>(stretches)) {
    const std::int32_t in_block = std::clamp(pieces, 1, kThreads);
    const auto may_grow = [&](int tiles_left, int pieces_per_thread) {
      const int doubled = targets_per_tile * 2;
      return doubled <= kThreads && targets / doubled >= tiles_left &&
             doubled * in_block <= kThreads * pieces_per_thread * 5 / 4;  // a quarter more is fine
    };
    targets_per_tile = kThreads / in_block;
    while (may_grow(kEnoughTiles, kPiecesAtOnce) || may_grow(kManyTiles, kMaxPiecesPerThread)) {
      targets_per_tile *= 2;
    }
    chunk = std::min(targets_per_tile, kThreads * kPiecesPerChunk / in_block);
    while (targets_per_tile % chunk != 0) ++chunk;
    by_chunk = Divisor(static_cast<std::uint32_t>(chunk));
  }

  /// A tiling with contiguous tiles, for the loader.
  static Tiling of_neighbors(std::int32_t targets_per_tile, std::int32_t stretches) {
    Tiling tiling(1, 1);
    tiling.stretches = stretches;
    tiling.by_stretches = Divisor(static_cast<std::uint32_t>(stretches));
    tiling.targets_per_tile = tiling.chunk = targets_per_tile;
    tiling.by_chunk = Divisor(static_cast<std::uint32_t>(targets_per_tile));
    return tiling;
  }

  /// The number of sweeps of the stream in a launch of its own.
  std::int32_t sweeps(std::int32_t targets) const {
    return std::max((tiles(targets) + kTilesPerSweep / 2) / kTilesPerSweep, 1);
  }
  std::int32_t blocks_per_sweep() const { return tiles_per_sweep * stretches; }

  /// Divides the tiles equally among sweeps; the last tiles may be empty.
  void cut(std::int32_t targets, std::int32_t sweeps) {
    tiles_per_sweep = (tiles(targets) + sweeps - 1) / sweeps;
  }

 private:
  std::int32_t tiles(std::int32_t targets) const {
    return (targets + targets_per_tile - 1) / targets_per_tile;
  }
};

/// The targets and the stretch of the row that a block computes.
struct Tile {
  int stretch;
  int first_target;
  int chunk_stride;  // from one chunk of the tile to the next, in targets

  __device__ Tile(const Tiling& tiling, int sweep, int block) {
    int tile = block;
    stretch = 0;
    if (tiling.stretches > 1) {
      tile = tiling.by_stretches.quotient(block);
      stretch = block - tile * tiling.stretches;
    }
    chunk_stride = tiling.tiles_per_sweep * tiling.chunk;
    first_target = sweep * tiling.tiles_per_sweep * tiling.targets_per_tile + tile * tiling.chunk;
  }

  /// The target in row `row` of the tile, counted over the batch.
  __device__ int target(const Tiling& tiling, int row) const {
    if (tiling.chunk == tiling.targets_per_tile) return first_target + row;
    const int chunk = tiling.by_chunk.quotient(row);
    return first_target + chunk * (chunk_stride - tiling.chunk) + row;
  }
};

}  // namespace robocache::cuda
