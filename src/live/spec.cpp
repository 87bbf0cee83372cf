// policy_spec.json: each field by its type, then what fields ask of each other; and its aligner.
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <limits>
#include <sstream>
#include <system_error>
#include <tuple>
#include <utility>

#include "core/argument.h"
#include "core/check.h"
#include "live/check_streams.h"
#include "live/live_batch.h"
#include "live/spec_fields.h"
#include "live/spec_transforms.h"
#include "robocache/policy_spec.h"
#include "store/json.h"
#include "store/stream_values.h"

namespace robocache {
namespace {

using store::Value;

constexpr std::int64_t kMostRows = std::int64_t{1} << 31;  // that a step by rows reaches
constexpr std::int64_t kMaxColors = 4;
constexpr std::int64_t kMostElements = std::int64_t{1}
                                       << 26;  // of a row: they may have a scale each

constexpr std::pair<std::string_view, Outside> kOutsides[] = {
    {"hold", Outside::kHold},
    {"zero", Outside::kZero},
    {"nan", Outside::kNan},
    {"extrapolate", Outside::kExtrapolate},
};

/// Whether rows are handed on as they are.
bool only_copies(const LiveStream& stream) {
  const auto copies = [](Method method) {
    return method == Method::kPrevious || method == Method::kNearest;
  };
  if (stream.layout.empty()) return copies(stream.method);
  return std::all_of(stream.layout.begin(), stream.layout.end(),
                     [&](const Run& run) { return copies(run.method); });
}

/// A value that may be null, and has to be there all the same.
Value nullable(const Value& value) {
  if (value.json() == nullptr) value.refuse("a value, or null");
  return value;
}

std::optional<std::int64_t> optional_nanoseconds(const Value& value) {
  if (nullable(value).is_null()) return std::nullopt;
  return value.integer(kHighestInteger);
}

void read_steps(const Value& stream, LiveStream* read) {
  const bool is_by_row = read->timeline == Timeline::kRows;
  const Value steps = stream.member("steps");
  for (const Value& step : steps.items()) {
    const std::int64_t count = step.signed_integer();
    if (is_by_row && (count <= -kMostRows || count >= kMostRows)) step.refuse("rows below 2^31");
    read->steps.push_back(count);
  }
  if (read->steps.empty()) steps.refuse("1 step or more");
  const Value has_axis = stream.member("has_axis");
  read->has_step_axis = has_axis.boolean();
  if (!read->has_step_axis && read->steps.size() > 1) has_axis.refuse("true with several steps");
  const Value causal = stream.member("causal");
  const bool is_causal = causal.boolean();
  if (is_causal && is_by_row) causal.refuse("false with timeline \"rows\"");
  if (is_causal && !is_live(*read)) causal.refuse("false with steps past the anchor");
  if (!is_causal && !is_by_row && is_live(*read)) {
    causal.refuse("true without steps past the anchor (no robot has the rows that others saw)");
  }
  const bool is_ascending = std::is_sorted(read->steps.begin(), read->steps.end());
  if (!is_by_row && has_method(*read, Method::kSum) && !is_ascending) {
    steps.refuse("ascending steps with method \"sum\"");
  }
}

void read_durations(const Value& stream, LiveStream* read) {
  const bool is_by_row = read->timeline == Timeline::kRows;
  const Value max_gap = stream.member("max_gap_ns");
  read->max_gap_ns = optional_nanoseconds(max_gap);
  if (is_by_row && read->max_gap_ns) max_gap.refuse("null with timeline \"rows\"");
  const Value tolerance = stream.member("tolerance_ns");
  const std::int64_t tolerance_ns = tolerance.integer(kHighestInteger);
  if (is_by_row && tolerance_ns != 0) tolerance.refuse("0 with timeline \"rows\"");
  if (tolerance_ns != 0) read->tolerance_ns = tolerance_ns;
  const Value window = stream.member("mean_window_ns");
  read->mean_window_ns = optional_nanoseconds(window);
  read->latency_ns = stream.member("latency_ns").integer(kHighestInteger);
  const bool is_mean = !is_by_row && has_method(*read, Method::kMean);
  if (is_mean && !read->mean_window_ns) window.refuse("nanoseconds for method \"mean\"");
  if (!is_mean && read->mean_window_ns) window.refuse("null without method \"mean\"");
}

void read_output(const Value& stream, LiveStream* read) {
  const Value out_type = stream.member("out_dtype");
  read->out_type = store::element_type(out_type);
  if (!is_computed(*read) && read->out_type != read->dtype) {
    out_type.refuse(stream.member("dtype").text() + ", since such rows are copied");
  }
  if (is_computed(*read) && !is_value_type(read->out_type)) {
    out_type.refuse("U8, F16, BF16, F32 or F64");
  }
  const Value outside = stream.member("outside");
  read->outside = store::choice(outside, kOutsides);
  if (read->timeline == Timeline::kRows && read->outside != Outside::kHold) {
    outside.refuse("\"hold\" with timeline \"rows\"");
  }
  if (read->outside == Outside::kNan && !is_floating_type(read->out_type)) {
    outside.refuse("\"hold\", \"zero\" or \"extrapolate\" for integers");
  }
  const Value colours_first = stream.member("colours_first");
  read->channels_first = colours_first.boolean();
  const bool is_image = read->dtype == DataType::kUInt8 && read->shape.size() == 3 &&
                        read->shape[2] <= kMaxColors && is_floating_type(read->out_type);
  if (read->channels_first && !is_image) {
    colours_first.refuse(
        "false for rows that are no images [H,W,C] of U8, or not written as floats");
  }
}

/// Numbers of elements: of each, of each of a row's last axis, or one.
std::vector<double> read_scale(const Value& value, std::int64_t last, std::int64_t elements) {
  std::vector<double> numbers;
  for (const Value& item : value.items()) {
    numbers.push_back(item.number());
    if (!std::isfinite(numbers.back())) item.refuse("a finite number");
  }
  const auto count = static_cast<std::int64_t>(numbers.size());
  if (count != 1 && count != last && count != elements) {
    const std::string some = last == elements || last == 1 ? "1" : "1, " + std::to_string(last);
    value.refuse(some + " or " + std::to_string(elements) + " numbers");
  }
  return numbers;
}

void read_normalization(const Value& value, LiveStream* read) {
  if (value.is_null()) {
    if (read->channels_first) value.refuse("a normalization with colours_first");
    return;
  }
  check_members(value, {"mode", "subtract", "multiply"});
  nullable(value.member("mode")).optional_text();
  if (!is_computed(*read)) value.refuse("null for rows that are copied");
  const std::int64_t last = read->shape.empty() ? 1 : read->shape.back();
  const std::int64_t elements = read->channels_first ? last : elements_of(*read);
  read->subtract = read_scale(value.member("subtract"), last, elements);
  read->multiply = read_scale(value.member("multiply"), last, elements);
}

void read_relative(const Value& value, LiveStream* read) {
  if (value.is_null()) return;
  check_members(value, {"to", "columns"});
  read->relative_to = store::stream_name(value.member("to"));
  for (const Value& column : value.member("columns").items()) {
    const std::int64_t number = column.signed_integer();
    if (number < -1 || number > std::numeric_limits<std::int32_t>::max()) {
      column.refuse("a column, or -1 for none");
    }
    read->reference_columns.push_back(static_cast<std::int32_t>(number));
  }
}

LiveStream read_stream(const Value& value) {
  check_members(value, {"name", "dtype", "shape", "rate", "timeline", "steps", "has_axis", "causal",
                        "method", "outside", "max_gap_ns", "tolerance_ns", "mean_window_ns",
                        "latency_ns", "normalization", "out_dtype", "colours_first", "relative"});
  LiveStream read;
  read.name = store::stream_name(value.member("name"));
  read.dtype = store::element_type(value.member("dtype"));
  const Value row = value.member("shape");
  auto [shape, elements] = store::row_shape(row);
  if (elements > kMostElements) row.refuse("a row of at most 2^26 elements");
  read.shape = std::move(shape);
  read.rate = store::optional_rate(nullable(value.member("rate"))).value_or(0.0);
  read.timeline = store::read_timeline(value.member("timeline"));
  std::tie(read.method, read.layout) = store::read_method(value.member("method"), elements);
  const bool is_copied = read.timeline == Timeline::kTime && !is_computed(read);
  if (is_copied && !only_copies(read)) {
    value.member("method").refuse("\"previous\" or \"nearest\" for rows that are copied");
  }
  read_steps(value, &read);
  read_durations(value, &read);
  read_output(value, &read);
  read_normalization(nullable(value.member("normalization")), &read);
  read_relative(nullable(value.member("relative")), &read);
  return read;
}

std::vector<LiveGroup> read_concat(const Value& value) {
  std::vector<LiveGroup> groups;
  for (const auto& member : value.object()) {
    groups.push_back({member.first, value.entry(member).texts()});
  }
  return groups;
}

PolicySpec read_spec(const Value& root) {
  const Value version = root.member("robocache_policy_spec");
  if (version.integer(kHighestInteger) != kPolicySpecVersion) {
    version.refuse("version " + std::to_string(kPolicySpecVersion) +
                   ", which this library reads (it may be of a newer one)");
  }
  check_members(root, {"robocache_policy_spec", "library", "anchor", "rate", "with_age", "streams",
                       "concat", "transforms"});
  PolicySpec spec;
  spec.library = root.member("library").text();
  spec.rate = store::optional_rate(nullable(root.member("rate")));
  spec.with_age = root.member("with_age").boolean();
  const Value streams = root.member("streams");
  const std::vector<Value> items = streams.items();
  if (items.empty() || items.size() > std::size_t{kMaxStreams}) {
    streams.refuse("1 to " + std::to_string(kMaxStreams) + " streams");
  }
  for (const Value& item : items) {
    LiveStream stream = read_stream(item);
    if (find_stream(spec.streams, stream.name) != nullptr) {
      item.member("name").refuse("each name once");
    }
    spec.streams.push_back(std::move(stream));
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Value relative = items[i].member("relative");
    if (relative.is_null()) continue;
    check_reference(spec.streams[i], spec.streams,
                    {relative.member("to").name(), relative.member("columns").name()});
  }
  const Value anchor = root.member("anchor");
  spec.anchor = nullable(anchor).optional_text().value_or("");
  if (anchor.is_null() == !spec.rate) anchor.refuse("a stream, or null with a rate");
  spec.concat = read_concat(root.member("concat"));
  for (const Value& transform : root.member("transforms").items()) {
    spec.transforms.push_back(read_transform(transform));
  }
  plan_live_batch(spec.streams, spec.concat, spec.transforms, root.name());
  return spec;
}

/// What an aligner of a spec is made with.
LiveOptions options_of(const PolicySpec& spec, LiveOptions options) {
  const auto take = [](const char* name, auto* given, const auto& of_spec) {
    if (!given->empty()) {
      throw_value_error(name, "none beside the spec's", std::to_string(given->size()) + " more");
    }
    *given = of_spec;
  };
  take("concat", &options.concat, spec.concat);
  take("transforms", &options.transforms, spec.transforms);
  return options;
}

}  // namespace

PolicySpec parse_policy_spec(std::string_view text, const std::string& name) {
  try {
    const store::Json json = store::parse_object(text, name);
    return read_spec(Value(json, name));
  } catch (const StoreError& error) {  // what the parser throws; there is no store
    throw ValueError(error.what());
  } catch (const TypeError& error) {  // a type in a file is one of its values
    throw ValueError(error.what());
  }
}

PolicySpec read_policy_spec(const std::string& path) {
  const auto refuse = [&](int error) {
    throw_value_error(path, "a file that can be read", std::generic_category().message(error));
  };
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse(errno);
  std::ostringstream text;
  text << file.rdbuf();
  // A folder opens well, and can't be read. An empty file fails too, without an error.
  if (!text && errno != 0) refuse(errno);
  return parse_policy_spec(text.str(), path);
}

LiveAligner::LiveAligner(const PolicySpec& spec, const LiveOptions& options)
    : LiveAligner(spec.streams, options_of(spec, options)) {}

}  // namespace robocache
