#include "loader/problem.h"

#include <algorithm>
#include <limits>
#include <sstream>

#include "align/random_problem.h"
#include "align/random_times.h"

namespace robocache::testing {

void WindowData::fill_spec() {
  WindowSpec& spec = options.spec;
  spec.dtype = values.type();
  if (!spec.channels_first) spec.shape = {channels()};
  spec.offsets.clear();
  for (std::int64_t k = 0; k < window_offsets.size(); ++k) {
    spec.offsets.push_back(window_offsets.get_int(k));
  }
  spec.reference_columns.clear();
  for (std::int64_t c = 0; c < reference_columns.size(); ++c) {
    spec.reference_columns.push_back(static_cast<std::int32_t>(reference_columns.get(c)));
  }
}

WindowStream WindowData::stream() const {
  WindowStream stream = options;
  stream.values = values.view();
  stream.times = times.view();
  stream.row_offsets = row_offsets.view();
  stream.value_begins = value_begins.view();
  stream.received = received.view();
  stream.valid = valid.view();
  stream.window_offsets = window_offsets.view();
  stream.subtract = subtract.view();
  stream.multiply = multiply.view();
  stream.reference_columns = reference_columns.view();
  return stream;
}

std::vector<WindowStream> LoaderProblem::streams() const {
  std::vector<WindowStream> streams;
  for (const WindowData& window : windows) streams.push_back(window.stream());
  return streams;
}

BatchOrder LoaderProblem::drawing() const {
  BatchOrder drawing = order;
  drawing.parts = parts.view();
  drawing.thresholds = thresholds.view();
  return drawing;
}

Anchor LoaderProblem::anchor(std::int64_t index) const {
  const auto place = static_cast<std::uint64_t>(anchors.get_int(2 * index));
  return {static_cast<std::int32_t>(place & 0xffffffffu), static_cast<std::int32_t>(place >> 32),
          anchors.get_int(2 * index + 1)};
}

std::string LoaderProblem::text() const {
  std::ostringstream text;
  for (const WindowData& window : windows) {
    const WindowSpec& options = window.options.spec;
    text << "\n  " << options.name << (options.timeline == Timeline::kRows ? " by row" : " by time")
         << ", values " << window.values.text() << " as " << name_of(options.out_dtype) << ", "
         << window.window_offsets.size() << " offsets, " << window.row_offsets.size() - 1
         << " episodes from " << window.options.first_episode << ", begins "
         << window.value_begins.text() << ", received " << window.received.text() << ", valid "
         << window.valid.text() << ", subtract " << window.subtract.text() << ", multiply "
         << window.multiply.text() << (options.causal ? ", causal" : "") << ", latency "
         << options.latency_ns << ", outside " << static_cast<int>(options.outside);
    if (!options.relative_to.empty()) {
      text << ", relative to " << options.relative_to
           << (options.reference_is_causal ? ", causal," : "") << " by";
      for (std::int64_t c = 0; c < window.reference_columns.size(); ++c) {
        text << " " << window.reference_columns.get(c);
      }
    }
    if (options.channels_first) text << ", " << options.shape[2] << " channels first";
    const auto duration = [&](const char* name, const std::optional<std::int64_t>& length) {
      if (length) text << ", " << name << " " << *length;
    };
    duration("max_gap", options.max_gap_ns);
    duration("tolerance", options.tolerance_ns);
    duration("mean_window", options.mean_window_ns);
    text << ", method " << static_cast<int>(options.method);
    for (const Run& run : options.layout) {
      text << " " << static_cast<int>(run.method) << "x" << run.channels;
    }
  }
  text << "\n  " << anchor_count() << " anchors, " << episodes.shape()[0] << " episodes, rank "
       << order.rank << " of " << order.ranks << ", batches of " << order.batch_size
       << (order.drop_last ? ", the last dropped" : "") << (order.shuffle ? ", shuffled" : "");
  if (parts.present()) text << ", a mixture of " << thresholds.size();
  if (order.samples != 0) text << ", " << order.samples << " samples";
  return text.str();
}

BatchResult::BatchResult(const LoaderProblem& problem, std::int64_t size) {
  for (const WindowData& window : problem.windows) {
    const std::int64_t steps = window.window_offsets.size();
    const std::int64_t channels = window.channels();
    const std::int64_t stride = channels + window.gap;
    Window result;
    result.values = Tensor(window.options.spec.out_dtype, {size, steps, channels},
                           {steps * stride, stride, 1}, 0);
    if (window.wants_pad) result.is_pad = Tensor(DataType::kBool, {size, steps});
    if (window.wants_age) result.age = Tensor(DataType::kInt64, {size, steps});
    windows.push_back(result);
  }
  if (problem.wants_metadata) {
    for (Tensor* fact :
         {&index, &episode_index, &frame_index, &task_index, &timestamp_ns, &dataset_index}) {
      *fact = Tensor(DataType::kInt64, {size});
    }
    timestamp = Tensor(DataType::kFloat32, {size});
    epoch = Tensor(DataType::kInt64, {1});
  }
  for (Tensor* tensor : tensors()) tensor->fill_bytes(kGap);
}

std::vector<WindowOutput> BatchResult::outputs() {
  std::vector<WindowOutput> outputs;
  for (Window& window : windows) {
    const TensorView values = window.values.view();
    outputs.push_back({values.data, values.strides[1],
                       static_cast<bool*>(window.is_pad.view().data),
                       static_cast<std::int64_t*>(window.age.view().data)});
  }
  return outputs;
}

BatchMetadata BatchResult::metadata() {
  const auto data = [](Tensor& tensor) { return static_cast<std::int64_t*>(tensor.view().data); };
  return {data(index),         data(episode_index), data(frame_index),
          data(task_index),    data(timestamp_ns),  static_cast<float*>(timestamp.view().data),
          data(dataset_index), data(epoch)};
}

std::vector<Tensor*> BatchResult::tensors() {
  std::vector<Tensor*> all;
  for (Window& window : windows) {
    all.insert(all.end(), {&window.values, &window.is_pad, &window.age});
  }
  all.insert(all.end(), {&index, &episode_index, &frame_index, &task_index, &timestamp_ns,
                         &timestamp, &dataset_index, &epoch});
  return all;
}

namespace {

/// A number of ticks as nanoseconds, as far as int64 goes.
std::int64_t ticks_ns(const Clock& clock, std::int64_t ticks) {
  const __int128 length = __int128{ticks} * clock.step;
  return static_cast<std::int64_t>(std::clamp<__int128>(
      length, std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()));
}

/// How many rows each episode has: none, one, many.
Tensor random_offsets(std::int64_t episodes, Random& random) {
  Tensor offsets(DataType::kInt64, {episodes + 1});
  std::int64_t row = random.pick({0, 0, 3});  // rows in front belong to nobody
  for (std::int64_t e = 0; e <= episodes; ++e) {
    offsets.set_int(e, row);
    row += random.one_in(6) ? 0 : random.one_in(6) ? 1 : 1 + random.below(40);
  }
  return offsets;
}

/// Values of so many rows, whose episodes may lie in any order and apart from each other.
void make_values(WindowData& window, DataType type, std::int64_t rows, std::int64_t channels,
                 const LoaderWanted& wanted, Random& random) {
  const std::int64_t row_stride = channels + random.pick<std::int64_t>({0, 0, 0, 1, 4, 16});
  std::int64_t room = rows;  // rows of memory
  const std::int64_t episodes = window.row_offsets.size() - 1;
  if (wanted.has_begins ? *wanted.has_begins : random.one_in(3)) {
    window.value_begins = Tensor(DataType::kInt64, {episodes});
    std::vector<std::int64_t> in_memory;
    for (std::int64_t e = 0; e < episodes; ++e) {
      in_memory.insert(in_memory.begin() + random.below(e + 1), e);
    }
    room = 0;
    for (const std::int64_t e : in_memory) {
      room += 16 * random.below(3);  // which are aligned, whatever a row's size
      window.value_begins.set_int(e, room * row_stride);
      room += window.row_offsets.get_int(e + 1) - window.row_offsets.get_int(e);
    }
  }
  window.values = Tensor(type, {room, channels}, {row_stride, 1}, random.pick({0, 0, 0, 1}));
}

void fill_stream_times(WindowData& window, std::int64_t rows, const Clock& clock, Random& random) {
  const std::int64_t episodes = window.row_offsets.size() - 1;
  window.times = Tensor(DataType::kInt64, {rows});
  if (random.one_in(3)) window.received = Tensor(DataType::kInt64, {rows});
  for (std::int64_t e = 0; e < episodes; ++e) {
    std::int64_t tick = random.below(6);
    std::int64_t arrival = 0;
    for (std::int64_t row = window.row_offsets.get_int(e); row < window.row_offsets.get_int(e + 1);
         ++row) {
      window.times.set_int(row, clock.time(tick));
      arrival = std::max(arrival, tick + random.pick({-1, 0, 0, 1, 4}));
      if (window.received.present()) window.received.set_int(row, clock.time(arrival));
      tick += random.pick({0, 1, 1, 1, 2, 7});
    }
  }
}

void fill_steps(WindowData& window, const Clock& clock, bool is_copied, Random& random) {
  const bool is_by_row = window.options.spec.timeline == Timeline::kRows;
  const std::int64_t channels = window.channels();
  const std::int64_t most = channels > 400 ? 4 : random.pick({3, 12, 140});
  const std::int64_t count = random.one_in(16) ? 1 : 1 + random.below(most);
  const std::int64_t past = random.pick({0, 3, 20});
  const std::int64_t future = random.pick({0, 0, 3, 40});
  std::vector<std::int64_t> steps;
  for (std::int64_t k = 0; k < count; ++k) {
    const std::int64_t ticks = random.below(past + future + 1) - past;
    std::int64_t step = is_by_row ? ticks : ticks_ns(clock, ticks);
    if (!is_by_row && random.one_in(3)) step /= 2;
    if (!is_by_row && random.one_in(40)) {
      step = random.pick(
          {std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()});
    }
    steps.push_back(step);
  }
  if (is_copied && !random.one_in(4)) {
    for (std::int64_t k = 0; k < count; ++k) steps[k] = k - past;
  }
  const bool must_ascend =
      std::any_of(window.options.spec.layout.begin(), window.options.spec.layout.end(),
                  [](const Run& run) { return run.method == Method::kSum; });
  if (must_ascend || random.one_in(2)) std::sort(steps.begin(), steps.end());
  window.window_offsets = Tensor(DataType::kInt64, {count});
  for (std::int64_t k = 0; k < count; ++k) window.window_offsets.set_int(k, steps[k]);
}

void fill_options(WindowData& window, std::int64_t channels, const Clock& clock,
                  const LoaderWanted& wanted, bool is_image, Random& random) {
  WindowSpec& options = window.options.spec;
  options.timeline = wanted.timeline    ? *wanted.timeline
                     : random.one_in(2) ? Timeline::kTime
                                        : Timeline::kRows;
  const Method method = wanted.method ? *wanted.method : random.pick(kMethods);
  if (channels > 0) {
    options.layout = {{method, channels}};
    if (is_slerp(method) && channels != 4) options.layout = random_layout(channels, random);
    if (!wanted.method && random.one_in(2)) options.layout = random_layout(channels, random);
    if (is_image) {
      options.layout = {
          {random.pick({Method::kLinear, Method::kPrevious, Method::kNearest}), channels}};
    }
  }
  options.causal = wanted.is_causal ? *wanted.is_causal : random.one_in(2);
  if (random.one_in(2)) options.latency_ns = ticks_ns(clock, random.below(3));
  if (random.one_in(10)) options.latency_ns = std::numeric_limits<std::int64_t>::max();
  if (options.timeline == Timeline::kRows) return;
  options.outside = random.pick(
      {Outside::kHold, Outside::kHold, Outside::kZero, Outside::kNan, Outside::kExtrapolate});
  if (options.outside == Outside::kNan && options.out_dtype == DataType::kUInt8) {
    options.outside = Outside::kZero;
  }
  if (random.one_in(2)) options.max_gap_ns = clock.duration(random.below(4), random).nanoseconds();
  if (random.one_in(2))
    options.tolerance_ns = clock.duration(random.below(3) / 2, random).nanoseconds();
  const bool has_mean = std::any_of(options.layout.begin(), options.layout.end(),
                                    [](const Run& run) { return run.method == Method::kMean; });
  if (has_mean) options.mean_window_ns = clock.duration(random.below(12), random).nanoseconds();
}

WindowData random_window(std::int64_t number, std::int64_t episodes, const Clock& clock,
                         const LoaderWanted& wanted, Random& random) {
  WindowData window;
  WindowSpec& options = window.options.spec;
  options.name = "stream" + std::to_string(number);
  const bool is_image = wanted.is_copied ? wanted.is_image && random.one_in(2)
                                         : wanted.is_image || (!wanted.value_type &&
                                                               !wanted.method && random.one_in(10));
  const DataType value_type = is_image            ? DataType::kUInt8
                              : wanted.value_type ? *wanted.value_type
                                                  : random.pick(kValueTypes);
  options.out_dtype = wanted.out_type ? *wanted.out_type : random.pick(kValueTypes);
  std::int64_t channels =
      random.one_in(16) ? 1 : random.pick<std::int64_t>({1, 2, 3, 4, 6, 7, 8, 14, 16, 32, 40, 300});
  if (wanted.is_copied && !is_image) {
    options.out_dtype = value_type;
    if (random.one_in(6)) {
      channels = random.pick<std::int64_t>({1541, 6160, 9001, 20000}) / size_of(value_type);
    }
  }
  if (is_image) {
    options.channels_first = true;
    std::int64_t pixels = 1 + random.below(random.pick({6, 60, 700}));
    if (random.one_in(3)) pixels = 16 * (1 + random.below(40));  // of whole words
    if (random.one_in(12)) pixels = 4672;                        // of more than a block makes
    const auto colors = random.pick<std::int64_t>({1, 2, 3, 3, 4});
    options.shape = {1, pixels, colors};
    channels = pixels * colors;
  }
  fill_options(window, channels, clock, wanted, is_image, random);

  std::int64_t own_episodes = episodes;
  if (random.one_in(4)) {
    window.options.first_episode = random.below(episodes + 1);
    own_episodes = random.below(episodes - window.options.first_episode + 1);
  }
  window.row_offsets = random_offsets(own_episodes, random);
  const std::int64_t rows = window.row_offsets.get_int(own_episodes) + random.pick({0, 0, 2});
  make_values(window, value_type, rows, channels, wanted, random);
  fill_values(window.values, options.layout, false, random);
  if (options.timeline == Timeline::kTime || random.one_in(2)) {
    fill_stream_times(window, rows, clock, random);
  }
  fill_steps(window, clock, wanted.is_copied, random);
  if (random.one_in(3)) {
    window.valid = Tensor(DataType::kBool, {rows});
    for (std::int64_t row = 0; row < rows; ++row) window.valid.set(row, random.one_in(5) ? 0 : 1);
  }
  const std::int64_t scales = is_image ? options.shape[2] : channels;
  const DataType scale_type =
      is_image ? DataType::kFloat64 : compute_type(value_type, options.out_dtype);
  for (Tensor* scale : {&window.subtract, &window.multiply}) {
    if (!random.one_in(3) || (wanted.is_copied && !is_image)) continue;
    *scale = Tensor(scale_type, {scales});
    fill_at_random(*scale, random, 2);
  }
  window.gap = wanted.is_copied ? 0 : random.pick<std::int64_t>({0, 0, 1, 4, 16});
  window.wants_pad = !random.one_in(6);
  window.wants_age = random.one_in(2);
  window.fill_spec();
  return window;
}

/// How each channel of a stream is combined.
std::vector<Method> methods_of(const WindowData& window) {
  std::vector<Method> methods;
  for (const Run& run : window.options.spec.layout) {
    methods.insert(methods.end(), static_cast<std::size_t>(run.channels), run.method);
  }
  return methods;
}

/// Makes a window relative to another, where both are such as may be.
void make_relative(WindowData& window, const WindowData& reference, Random& random) {
  WindowSpec& options = window.options.spec;
  if (options.channels_first || options.out_dtype == DataType::kUInt8) return;
  if (reference.options.spec.channels_first || !reference.options.spec.relative_to.empty()) return;
  if (reference.channels() > kMaxReferenceChannels) return;
  const std::vector<Method> methods = methods_of(window);
  const std::vector<Method> reference_methods = methods_of(reference);
  options.relative_to = reference.options.spec.name;
  options.reference_is_causal = !random.one_in(4);
  window.reference_columns = Tensor(DataType::kInt32, {window.channels()});
  for (std::size_t c = 0; c < methods.size(); ++c) {
    std::int64_t column = -1;
    if (reference.channels() > 0 && !is_slerp(methods[c]) && !random.one_in(4)) {
      column = random.below(reference.channels());
    }
    if (column >= 0 && reference.options.spec.timeline == Timeline::kTime) {
      const Method of_column = reference_methods[static_cast<std::size_t>(column)];
      if (is_slerp(of_column) || of_column == Method::kSum) column = -1;
    }
    window.reference_columns.set(static_cast<std::int64_t>(c), static_cast<double>(column));
  }
  window.fill_spec();
}

/// A mixture of some parts, of which those without anchors weigh nothing. Anchors in front of the
/// first part are never drawn.
void make_mixture(LoaderProblem& problem, Random& random) {
  const std::int64_t anchors = problem.anchor_count();
  const std::int64_t count = 1 + random.below(5);
  std::vector<std::int64_t> ends{anchors};
  for (std::int64_t m = 0; m < count; ++m) ends.push_back(random.below(anchors));
  std::sort(ends.begin(), ends.end());
  std::vector<std::int64_t> weights;
  for (std::int64_t m = 0; m < count; ++m) {
    weights.push_back(ends[m] == ends[m + 1] ? 0 : random.below(4));
  }
  weights.back() += 1;
  std::int64_t all = 0;
  for (const std::int64_t weight : weights) all += weight;
  problem.parts = Tensor(DataType::kInt64, {count + 1});
  problem.thresholds = Tensor(DataType::kInt64, {count});
  std::int64_t sum = 0;
  for (std::int64_t m = 0; m < count; ++m) {
    sum += weights[m];
    problem.parts.set_int(m + 1, ends[m + 1]);
    // 2^64 has no room, and is not looked at.
    const auto threshold = static_cast<std::uint64_t>((static_cast<unsigned __int128>(sum) << 64) /
                                                      static_cast<unsigned __int128>(all));
    problem.thresholds.set_int(m, static_cast<std::int64_t>(threshold));
  }
  problem.parts.set_int(0, ends[0]);
  problem.order.samples = 1 + random.below(80);
  problem.order.shuffle = true;
}

}  // namespace

LoaderProblem random_loader_problem(std::uint64_t seed, const LoaderWanted& wanted) {
  Random random(seed);
  LoaderProblem problem;
  const Clock clock(DataType::kInt64, random);
  const std::int64_t episodes = 1 + random.below(6);
  const int streams = wanted.streams > 0 ? wanted.streams : 1 + static_cast<int>(random.below(4));
  for (int i = 0; i < streams; ++i) {
    problem.windows.push_back(random_window(i, episodes, clock, wanted, random));
  }
  problem.episodes = Tensor(DataType::kInt64, {episodes, 4});
  for (std::int64_t e = 0; e < episodes; ++e) {
    problem.episodes.set_int(4 * e, random.below(1000));
    problem.episodes.set_int(4 * e + 1, random.below(4) - 1);
    problem.episodes.set_int(4 * e + 2, clock.time(random.below(6)));
    problem.episodes.set_int(4 * e + 3, random.below(9));
  }
  const std::int64_t anchors = 1 + random.below(random.pick({3, 60}));
  problem.anchors = Tensor(DataType::kInt64, {anchors, 2});
  for (std::int64_t i = 0; i < anchors; ++i) {
    const std::int64_t frame = random.below(50);
    const std::int64_t tick = random.below(70) - 4;
    problem.anchors.set_int(2 * i, frame << 32 | random.below(episodes));
    std::int64_t time = clock.time(tick);
    if (random.one_in(3)) time = time / 2 + clock.time(tick + 1) / 2;  // between ticks
    problem.anchors.set_int(2 * i + 1, time);
  }
  BatchOrder& order = problem.order;
  order.seed = static_cast<std::uint64_t>(random.below(std::int64_t{1} << 62));
  order.shuffle = !random.one_in(3);
  if (wanted.is_mixture ? *wanted.is_mixture : random.one_in(3)) {
    make_mixture(problem, random);
  } else if (random.one_in(4)) {
    order.samples = 1 + random.below(anchors);  // a shorter epoch
  }
  const std::int64_t samples = problem.sample_count();
  order.ranks = 1 + random.below(std::min<std::int64_t>(samples, 4));
  order.rank = random.below(order.ranks);
  order.drop_last = random.one_in(2);
  order.batch_size =
      1 + random.below(order.drop_last ? std::min<std::int64_t>(samples / order.ranks, 12) : 12);
  problem.wants_metadata = !random.one_in(6);
  if (wanted.is_relative ? *wanted.is_relative : random.one_in(4)) {
    // Streams at even indices are relative to others: a reference is not relative itself.
    for (int i = 0; i < streams && streams + i / 2 < kMaxStreams; i += 2) {
      const int reference = static_cast<int>(random.below(streams)) | 1;
      if (reference >= streams) continue;
      make_relative(problem.windows[static_cast<std::size_t>(i)],
                    problem.windows[static_cast<std::size_t>(reference)], random);
    }
  }
  return problem;
}

std::vector<std::int64_t> random_indices(const LoaderProblem& problem, std::int64_t size,
                                         Random& random) {
  std::vector<std::int64_t> indices;
  for (std::int64_t b = 0; b < size; ++b) indices.push_back(random.below(problem.anchor_count()));
  return indices;
}

}  // namespace robocache::testing
