// Computes the values of located targets on the CPU, for alignment and for the loader's windows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "align/combine.h"
#include "align/locate.h"
#include "align/plan.h"
#include "align/window.h"
#include "core/dispatch.h"
#include "core/number.h"
#include "core/target.h"

namespace robocache::ROBOCACHE_TARGET {

template <typename A, typename B>
constexpr bool kIsSame = false;
template <typename A>
constexpr bool kIsSame<A, A> = true;

// Values pass through the compute type in stretches of channels that fit the L1 cache. So code is
// compiled per value type and per output type, not per pair of them, and every loop vectorizes.
constexpr std::int64_t kStretch = 256;

/// Returns channels [first, first + count) of a row in the compute type: in `buffer`, or in place
/// where they have that type and stride 1.
template <typename Compute, typename Value>
const Compute* widen_stretch(const void* values, std::int64_t row, std::int64_t stride,
                             std::int64_t first, std::int64_t count, Compute* __restrict buffer) {
  const Value* from = static_cast<const Value*>(values) + row + first * stride;
  if (stride == 1) {
    if constexpr (kIsSame<Value, Compute>) {
      return from;
    } else {
      for (std::int64_t i = 0; i < count; ++i) buffer[i] = Compute(widen(from[i]));
    }
  } else {
    for (std::int64_t i = 0; i < count; ++i) buffer[i] = Compute(widen(from[i * stride]));
  }
  return buffer;
}

template <typename Compute, typename Out>
void round_stretch(const Compute* __restrict from, std::int64_t count, void* out,
                   std::int64_t first) {
  Out* __restrict to = static_cast<Out*>(out) + first;
  for (std::int64_t i = 0; i < count; ++i) to[i] = Round<Out>::from(from[i]);
}

/// Copies or interpolates a stretch from row `a`, or rows `a` and `b`, in one loop. This serves the
/// usual case: contiguous channels, an output of the values' type, and no scale.
template <typename Compute, typename Value>
inline __attribute__((always_inline)) void lerp_stretch(const void* values, std::int64_t row_a,
                                                        std::int64_t row_b, Compute w, bool is_pair,
                                                        std::int64_t count, void* out,
                                                        std::int64_t first) {
  const Value* a = static_cast<const Value*>(values) + row_a;
  const Value* b = static_cast<const Value*>(values) + row_b;
  Value* __restrict to = static_cast<Value*>(out) + first;
  if (is_pair) {
    for (std::int64_t i = 0; i < count; ++i) {
      to[i] = Round<Value>::from(lerp(Compute(widen(a[i])), Compute(widen(b[i])), w));
    }
  } else if constexpr (kIsSame<Value, std::uint8_t>) {
    // The bytes that rounding would return. Rows without elements may have a null pointer.
    if (count > 0) __builtin_memcpy(to, a, static_cast<std::size_t>(count));
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i] = Round<Value>::from(Compute(widen(a[i])));
  }
}

template <typename Compute>
struct LocatedTarget {
  Location<Compute> location;
  std::int64_t b, t;
  std::int64_t first_row;     // of the target's episode
  std::int64_t values;        // the position of that row's values, in elements
  const std::int32_t* slots;  // of the values of that row and later ones; null: in order

  /// The position of the values of a row, which is counted from the first, in elements.
  std::int64_t position_of(std::int64_t row, std::int64_t row_stride) const {
    return values + (slots == nullptr ? row : slots[row]) * row_stride;
  }
};

/// The positions of the values of a method's rows, in elements; `b` is `a` where the method reads
/// one row.
struct RowPair {
  std::int64_t a, b;
};

template <typename Compute>
RowPair positions_of(const StreamPlan& plan, const LocatedTarget<Compute>& target, std::int64_t lo,
                     const MethodRows& picked) {
  const std::int64_t row = lo + picked.step;
  const std::int64_t a = target.position_of(row, plan.values_row_stride);
  return {a, picked.is_pair ? target.position_of(row + 1, plan.values_row_stride) : a};
}

/// Writes targets of a stream with one linear, previous or nearest run, in the usual case (see
/// `lerp_stretch`): decisions that all targets share are outside the loop.
template <typename Compute, typename Value>
void lerp_targets(const StreamPlan& plan, const LocatedTarget<Compute>* targets,
                  std::int64_t count) {
  const Method method = plan.method;
  for (std::int64_t i = 0; i < count; ++i) {
    const LocatedTarget<Compute>& target = targets[i];
    const Location<Compute>& location = target.location;
    const std::int64_t out = target.b * plan.out_batch_stride + target.t * plan.out_target_stride;
    if (is_literal(location.source)) {
      const Compute literal =
          location.source == Source::kZero ? Compute(0) : not_a_number<Compute>();
      Value* to = static_cast<Value*>(plan.out) + out;
      for (std::int64_t c = 0; c < plan.channels; ++c) to[c] = Round<Value>::from(literal);
      continue;
    }
    const MethodRows picked = rows_for(method, location);
    const RowPair rows = positions_of(plan, target, location.lo, picked);
    lerp_stretch<Compute, Value>(plan.values, rows.a, rows.b, location.weight, picked.is_pair,
                                 plan.channels, plan.out, out);
  }
}

/// Functions for the types of a plan's values and output.
template <typename Compute>
struct Conversion {
  const Compute* (*widen)(const void* values, std::int64_t row, std::int64_t stride,
                          std::int64_t first, std::int64_t count, Compute* buffer);
  void (*round)(const Compute* from, std::int64_t count, void* out, std::int64_t first);
  bool is_needed_at_end;  // whether the output is not of the compute type
  // `lerp_stretch`; null where it does not apply.
  void (*lerp)(const void* values, std::int64_t row_a, std::int64_t row_b, Compute w, bool is_pair,
               std::int64_t count, void* out, std::int64_t first);
  // `lerp_targets`, for all channels of many targets; null also where there are several runs.
  void (*lerp_targets)(const StreamPlan& plan, const LocatedTarget<Compute>* targets,
                       std::int64_t count);
};

template <typename Compute>
Conversion<Compute> conversion_of(const StreamPlan& plan, const RunTable& runs) {
  Conversion<Compute> conversion{};
  with_value_type(plan.value_type, [&](auto tag) {
    using Value = typename decltype(tag)::type;
    conversion.widen = widen_stretch<Compute, Value>;
    if (plan.value_type == plan.out_type && plan.values_channel_stride == 1 &&
        plan.subtract == nullptr && plan.multiply == nullptr) {
      conversion.lerp = lerp_stretch<Compute, Value>;
      if (runs.count == 1 && copies_or_lerps(plan.method)) {
        conversion.lerp_targets = lerp_targets<Compute, Value>;
      }
    }
  });
  with_value_type(plan.out_type, [&](auto tag) {
    using Out = typename decltype(tag)::type;
    conversion.round = round_stretch<Compute, Out>;
    conversion.is_needed_at_end = !kIsSame<Compute, Out>;
  });
  return conversion;
}

template <typename Compute>
Quaternion<Compute> quaternion_at(const Compute* from) {
  return {{from[0], from[1], from[2], from[3]}};
}

/// Combines a stretch of channels that share a method, from row `a` or rows `a` and `b`. Returns
/// false if an input is a zero quaternion. `out` may not overlap the rows.
template <typename Compute>
bool combine_stretch(Method method, const Compute* a, const Compute* b, Compute w, bool is_pair,
                     std::int64_t count, Compute* __restrict out) {
  if (is_slerp(method)) {
    const Quaternion<Compute> qa = quaternion_at(a);
    const Quaternion<Compute> qb = quaternion_at(b);
    const Quaternion<Compute> q = is_pair ? slerp(qa, qb, w) : normalize(qa);
    for (int i = 0; i < 4; ++i) out[i] = q.q[i];
    return !is_zero(qa) && !is_zero(qb);
  }
  if (!copies_or_lerps(method)) {
    for (std::int64_t i = 0; i < count; ++i) {
      out[i] = combine_channel(method, a[i], b[i], w, is_pair);
    }
  } else if (is_pair) {
    for (std::int64_t i = 0; i < count; ++i) out[i] = lerp(a[i], b[i], w);
  } else {
    for (std::int64_t i = 0; i < count; ++i) out[i] = a[i];
  }
  return true;
}

/// Computes (x - subtract) * multiply, each where present, for channels [first, first + count).
template <typename Compute>
void scale_stretch(const StreamPlan& plan, std::int64_t first, std::int64_t count, Compute* out) {
  if (plan.subtract != nullptr) {
    const Compute* __restrict subtract = static_cast<const Compute*>(plan.subtract);
    for (std::int64_t i = 0; i < count; ++i) {
      out[i] = out[i] - subtract[(first + i) * plan.subtract_stride];
    }
  }
  if (plan.multiply != nullptr) {
    const Compute* __restrict multiply = static_cast<const Compute*>(plan.multiply);
    for (std::int64_t i = 0; i < count; ++i) {
      out[i] = out[i] * multiply[(first + i) * plan.multiply_stride];
    }
  }
}

/// Computes a stretch of the mean or the sum of the valid rows of a window, in order of the rows.
template <typename Compute>
void add_stretch(const StreamPlan& plan, const Conversion<Compute>& conversion,
                 const LocatedTarget<Compute>& target, const Window<std::int64_t>& window,
                 Method method, std::int64_t first, std::int64_t count, Compute* __restrict buffer,
                 Compute* __restrict out) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = Compute(0);
  const bool* valid = plan.valid;
  if (valid != nullptr) {
    valid += target.b * plan.valid_batch_stride + target.first_row * plan.valid_row_stride;
  }
  for (std::int64_t row = window.begin; row < window.end; ++row) {
    if (valid != nullptr && !valid[row * plan.valid_row_stride]) continue;
    const Compute* from =
        conversion.widen(plan.values, target.position_of(row, plan.values_row_stride),
                         plan.values_channel_stride, first, count, buffer);
    for (std::int64_t i = 0; i < count; ++i) out[i] = out[i] + from[i];
  }
  if (method == Method::kSum) return;
  const Compute divisor = static_cast<Compute>(window.count);
  for (std::int64_t i = 0; i < count; ++i) out[i] = out[i] / divisor;
}

/// The location of a window that is a single row or a literal; `linear` for kAsLinear.
template <typename Compute>
Location<Compute> location_of_window(const Window<std::int64_t>& window,
                                     const Location<Compute>& linear) {
  Location<Compute> location{window.begin, Compute(0), Source::kRow, false, window.valid};
  switch (window.source) {
    case WindowSource::kAsLinear:
      return linear;
    case WindowSource::kZero:
      location.source = Source::kZero;
      break;
    case WindowSource::kNan:
      location.source = Source::kNan;
      break;
    default:
      break;
  }
  return location;
}

/// A `change` of `write_target` that leaves values as they are.
struct NoChange {
  template <typename Compute>
  void operator()(std::int64_t, std::int64_t, Compute*) const {}
};

/// Writes one target's value; returns false if one of its quaternions is zero. `windows` may be
/// null where no run adds rows. `change(first, count, x)` may change the channels
/// [first, first + count) before they are scaled. It is not called for literals, nor where
/// `conversion.lerp` is not null.
template <typename Compute, typename Change = NoChange>
bool write_target(const StreamPlan& plan, const RunTable& runs,
                  const Conversion<Compute>& conversion, const LocatedTarget<Compute>& target,
                  const Windows<std::int64_t>* windows, const Change& change = {}) {
  alignas(64) Compute buffer_a[kStretch], buffer_b[kStretch], buffer_out[kStretch];
  const std::int64_t out_0 = target.b * plan.out_batch_stride + target.t * plan.out_target_stride;
  bool quaternions_exist = true;
  for (int run = 0; run < runs.count; ++run) {
    const std::int64_t begin = runs[run].first_channel;
    const std::int64_t end = runs.end_channel(run, plan.channels);
    Method method = runs[run].method;
    Location<Compute> location = target.location;
    const Window<std::int64_t>* window = nullptr;
    if (adds_rows(method)) {
      window = &windows->of(method);
      if (window->source != WindowSource::kRows) {
        location = location_of_window(*window, location);
        method = Method::kLinear;
        window = nullptr;
      }
    }
    const MethodRows picked = rows_for(method, location);
    const RowPair rows = positions_of(plan, target, location.lo, picked);
    if (conversion.lerp != nullptr && !is_literal(location.source) && copies_or_lerps(method)) {
      conversion.lerp(plan.values, rows.a + begin, rows.b + begin, location.weight, picked.is_pair,
                      end - begin, plan.out, out_0 + begin);
      continue;
    }
    for (std::int64_t first = begin; first < end; first += kStretch) {
      const std::int64_t count = end - first < kStretch ? end - first : kStretch;
      Compute* out = conversion.is_needed_at_end ? buffer_out
                                                 : static_cast<Compute*>(plan.out) + out_0 + first;
      if (window != nullptr) {
        add_stretch(plan, conversion, target, *window, method, first, count, buffer_a, out);
        change(first, count, out);
        scale_stretch(plan, first, count, out);
      } else if (is_literal(location.source)) {
        const Compute literal =
            location.source == Source::kZero ? Compute(0) : not_a_number<Compute>();
        for (std::int64_t i = 0; i < count; ++i) out[i] = literal;
      } else {
        const Compute* a = conversion.widen(plan.values, rows.a, plan.values_channel_stride, first,
                                            count, buffer_a);
        const Compute* b = picked.is_pair
                               ? conversion.widen(plan.values, rows.b, plan.values_channel_stride,
                                                  first, count, buffer_b)
                               : a;
        const bool exists =
            combine_stretch(method, a, b, location.weight, picked.is_pair, count, out);
        quaternions_exist = quaternions_exist && exists;
        change(first, count, out);
        scale_stretch(plan, first, count, out);
      }
      if (conversion.is_needed_at_end) conversion.round(out, count, plan.out, out_0 + first);
    }
  }
  return quaternions_exist;
}

}  // namespace robocache::ROBOCACHE_TARGET
