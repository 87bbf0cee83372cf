// Where the steps of samples' windows stand, on the GPU: step 1 of a block's work (see
// align/tiling_cuda.h), a thread to each target, and the state that a drawing moves on.
#pragma once

#include <cstdint>

#include "align/plain_cuda.h"
#include "align/runs_cuda.h"
#include "align/search_cuda.h"
#include "align/tiling_cuda.h"
#include "loader/anchor.h"
#include "loader/draw_state.h"
#include "loader/windows.h"

namespace robocache::cuda {

using NarrowWindow = BasicWindowPlan<std::int32_t>;

/// The targets of a stream, and cutting one into its sample and its step.
struct WindowTargets {
  std::int32_t count;  // B * K
  Divisor by_steps;
  std::int32_t span;  // of wide rows: pieces for a block; else 0
};

__device__ inline Bracket<std::int64_t, std::int32_t> find_row(const RowTimes<std::int32_t>& times,
                                                               std::int64_t t) {
  return find_bracket_between(times, t, times[0], times[times.count - 1]);
}

/// Locates target `target`, and writes its age if that is asked for; false if the stream is of other
/// episodes than its sample's. What each load asks for is known from the one before: the state or an
/// index, the anchor, the episode's offsets, its times.
template <typename Compute, bool kAddsRows>
__device__ bool locate_step(const DrawPlan& draw_plan, const NarrowWindow& window,
                            const WindowTargets& targets, std::int32_t target, bool writes,
                            EpisodeRows<std::int32_t>& rows,
                            Located<Compute, std::int32_t>& located) {
  const std::int32_t b = targets.by_steps.quotient(target);
  const std::int32_t k = target - b * window.align.targets;
  const std::int64_t step_size = window.steps[k];  // waits for nothing
  const Sample sample = draw(draw_plan, b);
  rows = {0, 0, 0};
  if (sample.index >= 0) {
    if (!is_of_episode(window, sample.anchor.episode)) return false;
    rows = rows_of_episode(window, sample.anchor.episode);
  }
  LocatedStep<Compute, std::int32_t> step;
  if (window.is_by_row) {
    step = locate_by_row<Compute>(window, rows, sample.anchor, step_size);
  } else {
    RowTimes<std::int32_t> times = times_of_rows(window, rows);
    if (window.is_causal) {
      times.count = count_existing(window, rows, times, sample.anchor,
                                   [](const RowTimes<std::int32_t>& searched, std::int64_t t) {
                                     return find_row(searched, t).not_after;
                                   });
    }
    step = locate_by_time<Compute, kAddsRows>(window, times, sample.anchor, k, step_size,
                                              [](const RowTimes<std::int32_t>& searched,
                                                 std::int64_t t) { return find_row(searched, t); });
  }
  if (writes && window.align.out_age != nullptr) {
    static_cast<std::int64_t*>(window.align.out_age)[target] = step.age;
  }
  located = step.located;
  return true;
}

/// Step 1 for a stream that is copied or interpolated. A block that `writes` writes masks and ages.
template <typename Compute>
__device__ PlainTarget<Compute> locate_plain_step(const DrawPlan& draw_plan,
                                                  const NarrowWindow& window,
                                                  const WindowTargets& targets, std::int32_t target,
                                                  bool writes) {
  EpisodeRows<std::int32_t> rows;
  Located<Compute, std::int32_t> located;
  if (target >= targets.count ||
      !locate_step<Compute, false>(draw_plan, window, targets, target, writes, rows, located)) {
    return {0, Compute(0), static_cast<std::uint32_t>(Recipe::kNothing)};
  }
  const Location<Compute>& location = located.location;
  if (writes && window.align.out_valid != nullptr) {
    window.align.out_valid[target] = !location.valid;
  }
  const MethodRows picked = rows_for(window.align.method, location);
  const Recipe recipe = location.source == Source::kZero  ? Recipe::kZero
                        : location.source == Source::kNan ? Recipe::kNan
                        : picked.is_pair                  ? Recipe::kPair
                                                          : Recipe::kRow;
  PlainTarget<Compute> made;
  made.a = rows.values + (location.lo + picked.step) * window.align.values_row_stride;
  made.weight = location.weight;
  made.tag = static_cast<std::uint32_t>(target) << 3 | static_cast<std::uint32_t>(recipe);
  return made;
}

/// Step 1 for a stream of any layout.
template <typename Compute>
__device__ RunsTarget<Compute, std::int32_t> locate_runs_step(
    const DrawPlan& draw_plan, const NarrowWindow& window, const BasicRunTable<std::int32_t>& runs,
    const WindowTargets& targets, std::int32_t target, bool writes) {
  RunsTarget<Compute, std::int32_t> made;
  made.out = -1;
  EpisodeRows<std::int32_t> rows;
  if (target >= targets.count ||
      !locate_step<Compute, true>(draw_plan, window, targets, target, writes, rows, made.located)) {
    return made;
  }
  made.values = rows.values;
  made.valid = rows.first;
  made.out = offset(target, window.align.out_target_stride);
  if (writes && window.align.out_valid != nullptr) {
    const bool exists = quaternions_exist(window.align, runs, made);
    window.align.out_valid[target] = !(made.located.location.valid && exists);
  }
  return made;
}

/// Counts this block among those that have read the state; called by one thread, after a barrier
/// that all others of the block have come to with what they read in hand. Returns how many were
/// before it.
__device__ inline unsigned long long count_reader(const DrawPlan& draw_plan) {
  return atomicAdd(reinterpret_cast<unsigned long long*>(draw_plan.state + 2), 1ULL);
}

/// Moves the state on, which no block reads any more.
__device__ inline void move_on(const DrawPlan& draw_plan) {
  std::int64_t* const state = draw_plan.state;
  const DrawState after = state_after(draw_plan, {state[0], state[1]});
  state[0] = after.epoch;
  state[1] = after.position;
  state[2] = 0;
}

}  // namespace robocache::cuda
