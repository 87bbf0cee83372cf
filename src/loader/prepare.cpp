#include "loader/prepare.h"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <utility>

#include "core/argument.h"
#include "loader/draw_state.h"
#include "robocache/build_info.h"
#include "window/check_windows.h"
#include "window/windows.h"

namespace robocache {
namespace {

// Kernels number a batch's targets in 32 bits, of which they reserve three.
constexpr std::int64_t kMaxTargets = (std::int64_t{1} << 29) - 1;

constexpr std::int64_t kMaxSamples = std::int64_t{1} << 62;

constexpr std::int64_t kAnySize = -1;

/// Checks the type, shape and device of a contiguous tensor, which messages call `name`. `sizes`:
/// its sizes, or kAnySize; `shape`: their text in messages.
void check_array(const std::string& name, const ConstTensorView& view, DataType type,
                 std::initializer_list<std::int64_t> sizes, const std::string& shape,
                 DeviceType device) {
  const Argument argument{name.c_str(), view};
  argument.expect_type(view.dtype == type, name_of(type));
  const auto fits = [](std::int64_t size, std::int64_t got) {
    return size == kAnySize || size == got;
  };
  argument.expect_shape(
      std::equal(sizes.begin(), sizes.end(), view.shape, view.shape + view.rank, fits),
      shape.c_str());
  argument.expect_device(device);
  if (!is_contiguous(view)) throw_value_error(name, "contiguous " + shape, "gaps between elements");
}

/// Checks a contiguous tensor of one axis, which messages call `axis`, with `size` elements.
void check_list(const std::string& name, const ConstTensorView& view, DataType type,
                const char* axis, std::int64_t size, DeviceType device) {
  const std::string shape = bracket({dimension(axis, size)});
  if (!view.present()) throw_value_error(name, shape, "none");
  check_array(name, view, type, {size}, shape, device);
}

/// The number of rows N. With `value_begins`, the shape of the values does not determine it.
std::int64_t rows_of(const WindowStream& stream) {
  if (!stream.value_begins.present()) return stream.values.shape[0];
  for (const ConstTensorView* each : {&stream.times, &stream.received, &stream.valid}) {
    if (each->present()) return each->shape[0];
  }
  return kMaxSamples;  // no tensor limits it
}

bool is_relative(const WindowStream& stream) { return !stream.spec.relative_to.empty(); }

/// "values['force']": the name of a stream's tensor in messages.
std::string name_of_tensor(const std::string& stream, const std::string& tensor) {
  return tensor + "['" + stream + "']";
}

/// Planned elements per element: its size in bytes where align does not compute with the type.
std::int64_t widening(const WindowSpec& spec) {
  return is_computed(spec) ? 1 : size_of(spec.dtype);
}

DataType planned_type(const WindowSpec& spec, DataType type) {
  return is_computed(spec) ? type : DataType::kUInt8;
}

/// The runs of a window, in planned elements. By row, runs only mark the channels that are angles,
/// and only for relative windows.
std::vector<Run> planned_runs(const WindowSpec& spec) {
  std::vector<Run> runs = runs_of(spec);
  if (is_by_row(spec) && spec.relative_to.empty()) {
    runs = {{Method::kPrevious, elements_of(spec)}};
  }
  for (Run& run : runs) {
    if (is_by_row(spec) && run.method != Method::kAngle) run.method = Method::kPrevious;
    run.channels *= widening(spec);
  }
  return runs;
}

std::optional<Duration> duration(const std::optional<std::int64_t>& nanoseconds) {
  if (!nanoseconds) return std::nullopt;
  return Duration::nanoseconds(*nanoseconds);
}

/// The values of a stream in planned elements: [N, planned elements].
ConstTensorView planned_values(const WindowStream& stream) {
  ConstTensorView values = stream.values;
  values.shape[0] = rows_of(stream);
  if (is_computed(stream.spec)) return values;
  const std::int64_t size = widening(stream.spec);
  values.dtype = DataType::kUInt8;
  values.shape[1] *= size;
  values.strides[0] *= size;
  return values;
}

/// The stream in the form that `align` plans: its targets are the offsets, its batch the episodes.
Stream aligned_stream(const WindowStream& stream) {
  const WindowSpec& spec = stream.spec;
  Stream aligned;
  aligned.values = planned_values(stream);
  aligned.times = stream.times;
  if (!stream.times.present()) {
    aligned.times =
        ConstTensorView(nullptr, DataType::kInt64, {rows_of(stream)}, stream.values.device);
  }
  // Only their shapes are read. With them, messages call the number of rows N, as here.
  aligned.begins = stream.row_offsets;
  --aligned.begins.shape[0];
  aligned.lengths = aligned.begins;
  aligned.valid = stream.valid;
  if (!spec.channels_first) {  // channels_first scales have other sizes
    aligned.subtract = stream.subtract;
    aligned.multiply = stream.multiply;
  }
  aligned.layout = planned_runs(spec);
  if (is_by_row(spec)) return aligned;
  aligned.max_gap = duration(spec.max_gap_ns);
  if (spec.tolerance_ns != 0) aligned.tolerance = duration(spec.tolerance_ns);
  aligned.mean_window = duration(spec.mean_window_ns);
  return aligned;
}

/// Drops inputs that only a mask needs, for calls without one; means and sums always need `valid`.
void forget_mask(StreamPlan& align) {
  align.has_max_gap = false;
  if (!(align.row_kinds & (kReadsWindow | kReadsInterval))) align.valid = nullptr;
}

/// The streams with the windows of source frames in place of those of images.
std::vector<WindowStream> base_streams(const std::vector<WindowStream>& streams) {
  std::vector<WindowStream> base = streams;
  for (WindowStream& stream : base) {
    if (!stream.spec.image) continue;
    for (const auto& [tensor, scale] :
         {std::pair{"subtract", &stream.subtract}, std::pair{"multiply", &stream.multiply}}) {
      if (!scale->present()) continue;
      throw_value_error(name_of_tensor(stream.spec.name, tensor),
                        "none with image, whose frames the plan does not scale", "some");
    }
    stream.spec = base_window(stream.spec);
  }
  return base;
}

/// Marks a window as one of images that are written channels first.
void set_image(const WindowStream& stream, WindowPlan& window) {
  const std::int64_t channels = stream.spec.shape[2];
  for (const auto& [tensor, scale] :
       {std::pair{"subtract", &stream.subtract}, std::pair{"multiply", &stream.multiply}}) {
    if (!scale->present()) continue;
    const std::string full = name_of_tensor(stream.spec.name, tensor);
    const Argument checked{full.c_str(), *scale};
    checked.expect_type(scale->dtype == DataType::kFloat64, "float64");
    checked.expect_shape(scale->rank == 1 && scale->shape[0] == channels,
                         [&] { return bracket({dimension("C", channels)}); });
    checked.expect_device(stream.values.device);
  }
  window.align.subtract = stream.subtract.data;
  window.align.multiply = stream.multiply.data;
  window.colors = static_cast<std::int32_t>(channels);
}

}  // namespace

PreparedBatch::PreparedBatch(const std::vector<WindowStream>& streams,
                             const ConstTensorView& anchors, const ConstTensorView& episodes,
                             const BatchOrder& order, const ExecutionContext& context)
    : device_(context.device) {
#if !defined(ROBOCACHE_HAS_CUDA)
  if (device_ == DeviceType::kCuda) {
    throw DeviceError("context: expected the CPU, got CUDA in " + cuda_problem(0));
  }
#endif
  check_windows(windows_of(streams), WindowNames{}, WindowUse::kPlan);
  const std::vector<WindowStream> base = base_streams(streams);
  const std::vector<const WindowSpec*> specs = windows_of(base);
  check_array("anchors", anchors, DataType::kInt64, {kAnySize, 2}, "[A,2]", device_);
  check_array("episodes", episodes, DataType::kInt64, {kAnySize, 4}, "[E,4]", device_);
  const std::int64_t most = std::numeric_limits<std::int32_t>::max();
  if (episodes.shape[0] > most) {
    throw_value_error("episodes", "at most " + std::to_string(most),
                      std::to_string(episodes.shape[0]));
  }
  if (anchors.shape[0] < 1) throw_value_error("anchors", "one or more", "none");
  draw_.anchors = static_cast<const std::int64_t*>(anchors.data);
  draw_.episodes = static_cast<const std::int64_t*>(episodes.data);
  draw_.episode_count = episodes.shape[0];
  draw_.permutation = make_permutation(order.seed, anchors.shape[0]);
  draw_.samples = anchors.shape[0];
  set_mixture(order);
  set_order(order);
  for (const WindowStream& stream : base) add_window(stream, context);
  std::size_t runs = 0;
  for (std::size_t i = 0; i < base.size(); ++i) {
    set_reference(base[i], specs, windows_[i]);
    runs += windows_[i].runs.size();
    if (!is_relative(base[i])) continue;
    has_relatives_ = true;
    runs += windows_[static_cast<std::size_t>(windows_[i].relative_to)].runs.size();
  }
  if (runs > std::size_t{kMaxRunsInAll}) {
    throw_value_error("streams", "at most " + std::to_string(kMaxRunsInAll) + " runs in all",
                      std::to_string(runs));
  }
}

void PreparedBatch::set_reference(const WindowStream& stream,
                                  const std::vector<const WindowSpec*>& specs,
                                  Window& window) const {
  const ConstTensorView& columns = stream.reference_columns;
  const std::string name = name_of_tensor(stream.spec.name, "reference_columns");
  if (!is_relative(stream)) {
    if (columns.present()) throw_value_error(name, "none without relative_to", "some");
    return;
  }
  window.relative_to = static_cast<std::int32_t>(reference_of(specs, stream.spec));
  check_list(name, columns, DataType::kInt32, "D", elements_of(stream.spec), device_);
}

void PreparedBatch::set_mixture(const BatchOrder& order) {
  if (!order.parts.present()) {
    if (order.thresholds.present()) throw_value_error("thresholds", "none without parts", "some");
    const std::int64_t anchors = draw_.permutation.count;
    if (order.samples < 0 || order.samples > anchors) {
      throw_value_error("samples", "0 to " + dimension("A", anchors) + " without parts",
                        std::to_string(order.samples));
    }
    if (order.samples != 0) draw_.samples = order.samples;
    return;
  }
  check_array("parts", order.parts, DataType::kInt64, {kAnySize}, "[M+1]", device_);
  const std::int64_t count = order.parts.shape[0] - 1;
  if (count < 1) throw_value_error("parts", "[M+1] of one part or more", shape_text(order.parts));
  check_list("thresholds", order.thresholds, DataType::kInt64, "M", count, device_);
  if (order.samples < 1 || order.samples > kMaxSamples) {
    throw_value_error("samples", "1 to 2^62", std::to_string(order.samples));
  }
  if (!order.shuffle) throw_value_error("shuffle", "true for a mixture", "false");
  draw_.samples = order.samples;
  draw_.mixture = {static_cast<const std::int64_t*>(order.parts.data),
                   static_cast<const std::int64_t*>(order.thresholds.data), count};
}

void PreparedBatch::set_order(const BatchOrder& order) {
  const std::int64_t count = draw_.samples;
  const auto expect = [](bool fits, const char* name, const std::string& expected,
                         std::int64_t got) {
    if (!fits) throw_value_error(name, expected, std::to_string(got));
  };
  // At most this many ranks, so that the samples of a global batch fit in 64 bits.
  const std::int64_t most_ranks =
      std::min<std::int64_t>(count, std::numeric_limits<std::int32_t>::max());
  expect(order.ranks >= 1 && order.ranks <= most_ranks, "ranks",
         "1 to " + std::to_string(most_ranks) + " (one sample for each)", order.ranks);
  expect(order.rank >= 0 && order.rank < order.ranks, "rank",
         "0 to " + std::to_string(order.ranks - 1), order.rank);
  const std::int64_t most = order.drop_last ? count / order.ranks : kMaxTargets;
  expect(order.batch_size >= 1 && order.batch_size <= most, "batch_size",
         "1 to " + std::to_string(most) +
             (order.drop_last ? " (the samples of each rank, as drop_last leaves out smaller ones)"
                              : ""),
         order.batch_size);
  draw_.is_shuffled = order.shuffle;
  draw_.drops_last = order.drop_last;
  draw_.rank = order.rank;
  draw_.ranks = order.ranks;
  draw_.batch_size = order.batch_size;
}

void PreparedBatch::check_episodes(const WindowStream& stream) const {
  const auto name = [&](const char* tensor) { return name_of_tensor(stream.spec.name, tensor); };
  if (stream.first_episode < 0 || stream.first_episode > draw_.episode_count) {
    throw_value_error(name("first_episode"), "0 to " + dimension("E", draw_.episode_count),
                      std::to_string(stream.first_episode));
  }
  const std::int64_t most = draw_.episode_count - stream.first_episode + 1;
  check_array(name("row_offsets"), stream.row_offsets, DataType::kInt64, {kAnySize}, "[Es+1]",
              device_);
  const std::int64_t count = stream.row_offsets.shape[0];
  if (count < 1 || count > most) {
    const std::string numbers =
        stream.first_episode == 0
            ? "1 to " + dimension("E+1", most) + " numbers"
            : "1 to " + std::to_string(most) + " numbers from first_episode on";
    throw_value_error(name("row_offsets"), "[Es+1], " + numbers, shape_text(stream.row_offsets));
  }
  if (!stream.value_begins.present()) return;
  check_list(name("value_begins"), stream.value_begins, DataType::kInt64, "Es", count - 1, device_);
}

void PreparedBatch::add_window(const WindowStream& stream, const ExecutionContext& context) {
  const WindowSpec& spec = stream.spec;
  const auto name = [&](const std::string& tensor) { return name_of_tensor(spec.name, tensor); };
  check_episodes(stream);
  check_list(name("window_offsets"), stream.window_offsets, DataType::kInt64, "K",
             static_cast<std::int64_t>(spec.offsets.size()), device_);
  const std::string values_name = name("values");
  const Argument values{values_name.c_str(), stream.values};
  values.expect_type(stream.values.dtype == spec.dtype, name_of(spec.dtype));
  values.expect_shape(stream.values.rank == 2 && stream.values.shape[1] == elements_of(spec),
                      [&] { return bracket({"N", dimension("D", elements_of(spec))}); });
  if (stream.values.shape[1] > 1 && stream.values.strides[1] != 1 && rows_of(stream) > 0) {
    throw_value_error(values_name, "a last stride of 1", std::to_string(stream.values.strides[1]));
  }

  // CallPlan validates and plans the part of the options that `align` defines.
  const auto plan_alignment = [&]() -> Window {
    const Stream aligned = aligned_stream(stream);
    AlignOptions options;
    options.outside = spec.outside;
    options.names.target_times = "window_offsets";
    const CallPlan plan(&aligned, 1, stream.window_offsets, options,
                        planned_type(spec, spec.out_dtype), context);
    Window window{spec.name,
                  {},
                  {},
                  plan.runs(0).units,
                  widening(spec),
                  -1,
                  spec.reference_is_causal,
                  static_cast<const std::int32_t*>(stream.reference_columns.data)};
    window.plan.align = plan.plan(0);
    for (int run = 0; run < plan.runs(0).count; ++run) window.runs.push_back(plan.runs(0)[run]);
    return window;
  };
  // Rewrites "values: expected ..." as "values['force']: expected ...".
  const auto named = [&](const std::string& error) {
    const std::size_t end = error.find(':');
    return name(error.substr(0, end)) + error.substr(end);
  };
  try {
    windows_.push_back(plan_alignment());
  } catch (const ValueError& error) {
    throw ValueError(named(error.what()));
  } catch (const TypeError& error) {
    throw TypeError(named(error.what()));
  }

  WindowPlan& window = windows_.back().plan;
  StreamPlan& align = window.align;
  const std::int64_t rows = align.rows;
  const auto check_rows = [&](const char* tensor, const ConstTensorView& view, DataType type) {
    check_list(name(tensor), view, type, "N", rows, device_);
  };
  if (stream.times.present() || !is_by_row(spec)) {
    check_rows("times", stream.times, DataType::kInt64);
  }
  if (stream.received.present()) check_rows("received", stream.received, DataType::kInt64);
  if (stream.valid.present()) check_rows("valid", stream.valid, DataType::kBool);
  if (align.values_row_stride < 0 || align.values_row_stride > kMaxTargets) {
    throw_value_error(name("values"), "a row stride of 0 to " + std::to_string(kMaxTargets),
                      std::to_string(align.values_row_stride));
  }
  if (spec.channels_first) set_image(stream, window);
  for (const auto& [argument, scale] :
       {std::pair{"subtract", &stream.subtract}, std::pair{"multiply", &stream.multiply}}) {
    if (is_contiguous(*scale)) continue;
    throw_value_error(name(argument), "contiguous [D]", "gaps between elements");
  }
  // A dimension of one element may have any stride: normalize it.
  align.values_channel_stride = align.times_row_stride = align.valid_row_stride = 1;
  align.subtract_stride = align.multiply_stride = 1;
  align.begins = nullptr;  // row_offsets and value_begins take its place
  align.lengths = nullptr;
  align.begins_stride = align.lengths_stride = 0;
  align.batch = 1;
  window.offsets = static_cast<const std::int64_t*>(stream.row_offsets.data);
  window.begins = static_cast<const std::int64_t*>(stream.value_begins.data);
  window.first_episode = static_cast<std::int32_t>(stream.first_episode);
  window.episode_count = static_cast<std::int32_t>(stream.row_offsets.shape[0] - 1);
  window.steps = static_cast<const std::int64_t*>(stream.window_offsets.data);
  window.received = static_cast<const std::int64_t*>(stream.received.data);
  window.rows = rows;
  window.latency = spec.latency_ns;
  window.is_by_row = is_by_row(spec);
  window.is_causal = spec.causal && !window.is_by_row;
}

RelativePlan PreparedBatch::relative_plan(const Window& window, bool* is_pad) const {
  if (window.relative_to < 0) return {};
  const Window& reference = windows_[static_cast<std::size_t>(window.relative_to)];
  RelativePlan relative{true, reference.plan, reference.table(), window.reference_columns};
  relative.reference.is_causal = window.reference_is_causal && !reference.plan.is_by_row;
  StreamPlan& align = relative.reference.align;
  align.batch = align.targets = 1;
  align.subtract = align.multiply = nullptr;
  align.out_type = compute_type(window.plan.align.value_type, window.plan.align.out_type);
  align.out = nullptr;
  align.out_age = nullptr;
  align.out_valid = is_pad;
  if (is_pad == nullptr) forget_mask(align);
  return relative;
}

PreparedBatch::Call PreparedBatch::call(const std::int64_t* indices, std::int64_t* state,
                                        std::int64_t size, const WindowOutput* outputs,
                                        const BatchMetadata& metadata,
                                        const ExecutionContext& context) const {
  if (context.device != device_) {
    throw_value_error("context", std::string("device ") + device_name(device_),
                      device_name(context.device));
  }
  if (size < 0 || size > kMaxTargets) {
    throw_value_error("size", "0 to " + std::to_string(kMaxTargets), std::to_string(size));
  }
  if (size > 0 && indices == nullptr && state == nullptr) {
    throw_value_error("indices", std::to_string(size) + " numbers", "null");
  }
  Call made{{},
            {},
            {},
            {draw_, metadata, nullptr, nullptr, nullptr, static_cast<std::int64_t>(count()), size}};
  made.call.draw.indices = indices;
  made.call.draw.state = state;
  made.windows.reserve(count());
  made.runs.reserve(count());
  for (std::size_t i = 0; i < count(); ++i) {
    const Window& window = windows_[i];
    const WindowOutput& output = outputs[i];
    WindowPlan& plan = made.windows.emplace_back(window.plan);
    StreamPlan& align = plan.align;
    const auto name = [&](const char* argument) { return name_of_tensor(window.name, argument); };
    const std::int64_t elements = align.channels / window.widening;
    if (align.targets > 0 && size > kMaxTargets / align.targets) {
      throw_value_error(name("window_offsets"),
                        "at most " + std::to_string(kMaxTargets) + " in a batch",
                        std::to_string(size) + " times " + std::to_string(align.targets));
    }
    if (align.channels > 0 && align.targets > 0 && size > 0 && output.values == nullptr) {
      throw_value_error(name("output"), "memory for the values", "none");
    }
    const std::int64_t most = kMaxTargets / window.widening;
    if (output.row_stride < elements || output.row_stride > most) {
      throw_value_error(name("row_stride"),
                        std::to_string(elements) + " to " + std::to_string(most),
                        std::to_string(output.row_stride));
    }
    const std::int64_t row_stride = output.row_stride * window.widening;
    align.batch = size;
    align.out = output.values;
    align.out_target_stride = row_stride;
    align.out_batch_stride = row_stride * align.targets;
    align.out_valid = output.is_pad;
    align.out_valid_batch_stride = align.targets;
    align.out_valid_target_stride = 1;
    align.out_age = output.age_ns;
    align.out_age_batch_stride = align.targets;
    align.out_age_target_stride = 1;
    if (output.is_pad == nullptr) forget_mask(align);
    made.runs.push_back(window.table());
    if (has_relatives_) made.relatives.push_back(relative_plan(window, output.is_pad));
  }
  made.call.relatives = has_relatives_ ? made.relatives.data() : nullptr;
  made.call.windows = made.windows.data();
  made.call.runs = made.runs.data();
  return made;
}

std::int64_t PreparedBatch::batch_size_at(std::int64_t position) const {
  const std::int64_t last = draw_.samples - samples_needed(draw_);
  if (position < 0 || position > last) {
    throw_value_error("position", "0 to " + std::to_string(last), std::to_string(position));
  }
  return size_at(draw_, position);
}

}  // namespace robocache
