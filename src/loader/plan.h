// A checked batch, in the form the backends run on: plain data, copied into a CUDA kernel's
// parameters as it is. `prepare.cpp` makes it; nothing after it checks a shape again.
#pragma once

#include <cstdint>

#include "align/plan.h"
#include "loader/mixture.h"
#include "loader/permutation.h"
#include "robocache/loader.h"

namespace robocache {

/// How a batch's samples are drawn.
struct DrawPlan {
  const std::int64_t* indices;  // [B]; null: by the state
  std::int64_t* state;          // [kBatchStateSize]
  const std::int64_t* anchors;  // [A,2]
  Permutation permutation;      // of A numbers
  bool is_shuffled, drops_last;
  std::int64_t rank, ranks, batch_size;
  std::int64_t samples;  // of an epoch: A, fewer of them, or what a mixture says
  Mixture mixture;
  const std::int64_t* episodes;  // [E,4]
  std::int64_t episode_count;
};

/// One stream's windows. `align` has the values, how rows combine, and where windows are written:
/// its batch is the samples, its targets the steps, and its mask is written as padding, the other
/// way round. It knows rows by their number in the stream, not in an episode.
template <typename Index>
struct BasicWindowPlan {
  BasicStreamPlan<Index> align;
  const std::int64_t* offsets;   // [episode_count+1]
  const std::int64_t* begins;    // [episode_count], elements of the values; may be null
  const std::int64_t* steps;     // [K]
  const std::int64_t* received;  // [N]; may be null
  std::int64_t rows;             // N
  std::int64_t latency;
  std::int32_t first_episode, episode_count;  // which it is of
  std::int32_t colors;  // of images that are written colors first; else 0. Subtract and
                        // multiply of `align` are [colors] float64 then
  bool is_by_row, is_causal;
};

using WindowPlan = BasicWindowPlan<std::int64_t>;

/// What a window is made relative to: another stream of the plan, at the anchor.
struct RelativePlan {
  bool is_relative;  // else nothing here is looked at
  // The reference: one target, without scale or age. `align.out_valid` says whether its mask is
  // wanted, as it does to `align`, and not where it goes.
  WindowPlan reference;
  RunTable runs;                // the reference's
  const std::int32_t* columns;  // [D]: its channel for each of the window's; others are none
};

/// The rows of an episode are counted by numbers below this, on every backend.
inline constexpr std::int64_t kMaxEpisodeRows = (std::int64_t{1} << 30) - 1;

}  // namespace robocache
