// The backward pass: the gradient that each source row receives from the targets that read it. A
// row gathers from its targets, in order; targets do not scatter to their rows. So sums have one
// order, and the same bits on every run and every backend, and no atomics are needed.
//
//   targets      t0   t1   t2   t3          each has a first row, `record.row`
//   sorted by row
//   |--- r-1 ---|--- r ---|--- r+1 ---|     a pair reads two rows; so row r gathers from the
//                                           targets whose first row is r - 1 or r
//
// A mean or a sum reads any number of rows. There, row r gathers from the first target of the order
// that reaches it (`begins`) to the last target whose first row is r. The targets between reach the
// row too if windows have one length or, as those of sums, do not overlap: a first target with
// thousands of rows costs the later rows nothing. Targets that do not reach it, which are skipped,
// occur only where batch rows share values but not timelines, and where a stream has both means and
// sums.
#pragma once

#include <cstdint>

#include "align/backends.h"
#include "align/combine.h"
#include "align/episode.h"
#include "align/locate.h"
#include "align/window.h"
#include "core/number.h"
#include "core/target.h"

namespace robocache::ROBOCACHE_TARGET {

/// The record of a target's location for the backward pass.
template <typename Compute>
ROBOCACHE_HOST_DEVICE TargetRecord make_record(const BackwardPlan& plan, std::int64_t b,
                                               std::int64_t first_row,
                                               const Location<Compute>& location) {
  const std::int64_t batch_row = plan.value_batch > 1 ? b : 0;
  const std::int64_t row =
      is_literal(location.source) ? -1 : batch_row * plan.forward.rows + first_row + location.lo;
  return {row, static_cast<double>(location.weight), static_cast<std::uint8_t>(location.source),
          location.nearest_is_later};
}

/// The record of a target's windows, for a stream with means or sums. `record` is the result of
/// `make_record`; its row is set to the first row that any run reads.
template <typename Compute>
ROBOCACHE_HOST_DEVICE WindowRecord make_window_record(const BackwardPlan& plan, std::int64_t b,
                                                      std::int64_t first_row,
                                                      const Located<Compute, std::int64_t>& located,
                                                      TargetRecord& record) {
  const std::int64_t row_0 = (plan.value_batch > 1 ? b : 0) * plan.forward.rows + first_row;
  const std::uint8_t kinds = plan.forward.row_kinds;
  WindowRecord made{};
  made.lo = record.row;
  made.end = record.row < 0 ? -1 : record.row + 2;
  const auto keep = [&](const Window<std::int64_t>& window) {
    WindowRecord::Rows rows{0, 0, 0, static_cast<std::uint8_t>(window.source)};
    const bool is_row = window.source == WindowSource::kRow;
    if (is_row || (window.source == WindowSource::kRows && window.count > 0)) {
      rows.begin = row_0 + window.begin;
      rows.end = is_row ? rows.begin + 1 : row_0 + window.end;
      rows.count = window.count;
      if (record.row < 0 || rows.begin < record.row) record.row = rows.begin;
      if (rows.end > made.end) made.end = rows.end;
    }
    return rows;
  };
  if (kinds & kReadsWindow) made.mean = keep(located.windows.mean);
  if (kinds & kReadsInterval) made.sum = keep(located.windows.sum);
  return made;
}

/// The targets that may read a row: `order[begin, end)`.
struct RowTargets {
  const TargetRecord* records;
  const WindowRecord* windows;  // null where the stream has no means or sums
  const std::int64_t* order;
  std::int64_t begin, end;
};

ROBOCACHE_HOST_DEVICE RowTargets targets_of_row(const SortedTargets& sorted, std::int64_t row) {
  const std::int64_t begin =
      sorted.begins != nullptr ? sorted.begins[row] : sorted.starts[row > 0 ? row - 1 : 0];
  return {sorted.records, sorted.windows, sorted.order, begin, sorted.starts[row + 1]};
}

/// The gradient of the loss with respect to one channel of a target, before the scale.
template <typename Compute>
ROBOCACHE_HOST_DEVICE Compute load_gradient(const BackwardPlan& plan, std::int64_t target,
                                            std::int64_t channel) {
  const StreamPlan& forward = plan.forward;
  const std::int64_t b = target / forward.targets;
  const std::int64_t t = target % forward.targets;
  const Compute gradient =
      load_as<Compute>(forward.out_type, plan.grad_output,
                       b * plan.grad_batch_stride + t * plan.grad_target_stride +
                           channel * plan.grad_channel_stride);
  if (forward.multiply == nullptr) return gradient;
  return gradient *
         static_cast<const Compute*>(forward.multiply)[channel * forward.multiply_stride];
}

template <typename Compute>
ROBOCACHE_HOST_DEVICE Location<Compute> location_of(const TargetRecord& record) {
  return {0, static_cast<Compute>(record.weight), static_cast<Source>(record.source),
          record.nearest_is_later, true};
}

/// Whether a source row was valid for a target.
ROBOCACHE_HOST_DEVICE bool row_is_valid(const BackwardPlan& plan, std::int64_t target,
                                        std::int64_t row) {
  const StreamPlan& forward = plan.forward;
  return forward.valid == nullptr ||
         forward.valid[target / forward.targets * forward.valid_batch_stride +
                       row % forward.rows * forward.valid_row_stride];
}

/// Calls `add(target, location, is_pair, step)` for the targets in which a method reads this row:
/// alone or, if the target's rows are a pair, as the first (`step` 0) or the second (1).
template <typename Compute, typename Add>
ROBOCACHE_HOST_DEVICE void for_each_target(const RowTargets& targets, Method method,
                                           std::int64_t row, const Add& add) {
  for (std::int64_t i = targets.begin; i < targets.end; ++i) {
    const std::int64_t target = targets.order[i];
    const TargetRecord& record = targets.records[target];
    const std::int64_t lo = targets.windows == nullptr ? record.row : targets.windows[target].lo;
    if (lo < 0) continue;
    const Location<Compute> location = location_of<Compute>(record);
    const MethodRows picked = rows_for(method, location);
    const std::int64_t step = row - lo;
    const bool takes_part = picked.is_pair ? step == 0 || step == 1 : step == picked.step;
    if (takes_part) add(target, location, picked.is_pair, step);
  }
}

/// Calls `add(target, factor, divisor)` for the targets whose mean or sum reads this row. The row's
/// gradient is the sum of each target's gradient * factor / divisor.
template <typename Compute, typename Add>
ROBOCACHE_HOST_DEVICE void for_each_window(const BackwardPlan& plan, const RowTargets& targets,
                                           Method method, std::int64_t row, const Add& add) {
  for (std::int64_t i = targets.begin; i < targets.end; ++i) {
    const std::int64_t target = targets.order[i];
    const WindowRecord& record = targets.windows[target];
    const WindowRecord::Rows& rows = method == Method::kMean ? record.mean : record.sum;
    switch (static_cast<WindowSource>(rows.source)) {
      case WindowSource::kRow:
        if (row == rows.begin) add(target, Compute(1), Compute(1));
        break;
      case WindowSource::kRows:
        if (row >= rows.begin && row < rows.end && row_is_valid(plan, target, row)) {
          const Compute count = static_cast<Compute>(rows.count);
          add(target, Compute(1), method == Method::kMean ? count : Compute(1));
        }
        break;
      case WindowSource::kAsLinear: {
        const Location<Compute> location = location_of<Compute>(targets.records[target]);
        const std::int64_t step = row - record.lo;
        if (location.source != Source::kPair) {
          if (step == 0) add(target, Compute(1), Compute(1));
        } else if (step == 0 || step == 1) {
          add(target, step == 0 ? Compute(1) - location.weight : location.weight, Compute(1));
        }
        break;
      }
      default:
        break;
    }
  }
}

/// Writes one channel of a source row's gradient, for every method except slerp.
template <typename Compute>
ROBOCACHE_HOST_DEVICE void gather_channel(const BackwardPlan& plan, const RowTargets& targets,
                                          Method method, std::int64_t row, std::int64_t channel) {
  Compute sum = Compute(0);
  if (adds_rows(method)) {
    for_each_window<Compute>(
        plan, targets, method, row, [&](std::int64_t target, Compute share, Compute divisor) {
          sum = sum + load_gradient<Compute>(plan, target, channel) * share / divisor;
        });
  } else {
    for_each_target<Compute>(
        targets, method, row,
        [&](std::int64_t target, const Location<Compute>& location, bool is_pair,
            std::int64_t step) {
          const Compute w = location.weight;
          const Compute share = !is_pair ? Compute(1) : step == 0 ? Compute(1) - w : w;
          sum = sum + load_gradient<Compute>(plan, target, channel) * share;
        });
  }
  store_as(plan.forward.value_type, plan.grad_values, row * plan.forward.channels + channel, sum);
}

/// Writes the four channels of a source row's gradient that start at `channel`, for slerp.
template <typename Compute>
ROBOCACHE_HOST_DEVICE void gather_quaternion(const BackwardPlan& plan, const RowTargets& targets,
                                             std::int64_t row, std::int64_t channel) {
  const StreamPlan& forward = plan.forward;
  const std::int64_t stride = forward.values_channel_stride;
  const std::int64_t here = row / forward.rows * forward.values_batch_stride +
                            row % forward.rows * forward.values_row_stride + channel * stride;
  const auto load = [&](std::int64_t index) {
    return load_quaternion<Compute>(forward.value_type, forward.values, index, stride);
  };
  Quaternion<Compute> sum{};
  for_each_target<Compute>(
      targets, Method::kSlerpXyzw, row,
      [&](std::int64_t target, const Location<Compute>& location, bool is_pair, std::int64_t step) {
        Quaternion<Compute> gradient;
        for (int i = 0; i < 4; ++i) {
          gradient.q[i] = load_gradient<Compute>(plan, target, channel + i);
        }
        Quaternion<Compute> share;
        if (!is_pair) {
          share = normalize_backward(load(here), gradient);
        } else if (step == 0) {
          share = slerp_backward(load(here), load(here + forward.values_row_stride),
                                 location.weight, gradient, true);
        } else {
          share = slerp_backward(load(here - forward.values_row_stride), load(here),
                                 location.weight, gradient, false);
        }
        sum = weigh(Compute(1), sum, Compute(1), share);
      });
  for (int i = 0; i < 4; ++i) {
    store_as(forward.value_type, plan.grad_values, row * forward.channels + channel + i, sum.q[i]);
  }
}

}  // namespace robocache::ROBOCACHE_TARGET
