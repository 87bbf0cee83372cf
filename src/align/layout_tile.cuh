// Streams of any layout on the GPU: several runs, slerp, angle, means and sums. Loads and stores
// branch on the element type at run time, so that this is compiled once for each compute type.
#pragma once

#include <cstdint>

#include "align/combine.h"
#include "align/search.cuh"
#include "align/vector.cuh"
#include "align/window.h"
#include "core/number.h"

namespace robocache::cuda {

/// A located target, with the positions of its rows and its output in elements.
template <typename Compute, typename Index>
struct RunsTarget {
  Located<Compute, Index> located;  // rows count from the episode's first
  std::int64_t values;              // the values of the episode's first row
  std::int64_t valid;               // its validity flag
  std::int64_t out;                 // the output; negative: past the last target
};

/// Whether no quaternion that the target reads is zero.
template <typename Compute, typename Index>
__device__ bool quaternions_exist(const BasicStreamPlan<Index>& plan,
                                  const BasicRunTable<Index>& runs,
                                  const RunsTarget<Compute, Index>& target) {
  const Location<Compute>& location = target.located.location;
  if (is_literal(location.source)) return true;
  const MethodRows picked = rows_for(Method::kSlerpXyzw, location);
  const std::int64_t row_stride = plan.values_row_stride;
  for (int run = 0; run < runs.count; ++run) {
    if (!is_slerp(runs[run].method)) continue;
    const std::int64_t a = target.values + (location.lo + picked.step) * row_stride +
                           offset(runs[run].first_channel, plan.values_channel_stride);
    const auto is_zero_at = [&](std::int64_t at) {
      return is_zero(
          load_quaternion<Compute>(plan.value_type, plan.values, at, plan.values_channel_stride));
    };
    if (is_zero_at(a) || (picked.is_pair && is_zero_at(a + row_stride))) return false;
  }
  return true;
}

/// Locates target t of batch row b, whose output begins at element `out`, and writes its mask.
template <typename Compute, typename Index>
__device__ RunsTarget<Compute, Index> locate_runs(const BasicStreamPlan<Index>& plan,
                                                  const BasicRunTable<Index>& runs, Index b,
                                                  Index t, std::int64_t out, bool writes_mask) {
  const Episode<Index> episode = episode_of(plan, b);
  RunsTarget<Compute, Index> target;
  target.located = locate_target_all<Compute>(plan, b, t, episode);
  target.values =
      offset(b, plan.values_batch_stride) + offset(episode.first_row, plan.values_row_stride);
  target.valid =
      offset(b, plan.valid_batch_stride) + offset(episode.first_row, plan.valid_row_stride);
  target.out = out;
  if (plan.out_valid != nullptr && writes_mask) {
    plan.out_valid[offset(b, plan.out_valid_batch_stride) +
                   offset(t, plan.out_valid_target_stride)] =
        target.located.location.valid && quaternions_exist(plan, runs, target);
  }
  return target;
}

/// Scales and writes `kChannels` channels of a target, or literals in their place.
template <typename Compute, typename Index, int kChannels>
__device__ void write(const BasicStreamPlan<Index>& plan, std::int64_t out, Index channel,
                      Compute (&x)[kChannels], Source source) {
  scale(plan, channel, x);
  for (int c = 0; c < kChannels; ++c) {
    if (source == Source::kZero) x[c] = Compute(0);
    if (source == Source::kNan) x[c] = not_a_number<Compute>();
    store_as(plan.out_type, plan.out, out + channel + c, x[c]);
  }
}

/// Computes a channel of the mean or the sum of a window's valid rows, in order of the rows.
/// `column` is the position of the channel in the episode's first row.
template <typename Compute, typename Index>
__device__ Compute add_rows(const BasicStreamPlan<Index>& plan,
                            const RunsTarget<Compute, Index>& target, const Window<Index>& window,
                            Method method, std::int64_t column) {
  Compute sum = Compute(0);
  for (Index row = window.begin; row < window.end; ++row) {
    if (plan.valid != nullptr && !plan.valid[target.valid + offset(row, plan.valid_row_stride)]) {
      continue;
    }
    sum = sum + load_as<Compute>(plan.value_type, plan.values,
                                 column + offset(row, plan.values_row_stride));
  }
  return method == Method::kMean ? sum / static_cast<Compute>(window.count) : sum;
}

/// Computes a channel of a method other than slerp, mean and sum at a location.
template <typename Compute, typename Index>
__device__ Compute make_channel(const BasicStreamPlan<Index>& plan, Method method,
                                const Location<Compute>& location, std::int64_t column) {
  if (is_literal(location.source)) return Compute(0);
  const MethodRows picked = rows_for(method, location);
  const std::int64_t row_stride = plan.values_row_stride;
  const std::int64_t at = column + (location.lo + picked.step) * row_stride;
  const Compute a = load_as<Compute>(plan.value_type, plan.values, at);
  const Compute b =
      picked.is_pair ? load_as<Compute>(plan.value_type, plan.values, at + row_stride) : Compute(0);
  return combine_channel(method, a, b, location.weight, picked.is_pair);
}

/// Computes one unit of a target; `run` is the run that has it. Passes the channel to
/// `use(channel, x, source)`. A unit of a slerp run has four channels, which it writes itself.
template <typename Compute, typename Index, typename Use>
__device__ void make_unit(const BasicStreamPlan<Index>& plan, const BasicPlannedRun<Index>& run,
                          Index unit, const RunsTarget<Compute, Index>& target, const Use& use) {
  const Method method = run.method;
  const Location<Compute>& location = target.located.location;
  if (is_slerp(method)) {
    Quaternion<Compute> made{};
    if (!is_literal(location.source)) {
      const MethodRows picked = rows_for(method, location);
      const std::int64_t row_stride = plan.values_row_stride;
      const std::int64_t at = target.values + (location.lo + picked.step) * row_stride +
                              offset(run.first_channel, plan.values_channel_stride);
      const auto load = [&](std::int64_t from) {
        return load_quaternion<Compute>(plan.value_type, plan.values, from,
                                        plan.values_channel_stride);
      };
      made = picked.is_pair ? slerp(load(at), load(at + row_stride), location.weight)
                            : normalize(load(at));
    }
    write(plan, target.out, run.first_channel, made.q, location.source);
    return;
  }
  const Index channel = run.first_channel + (unit - run.first_unit);
  const std::int64_t column = target.values + offset(channel, plan.values_channel_stride);
  Compute x[1];
  Source source = location.source;
  if (!adds_rows(method)) {
    x[0] = make_channel(plan, method, location, column);
  } else {
    const Window<Index>& window = target.located.windows.of(method);
    Location<Compute> held{window.begin, Compute(0), Source::kRow, false, false};
    if (window.source == WindowSource::kZero) held.source = Source::kZero;
    if (window.source == WindowSource::kNan) held.source = Source::kNan;
    source = held.source;
    x[0] = window.source == WindowSource::kRows ? add_rows(plan, target, window, method, column)
           : window.source == WindowSource::kAsLinear
               ? make_channel(plan, Method::kLinear, location, column)
               : make_channel(plan, Method::kPrevious, held, column);
  }
  use(channel, x, source);
}

/// Computes one unit of a target, and writes it.
template <typename Compute, typename Index>
__device__ void make_unit(const BasicStreamPlan<Index>& plan, const BasicPlannedRun<Index>& run,
                          Index unit, const RunsTarget<Compute, Index>& target) {
  make_unit(plan, run, unit, target, [&](Index channel, Compute(&x)[1], Source source) {
    write(plan, target.out, channel, x, source);
  });
}

}  // namespace robocache::cuda
