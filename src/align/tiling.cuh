// How the targets and channels of a call are shared out among blocks.
//
// A block makes a tile of targets for one stream, in two steps:
//
//   1. locate   each thread searches the stream's times for a target, and stores its rows and
//               weight in shared memory; so each target is searched for once
//   2. combine  an output row is cut into pieces of 16 bytes; a thread keeps to one column of them,
//               and walks down the tile
//
//                           column 0    column 1    column 2    (3 pieces a row: 42 rows at once)
//               target 0    thread 0    thread 1    thread 2
//               target 1    thread 3    thread 4    thread 5
//               ...
//               target 42   thread 0    thread 1    thread 2
//
// A stream wider than a block takes a stretch of its row to a block.
//
// A tile is not a run of neighbors, once it is larger than what a block has in flight, but chunks
// taken in turn with the other tiles of a sweep (about as many as run at once):
//
//   targets     | 0 1 2 3 | 4 5 6 7 | ... |        |        | ...
//   tile of        0         1               0        1           (chunks of 4)
//
// All blocks then read and write the same few megabytes at any moment, which DRAM likes. All
// streams have their share in each sweep, so that blocks that wait for memory run beside others
// that search, and the pieces of an output row are written at about the same time:
//
//   blocks      | sweep 0: stream 0's tiles | stream 1's | ... | sweep 1: stream 0's tiles | ...
#pragma once

#include <algorithm>
#include <cstdint>

#include "align/narrow_plan.h"

namespace robocache::cuda {

// Threads of a block, which is also the most targets in a tile: few enough that a block waits for
// few others' searches, enough that one warp's searches serve four.
constexpr int kThreads = 128;
// Pieces that a thread makes in one go, their loads in flight together, and blocks that an SM
// holds, which sets how many registers a thread may have for them.
constexpr int kPiecesAtOnce = 2;
constexpr int kBlocksPerSm = 8;

// How large a tile grows. A search costs as many instructions as five pieces, so threads are first
// given pieces for one go, while there are four blocks for each SM; beyond that, more pieces for
// each search.
constexpr int kEnoughTiles = 512;
constexpr int kManyTiles = 2048;
constexpr int kMaxPiecesPerThread = 16;
// Pieces that a thread makes before its tile goes on elsewhere: enough that a row which two
// neighboring targets read is seldom fetched by two blocks.
constexpr int kPiecesPerChunk = 2 * kPiecesAtOnce;
// Tiles of a sweep, of the stream that has most: half as many blocks as an H200 holds at once, so
// that those of several streams and sweeps run side by side.
constexpr int kTilesPerSweep = 512;

/// Division of numbers below 2^31 by a number that all threads share.
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

/// How a stream's elements are moved.
enum class Access : std::uint8_t {
  kVector,      // one linear, previous or nearest run, in vectors of 16 bytes
  kScalar,      // the same, one element at a time
  kRuns,        // any layout, one unit at a time
  kHalfVector,  // as kVector, in 8 bytes: for the loader's kernels alone
};

/// How a block cuts up one stream's rows.
struct Columns {
  std::int32_t pieces;        // in a row: vectors, elements or units
  std::int32_t side_by_side;  // of them, in a block
  std::int32_t rows_at_once;  // targets that a block makes side by side
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

/// How a stream's targets are cut into tiles.
struct Tiling {
  std::int32_t first_block;  // of the stream, in a sweep
  std::int32_t stretches;    // of kThreads pieces in a row
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
             doubled * in_block <= kThreads * pieces_per_thread * 5 / 4;  // or near it
    };
    targets_per_tile = kThreads / in_block;
    while (may_grow(kEnoughTiles, kPiecesAtOnce) || may_grow(kManyTiles, kMaxPiecesPerThread)) {
      targets_per_tile *= 2;
    }
    chunk = std::min(targets_per_tile, kThreads * kPiecesPerChunk / in_block);
    while (targets_per_tile % chunk != 0) ++chunk;
    by_chunk = Divisor(static_cast<std::uint32_t>(chunk));
  }

  /// So many neighbors to a tile, each in so many stretches: for the loader.
  static Tiling of_neighbors(std::int32_t targets_per_tile, std::int32_t stretches) {
    Tiling tiling(1, 1);
    tiling.stretches = stretches;
    tiling.by_stretches = Divisor(static_cast<std::uint32_t>(stretches));
    tiling.targets_per_tile = tiling.chunk = targets_per_tile;
    tiling.by_chunk = Divisor(static_cast<std::uint32_t>(targets_per_tile));
    return tiling;
  }

  /// Sweeps that the stream would be made in alone.
  std::int32_t sweeps(std::int32_t targets) const {
    return std::max((tiles(targets) + kTilesPerSweep / 2) / kTilesPerSweep, 1);
  }
  std::int32_t blocks_per_sweep() const { return tiles_per_sweep * stretches; }

  /// Shares the tiles out among sweeps, all alike; the last tiles may find nothing to do.
  void cut(std::int32_t targets, std::int32_t sweeps) {
    tiles_per_sweep = (tiles(targets) + sweeps - 1) / sweeps;
  }

 private:
  std::int32_t tiles(std::int32_t targets) const {
    return (targets + targets_per_tile - 1) / targets_per_tile;
  }
};

/// Which targets and which stretch of the row a block makes of its stream.
struct Tile {
  int stretch;
  int first_target;
  int chunk_stride;  // from one chunk of the tile to its next, in targets

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
