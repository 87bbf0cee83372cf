// The CPU kernels. The build compiles this file once per instruction set, each time into the
// namespace that ROBOCACHE_CPU_TARGET names; see core/target.h for what that asks of the code.
#include "align/align_cpu_kernels.h"

#include "align/combine.h"
#include "align/contribute.h"
#include "align/episode.h"
#include "align/locate.h"
#include "core/number.h"

namespace robocache::ROBOCACHE_TARGET {
namespace {

template <typename T>
struct Type {
  using type = T;
};

// Run-time types to compile-time ones: calls `body` with the Type<> that `type` stands for.

template <typename Body>
inline void with_time_type(DataType type, const Body& body) {
  if (type == DataType::kInt64) return body(Type<std::int64_t>{});
  if (type == DataType::kFloat64) return body(Type<double>{});
  body(Type<float>{});
}

template <typename Body>
inline void with_value_type(DataType type, const Body& body) {
  switch (type) {
    case DataType::kFloat16:
      return body(Type<Float16>{});
    case DataType::kBFloat16:
      return body(Type<BFloat16>{});
    case DataType::kFloat32:
      return body(Type<float>{});
    case DataType::kFloat64:
      return body(Type<double>{});
    default:
      return body(Type<std::uint8_t>{});
  }
}

template <typename Value, typename Out>
struct ComputeOf {
  using type = float;
};
template <typename Out>
struct ComputeOf<double, Out> {
  using type = double;
};
template <typename Value>
struct ComputeOf<Value, double> {
  using type = double;
};
template <>
struct ComputeOf<double, double> {
  using type = double;
};

std::int64_t first_unordered(const StreamPlan& plan, std::int64_t b) {
  std::int64_t found = -1;
  with_time_type(plan.time_type, [&](auto tag) {
    using Time = typename decltype(tag)::type;
    const auto episode = times_of<Time>(plan, b, episode_of(plan, b));
    // Counting first lets the loop be vectorised; only a faulty recording is read twice.
    std::int64_t unordered = episode.count > 0 && !(episode[0] <= episode[0]) ? 1 : 0;
    if (episode.stride == 1) {
      const Time* times = episode.times;
      for (std::int64_t row = 1; row < episode.count; ++row) {
        unordered += times[row - 1] <= times[row] ? 0 : 1;
      }
    } else {
      for (std::int64_t row = 1; row < episode.count; ++row) {
        unordered += episode[row - 1] <= episode[row] ? 0 : 1;
      }
    }
    if (unordered == 0) return;
    for (std::int64_t row = 0; row < episode.count && found < 0; ++row) {
      const Time before = episode[row > 0 ? row - 1 : 0];
      if (!(before <= episode[row])) found = row;
    }
  });
  return found;
}

/// Calls `use(i, b, t, first_row, location)` for the targets [begin, end). Targets mostly ascend, so
/// each search starts where the last one ended.
template <typename Time, typename Compute, typename Use>
inline void for_each_location(const StreamPlan& plan, std::int64_t begin, std::int64_t end,
                              const Use& use) {
  std::int64_t b = begin / plan.targets;
  std::int64_t t = begin % plan.targets;
  Episode<std::int64_t> episode = episode_of(plan, b);
  auto times = times_of<Time>(plan, b, episode);
  std::int64_t not_after = 0;
  for (std::int64_t i = begin; i < end; ++i) {
    const Time time = target_time<Time>(plan, b, t);
    if (episode.count > 0 && !is_nan(time)) {
      const std::int64_t guess = not_after > 0 ? not_after - 1 : 0;
      not_after = rows_not_after(times, time, guess);
    }
    use(i, b, t, episode.first_row, locate<Compute>(plan, times, time, bracket_of(times, not_after)));
    if (++t == plan.targets && i + 1 < end) {
      t = 0;
      ++b;
      episode = episode_of(plan, b);
      times = times_of<Time>(plan, b, episode);
      not_after = 0;
    }
  }
}

/// How a channel's value is finished: (x - subtract) * multiply, each where given.
template <typename Compute>
struct Scale {
  const Compute* subtract;
  std::int64_t subtract_stride;
  const Compute* multiply;
  std::int64_t multiply_stride;

  inline __attribute__((always_inline)) Compute operator()(Compute x, std::int64_t channel) const {
    if (subtract != nullptr) x = x - subtract[channel * subtract_stride];
    if (multiply != nullptr) x = x * multiply[channel * multiply_stride];
    return x;
  }
};

template <typename Compute>
Scale<Compute> scale_of(const StreamPlan& plan) {
  return {static_cast<const Compute*>(plan.subtract), plan.subtract_stride,
          static_cast<const Compute*>(plan.multiply), plan.multiply_stride};
}

/// One row's stretch of channels [first, last) of a method that is neither slerp nor angle.
/// kStride is 1 where channels are neighbours in memory, which lets the loops vectorise, else 0.
template <int kStride, typename Compute, typename Value, typename Out>
inline void write_channels(const Value* a, const Value* b, std::int64_t channel_stride, Compute w,
                           bool is_pair, const Scale<Compute>& scale, Out* out, std::int64_t first,
                           std::int64_t last) {
  const std::int64_t stride = kStride == 1 ? 1 : channel_stride;
  if (is_pair) {
    for (std::int64_t c = first; c < last; ++c) {
      const Compute x = lerp(Compute(widen(a[c * stride])), Compute(widen(b[c * stride])), w);
      out[c] = Round<Out>::from(scale(x, c));
    }
  } else {
    for (std::int64_t c = first; c < last; ++c) {
      out[c] = Round<Out>::from(scale(Compute(widen(a[c * stride])), c));
    }
  }
}

template <typename Compute, typename Value>
inline Quaternion<Compute> load_quaternion(const Value* channel, std::int64_t stride) {
  return {{Compute(widen(channel[0])), Compute(widen(channel[stride])),
           Compute(widen(channel[2 * stride])), Compute(widen(channel[3 * stride]))}};
}

/// One target's value; false if a quaternion that it is made from is zero.
template <typename Compute, typename Value, typename Out>
inline bool write_target(const StreamPlan& plan, const RunTable& runs, const Value* rows,
                         const Location<Compute>& location, const Scale<Compute>& scale, Out* out) {
  if (location.source == Source::kZero || location.source == Source::kNan) {
    const Out literal =
        location.source == Source::kZero ? Round<Out>::from(Compute(0)) : not_a_number<Out>();
    for (std::int64_t c = 0; c < plan.channels; ++c) out[c] = literal;
    return true;
  }
  const std::int64_t stride = plan.values_channel_stride;
  bool quaternions_exist = true;
  for (int run = 0; run < runs.count; ++run) {
    const Method method = runs.method[run];
    const std::int64_t first = runs.first_channel[run];
    const std::int64_t last = run + 1 < runs.count ? runs.first_channel[run + 1] : plan.channels;
    const MethodRows picked = rows_for(method, location);
    const Value* a = rows + (location.lo + picked.step) * plan.values_row_stride;
    const Value* b = picked.is_pair ? a + plan.values_row_stride : a;
    const Compute w = location.weight;
    if (is_slerp(method)) {
      const Quaternion<Compute> qa = load_quaternion<Compute>(a + first * stride, stride);
      const Quaternion<Compute> qb = load_quaternion<Compute>(b + first * stride, stride);
      const Quaternion<Compute> q = picked.is_pair ? slerp(qa, qb, w) : normalize(qa);
      quaternions_exist = quaternions_exist && !is_zero(qa) && !is_zero(qb);
      for (int i = 0; i < 4; ++i) out[first + i] = Round<Out>::from(scale(q.q[i], first + i));
    } else if (method == Method::kAngle) {
      for (std::int64_t c = first; c < last; ++c) {
        const Compute x = combine_channel(method, Compute(widen(a[c * stride])),
                                          Compute(widen(b[c * stride])), w, picked.is_pair);
        out[c] = Round<Out>::from(scale(x, c));
      }
    } else if (stride == 1) {
      write_channels<1>(a, b, stride, w, picked.is_pair, scale, out, first, last);
    } else {
      write_channels<0>(a, b, stride, w, picked.is_pair, scale, out, first, last);
    }
  }
  return quaternions_exist;
}

// Targets are located a block at a time, so that the search is compiled once per type of times and
// the values once per pair of value types, not once for every triple.
constexpr std::int64_t kBlock = 128;

template <typename Compute>
struct LocatedTarget {
  Location<Compute> location;
  std::int64_t b, t, first_row;
};

template <typename Compute>
void locate_block(const StreamPlan& plan, std::int64_t begin, std::int64_t end,
                  LocatedTarget<Compute>* located) {
  with_time_type(plan.time_type, [&](auto tag) {
    using Time = typename decltype(tag)::type;
    for_each_location<Time, Compute>(
        plan, begin, end,
        [&](std::int64_t i, std::int64_t b, std::int64_t t, std::int64_t first_row,
            const Location<Compute>& location) {
          located[i - begin] = {location, b, t, first_row};
        });
  });
}

template <typename Value, typename Out>
void align_values(const StreamPlan& plan, const RunTable& runs, std::int64_t begin,
                  std::int64_t end) {
  using Compute = typename ComputeOf<Value, Out>::type;
  const Scale<Compute> scale = scale_of<Compute>(plan);
  LocatedTarget<Compute> located[kBlock];
  for (std::int64_t block = begin; block < end; block += kBlock) {
    const std::int64_t count = end - block < kBlock ? end - block : kBlock;
    locate_block(plan, block, block + count, located);
    for (std::int64_t i = 0; i < count; ++i) {
      const LocatedTarget<Compute>& target = located[i];
      Out* out = static_cast<Out*>(plan.out) + target.b * plan.out_batch_stride +
                 target.t * plan.out_target_stride;
      const Value* rows = static_cast<const Value*>(plan.values) +
                          target.b * plan.values_batch_stride +
                          target.first_row * plan.values_row_stride;
      const bool exists = write_target(plan, runs, rows, target.location, scale, out);
      if (plan.out_valid != nullptr) {
        plan.out_valid[target.b * plan.out_valid_batch_stride +
                       target.t * plan.out_valid_target_stride] = target.location.valid && exists;
      }
    }
  }
}

void align(const StreamPlan& plan, const RunTable& runs, std::int64_t begin, std::int64_t end) {
  with_value_type(plan.value_type, [&](auto value) {
    with_value_type(plan.out_type, [&](auto out) {
      align_values<typename decltype(value)::type, typename decltype(out)::type>(plan, runs, begin,
                                                                                 end);
    });
  });
}

template <typename Compute>
void record_targets(const BackwardPlan& plan, TargetRecord* records, std::int64_t begin,
                    std::int64_t end) {
  const StreamPlan& forward = plan.forward;
  with_time_type(forward.time_type, [&](auto tag) {
    using Time = typename decltype(tag)::type;
    for_each_location<Time, Compute>(
        forward, begin, end,
        [&](std::int64_t i, std::int64_t b, std::int64_t /*t*/, std::int64_t first_row,
            const Location<Compute>& location) {
          records[i] = make_record(plan, b, first_row, location);
        });
  });
}

void record(const BackwardPlan& plan, TargetRecord* records, std::int64_t begin,
            std::int64_t end) {
  if (computes_in_double(plan.forward)) {
    record_targets<double>(plan, records, begin, end);
  } else {
    record_targets<float>(plan, records, begin, end);
  }
}

template <typename Compute>
void gather_rows(const BackwardPlan& plan, const RunTable& runs, const TargetRecord* records,
                 const std::int64_t* order, const std::int64_t* starts, std::int64_t begin,
                 std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row) {
    const RowTargets targets{records, order, row > 0 ? starts[row - 1] : starts[row], starts[row],
                             starts[row + 1]};
    for (int run = 0; run < runs.count; ++run) {
      const std::int64_t first = runs.first_channel[run];
      const std::int64_t last = run + 1 < runs.count ? runs.first_channel[run + 1] : plan.forward.channels;
      if (is_slerp(runs.method[run])) {
        gather_quaternion<Compute>(plan, targets, row, first);
        continue;
      }
      for (std::int64_t c = first; c < last; ++c) {
        gather_channel<Compute>(plan, targets, runs.method[run], row, c);
      }
    }
  }
}

void gather(const BackwardPlan& plan, const RunTable& runs, const TargetRecord* records,
            const std::int64_t* order, const std::int64_t* starts, std::int64_t begin,
            std::int64_t end) {
  if (computes_in_double(plan.forward)) {
    gather_rows<double>(plan, runs, records, order, starts, begin, end);
  } else {
    gather_rows<float>(plan, runs, records, order, starts, begin, end);
  }
}

}  // namespace

const AlignCpuKernels& align_cpu_kernels() {
  static constexpr AlignCpuKernels kernels{first_unordered, align, record, gather};
  return kernels;
}

}  // namespace robocache::ROBOCACHE_TARGET
