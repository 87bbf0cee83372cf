#include "live/check_streams.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include "core/argument.h"
#include "core/check.h"
#include "loader/plan.h"

namespace robocache {
namespace {

constexpr std::int64_t kSpareRows = 8;  // beside what rates ask for: they are nominal
constexpr std::int64_t kMaxRows = kMaxEpisodeRows / 2;
constexpr double kMaxBytes = 1e15;
constexpr std::int64_t kMaxRobots = 1 << 20;
constexpr int kMaxCudaSlots = 64;

/// How far back a window reads, for its steps and for rows that count as not arrived.
double reach_ns(const LiveStream& stream) {
  const double mean = static_cast<double>(stream.mean_window_ns.value_or(0)) / 2;
  const double steps = mean - static_cast<double>(earliest_step(stream));
  return std::max(steps, static_cast<double>(stream.latency_ns));
}

bool has_reach(const LiveStream& stream) {
  return stream.timeline == Timeline::kRows || stream.rate > 0;
}

/// The rows that a window is made of, at the stream's rate: those of its reach, and the one at or
/// before its begin. As a float, which holds any.
double rows_in_reach(const LiveStream& stream) {
  if (stream.timeline == Timeline::kRows) return 1 - static_cast<double>(earliest_step(stream));
  return std::ceil(reach_ns(stream) * stream.rate / 1e9) + 1;
}

void check_options(const LiveOptions& options) {
  const auto expect = [](bool fits, const char* name, const std::string& expected,
                         const std::string& got) {
    if (!fits) throw_value_error(name, expected, got);
  };
  expect(options.robots >= 1 && options.robots <= kMaxRobots, "robots",
         "1 to " + std::to_string(kMaxRobots), std::to_string(options.robots));
  expect(options.margin >= 0 && std::isfinite(options.margin), "margin", "a number of 0 or more",
         text_of(options.margin));
  expect(options.pause_ns >= 0, "pause_ns", "0 or more", std::to_string(options.pause_ns));
  expect(options.max_future_ns >= 0, "max_future_ns", "0 or more",
         std::to_string(options.max_future_ns));
  expect(options.cuda_slots >= 0 && options.cuda_slots <= kMaxCudaSlots, "cuda_slots",
         "0 to " + std::to_string(kMaxCudaSlots), std::to_string(options.cuda_slots));
}

void check_row(const LiveStream& stream) {
  const auto name = [&](const char* option) { return stream.name + "." + option; };
  if (stream.dtype >= DataType::kComplex64) {
    throw_type_error(name("dtype"), "a type that an episode store holds", name_of(stream.dtype));
  }
  double elements = 1;
  for (const std::int64_t size : stream.shape) {
    elements = size >= 1 ? elements * static_cast<double>(size) : 0;
    if (elements >= 1 && elements <= static_cast<double>(kMaxRowElements)) continue;
    throw_value_error(
        name("shape"),
        "sizes of 1 or more, " + std::to_string(kMaxRowElements) + " elements at most in a row",
        "a size of " + std::to_string(size));
  }
  if (is_computed(stream)) return;
  const char* const type = name_of(stream.dtype);
  if (stream.out_type != stream.dtype) {
    throw_type_error(name("out_type"), std::string(type) + ", which is copied as it is",
                     name_of(stream.out_type));
  }
  for (const Method method : {Method::kLinear, Method::kSlerpXyzw, Method::kSlerpWxyz,
                              Method::kAngle, Method::kMean, Method::kSum}) {
    if (stream.timeline == Timeline::kRows || !has_method(stream, method)) continue;
    throw_value_error(name("method"), std::string("previous or nearest for ") + type + " values",
                      "another");
  }
  if (!stream.subtract.empty() || !stream.multiply.empty()) {
    throw_value_error(name(stream.subtract.empty() ? "multiply" : "subtract"),
                      std::string("none for ") + type + " values", "some");
  }
}

void check_window(const LiveStream& stream) {
  const auto name = [&](const char* option) { return stream.name + "." + option; };
  if (stream.steps.empty()) throw_value_error(name("steps"), "one or more", "none");
  if (!stream.has_step_axis && stream.steps.size() != 1) {
    throw_value_error(name("steps"), "one without an axis of steps",
                      std::to_string(stream.steps.size()));
  }
  if (!(stream.rate >= 0) || std::isinf(stream.rate)) {
    throw_value_error(name("rate"), "0 or more Hz", text_of(stream.rate));
  }
  if (stream.latency_ns < 0) {
    throw_value_error(name("latency_ns"), "0 or more", std::to_string(stream.latency_ns));
  }
  std::int64_t numbers = elements_of(stream);
  if (stream.channels_first) {
    if (stream.shape.size() != 3) {
      throw_value_error(name("shape"), "[H,W,C] of images whose channels come first",
                        std::to_string(stream.shape.size()) + " dimensions");
    }
    numbers = stream.shape[2];
  }
  const auto check_scale = [&](const char* option, const std::vector<double>& scale) {
    const auto count = static_cast<std::int64_t>(scale.size());
    const std::int64_t last = stream.shape.empty() ? 1 : stream.shape.back();
    if (count <= 1 || count == numbers || count == last) return;
    const char* const letter = stream.channels_first ? "colors" : "D";
    throw_value_error(name(option), bracket({dimension(letter, numbers)}),
                      bracket({std::to_string(scale.size())}));
  };
  check_scale("subtract", stream.subtract);
  check_scale("multiply", stream.multiply);
}

/// `rows`, which may be any number, or an error that says what asks for them.
std::int64_t checked_rows(double rows, const std::string& option, const std::string& reason) {
  if (rows <= static_cast<double>(kMaxRows)) return static_cast<std::int64_t>(rows);
  throw_value_error(option, "at most " + std::to_string(kMaxRows) + " rows in a buffer",
                    text_of(rows) + reason);
}

void set_rows(LiveStream& stream, const std::vector<LiveStream>& streams,
              const LiveOptions& options) {
  const auto name = [&](const char* option) { return stream.name + "." + option; };
  for (const auto& [option, rows] :
       {std::pair{"buffer_rows", &stream.buffer_rows}, std::pair{"ring_rows", &stream.ring_rows}}) {
    if (*rows >= 0 && *rows <= kMaxRows) continue;
    throw_value_error(name(option), "0 to " + std::to_string(kMaxRows), std::to_string(*rows));
  }
  if (!takes_rows(stream, streams)) {
    stream.buffer_rows = stream.ring_rows = 0;
    return;
  }
  const bool is_by_row = stream.timeline == Timeline::kRows;
  if (stream.buffer_rows == 0 && !is_by_row && has_method(stream, Method::kSum)) {
    throw_value_error(name("buffer_rows"),
                      "a number of rows for method sum, whose first step adds all of an episode's",
                      "0");
  }
  if (stream.buffer_rows == 0 && !has_reach(stream)) {
    throw_value_error(name("buffer_rows"), "a number of rows where the stream has no rate", "0");
  }
  const double needed = has_reach(stream) ? rows_in_reach(stream) : 0;
  const double paused = std::ceil(stream.rate * static_cast<double>(options.pause_ns) / 1e9);
  if (stream.buffer_rows == 0) {
    checked_rows(needed, name("steps"), " rows of their reach");
    const double reckoned = std::ceil(needed * (1 + options.margin)) + paused + kSpareRows;
    stream.buffer_rows = checked_rows(reckoned, name("buffer_rows"), " of reach, margin and pause");
  } else if (needed > static_cast<double>(stream.buffer_rows)) {
    throw_value_error(name("buffer_rows"), "at least the " + text_of(needed) + " rows of its reach",
                      std::to_string(stream.buffer_rows));
  }
  if (stream.ring_rows == 0) {
    stream.ring_rows = stream.rate > 0 ? checked_rows(paused + kSpareRows, "pause_ns",
                                                      " rows of " + quoted(stream.name))
                                       : stream.buffer_rows;
  }
  const double bytes = static_cast<double>(stream.ring_rows + 2 * stream.buffer_rows) *
                       static_cast<double>(options.robots) *
                       static_cast<double>(elements_of(stream) * size_of(stream.dtype));
  if (bytes > kMaxBytes) {
    throw_value_error(name("buffer_rows"), "less than " + text_of(kMaxBytes) + " bytes",
                      text_of(bytes) + " of all robots");
  }
}

}  // namespace

std::string text_of(double number) {
  char text[32];
  const bool is_whole = number == std::floor(number) && std::abs(number) < 1e17;
  std::snprintf(text, sizeof text, is_whole ? "%.0f" : "%.15g", number);
  return text;
}

std::string quoted(const std::string& name) { return "'" + name + "'"; }

const LiveStream* find_stream(const std::vector<LiveStream>& streams, const std::string& name) {
  const auto found = std::find_if(streams.begin(), streams.end(),
                                  [&](const LiveStream& each) { return each.name == name; });
  return found == streams.end() ? nullptr : &*found;
}

bool is_live(const LiveStream& stream) {
  return std::all_of(stream.steps.begin(), stream.steps.end(),
                     [](std::int64_t step) { return step <= 0; });
}

bool takes_rows(const LiveStream& stream, const std::vector<LiveStream>& streams) {
  return is_live(stream) ||
         std::any_of(streams.begin(), streams.end(),
                     [&](const LiveStream& each) { return each.relative_to == stream.name; });
}

bool is_computed(const LiveStream& stream) { return is_value_type(stream.dtype); }

std::int64_t elements_of(const std::vector<std::int64_t>& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) elements *= size;
  return elements;
}

std::int64_t elements_of(const LiveStream& stream) { return elements_of(stream.shape); }

bool has_method(const LiveStream& stream, Method method) {
  if (stream.layout.empty()) return stream.method == method;
  return std::any_of(stream.layout.begin(), stream.layout.end(),
                     [&](const Run& run) { return run.method == method; });
}

std::int64_t earliest_step(const LiveStream& stream) {
  return std::min(std::int64_t{0}, *std::min_element(stream.steps.begin(), stream.steps.end()));
}

std::int64_t kept_rows(const LiveStream& stream) {
  const double half = std::ceil(static_cast<double>(stream.buffer_rows) / 2);
  return static_cast<std::int64_t>(has_reach(stream) ? rows_in_reach(stream) : half);
}

void check_reference(const LiveStream& stream, const std::vector<LiveStream>& streams,
                     const ReferenceNames& names) {
  const auto columns = static_cast<std::int64_t>(stream.reference_columns.size());
  if (stream.relative_to.empty()) {
    if (columns == 0) return;
    throw_value_error(names.columns, "none without relative_to",
                      bracket({std::to_string(columns)}));
  }
  const LiveStream* const reference = find_stream(streams, stream.relative_to);
  if (reference == nullptr) {
    throw_value_error(names.relative_to, "the name of a stream", quoted(stream.relative_to));
  }
  if (!reference->relative_to.empty()) {
    throw_value_error(names.relative_to, "a stream that is not relative itself",
                      quoted(stream.relative_to));
  }
  if (!is_computed(*reference)) {
    throw_type_error(names.relative_to, std::string("a stream of ") + kValueTypes,
                     name_of(reference->dtype));
  }
  if (columns != elements_of(stream)) {
    throw_value_error(names.columns, bracket({dimension("D", elements_of(stream))}),
                      bracket({std::to_string(columns)}));
  }
  const std::int64_t channels = elements_of(*reference);
  for (const std::int32_t column : stream.reference_columns) {
    if (column >= -1 && column < channels) continue;
    throw_value_error(
        names.columns,
        "-1 to " + std::to_string(channels - 1) + ", the channels of " + quoted(stream.relative_to),
        std::to_string(column));
  }
}

std::vector<LiveStream> checked_streams(std::vector<LiveStream> streams,
                                        const LiveOptions& options) {
  check_options(options);
  if (streams.empty()) throw_value_error("streams", "one or more", "none");
  for (std::size_t i = 0; i < streams.size(); ++i) {
    const std::string name = "streams[" + std::to_string(i) + "].name";
    if (streams[i].name.empty()) throw_value_error(name, "a name", "none");
    if (find_stream(streams, streams[i].name) != &streams[i]) {
      throw_value_error(name, "a name of its own", quoted(streams[i].name) + " again");
    }
  }
  for (LiveStream& stream : streams) {
    check_row(stream);
    check_window(stream);
  }
  for (LiveStream& stream : streams) {
    check_reference(stream, streams,
                    {stream.name + ".relative_to", stream.name + ".reference_columns"});
    set_rows(stream, streams, options);
  }
  return streams;
}

}  // namespace robocache
