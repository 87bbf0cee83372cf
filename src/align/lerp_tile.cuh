// Streams of one linear, previous or nearest run on the GPU. Their values are copied or
// interpolated, in vectors where strides and alignment allow.
#pragma once

#include <cstdint>

#include "align/combine.h"
#include "align/search.cuh"
#include "align/tiling.cuh"
#include "align/vector.cuh"
#include "core/number.h"

namespace robocache::cuda {

enum class Recipe : std::uint32_t { kZero, kNan, kRow, kPair, kNothing };

/// A target between steps 1 and 2: a literal, row a, or row a and the next one, b.
template <typename Compute>
struct alignas(16) PlainTarget {
  std::int64_t a;  // the position of the first element of row a
  Compute weight;
  std::uint32_t tag;

  __device__ Recipe recipe() const { return static_cast<Recipe>(tag & 7); }
  __device__ int target() const { return static_cast<int>(tag >> 3); }
};

/// Step 1: locates target `target` of `targets`, counted over the batch, and writes its mask.
template <typename Compute, bool kIsBare>
__device__ PlainTarget<Compute> locate_plain(const NarrowPlan& plan, const Divisor& by_targets,
                                             int targets, int target, bool writes_mask) {
  if (target >= targets) return {0, Compute(0), static_cast<std::uint32_t>(Recipe::kNothing)};
  const std::int32_t b = by_targets.quotient(target);
  const std::int32_t t = target - b * plan.targets;
  const Episode<std::int32_t> episode = episode_of(plan, b);
  const Location<Compute> location = locate_target<Compute, kIsBare>(plan, b, t, episode);
  if (plan.out_valid != nullptr && writes_mask) {
    plan.out_valid[offset(b, plan.out_valid_batch_stride) +
                   offset(t, plan.out_valid_target_stride)] = location.valid;
  }
  const MethodRows picked = rows_for(plan.method, location);
  const std::int32_t row = episode.first_row + static_cast<std::int32_t>(location.lo) + picked.step;
  const Recipe recipe = location.source == Source::kZero  ? Recipe::kZero
                        : location.source == Source::kNan ? Recipe::kNan
                        : picked.is_pair                  ? Recipe::kPair
                                                          : Recipe::kRow;
  PlainTarget<Compute> made;
  made.a = offset(b, plan.values_batch_stride) + offset(row, plan.values_row_stride);
  made.weight = location.weight;
  made.tag = static_cast<std::uint32_t>(target) << 3 | static_cast<std::uint32_t>(recipe);
  return made;
}

/// The rows of a piece, loaded ahead of their use.
template <typename Value, int kWidth>
struct PieceRows {
  Vector<Value, kWidth> a, b;
};

/// Issues the loads of a piece's rows; `from` is the piece in row a.
template <typename Value, int kWidth, typename Compute>
__device__ void load_rows(const PlainTarget<Compute>& target, const Value* from,
                          std::int64_t row_stride, PieceRows<Value, kWidth>& rows) {
  const Recipe recipe = target.recipe();
  if (recipe == Recipe::kRow || recipe == Recipe::kPair) {
    rows.a = load_vector<Value, kWidth>(from);
  }
  if (recipe == Recipe::kPair) rows.b = load_vector<Value, kWidth>(from + row_stride);
}

/// Computes a piece, the channels from `channel` on, from its rows, and writes it to `out`.
template <typename Value, int kWidth, typename Out, typename Compute>
__device__ void make_piece(const NarrowPlan& plan, bool is_scaled, int channel,
                           const PlainTarget<Compute>& target, const PieceRows<Value, kWidth>& rows,
                           Out* out) {
  const Recipe recipe = target.recipe();
  Compute x[kWidth];
  if (recipe == Recipe::kPair) {
#pragma unroll
    for (int e = 0; e < kWidth; ++e) {
      x[e] = lerp(Compute(widen(rows.a.elements[e])), Compute(widen(rows.b.elements[e])),
                  target.weight);
    }
    if (is_scaled) scale(plan, channel, x);
  } else if (recipe == Recipe::kRow) {
#pragma unroll
    for (int e = 0; e < kWidth; ++e) x[e] = Compute(widen(rows.a.elements[e]));
    if (is_scaled) scale(plan, channel, x);
  } else {
    const bool is_nan = recipe == Recipe::kNan;
#pragma unroll
    for (int e = 0; e < kWidth; ++e) x[e] = is_nan ? not_a_number<Compute>() : Compute(0);
  }
  store_vector(out, round_vector<Out>(x));
}

/// Step 2: computes this thread's pieces of its tile, whose targets are at `made`.
template <typename Value, typename Out, int kWidth>
__device__ void combine_plain(const NarrowPlan& plan, const Columns& columns, int stretch,
                              const PlainTarget<typename ComputeOf<Value, Out>::type>* made,
                              int count) {
  using Compute = typename ComputeOf<Value, Out>::type;
  const int thread = static_cast<int>(threadIdx.x);
  const int thread_row = columns.divisor.quotient(thread);
  const int column = stretch * kThreads + thread - thread_row * columns.side_by_side;
  const int rows_at_once = columns.rows_at_once;
  // Threads past the last whole row of the block, and past the end of a wide row, have no pieces.
  if (thread_row >= rows_at_once || column >= columns.pieces) return;
  const int channel = column * kWidth;
  const Value* const values =
      static_cast<const Value*>(plan.values) +
      (kWidth == 1 ? offset(channel, plan.values_channel_stride) : std::int64_t{channel});
  const std::int64_t row_stride = plan.values_row_stride;
  const bool is_scaled = plan.subtract != nullptr || plan.multiply != nullptr;
  Out* const out = static_cast<Out*>(plan.out) + channel;
  const std::int32_t out_stride = plan.out_target_stride;

#pragma unroll 1
  for (int top = thread_row; top < count; top += kPiecesAtOnce * rows_at_once) {
    PlainTarget<Compute> target[kPiecesAtOnce];
    PieceRows<Value, kWidth> rows[kPiecesAtOnce];
#pragma unroll
    for (int i = 0; i < kPiecesAtOnce; ++i) {
      const int row = top + i * rows_at_once;
      if (row >= count) break;
      target[i] = made[row];
      load_rows(target[i], values + target[i].a, row_stride, rows[i]);
    }
#pragma unroll
    for (int i = 0; i < kPiecesAtOnce; ++i) {
      if (top + i * rows_at_once >= count) break;
      if (target[i].recipe() == Recipe::kNothing) continue;
      make_piece(plan, is_scaled, channel, target[i], rows[i],
                 out + offset(target[i].target(), out_stride));
    }
  }
}

}  // namespace robocache::cuda
