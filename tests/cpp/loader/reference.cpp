#include "loader/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "align/reference.h"
#include "support/numbers.h"

namespace robocache::testing {
namespace {

using Int128 = __int128;

std::int64_t integer_at(const ConstTensorView& view, std::int64_t index) {
  return static_cast<const std::int64_t*>(view.data)[index];
}

std::int64_t saturated(Int128 x) {
  return static_cast<std::int64_t>(std::clamp<Int128>(x, std::numeric_limits<std::int64_t>::min(),
                                                      std::numeric_limits<std::int64_t>::max()));
}

/// Whether a step later than the newest row that exists holds it.
bool holds_newest(const WindowStream& stream) {
  return stream.spec.causal && stream.spec.timeline == Timeline::kTime;
}

std::int64_t pixels_of(const WindowStream& stream) {
  return stream.spec.shape[0] * stream.spec.shape[1];
}

std::optional<Duration> duration(const std::optional<std::int64_t>& nanoseconds) {
  if (!nanoseconds) return std::nullopt;
  return Duration::nanoseconds(*nanoseconds);
}

/// Which element of a row is written as number `i` of the output's.
std::int64_t channel_of(const WindowStream& stream, std::int64_t i) {
  if (!stream.spec.channels_first) return i;
  return i % pixels_of(stream) * stream.spec.shape[2] + i / pixels_of(stream);
}

/// Where the row `row` of an episode of the stream's has its values.
std::int64_t place_of_row(const WindowStream& stream, std::int64_t episode, std::int64_t row) {
  const std::int64_t stride = stream.values.strides[0];
  if (stream.value_begins.present()) return integer_at(stream.value_begins, episode) + row * stride;
  return (integer_at(stream.row_offsets, episode) + row) * stride;
}

/// The rows of an episode that exist for a sample, and how `align` is to treat them, with channels
/// in the order of the output.
struct ExistingRows {
  Tensor values, times, valid;
  ConstTensorView subtract_view, multiply_view;
  std::int64_t count;

  ExistingRows(const WindowStream& stream, const Anchor& anchor) {
    const std::int64_t episode = anchor.episode - stream.first_episode;
    const std::int64_t begin = integer_at(stream.row_offsets, episode);
    const std::int64_t end = integer_at(stream.row_offsets, episode + 1);
    count = end - begin;
    const bool is_by_row = stream.spec.timeline == Timeline::kRows;
    if (stream.spec.causal && !is_by_row) {
      for (count = 0; begin + count < end; ++count) {
        const Int128 time = integer_at(stream.times, begin + count);
        if (time + stream.spec.latency_ns > anchor.time_ns) break;
        if (stream.received.present() &&
            integer_at(stream.received, begin + count) > anchor.time_ns) {
          break;
        }
      }
    }
    const std::int64_t channels = stream.values.shape[1];
    values = Tensor(stream.values.dtype, {count, channels});
    times = Tensor(DataType::kInt64, {count});
    valid = Tensor(DataType::kBool, {count});
    for (std::int64_t row = 0; row < count; ++row) {
      for (std::int64_t i = 0; i < channels; ++i) {
        const std::int64_t place = place_of_row(stream, episode, row) + channel_of(stream, i);
        values.set(row * channels + i, load_number(stream.values.data, stream.values.dtype, place));
      }
      // Rows of a window by row stand at their own numbers.
      times.set_int(row, is_by_row ? row : integer_at(stream.times, begin + row));
      const bool is_valid =
          !stream.valid.present() || static_cast<const bool*>(stream.valid.data)[begin + row];
      valid.set(row, is_valid ? 1 : 0);
    }
    // `expected_values` applies the scale of images.
    if (stream.spec.channels_first) return;
    subtract_view = stream.subtract;
    multiply_view = stream.multiply;
  }

  Stream stream() const {
    Stream stream;
    stream.values = values.view();
    stream.times = times.view();
    stream.valid = valid.view();
    stream.subtract = subtract_view;
    stream.multiply = multiply_view;
    return stream;
  }
};

/// The expected values of `align` for these rows. The scale of images is applied in float64, to
/// values that are exact in the compute type; literal zeros and NaN are not scaled.
Expected expected_values(const WindowStream& stream, const ExistingRows& rows,
                         const Stream& aligned, const Tensor& targets, Outside outside) {
  if (!stream.spec.channels_first) {
    return expected_alignment({aligned}, targets.view(), outside, stream.spec.out_dtype,
                              holds_newest(stream));
  }
  // Bytes are no NaN: where there is one, it stands for a literal.
  const bool is_literal = outside == Outside::kZero || outside == Outside::kNan;
  Expected expected = expected_alignment(
      {aligned}, targets.view(), is_literal ? Outside::kNan : outside,
      compute_type(DataType::kUInt8, stream.spec.out_dtype), holds_newest(stream));
  const std::int64_t channels = stream.values.shape[1];
  for (std::size_t i = 0; i < expected.low.size(); ++i) {
    double x = expected.low[i];
    if (std::isnan(x)) {
      x = outside == Outside::kZero ? 0 : x;
    } else if (rows.count > 0) {
      const std::int64_t color = static_cast<std::int64_t>(i) % channels / pixels_of(stream);
      if (stream.subtract.present()) {
        x = x - static_cast<const double*>(stream.subtract.data)[color];
      }
      if (stream.multiply.present()) {
        x = x * static_cast<const double*>(stream.multiply.data)[color];
      }
    }
    expected.low[i] = expected.high[i] = rounded(x, stream.spec.out_dtype);
  }
  return expected;
}

ExpectedWindow window_by_time(const WindowStream& stream, const Anchor& anchor) {
  const ExistingRows rows(stream, anchor);
  const std::int64_t steps = stream.window_offsets.shape[0];
  Tensor targets(DataType::kInt64, {steps});
  for (std::int64_t k = 0; k < steps; ++k) {
    targets.set_int(k, saturated(Int128{anchor.time_ns} + integer_at(stream.window_offsets, k)));
  }
  Stream aligned = rows.stream();
  aligned.method = stream.spec.method;
  aligned.layout = stream.spec.layout;
  aligned.max_gap = duration(stream.spec.max_gap_ns);
  aligned.tolerance = duration(stream.spec.tolerance_ns);
  aligned.mean_window = duration(stream.spec.mean_window_ns);
  const Expected expected = expected_values(stream, rows, aligned, targets, stream.spec.outside);
  ExpectedWindow window{expected.low, expected.high, {}, {}};
  for (std::int64_t k = 0; k < steps; ++k) {
    window.is_pad.push_back(!expected.valid[k]);
    window.ages.push_back(expected.age.get_int(k));
  }
  return window;
}

ExpectedWindow window_by_row(const WindowStream& stream, const Anchor& anchor) {
  const ExistingRows rows(stream, anchor);
  const std::int64_t begin = integer_at(stream.row_offsets, anchor.episode - stream.first_episode);
  const std::int64_t steps = stream.window_offsets.shape[0];
  Tensor targets(DataType::kInt64, {steps});
  std::vector<bool> is_inside;
  std::vector<std::int64_t> ages;
  for (std::int64_t k = 0; k < steps; ++k) {
    const Int128 wanted = Int128{anchor.frame} + integer_at(stream.window_offsets, k);
    const Int128 row = std::max<Int128>(std::min<Int128>(wanted, rows.count - 1), 0);
    is_inside.push_back(row == wanted);
    targets.set_int(k, static_cast<std::int64_t>(row));
    const bool has_age = stream.times.present() && rows.count > 0;
    ages.push_back(
        has_age ? static_cast<std::int64_t>(Int128{anchor.time_ns} -
                                            integer_at(stream.times, begin + targets.get_int(k)))
                : 0);
  }
  Stream aligned = rows.stream();
  aligned.method = Method::kPrevious;
  const Expected expected = expected_values(stream, rows, aligned, targets, Outside::kHold);
  ExpectedWindow window{expected.low, expected.high, {}, ages};
  for (std::int64_t k = 0; k < steps; ++k) {
    window.is_pad.push_back(!(is_inside[k] && expected.valid[k]));
  }
  return window;
}

ExpectedWindow window_alone(const WindowStream& stream, const Anchor& anchor) {
  return stream.spec.timeline == Timeline::kRows ? window_by_row(stream, anchor)
                                                 : window_by_time(stream, anchor);
}

bool is_of_episode(const WindowStream& stream, const Anchor& anchor) {
  const std::int64_t episode = anchor.episode - stream.first_episode;
  return episode >= 0 && episode < stream.row_offsets.shape[0] - 1;
}

/// A stream's values in another type, row after row; or ones.
Tensor values_as(const WindowStream& stream, DataType type, bool are_ones) {
  const std::int64_t episodes = stream.row_offsets.shape[0] - 1;
  const std::int64_t channels = stream.values.shape[1];
  Tensor values(type, {integer_at(stream.row_offsets, episodes), channels});
  for (std::int64_t e = 0; e < episodes; ++e) {
    const std::int64_t begin = integer_at(stream.row_offsets, e);
    for (std::int64_t row = begin; row < integer_at(stream.row_offsets, e + 1); ++row) {
      for (std::int64_t c = 0; c < channels; ++c) {
        const std::int64_t place = place_of_row(stream, e, row - begin) + c;
        values.set(row * channels + c,
                   are_ones ? 1 : load_number(stream.values.data, stream.values.dtype, place));
      }
    }
  }
  return values;
}

/// The stream with these values, without scale, in a type.
WindowStream unscaled(const WindowStream& stream, const Tensor& values, DataType type) {
  WindowStream unscaled = stream;
  unscaled.values = values.view();
  unscaled.value_begins = unscaled.subtract = unscaled.multiply = {};
  unscaled.spec.out_dtype = type;
  return unscaled;
}

/// Which elements of a window stand for no value: [K,D].
std::vector<bool> literals_of(const WindowStream& stream, const Anchor& anchor) {
  const auto count =
      static_cast<std::size_t>(stream.window_offsets.shape[0] * stream.values.shape[1]);
  if (ExistingRows(stream, anchor).count == 0) return std::vector<bool>(count, true);
  std::vector<bool> are_literal(count, false);
  if (stream.spec.outside != Outside::kZero && stream.spec.outside != Outside::kNan)
    return are_literal;
  // Where NaN comes of ones, it stands for no value.
  const Tensor ones = values_as(stream, DataType::kFloat32, true);
  WindowStream of_ones = unscaled(stream, ones, DataType::kFloat32);
  of_ones.spec.outside = Outside::kNan;
  const ExpectedWindow window = window_alone(of_ones, anchor);
  for (std::size_t i = 0; i < count; ++i) are_literal[i] = std::isnan(window.low[i]);
  return are_literal;
}

/// The least and the greatest accepted value of a number.
struct Range {
  double low, high;
};

/// Wraps angles into (-pi, pi], with the slack that align/reference.h has for angles.
Range wrapped(const Range& x, DataType type) {
  const double pi = rounded(3.14159265358979323846, type);
  if (is_same_number(x.low, x.high) && -pi < x.low && x.low <= pi) return x;
  const double unit = type == DataType::kFloat64 ? 0x1p-52 : 0x1p-23;
  const double slack =
      4 * unit * std::max(1.0, std::max(std::fabs(x.low), std::fabs(x.high))) + (x.high - x.low);
  const double turned = static_cast<double>(
      std::remainder(static_cast<long double>(x.low), 2 * 3.14159265358979323846L));
  if (std::fabs(turned) + slack > pi) return {-pi, pi};
  return {turned - slack, turned + slack};
}

/// A window that is relative to another stream.
ExpectedWindow relative_window(const WindowStream& stream, const WindowStream& reference,
                               const Anchor& anchor) {
  const DataType type = compute_type(stream.values.dtype, stream.spec.out_dtype);
  const std::int64_t channels = stream.values.shape[1];
  // The reference: one step, at the anchor.
  std::vector<Range> references(static_cast<std::size_t>(reference.values.shape[1]), Range{0, 0});
  bool is_pad = true;
  if (is_of_episode(reference, anchor)) {
    const Tensor values = values_as(reference, type, false);
    const Tensor at_anchor(DataType::kInt64, {1});
    WindowStream one = unscaled(reference, values, type);
    one.window_offsets = at_anchor.view();
    one.spec.causal = stream.spec.reference_is_causal;
    const ExpectedWindow found = window_alone(one, anchor);
    for (std::size_t c = 0; c < references.size(); ++c) {
      references[c] = {found.low[c], found.high[c]};
    }
    is_pad = found.is_pad[0];
  }
  std::vector<Method> methods(static_cast<std::size_t>(channels), stream.spec.method);
  std::int64_t channel = 0;
  for (const Run& run : stream.spec.layout) {
    std::fill_n(methods.begin() + channel, run.channels, run.method);
    channel += run.channels;
  }

  WindowStream plain = stream;
  plain.subtract = plain.multiply = {};
  plain.spec.out_dtype = type;
  ExpectedWindow window = window_alone(plain, anchor);
  const std::vector<bool> are_literal = literals_of(stream, anchor);
  const auto scaled = [&](double x, std::int64_t c) {
    if (stream.subtract.present()) {
      x = rounded(x - load_number(stream.subtract.data, type, c), type);
    }
    if (stream.multiply.present()) {
      x = rounded(x * load_number(stream.multiply.data, type, c), type);
    }
    return x;
  };
  for (std::size_t i = 0; i < window.low.size(); ++i) {
    const std::int64_t c = static_cast<std::int64_t>(i) % channels;
    const auto column =
        static_cast<std::int64_t>(load_number(stream.reference_columns.data, DataType::kInt32, c));
    Range x{window.low[i], window.high[i]};
    if (!are_literal[i]) {
      if (column >= 0) {
        const Range& less = references[static_cast<std::size_t>(column)];
        x = {rounded(x.low - less.high, type), rounded(x.high - less.low, type)};
        if (methods[static_cast<std::size_t>(c)] == Method::kAngle) x = wrapped(x, type);
      }
      x = {scaled(x.low, c), scaled(x.high, c)};
    }
    window.low[i] = rounded(std::min(x.low, x.high), stream.spec.out_dtype);
    window.high[i] = rounded(std::max(x.low, x.high), stream.spec.out_dtype);
  }
  if (is_pad) window.is_pad.assign(window.is_pad.size(), true);
  return window;
}

template <typename Number>
std::string difference(const std::string& what, std::int64_t b, std::int64_t k, Number expected,
                       Number got) {
  std::ostringstream text;
  text.precision(17);
  text << what << " of sample " << b << ", step " << k << ": expected " << expected << ", got "
       << got;
  return text.str();
}

std::string check_window(const WindowData& data, const BatchResult::Window& result, std::int64_t b,
                         const ExpectedWindow& expected) {
  const std::string& name = data.options.spec.name;
  const std::int64_t steps = data.window_offsets.size();
  const std::int64_t channels = data.channels();
  for (std::int64_t i = 0; i < steps * channels; ++i) {
    const double got = result.values.get(b * steps * channels + i);
    const double low = expected.low[i];
    const double high = expected.high[i];
    const bool fits =
        is_same_number(low, high) ? is_same_number(got, low) : low <= got && got <= high;
    if (!fits) {
      return difference(name + " channel " + std::to_string(i % channels), b, i / channels, low,
                        got);
    }
  }
  for (std::int64_t k = 0; k < steps; ++k) {
    const std::int64_t i = b * steps + k;
    if (result.is_pad.present() && result.is_pad.get(i) != (expected.is_pad[k] ? 1 : 0)) {
      return difference<double>(name + " padding", b, k, expected.is_pad[k], result.is_pad.get(i));
    }
    if (result.age.present() && result.age.get_int(i) != expected.ages[k]) {
      return difference(name + " age", b, k, expected.ages[k], result.age.get_int(i));
    }
  }
  return "";
}

std::string check_metadata(const LoaderProblem& problem, std::int64_t index, std::int64_t b,
                           const BatchResult& result) {
  const Anchor anchor = problem.anchor(index);
  const std::int64_t row = 4 * std::int64_t{anchor.episode};
  const std::int64_t start = problem.episodes.get_int(row + 2);
  const Int128 since_start = Int128{anchor.time_ns} - start;
  const struct {
    const char* name;
    const Tensor& got;
    std::int64_t expected;
  } metadata[] = {
      {"index", result.index, index},
      {"episode_index", result.episode_index, problem.episodes.get_int(row)},
      {"frame_index", result.frame_index, anchor.frame},
      {"task_index", result.task_index, problem.episodes.get_int(row + 1)},
      {"dataset_index", result.dataset_index, problem.episodes.get_int(row + 3)},
      {"timestamp_ns", result.timestamp_ns, anchor.time_ns},
  };
  for (const auto& fact : metadata) {
    if (fact.got.get_int(b) != fact.expected) {
      return difference(fact.name, b, 0, fact.expected, fact.got.get_int(b));
    }
  }
  const double timestamp = rounded(static_cast<double>(since_start) * 1e-9, DataType::kFloat32);
  if (result.timestamp.get(b) != timestamp) {
    return difference("timestamp", b, 0, timestamp, result.timestamp.get(b));
  }
  return "";
}

/// Whether nothing of sample b was written.
bool is_unwritten(const WindowData& data, const BatchResult::Window& result, std::int64_t b) {
  const std::int64_t steps = data.window_offsets.size();
  const auto has_only_gaps = [&](const Tensor& tensor, std::int64_t size) {
    return !tensor.present() || tensor.is_untouched(b * size, (b + 1) * size, BatchResult::kGap);
  };
  return has_only_gaps(result.values, steps * data.channels()) &&
         has_only_gaps(result.is_pad, steps) && has_only_gaps(result.age, steps);
}

constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15u;

/// The finalizer of splitmix64.
std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

/// The anchor that a mixture draws at a place of an epoch.
std::int64_t drawn(const LoaderProblem& problem, std::int64_t epoch, std::int64_t place) {
  const std::uint64_t key =
      mixed(mixed(problem.order.seed + kGolden) + static_cast<std::uint64_t>(epoch));
  const auto counter = static_cast<std::uint64_t>(2 * place + 1);
  const std::uint64_t u = mixed(key + counter * kGolden);
  const std::uint64_t v = mixed(key + (counter + 1) * kGolden);
  std::int64_t part = 0;
  while (part + 1 < problem.thresholds.size() &&
         u >= static_cast<std::uint64_t>(problem.thresholds.get_int(part))) {
    ++part;
  }
  const std::int64_t first = problem.parts.get_int(part);
  const auto anchors = static_cast<unsigned __int128>(problem.parts.get_int(part + 1) - first);
  return first + static_cast<std::int64_t>(v * anchors >> 64);
}

}  // namespace

ExpectedWindow expected_window(const std::vector<WindowStream>& streams, std::size_t number,
                               const Anchor& anchor) {
  const WindowStream& stream = streams[number];
  if (stream.spec.relative_to.empty()) return window_alone(stream, anchor);
  const auto to = std::find_if(streams.begin(), streams.end(), [&](const WindowStream& each) {
    return each.spec.name == stream.spec.relative_to;
  });
  return relative_window(stream, *to, anchor);
}

std::vector<std::int64_t> expected_samples(const LoaderProblem& problem, std::int64_t epoch,
                                           std::int64_t position) {
  const BatchOrder& order = problem.order;
  const std::int64_t count = problem.sample_count();
  std::vector<std::int64_t> samples;
  for (std::int64_t b = 0; b < order.batch_size; ++b) {
    const std::int64_t place = position + order.rank + order.ranks * b;
    if (place >= count) break;
    samples.push_back(problem.parts.present() ? drawn(problem, epoch, place)
                      : order.shuffle ? permuted(order.seed, epoch, problem.anchor_count(), place)
                                      : place);
  }
  return samples;
}

Progress expected_progress(const LoaderProblem& problem, const Progress& before) {
  const BatchOrder& order = problem.order;
  const std::int64_t position = before.position + order.ranks * order.batch_size;
  const std::int64_t left = problem.sample_count() - position;
  const std::int64_t needed = order.drop_last ? order.ranks * order.batch_size : order.ranks;
  if (left < needed) return {before.epoch + 1, 0};
  return {before.epoch, position};
}

std::string check_batch(const LoaderProblem& problem, const std::vector<std::int64_t>& indices,
                        BatchResult& result) {
  const std::vector<WindowStream> streams = problem.streams();
  for (std::size_t b = 0; b < indices.size(); ++b) {
    const auto sample = static_cast<std::int64_t>(b);
    const Anchor anchor = problem.anchor(indices[b]);
    for (std::size_t i = 0; i < streams.size(); ++i) {
      const WindowStream& stream = streams[i];
      if (!is_of_episode(stream, anchor)) {
        if (is_unwritten(problem.windows[i], result.windows[i], sample)) continue;
        return stream.spec.name + " wrote sample " + std::to_string(b) + problem.text();
      }
      const std::string wrong = check_window(problem.windows[i], result.windows[i], sample,
                                             expected_window(streams, i, anchor));
      if (!wrong.empty()) return wrong + problem.text();
    }
    if (!problem.wants_metadata) continue;
    const std::string wrong = check_metadata(problem, indices[b], sample, result);
    if (!wrong.empty()) return wrong + problem.text();
  }
  for (const Tensor* tensor : result.tensors()) {
    if (!tensor->present() || tensor->size() == 0) continue;
    if (!tensor->has_only_gaps_of(BatchResult::kGap)) {
      return "wrote between the elements of an output" + problem.text();
    }
  }
  return "";
}

}  // namespace robocache::testing
