#include "live/live_windows.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <type_traits>
#include <utility>

#include "align/plan.h"
#include "live/buffer_rows.h"
#include "live/durations.h"
#include "live/inline_execution.h"
#include "loader/backends.h"
#include "window/windows.h"

namespace robocache {
namespace {

/// The window of the numbers of the slots that hold an image window's rows: row i of a robot has
/// number i + 1. A step's number is 0 where the window is zeros.
WindowSpec numbers_window(const WindowSpec& window) {
  WindowSpec numbers = window;
  numbers.dtype = numbers.out_dtype = DataType::kInt64;
  numbers.shape.clear();
  return numbers;
}

}  // namespace

LiveWindows::LiveWindows(const std::vector<LiveStream>& streams, const OutputLayout& layout,
                         const TransformChain& chain, const LiveSources& sources,
                         const ImageRows& images, const LiveOptions& options)
    : streams_(streams),
      sources_(sources),
      images_(images),
      robots_(options.robots),
      kept_queries_(options.kept_queries),
      reference_of_(streams.size()) {
  for (const WindowPlace& place : layout.windows) {
    const auto stream = static_cast<std::size_t>(place.stream);
    if (streams[stream].is_missing) continue;
    Window& window = add_window(streams[stream], sources[stream].get());
    window.place = &place;
    window.values = chain.window_of(stream);
  }
  for (std::size_t i = 0; i < streams.size(); ++i) {
    if (!streams[i].relative_to.empty()) add_reference(i);
  }
  made_ = windows_.size();
  for (const LiveStream& stream : streams) {
    if (!is_live(stream) && !stream.is_missing) add_window(stream, nullptr);
  }
  for (const auto& window : windows_) relate(*window);
  plan();
}

LiveWindows::Window& LiveWindows::add_window(const LiveStream& stream, LiveSource* source) {
  windows_.push_back(std::make_unique<Window>());
  Window& window = *windows_.back();
  window.stream = &stream;
  window.name = stream.name;
  window.source = source;
  window.is_by_row = is_by_row(stream);
  window.asked = stream.offsets;
  window.is_image = images_.processes(&stream - streams_.data());
  if (window.is_image) {
    window.numbers.resize(static_cast<std::size_t>(source->slots()));
    std::iota(window.numbers.begin(), window.numbers.end(), 1);
    window.found.resize(stream.offsets.size());
  }
  return window;
}

/// Sets the index of the window whose rows a window is relative to: a window of the output or,
/// where the reference's output window reaches into the future, a reference window of `undo`.
void LiveWindows::relate(Window& window) const {
  const std::string& to = window.stream->relative_to;
  if (to.empty() || window.reference != nullptr) return;
  const auto found =
      std::find_if(windows_.begin(), windows_.end(),
                   [&](const std::unique_ptr<Window>& each) { return each->stream->name == to; });
  window.relative_to = static_cast<std::int32_t>(found - windows_.begin());
}

/// Adds the reference window of a relative stream, for `undo`, unless one of that stream and type
/// exists.
void LiveWindows::add_reference(std::size_t stream) {
  const LiveStream& relative = streams_[stream];
  const LiveStream* const found = find_stream(streams_, relative.relative_to);
  const DataType type = compute_type(relative.dtype, relative.out_dtype);
  for (const auto& each : references_) {
    if (each->stream == found && each->type == type) reference_of_[stream] = each.get();
  }
  if (reference_of_[stream] != nullptr) return;
  references_.push_back(std::make_unique<Reference>());
  Reference& reference = *references_.back();
  reference.stream = found;
  reference.type = type;
  const auto count = static_cast<std::size_t>(kept_queries_ * robots_);
  reference.values =
      make_aligned(count * static_cast<std::size_t>(elements_of(*found) * size_of(type)));
  reference.is_pad = make_aligned(count * sizeof(bool));
  reference_of_[stream] = &reference;
  Window& window =
      add_window(*found, sources_[static_cast<std::size_t>(found - streams_.data())].get());
  window.name += " (reference " + std::to_string(references_.size()) + ")";
  window.asked = {0};
  window.reference = &reference;
}

/// The numbers of a scale, one per channel, in the compute type of the plan.
ConstTensorView LiveWindows::scale(Window& window, int which,
                                   const std::vector<double>& numbers) const {
  const LiveStream& stream = *window.stream;
  if (numbers.empty() || window.reference != nullptr) return {};
  const std::int64_t count = stream.channels_first ? stream.shape[2] : elements_of(stream);
  const auto spread = [&](auto& spread_numbers) {
    using Number = typename std::decay_t<decltype(spread_numbers)>::value_type;
    spread_numbers.resize(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < spread_numbers.size(); ++i) {
      spread_numbers[i] = static_cast<Number>(numbers[i % numbers.size()]);
    }
    return array(std::as_const(spread_numbers).data(), {count});
  };
  if (stream.channels_first || compute_type(stream.dtype, stream.out_dtype) == DataType::kFloat64) {
    return spread(window.wide[which]);
  }
  return spread(window.narrow[which]);
}

WindowStream LiveWindows::planned(Window& window) const {
  const LiveStream& stream = *window.stream;
  window.steps = window.asked;
  WindowStream made;
  made.spec = stream;
  if (window.is_image) made.spec = numbers_window(stream);
  made.spec.name = window.name;
  made.spec.offsets = window.asked;
  made.spec.causal = is_live(stream) || window.reference != nullptr;
  made.spec.subtract.clear();  // passed as tensors instead
  made.spec.multiply.clear();
  if (window.reference != nullptr) {
    made.spec.has_axis = false;
    made.spec.out_dtype = window.reference->type;
  }
  if (window.relative_to >= 0) {
    made.spec.relative_to = reference_of(window).name;
    const std::vector<std::int32_t>& columns = stream.reference_columns;
    made.reference_columns = array(columns.data(), {static_cast<std::int64_t>(columns.size())});
  }
  made.values = ConstTensorView(nullptr, made.spec.dtype, {0, elements_of(made.spec)});
  made.times = ConstTensorView(nullptr, DataType::kInt64, {0});
  made.valid = ConstTensorView(nullptr, DataType::kBool, {0});
  if (window.source != nullptr) {
    const RowBuffer& rows = window.source->buffer;
    made.values.data = window.source->values();
    made.values.shape[0] = robots_ * window.source->slots();
    made.values.strides[0] =
        static_cast<std::int64_t>(window.source->slot_bytes()) / size_of(stream.dtype);
    if (window.is_image) {
      made.values = array(std::as_const(window.numbers).data(), {window.source->slots(), 1});
    }
    made.value_begins = array(&std::as_const(window.value_begin), {1});
    made.times = ConstTensorView(rows.times(), DataType::kInt64, {rows.entries()});
    made.valid = ConstTensorView(rows.valid(), DataType::kBool, {rows.entries()});
  }
  made.row_offsets = array(std::as_const(window.offsets), {2});
  made.window_offsets =
      array(std::as_const(window.steps).data(), {static_cast<std::int64_t>(window.steps.size())});
  made.subtract = scale(window, 0, stream.subtract);
  made.multiply = scale(window, 1, stream.multiply);
  return made;
}

void LiveWindows::plan() {
  const ExecutionContext context = in_this_thread();
  std::vector<WindowStream> streams;
  streams.reserve(windows_.size());
  for (const auto& window : windows_) streams.push_back(planned(*window));
  prepared_.emplace(streams, ConstTensorView(anchor_, DataType::kInt64, {1, 2}),
                    ConstTensorView(episode_, DataType::kInt64, {1, 4}), BatchOrder{}, context);
  for (std::size_t i = 0; i < streams.size(); ++i) {
    check_contents_on_cpu(prepared_->window(i), streams[i], context);
  }
  // Queries set the output addresses; any non-null address here says which outputs are written.
  std::vector<WindowOutput> outputs;
  for (std::size_t i = 0; i < windows_.size(); ++i) {
    WindowOutput& output = outputs.emplace_back();
    const WindowPlace* const place = windows_[i]->place;
    output.values = &outputs;
    output.row_stride = place == nullptr ? elements_of(streams[i].spec) : place->row_stride;
    if (windows_[i]->is_image) output.row_stride = 1;
    if (place == nullptr && windows_[i]->reference == nullptr) continue;
    output.is_pad = reinterpret_cast<bool*>(&outputs);
    if (place != nullptr) output.age_ns = anchor_;
  }
  call_ = prepared_->call(&index_, nullptr, 1, outputs.data(), BatchMetadata{}, context);
  call_.call.count = static_cast<std::int64_t>(made_);
  for (std::size_t i = 0; i < made_; ++i) {
    const Window& window = *windows_[i];
    call_.windows[i].slots = window.source->buffer.slots();
    if (window.relative_to < 0) continue;
    WindowPlan& reference = call_.relatives[i].reference;
    reference.offsets = window.reference_offsets;
    reference.begins = &window.reference_value_begin;
    reference.slots = reference_of(window).source->buffer.slots();
  }
}

/// The window that a relative window is relative to.
const LiveWindows::Window& LiveWindows::reference_of(const Window& window) const {
  return *windows_[static_cast<std::size_t>(window.relative_to)];
}

/// The position of a robot's values, as the plan counts it: in elements, or in bytes where rows are
/// copied.
std::int64_t LiveWindows::value_begin(const Window& window, std::int64_t robot) {
  if (window.is_image) return 0;
  const LiveSource& source = *window.source;
  const std::int64_t bytes =
      robot * source.slots() * static_cast<std::int64_t>(source.slot_bytes());
  return is_computed(*window.stream) ? bytes / size_of(window.stream->dtype) : bytes;
}

/// Points the plan to a robot's rows of a window, and to its output.
void LiveWindows::point_to(std::size_t number, std::int64_t slot, std::int64_t robot,
                           std::int64_t now_ns, std::byte* out) {
  Window& window = *windows_[number];
  const RowBuffer& rows = window.source->buffer;
  StreamPlan& align = call_.windows[number].align;
  const std::int64_t begin = rows.begin(robot);
  std::int64_t count = rows.count(robot);
  if (window.is_by_row) {
    count = rows.rows_not_after(robot, now_ns);
    for (std::size_t k = 0; k < window.steps.size(); ++k) {
      window.steps[k] = count - 1 + window.asked[k];
    }
  }
  window.offsets[0] = begin;
  window.offsets[1] = begin + count;
  window.value_begin = value_begin(window, robot);
  if (window.reference != nullptr) {
    Reference& reference = *window.reference;
    const std::int64_t row = slot * robots_ + robot;
    align.out = reference.values.get() + row * align.channels * size_of(align.out_type);
    align.out_valid = reinterpret_cast<bool*>(reference.is_pad.get()) + row;
    return;
  }
  if (window.relative_to >= 0) point_to_reference(number, robot, now_ns);
  const WindowPlace& place = *window.place;
  const std::int64_t steps = robot * align.targets;
  align.out = window.is_image ? reinterpret_cast<std::byte*>(window.found.data())
                              : values_of(window, robot, out);
  align.out_valid = reinterpret_cast<bool*>(out + place.is_pad) + steps;
  align.out_age = reinterpret_cast<std::int64_t*>(out + place.age) + steps;
}

/// The address of a robot's values of a window of the output.
std::byte* LiveWindows::values_of(const Window& window, std::int64_t robot, std::byte* out) const {
  if (window.values != nullptr) return window.values;
  const LiveStream& stream = *window.stream;
  const auto steps = robot * static_cast<std::int64_t>(stream.offsets.size());
  return out + window.place->values + steps * window.place->row_stride * size_of(stream.out_dtype);
}

/// Writes a robot's window of images, whose numbers have been computed.
void LiveWindows::copy_images(const Window& window, std::int64_t robot, std::byte* out) const {
  const LiveSource& source = *window.source;
  const std::size_t bytes = row_bytes(*window.stream);
  std::byte* to = values_of(window, robot, out);
  for (const std::int64_t number : window.found) {
    const auto slot = static_cast<std::size_t>(robot * source.slots() + number - 1);
    std::memcpy(to,
                number == 0 ? images_.black(window.stream - streams_.data())
                            : source.values() + slot * source.slot_bytes(),
                bytes);
    to += bytes;
  }
}

/// Points the plan to a robot's rows of a window's reference.
void LiveWindows::point_to_reference(std::size_t number, std::int64_t robot, std::int64_t now_ns) {
  Window& window = *windows_[number];
  const Window& reference = reference_of(window);
  const RowBuffer& rows = reference.source->buffer;
  const std::int64_t begin = rows.begin(robot);
  window.reference_offsets[0] = begin;
  window.reference_offsets[1] = begin + rows.count(robot);
  window.reference_value_begin = value_begin(reference, robot);
  if (!reference.is_by_row) return;
  // The plan's anchor has frame 0: let the first row be the newest.
  const std::int64_t count = rows.rows_not_after(robot, now_ns);
  window.reference_offsets[0] = begin + std::max<std::int64_t>(count - 1, 0);
  window.reference_offsets[1] = begin + count;
}

bool LiveWindows::is_selected(const Selection& selection, std::size_t number) const {
  const Window& window = *windows_[number];
  return window.reference != nullptr ||
         selection.streams[static_cast<std::size_t>(window.stream - streams_.data())] != 0;
}

void LiveWindows::make(const Selection& selection, std::int64_t slot, std::int64_t robot,
                       std::int64_t now_ns, std::byte* out) {
  anchor_[1] = now_ns;
  // One call for each run of selected windows.
  for (std::size_t i = 0; i < made_; ++i) {
    const std::size_t begin = i;
    for (; i < made_ && is_selected(selection, i); ++i) point_to(i, slot, robot, now_ns, out);
    if (i == begin) continue;
    BatchCall call = call_.call;
    call.windows += begin;
    call.runs += begin;
    if (call.relatives != nullptr) call.relatives += begin;
    call.count = static_cast<std::int64_t>(i - begin);
    make_batch_on_cpu(call, in_this_thread());
    for (std::size_t number = begin; number < i; ++number) {
      if (windows_[number]->is_image) copy_images(*windows_[number], robot, out);
    }
  }
}

bool LiveWindows::has_rows(std::size_t stream, std::int64_t robot, std::int64_t now_ns) const {
  const std::int64_t latency = is_by_row(streams_[stream]) ? 0 : streams_[stream].latency_ns;
  if (sources_[stream] == nullptr) return false;  // the robot lacks it
  return sources_[stream]->buffer.rows_not_after(robot, earlier(now_ns, latency)) > 0;
}

const LiveWindows::Reference* LiveWindows::reference_of(std::int64_t stream) const {
  return reference_of_[static_cast<std::size_t>(stream)];
}

}  // namespace robocache
