#include "live/problem.h"

#include <algorithm>
#include <cstring>
#include <sstream>

#include "align/problem.h"
#include "align/random_problem.h"
#include "support/tensor.h"

namespace robocache::testing {

std::string LiveProblem::text() const {
  std::ostringstream text;
  for (const LiveStream& stream : streams) {
    text << "\n  " << stream.name << (stream.timeline == Timeline::kRows ? " by row" : " by time")
         << ", " << name_of(stream.dtype) << " of";
    for (const std::int64_t size : stream.shape) text << " " << size;
    text << " as " << name_of(stream.out_dtype) << ", " << stream.offsets.size()
         << " steps, method " << static_cast<int>(stream.method);
    for (const Run& run : stream.layout) {
      text << " " << static_cast<int>(run.method) << "x" << run.channels;
    }
    if (stream.image) text << ", image of " << stream.image->height << " x " << stream.image->width;
    text << ", latency " << stream.latency_ns << ", outside " << static_cast<int>(stream.outside)
         << ", " << stream.buffer_rows << " rows";
    if (!stream.relative_to.empty()) text << ", relative to " << stream.relative_to;
  }
  text << "\n  " << options.robots << " robots, " << rows.size() << " rows";
  return text.str();
}

std::int64_t elements_of(const LiveStream& stream) {
  std::int64_t elements = 1;
  for (const std::int64_t size : stream.shape) elements *= size;
  return elements;
}

bool is_computed(DataType type) {
  return std::find(std::begin(kValueTypes), std::end(kValueTypes), type) != std::end(kValueTypes);
}

namespace {

std::vector<Run> runs_of(const LiveStream& stream) {
  if (!stream.layout.empty()) return stream.layout;
  return {{stream.method, elements_of(stream)}};
}

}  // namespace

bool has_method(const LiveStream& stream, Method method) {
  const std::vector<Run> runs = runs_of(stream);
  return std::any_of(runs.begin(), runs.end(),
                     [&](const Run& run) { return run.method == method; });
}

namespace {

constexpr DataType kCopiedTypes[] = {DataType::kBool, DataType::kInt64, DataType::kInt16,
                                     DataType::kUInt32};

void fill_window(LiveStream& stream, std::int64_t tick, Random& random) {
  const std::int64_t unit = stream.timeline == Timeline::kRows ? 1 : tick;
  const std::int64_t count = 1 + random.below(random.pick({1, 3, 9, 140}));
  stream.offsets.clear();
  for (std::int64_t k = 0; k < count; ++k) {
    std::int64_t step = -random.below(12) * unit;
    if (stream.timeline == Timeline::kTime && random.one_in(3)) step /= 2;
    if (random.one_in(60) && stream.timeline == Timeline::kTime) step = INT64_MIN;
    stream.offsets.push_back(step);
  }
  if (random.one_in(2) || has_method(stream, Method::kSum)) {
    std::sort(stream.offsets.begin(), stream.offsets.end());
  }
  if (count == 1) stream.has_axis = random.one_in(2);
  if (random.one_in(3)) stream.latency_ns = tick * random.below(4);
  if (stream.timeline == Timeline::kRows) return;
  stream.outside = random.pick(
      {Outside::kHold, Outside::kHold, Outside::kZero, Outside::kNan, Outside::kExtrapolate});
  if (stream.outside == Outside::kNan && (stream.image || !is_floating_type(stream.out_dtype))) {
    stream.outside = Outside::kZero;
  }
  if (random.one_in(2)) stream.max_gap_ns = tick * random.below(4);
  if (random.one_in(2)) stream.tolerance_ns = tick * random.below(3) / 2;
  if (has_method(stream, Method::kMean)) stream.mean_window_ns = tick * random.below(12) / 2;
}

ImageSpec random_image(const LiveStream& stream, Random& random) {
  ImageSpec image;
  image.mode = random.pick({ResizeMode::kStretch, ResizeMode::kPad, ResizeMode::kCrop});
  image.filter =
      random.pick({ResizeFilter::kBilinear, ResizeFilter::kNearest, ResizeFilter::kMasked});
  const auto side = [&](std::int64_t most) {
    return static_cast<std::int32_t>(1 + random.below(most));
  };
  if (random.one_in(2)) {
    image.height = side(12);
    image.width = side(12);
  }
  if (random.one_in(2)) {
    image.crop_height = side(stream.shape[0]);
    image.crop_width = side(stream.shape[1]);
    image.crop_top = side(stream.shape[0] - image.crop_height + 1) - 1;
    image.crop_left = side(stream.shape[1] - image.crop_width + 1) - 1;
  }
  if (random.one_in(3)) image.center = random.between(0.1, 1);
  return image;
}

LiveStream random_stream(std::int64_t number, std::int64_t tick, bool is_image, Random& random) {
  LiveStream stream;
  stream.name = "stream" + std::to_string(number);
  stream.timeline = random.one_in(3) ? Timeline::kRows : Timeline::kTime;
  const std::int64_t channels = random.pick<std::int64_t>({1, 2, 3, 4, 7, 16, 300});
  if (is_image && random.one_in(2)) {
    stream.dtype =
        random.pick({DataType::kUInt8, DataType::kUInt16, DataType::kFloat16, DataType::kFloat32});
    stream.shape = {1 + random.below(6), 1 + random.below(9)};
    if (random.one_in(2)) stream.shape.push_back(random.pick<std::int64_t>({1, 3, 4}));
    stream.channels_first = random.one_in(2);
    stream.method = random.pick({Method::kPrevious, Method::kNearest});
    stream.out_dtype = random.pick({stream.dtype, DataType::kUInt8, DataType::kFloat16,
                                    DataType::kBFloat16, DataType::kFloat32});
    stream.image = random_image(stream, random);
  } else if (is_image) {
    stream.dtype = DataType::kUInt8;
    stream.channels_first = true;
    stream.shape = {1 + random.below(6), 1 + random.below(9), random.pick<std::int64_t>({1, 3, 4})};
    stream.method = random.pick({Method::kLinear, Method::kPrevious, Method::kNearest});
    stream.out_dtype = random.pick({DataType::kFloat16, DataType::kFloat32, DataType::kUInt8});
  } else if (random.one_in(6)) {
    stream.dtype = stream.out_dtype = random.pick(kCopiedTypes);
    stream.shape = {1 + random.below(3), 1 + random.below(4)};
    stream.method = random.pick({Method::kPrevious, Method::kNearest});
  } else {
    stream.dtype = random.pick(kValueTypes);
    stream.out_dtype = random.pick(kValueTypes);
    if (channels > 1 || random.one_in(2)) stream.shape = {channels};
    stream.method = random.pick(kMethods);
    if (is_slerp(stream.method) && channels != 4) stream.method = Method::kAngle;
    if (random.one_in(3)) stream.layout = random_layout(channels, random);
  }
  fill_window(stream, tick, random);
  const std::int64_t colors = stream.shape.size() == 3 ? stream.shape[2] : 1;
  const std::int64_t scales = is_image ? colors : elements_of(stream);
  for (std::vector<double>* scale : {&stream.subtract, &stream.multiply}) {
    if ((!stream.image && !is_computed(stream.dtype)) || random.one_in(2)) continue;
    for (std::int64_t i = 0; i < scales; ++i) scale->push_back(random.between(-2, 2));
  }
  return stream;
}

/// How a channel is combined.
Method method_of(const LiveStream& stream, std::int64_t channel) {
  for (const Run& run : runs_of(stream)) {
    if (channel < run.channels) return run.method;
    channel -= run.channels;
  }
  return stream.method;
}

/// Makes a stream relative to another, in most of the channels that may be.
void relate(LiveStream& stream, const LiveStream& reference, Random& random) {
  stream.relative_to = reference.name;
  for (std::int64_t c = 0; c < elements_of(stream); ++c) {
    const std::int64_t column = random.below(elements_of(reference));
    const Method method = method_of(reference, column);
    const bool may_be =
        reference.timeline == Timeline::kRows || (!is_slerp(method) && method != Method::kSum);
    const bool is_none = is_slerp(method_of(stream, c)) || !may_be || random.one_in(5);
    stream.reference_columns.push_back(is_none ? -1 : static_cast<std::int32_t>(column));
  }
}

Bytes random_row(const LiveStream& stream, Random& random) {
  const std::int64_t elements = elements_of(stream);
  Tensor row(stream.dtype, {1, elements});
  if (is_computed(stream.dtype)) {
    fill_values(row, runs_of(stream), false, random);
    return row.bytes();
  }
  Bytes bytes(static_cast<std::size_t>(elements * size_of(stream.dtype)));
  const std::int64_t values = stream.dtype == DataType::kBool ? 2 : 256;
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random.below(values));
  return bytes;
}

}  // namespace

LiveProblem random_live_problem(std::uint64_t seed, const LiveWanted& wanted) {
  Random random(seed);
  LiveProblem problem;
  const std::int64_t tick = random.pick<std::int64_t>({1, 3, 1'000, 33'333'333});
  const std::int64_t start = random.pick<std::int64_t>({0, -5'000, 1'700'000'000'000'000'000});
  problem.options.robots = random.pick<std::int64_t>({1, 1, 1, 2, 5});
  problem.options.max_future_ns = random.one_in(4) ? 3 * tick : INT64_MAX;
  const std::int64_t streams = 1 + random.below(4);
  for (std::int64_t i = 0; i < streams; ++i) {
    problem.streams.push_back(random_stream(
        i, tick, wanted.is_image || (!wanted.is_relative && random.one_in(8)), random));
  }

  if (problem.streams[0].shape.size() <= 1 && random.one_in(4)) {
    problem.streams.push_back(problem.streams[0]);
    problem.streams.back().name = "twin";
    problem.options.concat = {{"both", {"twin", "stream0"}}};
  }
  if (wanted.is_relative) {
    problem.options.concat.clear();
    LiveStream first = random_stream(0, tick, false, random);
    LiveStream last = random_stream(streams, tick, false, random);
    while (!is_computed(first.dtype)) first = random_stream(0, tick, false, random);
    while (!is_computed(last.dtype) || !is_floating_type(last.out_dtype)) {
      last = random_stream(streams, tick, false, random);
    }
    relate(last, first, random);
    if (random.one_in(3)) {  // it is not made then, but for what is relative to it
      first.offsets.back() = first.timeline == Timeline::kRows ? 2 : 2 * tick;
    }
    problem.streams.front() = first;
    problem.streams.push_back(last);
  }

  struct Arrival {
    std::int64_t at;
    LiveRow row;
  };
  std::vector<Arrival> arrivals;
  const std::int64_t length = 5 + random.below(40);
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(problem.streams.size()); ++i) {
    LiveStream& stream = problem.streams[static_cast<std::size_t>(i)];
    stream.ring_rows = 200;
    stream.buffer_rows = 200;
    if (random.one_in(2)) stream.buffer_rows = 1 + random.below(14);
    if (random.one_in(3)) stream.ring_rows = 1 + random.below(9);
    if (stream.timeline == Timeline::kRows) {
      for (std::int64_t& step : stream.offsets) {
        if (step < -180) step = -3;
      }
      stream.buffer_rows = std::max<std::int64_t>(stream.buffer_rows, 13);
      const double period = static_cast<double>(tick * random.pick<std::int64_t>({1, 2, 3}));
      if (random.one_in(2)) stream.nominal_rate = 1e9 / period;
    }
    const std::int64_t jitter = random.pick<std::int64_t>({0, 0, 2, 9});
    for (std::int64_t r = 0; r < problem.options.robots; ++r) {
      for (std::int64_t t = random.below(6); t < length; t += random.pick({0, 1, 1, 2, 7})) {
        LiveRow row{i, r, start + t * tick, !random.one_in(8), random_row(stream, random)};
        if (random.one_in(50)) row.time_ns += random.pick<std::int64_t>({-40, 40}) * tick;
        arrivals.push_back({t + random.below(jitter + 1), row});
        if (arrivals.size() % 190 == 189) break;
      }
    }
  }
  std::stable_sort(arrivals.begin(), arrivals.end(),
                   [](const Arrival& a, const Arrival& b) { return a.at < b.at; });
  std::size_t next_query = 0;
  for (std::size_t i = 0; i <= arrivals.size(); ++i) {
    if (i == next_query || i == arrivals.size()) {
      LiveQuery query{i, {}};
      const std::int64_t latest = i == 0 ? 0 : arrivals[i - 1].at;
      for (std::int64_t r = 0; r < problem.options.robots; ++r) {
        query.now_ns.push_back(start + (latest + random.below(7) - 3) * tick + random.below(2));
      }
      problem.queries.push_back(query);
      next_query = i + static_cast<std::size_t>(1 + random.below(9));
    }
    if (i < arrivals.size()) problem.rows.push_back(arrivals[i].row);
  }
  return problem;
}

}  // namespace robocache::testing
