#include "problem.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <sstream>

#include "numbers.h"
#include "reference.h"

namespace robocache::testing {
namespace {

constexpr unsigned char kGap = 0xA5;  // what the memory between an output's elements holds

bool is_slerp(Method method) {
  return method == Method::kSlerpXyzw || method == Method::kSlerpWxyz;
}

bool is_double(DataType values, DataType out) {
  return values == DataType::kFloat64 || out == DataType::kFloat64;
}

/// A tensor of random strides: contiguous, with gaps, with its dimensions in any order in memory,
/// backwards, or expanded. An output keeps its last stride 1 and no element twice.
Tensor random_tensor(DataType type, const std::vector<std::int64_t>& shape, Random& random,
                     bool is_output = false) {
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

/// The shape with the batch in front, where there is to be one.
std::vector<std::int64_t> batched(bool has_batch, std::int64_t batch,
                                  std::vector<std::int64_t> rest) {
  if (has_batch) rest.insert(rest.begin(), batch);
  return rest;
}

// Times are made of ticks: `first + tick * step`, in int64 without overflow, or in seconds.
struct Clock {
  DataType type;
  std::int64_t first, step;
  double first_seconds, step_seconds;

  Clock(DataType time_type, Random& random) : type(time_type) {
    constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();
    first = random.pick<std::int64_t>({0, 0, -1000, 1'700'000'000'000'000'000, kLowest,
                                       std::numeric_limits<std::int64_t>::max() - 2000});
    step = random.pick<std::int64_t>({1, 7, 1000, 33'333'333, std::int64_t{1} << 57});
    first_seconds = type == DataType::kFloat64 ? random.pick({0.0, -3.0, 1.7e9})
                                               : random.pick({0.0, -3.0, 1000.0});
    step_seconds = random.pick({0.25, 0.01, 1.0 / 30, 1e-4});
  }

  std::int64_t time(std::int64_t tick) const {
    const __int128 time = __int128{first} + __int128{tick} * step;
    return static_cast<std::int64_t>(std::clamp<__int128>(
        time, std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()));
  }

  void set(Tensor& times, std::int64_t index, std::int64_t tick) const {
    if (type == DataType::kInt64) {
      times.set_int(index, time(tick));
    } else {
      times.set(index, first_seconds + static_cast<double>(tick) * step_seconds);
    }
  }

  Duration duration(std::int64_t ticks, Random& random) const {
    if (type == DataType::kInt64) {
      const __int128 length = __int128{ticks} * step;
      return Duration::nanoseconds(static_cast<std::int64_t>(
          std::min<__int128>(length, std::numeric_limits<std::int64_t>::max())));
    }
    if (random.one_in(12)) return Duration::seconds(std::numeric_limits<double>::infinity());
    return Duration::seconds(static_cast<double>(ticks) * step_seconds);
  }
};

/// Whether several elements are one in memory.
bool has_repeats(const ConstTensorView& view) {
  for (int axis = 0; axis < view.rank; ++axis) {
    if (view.shape[axis] > 1 && view.strides[axis] == 0) return true;
  }
  return false;
}

/// How one array of times is used: which rows are of some episode, and which must not be before the
/// row in front of them.
struct Usage {
  std::vector<bool> is_used, follows;

  explicit Usage(std::int64_t rows)
      : is_used(static_cast<std::size_t>(rows)), follows(static_cast<std::size_t>(rows) + 1) {}

  void add(std::int64_t begin, std::int64_t count) {
    for (std::int64_t row = begin; row < begin + count; ++row) {
      is_used[row] = true;
      if (row > begin) follows[row] = true;
    }
  }
};

/// Times that ascend where they must and jump back elsewhere, from element `first` on. Now and then
/// they begin at -infinity or end at infinity; rows that are not used hold anything.
void fill_times(Tensor& times, std::int64_t first, const Usage& usage, const Clock& clock,
                Random& random) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::int64_t tick = 0;
  for (std::size_t row = 0; row < usage.is_used.size(); ++row) {
    const std::int64_t index = first + static_cast<std::int64_t>(row);
    tick = usage.follows[row] ? tick + random.pick({0, 1, 1, 2, 3, 10}) : random.below(4);
    clock.set(times, index, tick);
    if (clock.type == DataType::kInt64) continue;
    if (!usage.is_used[row] && random.one_in(3)) {
      times.set(index, std::numeric_limits<double>::quiet_NaN());
    } else if (!usage.follows[row] && random.one_in(12)) {
      times.set(index, -kInfinity);
    } else if (!usage.follows[row + 1] && random.one_in(12)) {
      times.set(index, kInfinity);
    }
  }
}

void fill_targets(Tensor& targets, std::int64_t rows, const Clock& clock, Random& random) {
  const std::int64_t last = 2 * rows + 8;  // about a quarter lies outside the recording
  std::int64_t tick = -6;
  for (std::int64_t i = 0; i < targets.size(); ++i) {
    tick = random.one_in(3) ? random.below(last + 12) - 6 : tick + random.below(3);
    if (clock.type == DataType::kInt64) {
      std::int64_t time = clock.time(tick);
      if (random.one_in(3)) {  // between ticks
        time = clock.time(tick) / 2 + clock.time(tick + 1) / 2;
      }
      if (random.one_in(40)) {
        time = random.pick(
            {std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()});
      }
      targets.set_int(i, time);
      continue;
    }
    double time = clock.first_seconds + static_cast<double>(tick) * clock.step_seconds;
    if (random.one_in(2)) time += random.between(-1, 1) * clock.step_seconds;
    if (random.one_in(25)) time = std::numeric_limits<double>::quiet_NaN();
    if (random.one_in(40)) time = std::copysign(std::numeric_limits<double>::infinity(), time);
    targets.set(i, time);
  }
}

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

/// Numbers that suit each run: quaternions some of which are zero, angles some of which are far from
/// (-pi, pi], and anything at all elsewhere.
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

  data.method =
      wanted.method
          ? *wanted.method
          : random.pick({Method::kLinear, Method::kPrevious, Method::kNearest, Method::kAngle});
  if (is_slerp(data.method)) channels = 4;
  if (!wanted.method && !wanted.is_vectorized && channels > 0 && random.one_in(2)) {
    data.layout = random_layout(std::min<std::int64_t>(channels, 200), random);
    channels = std::min<std::int64_t>(channels, 200);
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
  const DataType compute =
      is_double(value_type, out_type) ? DataType::kFloat64 : DataType::kFloat32;
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
  return data;
}

/// Whether the stream gives the batch its size.
bool has_batch(const StreamData& data) {
  return data.values.shape().size() == 3 || data.times.shape().size() == 2 ||
         data.valid.shape().size() == 2 || data.lengths.shape().size() == 1 ||
         data.begins.present();
}

std::string difference(const std::string& what, std::int64_t index, double low, double high,
                       double got) {
  std::ostringstream text;
  text.precision(17);
  text << what << " at " << index << ": expected " << low;
  if (!is_same_number(low, high)) text << " to " << high;
  text << ", got " << got;
  return text.str();
}

}  // namespace

Stream StreamData::stream() const {
  Stream stream;
  stream.values = values.view();
  stream.times = times.view();
  stream.lengths = lengths.view();
  stream.begins = begins.view();
  stream.valid = valid.view();
  stream.subtract = subtract.view();
  stream.multiply = multiply.view();
  stream.method = method;
  stream.layout = layout;
  stream.max_gap = max_gap;
  stream.tolerance = tolerance;
  return stream;
}

std::vector<Run> StreamData::runs() const {
  if (!layout.empty()) return layout;
  return {{method, values.shape().back()}};
}

bool StreamData::has_slerp() const {
  const std::vector<Run> all = runs();
  return std::any_of(all.begin(), all.end(), [](const Run& run) { return is_slerp(run.method); });
}

std::vector<Stream> Problem::views() const {
  std::vector<Stream> views;
  views.reserve(streams.size());
  for (const StreamData& data : streams) views.push_back(data.stream());
  return views;
}

std::string Problem::text() const {
  std::ostringstream text;
  for (const StreamData& data : streams) {
    text << "\n  values " << data.values.text() << ", times " << data.times.text() << ", lengths "
         << data.lengths.text() << ", begins " << data.begins.text() << ", valid "
         << data.valid.text() << ", subtract " << data.subtract.text() << ", multiply "
         << data.multiply.text() << ", runs";
    for (const Run& run : data.runs()) {
      text << " " << static_cast<int>(run.method) << "x" << run.channels;
    }
  }
  text << "\n  targets " << target_times.text() << ", outside " << static_cast<int>(options.outside)
       << ", values_out " << values_out.text() << ", valid_out " << valid_out.text();
  return text.str();
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
  for (int i = 0; i < wanted.streams; ++i) {
    problem.streams.push_back(random_stream(random, wanted, clock, out_type, is_batched, batch));
    const std::vector<std::int64_t> shape = problem.streams.back().values.shape();
    channels += shape.back();
    rows = std::max(rows, shape[shape.size() - 2]);
    has_b = has_b || has_batch(problem.streams.back());
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
  fill_targets(problem.target_times, rows, clock, random);

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
  return problem;
}

std::string check_alignment(const Engine& engine, Problem& problem) {
  problem.values_out.fill_bytes(kGap);
  problem.valid_out.fill_bytes(kGap);
  try {
    engine.align(problem.views(), problem.target_times.view(), problem.options,
                 problem.values_out.view(), problem.valid_out.view());
  } catch (const std::exception& error) {
    return std::string("threw ") + error.what() + problem.text();
  }
  const Expected expected = expected_alignment(problem.views(), problem.target_times.view(),
                                               problem.options.outside, problem.values_out.type());
  for (std::int64_t i = 0; i < problem.values_out.size(); ++i) {
    const double got = problem.values_out.get(i);
    const double low = expected.low[i];
    const double high = expected.high[i];
    const bool fits =
        is_same_number(low, high) ? is_same_number(got, low) : low <= got && got <= high;
    if (!fits) return difference("values", i, low, high, got) + problem.text();
  }
  for (std::int64_t i = 0; i < problem.valid_out.size(); ++i) {
    const double valid = expected.valid[i] ? 1 : 0;
    const double got = problem.valid_out.get(i);
    if (got != valid) return difference("valid", i, valid, valid, got) + problem.text();
  }
  if (!problem.values_out.has_only_gaps_of(kGap) || !problem.valid_out.has_only_gaps_of(kGap)) {
    return "wrote between the elements of an output" + problem.text();
  }
  return "";
}

std::string check_gradient(const Engine& engine, const Problem& problem, std::uint64_t seed) {
  Random random(seed);
  const StreamData& data = problem.streams[0];
  Tensor grad_output = random_tensor(problem.values_out.type(), problem.values_out.shape(), random);
  fill_at_random(grad_output, random, 1);
  Tensor grad_values(data.values.type(), data.values.shape());
  Stream stream = data.stream();
  // Values are read for slerp alone: elsewhere a null pointer must do.
  const bool reads_values = data.has_slerp();
  if (!reads_values) stream.values.data = nullptr;
  std::string text = problem.text() + "\n  grad_output " + grad_output.text();
  try {
    for (const unsigned char before : {kGap, static_cast<unsigned char>(~kGap)}) {
      const std::vector<unsigned char> last = grad_values.bytes();
      grad_values.fill_bytes(before);
      engine.align_backward(stream, problem.target_times.view(), problem.options,
                            grad_output.view(), grad_values.view());
      if (before != kGap && last != grad_values.bytes()) {
        return "a second run gave other bits, or left elements as they were" + text;
      }
    }
  } catch (const std::exception& error) {
    return std::string("threw ") + error.what() + text;
  }

  const std::vector<double> expected = expected_gradient(
      data.stream(), problem.target_times.view(), problem.options.outside, grad_output.view());
  const double unit = data.values.type() == DataType::kFloat16            ? 0x1p-10
                      : data.values.type() == DataType::kBFloat16         ? 0x1p-7
                      : is_double(data.values.type(), grad_output.type()) ? 1e-8
                                                                          : 1e-4;
  const std::vector<Run> runs = data.runs();
  const std::int64_t channels = data.values.shape().back();
  std::int64_t index = 0;
  while (index < grad_values.size()) {
    std::int64_t first = 0;
    for (const Run& run : runs) {
      for (std::int64_t c = first; c < first + run.channels; ++c, ++index) {
        const double got = grad_values.get(index);
        const double slack = is_slerp(run.method) ? unit * (1 + std::fabs(expected[index])) : 0;
        const bool fits =
            is_same_number(got, expected[index]) || std::fabs(got - expected[index]) < slack;
        if (!fits) {
          return difference("gradient", index, expected[index] - slack, expected[index] + slack,
                            got) +
                 text;
        }
      }
      first += run.channels;
    }
    if (channels == 0) break;
  }
  return "";
}

}  // namespace robocache::testing
