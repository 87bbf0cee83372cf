// The backward pass: what each source row gets from the targets that it helped to make. A row
// gathers from its targets, in order, rather than targets scattering to their rows: sums have one
// order and so the same bits on every run and every backend, and nothing needs an atomic.
//
//   targets      t0   t1   t2   t3          each has a first row, `record.row`
//   sorted by row                           row r gathers from its own stretch, as `a` of a pair,
//   |--- r-1 ---|--- r ---|--- r+1 ---|     and from row r-1's, as `b`
#pragma once

#include <cstdint>

#include "align/backends.h"
#include "align/combine.h"
#include "align/episode.h"
#include "align/locate.h"
#include "core/number.h"
#include "core/target.h"

namespace robocache::ROBOCACHE_TARGET {

/// Keeps what the backward pass needs of a location.
template <typename Compute>
ROBOCACHE_HOST_DEVICE TargetRecord make_record(const BackwardPlan& plan, std::int64_t b,
                                               std::int64_t first_row,
                                               const Location<Compute>& location) {
  const bool is_literal = location.source == Source::kZero || location.source == Source::kNan;
  const std::int64_t batch_row = plan.value_batch > 1 ? b : 0;
  const std::int64_t row =
      is_literal ? -1 : batch_row * plan.forward.rows + first_row + location.lo;
  return {row, static_cast<double>(location.weight), static_cast<std::uint8_t>(location.source),
          location.nearest_is_later};
}

/// The targets that a row may have helped to make: `order[before, own)` have the row before as their
/// first, `order[own, end)` have this one.
struct RowTargets {
  const TargetRecord* records;
  const std::int64_t* order;
  std::int64_t before, own, end;
};

/// Calls `add(target, record, offset)` for a row's targets in ascending order; `offset` is 0 where
/// the row is the target's first, 1 where it is the one after.
template <typename Add>
ROBOCACHE_HOST_DEVICE void for_each_target(const RowTargets& targets, const Add& add) {
  std::int64_t first = targets.own;
  std::int64_t second = targets.before;
  while (first < targets.end || second < targets.own) {
    const bool take_first = second == targets.own ||
                            (first < targets.end && targets.order[first] < targets.order[second]);
    const std::int64_t target = targets.order[take_first ? first++ : second++];
    add(target, targets.records[target], take_first ? 0 : 1);
  }
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

/// Writes one channel of a source row's gradient, for every method but slerp.
template <typename Compute>
ROBOCACHE_HOST_DEVICE void gather_channel(const BackwardPlan& plan, const RowTargets& targets,
                                          Method method, std::int64_t row, std::int64_t channel) {
  Compute sum = Compute(0);
  for_each_target(targets, [&](std::int64_t target, const TargetRecord& record, int offset) {
    const Location<Compute> location = location_of<Compute>(record);
    const MethodRows picked = rows_for(method, location);
    if (!picked.is_pair && picked.step != offset) return;
    const Compute w = location.weight;
    const Compute share = !picked.is_pair ? Compute(1) : offset == 0 ? Compute(1) - w : w;
    sum = sum + load_gradient<Compute>(plan, target, channel) * share;
  });
  store_as(plan.forward.value_type, plan.grad_values, row * plan.forward.channels + channel, sum);
}

template <typename Compute>
ROBOCACHE_HOST_DEVICE Quaternion<Compute> load_quaternion(DataType type, const void* values,
                                                          std::int64_t index, std::int64_t stride) {
  Quaternion<Compute> loaded;
  for (int i = 0; i < 4; ++i) loaded.q[i] = load_as<Compute>(type, values, index + i * stride);
  return loaded;
}

/// Writes the four channels from `channel` on of a source row's gradient, for slerp.
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
  for_each_target(targets, [&](std::int64_t target, const TargetRecord& record, int offset) {
    const Location<Compute> location = location_of<Compute>(record);
    const MethodRows picked = rows_for(Method::kSlerpXyzw, location);
    if (!picked.is_pair && picked.step != offset) return;
    Quaternion<Compute> gradient;
    for (int i = 0; i < 4; ++i) gradient.q[i] = load_gradient<Compute>(plan, target, channel + i);
    Quaternion<Compute> share;
    if (!picked.is_pair) {
      share = normalize_backward(load(here), gradient);
    } else if (offset == 0) {
      share = slerp_backward(load(here), load(here + forward.values_row_stride), location.weight,
                             gradient, true);
    } else {
      share = slerp_backward(load(here - forward.values_row_stride), load(here), location.weight,
                             gradient, false);
    }
    sum = weigh(Compute(1), sum, Compute(1), share);
  });
  for (int i = 0; i < 4; ++i) {
    store_as(forward.value_type, plan.grad_values, row * forward.channels + channel + i, sum.q[i]);
  }
}

}  // namespace robocache::ROBOCACHE_TARGET
