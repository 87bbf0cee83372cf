// Windows that are relative to another stream, on the GPU. A tile locates, for each of its samples,
// the reference beside the targets, and a thread makes the reference's value of its column anew only
// where its targets come to another sample.
#pragma once

#include <cstdint>

#include "align/runs_cuda.h"
#include "align/tiling_cuda.h"
#include "loader/locate_cuda.h"
#include "loader/relative.h"

namespace robocache::cuda {

/// A launch some of whose streams are relative. Their references are windows too, past those of
/// streams.
template <typename Launch>
struct RelativeLaunch : Launch {
  static constexpr bool kIsRelative = true;

  std::int16_t references[Launch::kWindows];  // of each stream: its reference's number, or -1
  const std::int32_t* reference_columns[Launch::kWindows];
};

template <typename Launch>
__device__ BasicRunTable<std::int32_t> runs_of(const Launch& launch, int window,
                                               std::int32_t units) {
  return {launch.runs + launch.first_run[window], launch.run_count[window], units};
}

/// What the reference's stream gives at an anchor; its mask is the reference's.
template <typename Compute>
__device__ RunsTarget<Compute, std::int32_t> locate_reference(
    const NarrowWindow& window, const BasicRunTable<std::int32_t>& runs, const Anchor& anchor) {
  const WindowSample sample = find_rows<false>(window, {0, anchor});
  RunsTarget<Compute, std::int32_t> made;
  made.located = locate_step<Compute, true>(window, sample, TileTarget{}, false);
  made.values = sample.rows.values;
  made.valid = sample.rows.first;
  made.out = 0;
  made.located.location.valid =
      made.located.location.valid && quaternions_exist(window.align, runs, made);
  return made;
}

/// A channel of the reference.
template <typename Compute>
__device__ Compute reference_value(const NarrowPlan& plan, const BasicRunTable<std::int32_t>& runs,
                                   std::int32_t channel,
                                   const RunsTarget<Compute, std::int32_t>& at_anchor) {
  int run = 0;
  while (run + 1 < runs.count && runs[run + 1].first_channel <= channel) ++run;
  Source source;
  const Compute x = make_value(plan, runs[run].method, channel, at_anchor, source);
  return source == Source::kZero  ? Compute(0)
         : source == Source::kNan ? not_a_number<Compute>()
                                  : x;
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
  const NarrowRun run = runs[run_of_unit(runs, unit)];
  if (is_slerp(run.method)) {  // which is relative to nothing
    for (int row = thread_row; row < tile.count; row += columns.rows_at_once) {
      if (made[row].out >= 0) make_unit(plan, run, unit, made[row]);
    }
    return;
  }
  const int reference = launch.references[tile.stream];
  const NarrowPlan& reference_plan = launch.windows[reference].align;
  const BasicRunTable<std::int32_t> reference_runs = runs_of(launch, reference, 0);
  const std::int32_t channel = run.first_channel + (unit - run.first_unit);
  const std::int32_t column =
      reference_column(launch.reference_columns[tile.stream], channel, reference_plan.channels);
  // By row, runs say no more than which channels are angles.
  const Method method = window.is_by_row ? Method::kPrevious : run.method;
  int last_sample = -1;
  Compute subtracted = Compute(0);
  for (int row = thread_row; row < tile.count; row += columns.rows_at_once) {
    if (made[row].out < 0) continue;
    Source source;
    Compute x[1] = {make_value(plan, method, channel, made[row], source)};
    if (column >= 0) {
      const int sample = launch.targets[tile.stream].by_steps.quotient(tile.first_target + row) -
                         tile.first_sample;
      if (sample != last_sample) {
        subtracted = reference_value(reference_plan, reference_runs, column, references[sample]);
        last_sample = sample;
      }
      x[0] = less_reference(run.method == Method::kAngle, x[0], subtracted);
    }
    write(plan, made[row].out, channel, x, source);
  }
}

/// A tile of a relative stream, whose samples are known.
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
