// Windows that are relative to another stream, on the GPU. A tile locates the reference of each of
// its samples beside the targets. A thread recomputes the reference's value for its column only
// where the next target belongs to another sample.
#pragma once

#include <cstdint>

#include "align/layout_tile.cuh"
#include "align/tiling.cuh"
#include "loader/locate.cuh"
#include "loader/relative.h"

namespace robocache::cuda {

/// A launch in which some streams are relative. Their references are further windows, after those
/// of the streams.
template <typename Launch>
struct RelativeLaunch : Launch {
  static constexpr bool kIsRelative = true;

  std::int16_t references[Launch::kWindows];  // per stream: index of its reference's window, or -1
  const std::int32_t* reference_columns[Launch::kWindows];
};

template <typename Launch>
__device__ BasicRunTable<std::int32_t> runs_of(const Launch& launch, int window,
                                               std::int32_t units) {
  return {launch.runs + launch.first_run[window], launch.run_count[window], units};
}

/// Locates the reference's stream at an anchor; the location's `valid` is the reference's mask.
template <typename Compute>
__device__ RunsTarget<Compute, std::int32_t> locate_reference(
    const NarrowWindow& window, const BasicRunTable<std::int32_t>& runs, const Anchor& anchor) {
  const WindowSample sample = find_rows<false>(window, {0, anchor});
  RunsTarget<Compute, std::int32_t> made;
  made.located = locate_step<Compute, true>(window, sample, TileTarget{}, false);
  made.values = sample.rows.values;
  made.valid = sample.rows.first;
  made.out = 0;
  bool& valid = made.located.location.valid;
  valid = valid && quaternions_exist(window.align, runs, made);
  return made;
}

/// The channel of the reference that is subtracted from a window's channel.
struct ReferenceChannel {
  NarrowRun run;  // of the reference's stream
  std::int32_t unit;
  bool is_there;

  /// Quaternion channels are not subtracted.
  __device__ ReferenceChannel(const BasicRunTable<std::int32_t>& runs, std::int32_t channel)
      : run(runs[0]), unit(0), is_there(false) {
    if (channel < 0) return;
    for (int i = 1; i < runs.count && runs[i].first_channel <= channel; ++i) run = runs[i];
    unit = run.first_unit + (channel - run.first_channel);
    is_there = !is_slerp(run.method);
  }
};

template <typename Compute>
__device__ Compute value_at_anchor(const NarrowPlan& plan, const ReferenceChannel& channel,
                                   const RunsTarget<Compute, std::int32_t>& at_anchor) {
  Compute value = Compute(0);
  make_unit(plan, channel.run, channel.unit, at_anchor,
            [&](std::int32_t, Compute(&x)[1], Source source) {
              value = source == Source::kZero  ? Compute(0)
                      : source == Source::kNan ? not_a_number<Compute>()
                                               : x[0];
            });
  return value;
}

/// Step 2 of a tile whose targets and references are located.
template <typename Compute, typename Launch>
__device__ void combine_relative(const Launch& launch, const WindowTile& tile,
                                 const BasicRunTable<std::int32_t>& runs,
                                 const RunsTarget<Compute, std::int32_t>* references,
                                 const RunsTarget<Compute, std::int32_t>* made) {
  const Columns& columns = launch.columns[tile.stream];
  const int thread = static_cast<int>(threadIdx.x);
  const int thread_row = columns.divisor.quotient(thread);
  const int unit = tile.stretch * kThreads + thread - thread_row * columns.side_by_side;
  if (thread_row >= columns.rows_at_once || unit >= columns.pieces) return;
  const NarrowWindow& window = launch.windows[tile.stream];
  const NarrowPlan& plan = window.align;
  NarrowRun run = runs[run_of_unit(runs, unit)];
  if (is_slerp(run.method)) {  // quaternions are not relative
    for (int row = thread_row; row < tile.count; row += columns.rows_at_once) {
      if (made[row].out >= 0) make_unit(plan, run, unit, made[row]);
    }
    return;
  }
  const int reference = launch.references[tile.stream];
  const NarrowPlan& reference_plan = launch.windows[reference].align;
  const ReferenceChannel subtracted(
      runs_of(launch, reference, 0),
      reference_column(launch.reference_columns[tile.stream],
                       run.first_channel + (unit - run.first_unit), reference_plan.channels));
  const bool is_angle = run.method == Method::kAngle;
  // By row, runs only mark the channels that are angles.
  if (window.is_by_row) run.method = Method::kPrevious;
  int last_sample = -1;
  Compute of_sample = Compute(0);
  for (int row = thread_row; row < tile.count; row += columns.rows_at_once) {
    if (made[row].out < 0) continue;
    const int sample =
        launch.targets[tile.stream].by_steps.quotient(tile.first_target + row) - tile.first_sample;
    if (subtracted.is_there && sample != last_sample) {
      of_sample = value_at_anchor(reference_plan, subtracted, references[sample]);
      last_sample = sample;
    }
    make_unit(plan, run, unit, made[row], [&](std::int32_t channel, Compute(&x)[1], Source source) {
      if (subtracted.is_there) x[0] = less_reference(is_angle, x[0], of_sample);
      write(plan, made[row].out, channel, x, source);
    });
  }
}

/// Computes a tile of a relative stream, after its samples are located.
template <typename Compute, typename Launch>
__device__ void make_relative_tile(const Launch& launch, const WindowTile& tile) {
  const NarrowWindow& window = launch.windows[tile.stream];
  const WindowTargets& targets = launch.targets[tile.stream];
  const BasicRunTable<std::int32_t> runs =
      runs_of(launch, tile.stream, launch.columns[tile.stream].pieces);
  auto* const references = static_cast<RunsTarget<Compute, std::int32_t>*>(tile.made);
  auto* const made = references + targets.most_samples;
  const int thread = static_cast<int>(threadIdx.x);
  const bool writes = tile.stretch == 0;
  if (tile.has_target()) {
    made[thread] = locate_runs_step<Compute>(window, runs, tile.sample(), tile.target, writes);
  }
  const int reference = launch.references[tile.stream];
  if (thread < tile.sample_count(targets)) {
    references[thread] = locate_reference<Compute>(
        launch.windows[reference], runs_of(launch, reference, 0), tile.samples[thread].anchor);
  }
  __syncthreads();
  if (tile.has_target() && made[thread].out >= 0 && writes && window.align.out_valid != nullptr &&
      !references[tile.target.sample].located.location.valid) {
    window.align.out_valid[tile.target.target] = true;
  }
  combine_relative(launch, tile, runs, references, made);
}

}  // namespace robocache::cuda
