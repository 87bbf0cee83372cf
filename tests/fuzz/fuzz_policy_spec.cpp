// The parser of policy specs on altered specs.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "fuzz.h"
#include "robocache/error.h"
#include "robocache/policy_spec.h"

namespace robocache::testing {
namespace {

std::string outcome;

std::string stream_text(const std::string& name, const std::string& rest) {
  return R"({"name": ")" + name + R"(", "rate": 100.5, "has_axis": true, "outside": "hold",
    "latency_ns": 3000000, "mean_window_ns": null, )" +
         rest + "}";
}

/// Aborts unless a stream has the properties that an aligner relies on.
void expect_sound(const LiveStream& stream) {
  std::int64_t elements = 1;
  for (const std::int64_t size : stream.shape) elements *= size;
  std::int64_t covered = 0;
  for (const Run& run : stream.layout) covered += run.channels;
  const std::int64_t scales = stream.channels_first ? stream.shape.back() : elements;
  const auto has = [](const auto& numbers, std::int64_t count) {
    return numbers.empty() || static_cast<std::int64_t>(numbers.size()) == count;
  };
  const std::int64_t last = stream.shape.empty() ? 1 : stream.shape.back();
  const auto has_scale = [&](const std::vector<double>& numbers) {
    return has(numbers, scales) || has(numbers, last) || has(numbers, 1);
  };
  if (elements < 1 || stream.offsets.empty() || stream.name.empty() ||
      (!stream.layout.empty() && covered != elements) || !has_scale(stream.subtract) ||
      !has_scale(stream.multiply) || !has(stream.reference_columns, elements) ||
      !has(stream.channels, elements)) {
    std::abort();
  }
  if (!stream.encoding) return;
  const std::int32_t quality = stream.encoding->quality;
  if (stream.shape.size() != 3 || stream.dtype != DataType::kUInt8 || quality < 0 ||
      quality > 100) {
    std::abort();
  }
}

}  // namespace

std::vector<Parts> fuzz_seeds() {
  const std::string joints = stream_text("joints", R"("dtype": "F32", "shape": [2],
    "timeline": "time", "offsets": [-20000000, 0], "causal": true, "max_gap_ns": 20000000,
    "tolerance_ns": 100000, "out_dtype": "F64", "channels_first": false,
    "method": [["linear", 1], ["angle", 1]], "relative_to": null,
    "channels": ["elbow", "wrist"], "units": "rad", "nominal_rate": 100,
    "normalize": "mean_std", "normalization": {"subtract": [0.1], "multiply": [3.5]})");
  const std::string action = stream_text("action", R"("dtype": "F32", "shape": [2],
    "timeline": "rows", "offsets": [0, 1], "causal": false, "max_gap_ns": null,
    "tolerance_ns": 0, "out_dtype": "BF16", "channels_first": false, "method": "linear",
    "relative_to": {"stream": "joints", "columns": [1, -1], "causal": true},
    "normalize": null, "normalization": null)");
  const std::string camera = stream_text("camera", R"("dtype": "U8", "shape": [4, 6, 3],
    "timeline": "time", "offsets": [0], "causal": true, "max_gap_ns": null, "tolerance_ns": 0,
    "out_dtype": "F32", "channels_first": true, "method": "previous", "relative_to": null,
    "encoding": {"format": "jpeg", "quality": 90, "chroma": "4:2:0"},
    "normalize": null, "normalization": {"subtract": [0], "multiply": [0.5]})");
  const std::string head = R"({"robocache_policy_spec": 2, "library": "0.1.0", "with_age": true,
    "transforms": [)";
  const std::string of_joints =
      R"({"type": "convert_rotation", "key": "camera", "source": "rotation_vector",
          "target": "quaternion_wxyz", "at": 0},
         {"type": "normalize",
          "normalization": {"joints": {"subtract": [1, 2], "multiply": [2, 3]}}},
         {"type": "absolute_to_delta", "key": "joints", "start": "joints", "time_step": 0.5,
          "step": -1},
         {"type": "delta_to_absolute", "key": "joints", "start": "joints", "time_step": null,
          "step": 1},
         {"type": "normalize", "normalization": {"camera": {"subtract": [[[1]], [[2]], [[3]]],
          "multiply": [[[1]], [[2]], [[3]]]}}})";
  return {{head + R"({"type": "normalize", "normalization": {"obs": {"subtract": [0],
             "multiply": [0.5]}}}], "anchor": "joints", "rate": null, "concat": {"obs": ["joints"]},
             "streams": [)" +
           joints + ", " + action + ", " + camera + "]}"},
          {head + of_joints + R"(], "anchor": null, "rate": 30, "concat": {}, "streams": [)" +
           joints + ", " + camera + "]}"}};
}

std::vector<std::string> fuzz_words() {
  return {"\"linear\"", "\"sum\"",  "\"mean\"", "\"slerp_xyzw\"", "\"F16\"",    "\"BOOL\"",
          "\"time\"",   "\"rows\"", "\"nan\"",  "\"name\":",      "[]",         "null",
          "true",       "-1",       "67108865", "1e308",          "\"joints\"", "\"4:0:0\"",
          "101"};
}

std::string fuzz_join(const Parts& parts) { return parts[0]; }

std::string fuzz_outcome() { return outcome; }

}  // namespace robocache::testing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // A copy of just this size: the sanitizer knows where it ends.
  const std::unique_ptr<char[]> copy(new char[size]);
  std::copy_n(data, size, copy.get());
  using robocache::testing::outcome;
  try {
    const robocache::PolicySpec spec =
        robocache::parse_policy_spec(std::string_view(copy.get(), size), "s");
    for (const robocache::LiveStream& stream : spec.streams) {
      robocache::testing::expect_sound(stream);
    }
    outcome.clear();
  } catch (const robocache::ValueError& error) {
    outcome = robocache::testing::outcome_of(error.what());
  }
  return 0;
}
