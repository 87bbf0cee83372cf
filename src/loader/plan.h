// A validated batch in the form that the backends run on: plain data, copied into a CUDA kernel's
// parameters as is. `prepare.cpp` builds it; no later code checks a shape again.
#pragma once

#include <cstdint>

#include "align/plan.h"
#include "loader/mixture.h"
#include "loader/permutation.h"
#include "robocache/loader.h"

namespace robocache {

/// The parameters by which a batch's samples are drawn.
struct DrawPlan {
  const std::int64_t* indices;  // [B]; null: the state draws the samples
  std::int64_t* state;          // [kBatchStateSize]
  const std::int64_t* anchors;  // [A,2]
  Permutation permutation;      // of [0, A)
  bool is_shuffled, drops_last;
  std::int64_t rank, ranks, batch_size;
  std::int64_t samples;  // per epoch: A, fewer of them, or a mixture's number
  Mixture mixture;
  const std::int64_t* episodes;  // [E,4]
  std::int64_t episode_count;
};

/// One stream's windows. `align` has the values, how rows combine, and the output: its batch is the
/// samples, its targets the steps, and its mask is written inverted, as padding. It counts rows
/// from the stream's first, not from the episode's.
template <typename Index>
struct BasicWindowPlan {
  BasicStreamPlan<Index> align;
  const std::int64_t* offsets;   // [episode_count+1]
  const std::int64_t* begins;    // [episode_count], elements of the values; may be null
  const std::int64_t* steps;     // [K]
  const std::int64_t* received;  // [N]; may be null
  std::int64_t rows;             // N
  std::int64_t latency;
  std::int32_t first_episode, episode_count;  // the range of episodes that the stream covers
  std::int32_t colors;  // channels of images that are written channels first; else 0. If positive,
                        // subtract and multiply of `align` are [colors] float64
  bool is_by_row, is_causal;
};

struct WindowPlan : BasicWindowPlan<std::int64_t> {
  // [N]: the slot of each row's values, which are `slot` row strides after the first values of the
  // episode; null: values are in the order of the rows. The LiveAligner's windows have slots, so
  // that inserting a late row moves no values. Only the CPU backend reads them.
  const std::int32_t* slots = nullptr;
};

/// The reference of a relative window: another stream of the plan, at the anchor.
struct RelativePlan {
  bool is_relative;  // if false, the other fields are unused
  // One target, without scale or age. `align.out_valid` is null where no mask is computed; its
  // address is not used.
  WindowPlan reference;
  RunTable runs;                // the reference's
  const std::int32_t* columns;  // [D]: the reference channel per window channel; out of range: not
                                // relative
};

/// An episode has at most this number of rows, on every backend.
inline constexpr std::int64_t kMaxEpisodeRows = (std::int64_t{1} << 30) - 1;

}  // namespace robocache
