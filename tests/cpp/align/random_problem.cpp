#include "align/random_problem.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "align/random_times.h"

namespace robocache::testing {
namespace {

/// The shape with the batch in front, where there is to be one.
std::vector<std::int64_t> batched(bool has_batch, std::int64_t batch,
                                  std::vector<std::int64_t> rest) {
  if (has_batch) rest.insert(rest.begin(), batch);
  return rest;
}

/// Whether several elements are one in memory.
bool has_repeats(const ConstTensorView& view) {
  for (int axis = 0; axis < view.rank; ++axis) {
    if (view.shape[axis] > 1 && view.strides[axis] == 0) return true;
  }
  return false;
}

StreamData random_stream(Random& random, const Wanted& wanted, const Clock& clock,
                         DataType out_type, bool has_batch, std::int64_t batch) {
  StreamData data;
  DataType value_type = wanted.value_type ? *wanted.value_type : random.pick(kValueTypes);
  if (wanted.is_differentiable && value_type == DataType::kUInt8) value_type = DataType::kFloat64;
  const bool is_ragged = has_batch && (wanted.is_ragged ? *wanted.is_ragged : random.one_in(4));
  const std::int64_t rows = random.one_in(8) ? 0 : 1 + random.below(random.pick({3, 20, 60}));
  std::int64_t channels = random.one_in(16) ? 0 : 1 + random.below(random.pick({4, 16, 40}));
  if (random.one_in(12)) channels = 150 + random.below(900);
  if (wanted.is_vectorized) {
    channels = *wanted.is_vectorized ? 16 * (1 + random.below(random.pick({3, 60})))
                                     : 1 + 2 * random.below(random.pick({6, 90}));
  }

  if (wanted.is_wide) channels = random.pick<std::int64_t>({1, 1, 2, 3, 16, 17, 1000, 4095, 4096});

  data.method = wanted.method ? *wanted.method
                              : random.pick({Method::kLinear, Method::kPrevious, Method::kNearest,
                                             Method::kAngle, Method::kMean, Method::kSum});
  if (is_slerp(data.method)) channels = 4;
  if (!wanted.method && !wanted.is_vectorized && channels > 0 && random.one_in(2)) {
    // A call takes so many runs in all.
    channels = std::min<std::int64_t>(channels, wanted.streams > 8 ? 8 : 200);
    data.layout = random_layout(channels, random);
  }

  const auto make = [&](DataType type, const std::vector<std::int64_t>& shape) {
    return wanted.is_vectorized ? Tensor(type, shape) : random_tensor(type, shape, random);
  };
  const auto own_batch = [&] { return has_batch && !is_ragged && !random.one_in(3); };
  const std::vector<std::int64_t> shape = batched(own_batch(), batch, {rows, channels});
  data.values = make(value_type, shape);
  fill_values(data.values, data.runs(), wanted.is_differentiable, random);

  // Which rows there are, before their times: those that do not exist may hold anything.
  if (is_ragged || random.one_in(3)) {
    const bool is_batched = has_batch && !random.one_in(4);
    data.lengths =
        make(random.pick({DataType::kInt64, DataType::kInt32}), batched(is_batched, batch, {}));
    for (std::int64_t i = 0; i < data.lengths.size(); ++i) {
      data.lengths.set(i, static_cast<double>(random.below(rows + 1)));
    }
  }
  const auto length = [&](std::int64_t b) {
    if (!data.lengths.present()) return rows;
    return static_cast<std::int64_t>(data.lengths.get(data.lengths.size() == 1 ? 0 : b));
  };
  if (is_ragged) {
    data.begins = random.one_in(2) ? Tensor(DataType::kInt64, {batch})
                                   : Tensor(DataType::kInt64, {batch}, {2}, 1);
    for (std::int64_t b = 0; b < batch; ++b) {
      data.begins.set_int(b, random.below(rows - length(b) + 1));
    }
  }

  data.times = make(clock.type, batched(own_batch(), batch, {rows}));
  const std::int64_t copies = rows == 0 ? 0 : data.times.size() / rows;
  for (std::int64_t copy = 0; copy < copies; ++copy) {
    Usage usage(rows);
    // Without a batch row, or where elements share their memory, all rows are in order.
    if (batch == 0 || has_repeats(data.times.view())) usage.add(0, rows);
    for (std::int64_t b = 0; b < (has_batch ? batch : 1); ++b) {
      if (copies > 1 && b != copy) continue;
      usage.add(is_ragged ? data.begins.get_int(b) : 0, length(b));
    }
    fill_times(data.times, copy * rows, usage, clock, random);
  }

  if (random.one_in(2)) {
    data.valid = make(DataType::kBool, batched(own_batch(), batch, {rows}));
    for (std::int64_t i = 0; i < data.valid.size(); ++i)
      data.valid.set(i, random.one_in(5) ? 0 : 1);
  }
  const bool is_double = value_type == DataType::kFloat64 || out_type == DataType::kFloat64;
  const DataType compute = is_double ? DataType::kFloat64 : DataType::kFloat32;
  if (random.one_in(3)) {
    data.subtract = make(compute, {channels});
    fill_at_random(data.subtract, random, 2);
  }
  if (random.one_in(3)) {
    data.multiply = make(compute, {channels});
    fill_at_random(data.multiply, random, 2);
  }
  if (random.one_in(2)) data.max_gap = clock.duration(random.below(4), random);
  if (random.one_in(2)) data.tolerance = clock.duration(random.below(3) / 2, random);
  if (random.one_in(4) && clock.type != DataType::kInt64) {
    data.tolerance = Duration::seconds(0.3 * clock.step_seconds);
  }
  if (data.has(Method::kMean)) {
    data.mean_window = clock.duration(random.below(random.pick({2, 4, 12})), random);
    if (random.one_in(3) && clock.type != DataType::kInt64) {
      data.mean_window = Duration::seconds(1.7 * clock.step_seconds);
    }
  }
  if (random.one_in(3)) data.clock_offset = clock.clock_offset(random);
  return data;
}

/// Whether the stream gives the batch its size.
bool has_batch(const StreamData& data) {
  return data.values.shape().size() == 3 || data.times.shape().size() == 2 ||
         data.valid.shape().size() == 2 || data.lengths.shape().size() == 1 ||
         data.begins.present();
}

}  // namespace

std::vector<Run> random_layout(std::int64_t channels, Random& random) {
  std::vector<Run> layout;
  while (channels > 0) {
    const Method method = random.pick(kMethods);
    if (is_slerp(method) && channels < 4) continue;
    const std::int64_t width =
        is_slerp(method) ? 4 : 1 + random.below(std::min<std::int64_t>(channels, 6));
    layout.push_back({method, width});
    channels -= width;
  }
  return layout;
}

/// Numbers that suit each run: quaternions some of which are zero, angles some of which are far
/// from (-pi, pi], and anything at all elsewhere.
void fill_values(Tensor& values, const std::vector<Run>& runs, bool is_plain, Random& random) {
  const std::int64_t channels = values.shape().back();
  const std::int64_t rows = channels == 0 ? 0 : values.size() / channels;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int64_t index = row * channels;
    for (const Run& run : runs) {
      const double size = run.method == Method::kAngle ? random.pick({3.141592, 3.141592, 20.0})
                                                       : random.pick({1.0, 1.0, 300.0});
      const bool is_zero = random.one_in(12);
      for (const std::int64_t end = index + run.channels; index < end; ++index) {
        double x = random.between(-size, size);
        if (random.one_in(4)) x = std::nearbyint(x);
        if (is_slerp(run.method)) {
          if (is_zero) x = 0;
        } else if (run.method != Method::kAngle && !is_plain && random.one_in(20)) {
          x = random.pick({std::numeric_limits<double>::quiet_NaN(),
                           std::numeric_limits<double>::infinity(), -0.0, 6e-8, 65504.0, 1e38,
                           -std::numeric_limits<double>::infinity()});
        }
        if (values.type() == DataType::kUInt8) x = std::nearbyint(std::fabs(x));
        values.set(index, x);
      }
    }
  }
}

Tensor random_tensor(DataType type, const std::vector<std::int64_t>& shape, Random& random,
                     bool is_output) {
  if (random.one_in(3)) return {type, shape};
  std::vector<std::size_t> axes;  // from the innermost in memory outwards
  for (std::size_t axis = shape.size(); axis-- > 0;) axes.push_back(axis);
  const std::size_t movable = is_output ? 1 : 0;
  for (std::size_t i = axes.size(); i-- > movable + 1;) {
    const std::size_t other =
        movable +
        static_cast<std::size_t>(random.below(static_cast<std::int64_t>(i - movable + 1)));
    std::swap(axes[i], axes[other]);
  }
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t stride = is_output ? 1 : random.pick({1, 1, 1, 2, 3});
  for (const std::size_t axis : axes) {
    const bool is_last = axis + 1 == shape.size();
    strides[axis] = stride;
    stride = stride * std::max<std::int64_t>(1, shape[axis]) + random.pick({0, 0, 1, 3});
    if (is_output && is_last) continue;
    if (random.one_in(12)) strides[axis] = -strides[axis];
    if (!is_output && random.one_in(20)) strides[axis] = 0;
  }
  return {type, shape, strides, random.pick({0, 0, 1, 3})};
}

void fill_at_random(Tensor& tensor, Random& random, double magnitude) {
  for (std::int64_t i = 0; i < tensor.size(); ++i) {
    tensor.set(i, random.between(-magnitude, magnitude));
  }
}

Problem random_problem(std::uint64_t seed, const Wanted& wanted) {
  Random random(seed);
  Problem problem;
  const bool is_batched = (wanted.is_ragged && *wanted.is_ragged) || !random.one_in(4);
  const std::int64_t batch = random.one_in(16) ? 0 : 1 + random.below(5);
  const Clock clock(wanted.time_type ? *wanted.time_type : random.pick(kTimeTypes), random);
  DataType out_type = wanted.out_type ? *wanted.out_type : random.pick(kValueTypes);
  if (wanted.is_differentiable && out_type == DataType::kUInt8) out_type = DataType::kFloat32;

  std::int64_t channels = 0;
  std::int64_t rows = 0;
  bool has_b = false;
  bool has_sum = false;
  for (int i = 0; i < wanted.streams; ++i) {
    problem.streams.push_back(random_stream(random, wanted, clock, out_type, is_batched, batch));
    const std::vector<std::int64_t> shape = problem.streams.back().values.shape();
    channels += shape.back();
    rows = std::max(rows, shape[shape.size() - 2]);
    has_b = has_b || has_batch(problem.streams.back());
    has_sum = has_sum || problem.streams.back().has(Method::kSum);
  }
  const std::int64_t most_targets = channels > 200 ? 8 : random.pick({8, 60, 300});
  const std::int64_t targets = random.one_in(16) ? 0 : 1 + random.below(most_targets);
  const bool own_targets = is_batched && !random.one_in(3);
  has_b = has_b || own_targets;
  const auto make = [&](DataType type, const std::vector<std::int64_t>& shape, bool is_output) {
    return wanted.is_vectorized ? Tensor(type, shape)
                                : random_tensor(type, shape, random, is_output);
  };
  problem.target_times = make(clock.type, batched(own_targets, batch, {targets}), false);
  fill_targets(problem.target_times, rows, has_sum, clock, random);

  problem.options.outside =
      random.pick({Outside::kHold, Outside::kZero, Outside::kNan, Outside::kExtrapolate});
  if (problem.options.outside == Outside::kNan && out_type == DataType::kUInt8) {
    problem.options.outside = Outside::kZero;
  }
  const std::vector<std::int64_t> shape = batched(has_b, batch, {targets, channels});
  problem.values_out = make(out_type, shape, true);
  if (!random.one_in(6)) {
    problem.valid_out =
        make(DataType::kBool, batched(has_b, batch, {targets, wanted.streams}), true);
  }
  if (random.one_in(2)) {
    problem.age_out = make(clock.type, batched(has_b, batch, {targets, wanted.streams}), true);
  }
  return problem;
}

}  // namespace robocache::testing
