// policy_spec.json: parses the fields of a policy spec, and builds the options of its aligner.
#include <cerrno>
#include <cstddef>
#include <fstream>
#include <limits>
#include <sstream>
#include <system_error>

#include "core/check.h"
#include "live/buffer_rows.h"
#include "live/image_rows.h"
#include "live/live_batch.h"
#include "live/spec_transforms.h"
#include "robocache/policy_spec.h"
#include "store/json.h"
#include "store/stream_values.h"
#include "window/check_windows.h"
#include "window/fields.h"

namespace robocache {
namespace {

using store::Value;

std::vector<LiveGroup> read_concat(const Value& value) {
  std::vector<LiveGroup> groups;
  for (const auto& member : value.object()) {
    groups.push_back({member.first, value.entry(member).texts()});
  }
  return groups;
}

/// Reads the data set of a mixture: `dataset_index`, and what sets its streams apart.
void read_mixture(const Value& mixture, PolicySpec* spec) {
  check_members(mixture, {"dataset_index", "keys", "padded_widths", "missing"}, kPolicySpecVersion);
  const Value index = mixture.member("dataset_index");
  if (!index.nullable().is_null()) {
    spec->dataset_index = index.integer(std::numeric_limits<std::int64_t>::max());
  }
  const auto stream_of = [&](const Value& value, const std::string& name) -> LiveStream& {
    const LiveStream* const found = find_stream(spec->streams, name);
    if (found == nullptr) value.refuse("one of the streams' names");
    return spec->streams[static_cast<std::size_t>(found - spec->streams.data())];
  };
  const Value keys = mixture.member("keys");
  for (const auto& member : keys.object()) {
    const Value key = keys.entry(member);
    stream_of(key, member.first).key = store::stream_name(key);
  }
  const Value widths = mixture.member("padded_widths");
  for (const auto& member : widths.object()) {
    const Value width = widths.entry(member);
    LiveStream& stream = stream_of(width, member.first);
    stream.padded_width = width.integer(kMaxRowElements);
    if (stream.padded_width == 0) width.refuse("1 or more");
  }
  for (const Value& name : mixture.member("missing").items()) {
    stream_of(name, name.text()).is_missing = true;
  }
}

PolicySpec read_spec(const Value& root) {
  const Value version_field = root.member("robocache_policy_spec");
  const std::int64_t version = version_field.integer(std::numeric_limits<std::int64_t>::max());
  if (version < 1 || version > kPolicySpecVersion) {
    version_field.refuse("version 1 to " + std::to_string(kPolicySpecVersion) +
                         ", which this library reads (it may be of a newer one)");
  }
  std::vector<std::string> known{"robocache_policy_spec",
                                 "library",
                                 "anchor",
                                 "rate",
                                 "with_age",
                                 "streams",
                                 "concat",
                                 "transforms"};
  if (version > 1) known.emplace_back("mixture");
  check_members(root, known, static_cast<int>(version));
  PolicySpec spec;
  spec.library = root.member("library").text();
  spec.rate = store::optional_rate(root.member("rate").nullable());
  spec.with_age = root.member("with_age").boolean();
  const Value streams = root.member("streams");
  const std::vector<Value> items = streams.items();
  if (items.empty() || items.size() > std::size_t{kMaxStreams}) {
    streams.refuse("1 to " + std::to_string(kMaxStreams) + " streams");
  }
  for (const Value& item : items) {
    WindowSpec& window = spec.streams.emplace_back();
    window = read_window(item, static_cast<int>(version));
  }
  check_windows(windows_of(spec.streams), {root.name(), static_cast<int>(version)},
                WindowUse::kPolicy);
  const Value anchor = root.member("anchor");
  spec.anchor = anchor.nullable().optional_text().value_or("");
  if (anchor.is_null() == !spec.rate) anchor.refuse("a stream, or null with a rate");
  spec.concat = read_concat(root.member("concat"));
  const Value mixture = root.member("mixture");  // optional
  if (!mixture.is_null()) read_mixture(mixture, &spec);
  for (const Value& transform : root.member("transforms").items()) {
    spec.transforms.push_back(read_transform(transform, static_cast<int>(version)));
  }
  plan_live_batch(processed_streams(spec.streams), spec.concat, spec.transforms,
                  spec.dataset_index.has_value(), root.name());
  return spec;
}

/// The options of a spec's aligner.
LiveOptions options_of(const PolicySpec& spec, LiveOptions options) {
  const auto take = [](const char* name, auto* given, const auto& of_spec) {
    if (!given->empty()) {
      throw_value_error(name, "none beside the spec's", std::to_string(given->size()) + " more");
    }
    *given = of_spec;
  };
  take("concat", &options.concat, spec.concat);
  take("transforms", &options.transforms, spec.transforms);
  if (options.dataset_index) {
    throw_value_error("dataset_index", "none beside the spec's",
                      std::to_string(*options.dataset_index));
  }
  options.dataset_index = spec.dataset_index;
  return options;
}

}  // namespace

PolicySpec parse_policy_spec(std::string_view text, const std::string& name) {
  try {
    const store::Json json = store::parse_object(text, name);
    return read_spec(Value(json, name));
  } catch (const StoreError& error) {  // thrown by the JSON parser; no store is involved
    throw ValueError(error.what());
  } catch (const TypeError& error) {  // a type in a file is a value of it
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
  // A folder opens without an error, but can't be read. An empty file fails too, with errno 0.
  if (!text && errno != 0) refuse(errno);
  return parse_policy_spec(text.str(), path);
}

LiveAligner::LiveAligner(const PolicySpec& spec, const LiveOptions& options)
    : LiveAligner(spec.streams, options_of(spec, options)) {}

}  // namespace robocache
