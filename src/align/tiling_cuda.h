// How the targets and channels of a call are shared out among blocks.
//
// A block makes a tile of targets for a group of streams, in two steps:
//
//   1. locate   a warp searches one stream's times for up to 32 targets, and leaves their rows and
//               weights in shared memory; so each target is searched for once
//   2. combine  an output row is cut into pieces of 16 bytes; a thread keeps to one column of them,
//               and walks down the tile
//
//                           column 0    column 1    column 2      (a row of 3 pieces: 42 rows at a time)
//               target 0    thread 0    thread 1    thread 2
//               target 1    thread 3    thread 4    thread 5
//               ...
//               target 42   thread 0    thread 1    thread 2
//
// Narrow streams share a group, so that one block writes whole rows; a stream wider than a block has
// one to itself, a stretch of its row to a block.
//
// A tile is not a run of neighbours, once it is larger than what a block has in flight, but chunks taken
// in turn with the other tiles of a sweep (about as many as run at once):
//
//   targets     | 0 1 2 3 | 4 5 6 7 | ... |        |        | ...
//   tile of        0         1               0        1           (chunks of 4)
//
// All blocks then read and write the same few megabytes at any moment, which DRAM likes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "align/narrow_plan.h"

namespace robocache::cuda {

// Threads of a block, which is also the most targets in a tile: few enough that a block waits for few
// others' searches, enough that one warp's searches serve four.
constexpr int kThreads = 128;
constexpr int kWarp = 32;
constexpr int kWarps = kThreads / kWarp;
// Pieces that a thread makes in one go, their loads in flight together, and blocks that an SM holds,
// which sets how many registers a thread may have for them.
constexpr int kPiecesAtOnce = 2;
constexpr int kBlocksPerSm = 8;

// How large a tile grows. A search costs as many instructions as five pieces, so threads are first given
// pieces for one go, while there are four blocks for each SM; beyond that, more pieces for each search.
constexpr int kEnoughTiles = 512;
constexpr int kManyTiles = 2048;
constexpr int kMaxPiecesPerThread = 16;
// Tiles of a sweep: about as many blocks as an H200 holds at once.
constexpr int kTilesPerSweep = 1024;
// Streams of a group: each is searched by a warp of its own.
constexpr int kMaxGroupStreams = kWarps;

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
  kVector,  // one linear, previous or nearest run, in vectors of 16 bytes
  kScalar,  // the same, one element at a time
  kRuns,    // any layout, one unit at a time
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

/// Streams that the same blocks make, and how their targets are cut into tiles.
struct Group {
  std::int32_t first_block;
  std::int32_t first_stream, streams;
  std::int32_t stretches;  // of kThreads pieces in a row; more than 1 for a single, wide stream
  std::int32_t targets_per_tile, chunk, tiles_per_sweep;
  Divisor by_stretches, by_chunk, by_sweep;

  Group() = default;
  /// `pieces` is the number of pieces in a row of all the streams.
  Group(int first, int count, std::int32_t pieces, std::int32_t targets)
      : first_block(0), first_stream(first), streams(count) {
    stretches = count > 1 ? 1 : std::max((pieces + kThreads - 1) / kThreads, 1);
    const std::int32_t in_block = std::clamp(pieces, 1, kThreads);
    const std::int32_t most = count > 1 ? kWarp : kThreads;
    const auto may_grow = [&](int tiles_left, int pieces_per_thread) {
      const int doubled = targets_per_tile * 2;
      return doubled <= most && targets / doubled >= tiles_left &&
             doubled * in_block <= kThreads * pieces_per_thread * 5 / 4;  // or near it
    };
    targets_per_tile = std::min(kThreads / in_block, most);
    while (may_grow(kEnoughTiles, kPiecesAtOnce) || may_grow(kManyTiles, kMaxPiecesPerThread)) {
      targets_per_tile *= 2;
    }
    chunk = std::min(targets_per_tile, kThreads * kPiecesAtOnce / in_block);
    while (targets_per_tile % chunk != 0) ++chunk;
    std::int32_t tiles = (targets + targets_per_tile - 1) / targets_per_tile;
    if (chunk < targets_per_tile) {  // all sweeps alike; the last tiles may find nothing to do
      const std::int32_t sweeps = std::max((tiles + kTilesPerSweep / 2) / kTilesPerSweep, 1);
      tiles_per_sweep = (tiles + sweeps - 1) / sweeps;
      tiles = sweeps * tiles_per_sweep;
    } else {
      tiles_per_sweep = tiles;
    }
    blocks_ = tiles * stretches;
    by_stretches = Divisor(static_cast<std::uint32_t>(stretches));
    by_chunk = Divisor(static_cast<std::uint32_t>(chunk));
    by_sweep = Divisor(static_cast<std::uint32_t>(tiles_per_sweep));
  }

  std::int32_t blocks() const { return blocks_; }

 private:
  std::int32_t blocks_;
};

/// Which targets and which stretch of the row a block of a group makes.
struct Tile {
  int stretch;
  int first_target;
  int chunk_stride;  // from one chunk of the tile to its next, in targets

  __device__ Tile(const Group& group, int block) {
    int tile = block;
    stretch = 0;
    if (group.stretches > 1) {
      tile = group.by_stretches.quotient(block);
      stretch = block - tile * group.stretches;
    }
    first_target = tile * group.targets_per_tile;
    chunk_stride = group.chunk;
    if (group.chunk < group.targets_per_tile) {
      const int sweep = group.by_sweep.quotient(tile);
      const int in_sweep = tile - sweep * group.tiles_per_sweep;
      chunk_stride = group.tiles_per_sweep * group.chunk;
      first_target =
          sweep * group.tiles_per_sweep * group.targets_per_tile + in_sweep * group.chunk;
    }
  }

  /// The target in row `row` of the tile, counted over the batch.
  __device__ int target(const Group& group, int row) const {
    if (group.chunk == group.targets_per_tile) return first_target + row;
    const int chunk = group.by_chunk.quotient(row);
    return first_target + chunk * (chunk_stride - group.chunk) + row;
  }
};

}  // namespace robocache::cuda
