// Locates the samples of a tile and the steps of their windows, on the GPU: step 1 of a block's
// work (see align/tiling.cuh), with one thread per sample and then one per target. Also advances
// the sampler state.
#pragma once

#include <cstdint>

#include "align/layout_tile.cuh"
#include "align/lerp_tile.cuh"
#include "align/search.cuh"
#include "align/tiling.cuh"
#include "loader/anchor.h"
#include "loader/draw_state.h"
#include "loader/windows.h"

namespace robocache::cuda {

using NarrowWindow = BasicWindowPlan<std::int32_t>;

/// The targets of a stream, and the divisor that splits a target into its sample and its step.
struct WindowTargets {
  std::int32_t count;  // B * K
  Divisor by_steps;
  std::int32_t span;          // of wide rows: pieces per block; else 0
  std::int32_t most_samples;  // the most samples that a tile has targets of
  bool is_copied;             // see copy.cuh
};

/// How a stream's rows and targets are divided among blocks. The targets of a tile are neighbors,
/// so they belong to few samples.
struct Cut {
  Columns columns;
  Tiling tiling;
  std::int32_t span;  // as in WindowTargets
};

__device__ inline Bracket<std::int64_t, std::int32_t> find_row(const RowTimes<std::int32_t>& times,
                                                               std::int64_t t) {
  return find_bracket_between(times, t, times[0], times[times.count - 1]);
}

/// A sample's rows of one stream.
struct alignas(16) WindowSample {
  EpisodeRows<std::int32_t> rows;
  Anchor anchor;
  std::int32_t existing;  // visible rows; of a causal window, those up to the anchor
  bool is_written;        // false where the stream does not cover the sample's episode
};

/// Locates a sample's rows of a stream. `kIsByRow`: the window is by row.
template <bool kIsByRow>
__device__ WindowSample find_rows(const NarrowWindow& window, const Sample& sample) {
  WindowSample found{{0, 0, 0}, sample.anchor, 0, true};
  if (sample.index < 0) return found;
  found.is_written = is_of_episode(window, sample.anchor.episode);
  if (!found.is_written) return found;
  found.rows = rows_of_episode(window, sample.anchor.episode);
  found.existing = found.rows.count;
  if (!kIsByRow && window.is_causal) {
    found.existing =
        count_existing(window, found.rows, times_of_rows(window, found.rows), sample.anchor,
                       [](const RowTimes<std::int32_t>& times, std::int64_t t) {
                         return find_row(times, t).not_after;
                       });
  }
  return found;
}

/// A target of a tile.
struct TileTarget {
  std::int32_t target;   // number in the batch
  std::int32_t sample;   // number among the tile's samples
  std::int32_t step;     // number of the step
  std::int64_t step_at;  // offset of the step, in ns or rows
};

/// A block's tile of a stream: `count` targets, possibly 0, whose samples are located first; and
/// this thread's target.
struct WindowTile {
  int stream, stretch, first_target;
  int count;
  int first_sample;
  WindowSample* samples;
  void* made;  // shared memory for the located targets
  TileTarget target;

  __device__ WindowTile(int stream_of_block, const Tile& tile, uint4* shared)
      : stream(stream_of_block),
        stretch(tile.stretch),
        first_target(tile.first_target),
        count(0),
        first_sample(tile.first_target),
        samples(reinterpret_cast<WindowSample*>(shared)),
        made(nullptr),
        target{} {}

  /// Sets the targets of a stream's tile. Returns the number of samples that they belong to.
  template <typename Launch>
  __device__ int cut_targets(const Launch& launch) {
    const NarrowWindow& window = launch.windows[stream];
    const WindowTargets& targets = launch.targets[stream];
    count = min(launch.tilings[stream].targets_per_tile, targets.count - first_target);
    first_sample = targets.by_steps.quotient(first_target);
    made = samples + targets.most_samples;
    if (has_target()) {
      const int number = first_target + static_cast<int>(threadIdx.x);
      const int b = targets.by_steps.quotient(number);
      const int step = number - b * window.align.targets;
      // This load depends on no sample, so it overlaps with locating them.
      target = {number, b - first_sample, step, window.steps[step]};
    }
    return sample_count(targets);
  }

  /// The number of samples that the tile's targets belong to.
  __device__ int sample_count(const WindowTargets& targets) const {
    if (count <= 0) return 0;
    return targets.by_steps.quotient(first_target + count - 1) - first_sample + 1;
  }

  /// The number of samples of a metadata tile, whose targets are the samples.
  template <typename Launch>
  __device__ int cut_metadata(const Launch& launch) const {
    return min(launch.tilings[stream].targets_per_tile, launch.size - first_sample);
  }

  /// The step of the tile's first target.
  __device__ int first_step(const NarrowPlan& plan) const {
    return first_target - first_sample * plan.targets;
  }
  __device__ bool has_target() const { return static_cast<int>(threadIdx.x) < count; }
  __device__ const WindowSample& sample() const { return samples[target.sample]; }
};

/// Locates a target, and writes its age if the call has an output for it.
template <typename Compute, bool kAddsRows>
__device__ Located<Compute, std::int32_t> locate_step(const NarrowWindow& window,
                                                      const WindowSample& sample,
                                                      const TileTarget& target, bool writes) {
  LocatedStep<Compute, std::int32_t> step;
  if (window.is_by_row) {
    step = locate_by_row<Compute>(window, sample.rows, sample.anchor, target.step_at);
  } else {
    RowTimes<std::int32_t> times = times_of_rows(window, sample.rows);
    times.count = sample.existing;
    step = locate_by_time<Compute, kAddsRows>(window, times, sample.anchor, target.step,
                                              target.step_at,
                                              [](const RowTimes<std::int32_t>& searched,
                                                 std::int64_t t) { return find_row(searched, t); });
  }
  if (writes && window.align.out_age != nullptr) {
    static_cast<std::int64_t*>(window.align.out_age)[target.target] = step.age;
  }
  return step.located;
}

/// Step 1 of a stream that is copied or interpolated. Masks and ages are written if `writes`.
template <typename Compute>
__device__ PlainTarget<Compute> locate_plain_step(const NarrowWindow& window,
                                                  const WindowSample& sample,
                                                  const TileTarget& target, bool writes) {
  if (!sample.is_written) return {0, Compute(0), static_cast<std::uint32_t>(Recipe::kNothing)};
  const Location<Compute> location =
      locate_step<Compute, false>(window, sample, target, writes).location;
  if (writes && window.align.out_valid != nullptr) {
    window.align.out_valid[target.target] = !location.valid;
  }
  const MethodRows picked = rows_for(window.align.method, location);
  const Recipe recipe = location.source == Source::kZero  ? Recipe::kZero
                        : location.source == Source::kNan ? Recipe::kNan
                        : picked.is_pair                  ? Recipe::kPair
                                                          : Recipe::kRow;
  PlainTarget<Compute> made;
  made.a = sample.rows.values + (location.lo + picked.step) * window.align.values_row_stride;
  made.weight = location.weight;
  made.tag = static_cast<std::uint32_t>(target.target) << 3 | static_cast<std::uint32_t>(recipe);
  return made;
}

/// Step 1 of a stream of any layout.
template <typename Compute>
__device__ RunsTarget<Compute, std::int32_t> locate_runs_step(
    const NarrowWindow& window, const BasicRunTable<std::int32_t>& runs, const WindowSample& sample,
    const TileTarget& target, bool writes) {
  RunsTarget<Compute, std::int32_t> made;
  made.out = -1;
  if (!sample.is_written) return made;
  made.located = locate_step<Compute, true>(window, sample, target, writes);
  made.values = sample.rows.values;
  made.valid = sample.rows.first;
  made.out = offset(target.target, window.align.out_target_stride);
  if (writes && window.align.out_valid != nullptr) {
    const bool exists = quaternions_exist(window.align, runs, made);
    window.align.out_valid[target.target] = !(made.located.location.valid && exists);
  }
  return made;
}

/// Counts this block among the readers of the state. One thread calls it after a barrier by which
/// all threads of the block have read the state. Returns the number of blocks that counted earlier.
__device__ inline unsigned int count_reader(const DrawPlan& draw_plan) {
  // The lower half of an int64: 32 bits hold the number of a grid's blocks.
  return atomicAdd(reinterpret_cast<unsigned int*>(draw_plan.state + 2), 1u);
}

/// Advances the sampler state, which no block reads any longer.
__device__ inline void move_on(const DrawPlan& draw_plan) {
  std::int64_t* const state = draw_plan.state;
  const DrawState after = state_after(draw_plan, {state[0], state[1]});
  state[0] = after.epoch;
  state[1] = after.position;
  state[2] = 0;
}

}  // namespace robocache::cuda
