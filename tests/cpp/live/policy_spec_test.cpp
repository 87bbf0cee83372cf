// Policy specs, read by the C++ interface. tests/python has the errors, each by its message.
#include "robocache/policy_spec.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <variant>
#include <vector>

#include "support/error_of.h"
#include "window/fields.h"

namespace robocache::testing {
namespace {

/// A stream of two floats in JSON of version 2; `more` are fields that differ from these.
std::string stream_text(const std::string& name, const std::string& offsets,
                        const std::string& causal, const std::string& more) {
  return R"({"name": ")" + name + R"(", "dtype": "F32", "shape": [2], "rate": 100.5,
    "timeline": "time", "offsets": )" +
         offsets + R"(, "has_axis": true, "causal": )" + causal + R"(, "outside": "hold",
    "max_gap_ns": 20000000, "tolerance_ns": 100000, "mean_window_ns": null, "latency_ns": 3000000,
    "out_dtype": "F64", "channels_first": false, )" +
         more + "}";
}

std::string spec_text() {
  const std::string joints =
      stream_text("joints", "[-20000000, 0]", "true",
                  R"("method": [["linear", 1], ["angle", 1]], "relative_to": null,
                  "normalize": "mean_std",
                  "normalization": {"subtract": [0.1], "multiply": [3.5]})");
  const std::string action = stream_text("action", "[0, 20000000]", "false",
                                         R"("method": "linear",
      "relative_to": {"stream": "joints", "columns": [1, -1], "causal": true},
      "normalize": null, "normalization": {"subtract": [1, 2], "multiply": [0.5, 0.25]})");
  return R"({"robocache_policy_spec": 2, "library": "0.1.0", "anchor": "joints", "rate": null,
    "with_age": true, "streams": [)" +
         joints + ", " + action +
         R"(], "concat": {"obs": ["joints"]}, "transforms": [
    {"type": "absolute_to_delta", "key": "action", "start": "obs", "time_step": 0.5, "step": 1},
    {"type": "normalize",
     "normalization": {"action": {"subtract": [1, 2], "multiply": [4, 8]}}}]})";
}

/// `spec_text()` with the field names of version 1.
std::string version_1_text() {
  std::string text = spec_text();
  const auto replace = [&](const std::string& what, const std::string& with) {
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what)) {
      text.replace(at, what.size(), with);
    }
  };
  replace(R"("robocache_policy_spec": 2)", R"("robocache_policy_spec": 1)");
  replace(R"("offsets")", R"("steps")");
  replace(R"("channels_first")", R"("colours_first")");
  replace(R"("relative_to": {"stream")", R"("relative": {"to")");
  replace(R"("relative_to")", R"("relative")");
  replace(R"([1, -1], "causal": true})", R"([1, -1]})");
  replace(R"("normalize": "mean_std",)", "");
  replace(R"("normalize": null,)", "");
  replace(R"("normalization": {"subtract": [0.1])",
          R"("normalization": {"mode": "mean_std", "subtract": [0.1])");
  replace(R"("normalization": {"subtract": [1, 2], "multiply": [0.5)",
          R"("normalization": {"mode": null, "subtract": [1, 2], "multiply": [0.5)");
  return text;
}

TEST(PolicySpec, SaysWhatTheFileSays) {
  const PolicySpec spec = parse_policy_spec(spec_text(), "spec");
  EXPECT_EQ(spec.library, "0.1.0");
  EXPECT_EQ(spec.anchor, "joints");
  EXPECT_FALSE(spec.rate.has_value());
  EXPECT_TRUE(spec.with_age);
  ASSERT_EQ(spec.streams.size(), 2U);
  const LiveStream& joints = spec.streams[0];
  EXPECT_EQ(joints.name, "joints");
  EXPECT_EQ(joints.dtype, DataType::kFloat32);
  EXPECT_EQ(joints.out_dtype, DataType::kFloat64);
  EXPECT_EQ(joints.shape, std::vector<std::int64_t>{2});
  EXPECT_EQ(joints.rate, 100.5);
  EXPECT_EQ(joints.offsets, (std::vector<std::int64_t>{-20000000, 0}));
  ASSERT_EQ(joints.layout.size(), 2U);
  EXPECT_EQ(joints.layout[1].method, Method::kAngle);
  EXPECT_EQ(joints.max_gap_ns, 20000000);
  EXPECT_EQ(joints.tolerance_ns, 100000);
  EXPECT_FALSE(joints.mean_window_ns.has_value());
  EXPECT_EQ(joints.latency_ns, 3000000);
  EXPECT_EQ(joints.subtract, (std::vector<double>{0.1}));  // one number for all
  EXPECT_EQ(joints.multiply, (std::vector<double>{3.5}));
  EXPECT_EQ(spec.streams[1].relative_to, "joints");
  EXPECT_EQ(spec.streams[1].reference_columns, (std::vector<std::int32_t>{1, -1}));
  ASSERT_EQ(spec.concat.size(), 1U);
  EXPECT_EQ(spec.concat[0].key, "obs");
  EXPECT_EQ(spec.concat[0].streams, std::vector<std::string>{"joints"});
  ASSERT_EQ(spec.transforms.size(), 2U);
  const auto* const delta = std::get_if<DeltaTransform>(&spec.transforms[0]);
  ASSERT_NE(delta, nullptr);
  EXPECT_EQ(delta->key, "action");
  EXPECT_EQ(delta->start, "obs");
  EXPECT_EQ(delta->direction, DeltaDirection::kToDelta);
  EXPECT_EQ(delta->time_step, 0.5);
  EXPECT_EQ(delta->step, 1);
  const auto* const scale = std::get_if<NormalizeTransform>(&spec.transforms[1]);
  ASSERT_NE(scale, nullptr);
  EXPECT_EQ(scale->normalization.at("action").shape, (std::vector<std::int64_t>{2}));
  EXPECT_EQ(scale->normalization.at("action").multiply, (std::vector<double>{4, 8}));
}

TEST(PolicySpec, Version1IsRead) {
  const PolicySpec spec = parse_policy_spec(spec_text(), "spec");
  const PolicySpec old = parse_policy_spec(version_1_text(), "spec");
  EXPECT_EQ(windows_json({old.streams.begin(), old.streams.end()}),
            windows_json({spec.streams.begin(), spec.streams.end()}));
  // In the words of the file.
  std::string text = version_1_text();
  text.replace(text.find("\"columns\": [1, -1]"), 18, "\"columns\": [2, -1]");
  EXPECT_EQ(error_of([&] { parse_policy_spec(text, "spec"); }),
            "ValueError spec: streams[1].relative.columns: expected -1 to 1, the elements of "
            "\"joints\", got [2,-1] (rc.Relative(mask=) leaves elements as they are)");
  text = version_1_text();
  text.replace(text.find("\"steps\""), 7, "\"offsets\"");
  EXPECT_EQ(error_of([&] { parse_policy_spec(text, "spec"); }),
            "ValueError spec: streams[0].\"offsets\": expected no such field in version 1, got "
            "[-20000000,0]");
}

TEST(PolicySpec, SaysWhatTheStoreSaysAboutRows) {
  const PolicySpec without = parse_policy_spec(spec_text(), "spec");
  EXPECT_TRUE(without.streams[0].channels.empty());
  EXPECT_EQ(without.streams[0].units, "");
  EXPECT_EQ(without.streams[0].nominal_rate, 0);
  std::string text = spec_text();
  text.replace(text.find("\"timeline\""), 0,
               R"("channels": ["elbow", "wrist"], "units": "rad", "nominal_rate": 100, )");
  const PolicySpec spec = parse_policy_spec(text, "spec");
  EXPECT_EQ(spec.streams[0].channels, (std::vector<std::string>{"elbow", "wrist"}));
  EXPECT_EQ(spec.streams[0].units, "rad");
  EXPECT_EQ(spec.streams[0].nominal_rate, 100);
  const std::vector<WindowSpec> windows(spec.streams.begin(), spec.streams.end());
  const std::string json = windows_json(windows);
  EXPECT_EQ(windows_json(parse_windows(json, "windows")), json);
  text.replace(text.find(R"(["elbow", "wrist"])"), 18, R"(["elbow"])");
  EXPECT_EQ(error_of([&] { parse_policy_spec(text, "spec"); }),
            "ValueError spec: streams[0].channels: expected null or 2 names, got [\"elbow\"]");
  // Version 1 has no such fields.
  text = version_1_text();
  text.replace(text.find("\"timeline\""), 0, R"("units": "rad", )");
  EXPECT_EQ(error_of([&] { parse_policy_spec(text, "spec"); }),
            "ValueError spec: streams[0].\"units\": expected no such field in version 1, got "
            "\"rad\"");
}

TEST(PolicySpec, SaysHowImagesWereEncoded) {
  std::string camera = stream_text("camera", "[0]", "true", R"("method": "previous",
      "relative_to": null, "normalize": null, "normalization": null,
      "encoding": {"format": "jpeg", "quality": 90, "chroma": "4:2:0"})");
  const std::string row = R"("dtype": "F32", "shape": [2],)";
  camera.replace(camera.find(row), row.size(), R"("dtype": "U8", "shape": [2, 4, 3],)");
  const std::string text =
      R"({"robocache_policy_spec": 2, "library": "", "anchor": "camera", "rate": null,
      "with_age": false, "concat": {}, "transforms": [], "streams": [)" +
      camera + "]}";
  PolicySpec spec = parse_policy_spec(text, "spec");
  ASSERT_TRUE(spec.streams[0].encoding.has_value());
  EXPECT_EQ(spec.streams[0].encoding->quality, 90);
  EXPECT_EQ(spec.streams[0].encoding->sampling, JpegSampling::k420);
  const auto with = [&](const std::string& encoding) {
    std::string changed = text;
    const std::size_t begin = changed.find(R"({"format")");
    changed.replace(begin, changed.find('}', begin) - begin + 1, encoding);
    return changed;
  };
  const auto error = [&](const std::string& encoding) {
    return error_of([&] { parse_policy_spec(with(encoding), "spec"); });
  };
  spec = parse_policy_spec(with(R"({"format": "jpeg", "quality": null, "chroma": null})"), "spec");
  ASSERT_TRUE(spec.streams[0].encoding.has_value());
  EXPECT_EQ(spec.streams[0].encoding->quality, 0);
  EXPECT_FALSE(spec.streams[0].encoding->sampling.has_value());
  const std::vector<WindowSpec> windows(spec.streams.begin(), spec.streams.end());
  const std::string json = windows_json(windows);
  EXPECT_EQ(windows_json(parse_windows(json, "windows")), json);
  EXPECT_FALSE(parse_policy_spec(with("null"), "spec").streams[0].encoding.has_value());
  const std::string name = "ValueError spec: streams[0].encoding";
  EXPECT_EQ(error(R"({"format": "png", "quality": 90, "chroma": "4:2:0"})"),
            name + ".format: expected \"jpeg\", got \"png\"");
  EXPECT_EQ(error(R"({"format": "jpeg", "quality": 0, "chroma": "4:2:0"})"),
            name + ".quality: expected 1 to 100, or null, got 0");
  EXPECT_EQ(error(R"({"format": "jpeg", "quality": 90})"),
            name + ".chroma: expected a value, or null, got none");
}

TEST(PolicySpec, ImagesHaveAGeometry) {
  WindowSpec window;
  window.name = "camera";
  window.dtype = DataType::kUInt8;
  window.shape = {6, 8, 3};
  window.image.emplace();
  ImageSpec& image = *window.image;
  const auto again = [&] {
    const std::string text = windows_json({window});
    const std::vector<WindowSpec> read = parse_windows(text, "windows");
    EXPECT_EQ(windows_json(read), text);
    return read.at(0).image;
  };
  ASSERT_TRUE(again().has_value());
  EXPECT_EQ(again()->height, 0);
  EXPECT_EQ(again()->center, 1.0);
  image = {224, 256, ResizeMode::kPad, ResizeFilter::kMasked, 1, 2, 3, 4, 0.95};
  const ImageSpec read = again().value();
  EXPECT_EQ(read.height, 224);
  EXPECT_EQ(read.width, 256);
  EXPECT_EQ(read.mode, ResizeMode::kPad);
  EXPECT_EQ(read.filter, ResizeFilter::kMasked);
  EXPECT_EQ(read.crop_top, 1);
  EXPECT_EQ(read.crop_left, 2);
  EXPECT_EQ(read.crop_height, 3);
  EXPECT_EQ(read.crop_width, 4);
  EXPECT_EQ(read.center, 0.95);
  window.image.reset();
  EXPECT_FALSE(again().has_value());
}

TEST(PolicySpec, WindowsComeBackFromJson) {
  const PolicySpec spec = parse_policy_spec(spec_text(), "spec");
  const std::vector<WindowSpec> windows(spec.streams.begin(), spec.streams.end());
  const std::string text = windows_json(windows);
  EXPECT_EQ(windows_json(parse_windows(text, "windows")), text);
  EXPECT_EQ(error_of([&] { parse_windows(R"({"windows": [{"name": "x"}]})", "text"); }),
            "ValueError text: windows[0].dtype: expected BOOL, U8, I8, U16, I16, U32, I32, U64, "
            "I64, F16, BF16, F32 or F64, got none");
  EXPECT_EQ(error_of([&] { parse_windows(R"({"windows": [{"color": 1}]})", "text"); }),
            "ValueError text: windows[0].\"color\": expected no such field in version " +
                std::to_string(kPolicySpecVersion) + ", got 1");
  EXPECT_EQ(
      error_of([&] { parse_windows(R"({"windows": [{"name": "x", "name": "y"}]})", "text"); }),
      "ValueError text: expected each name once in an object, got \"name\" twice");
}

TEST(PolicySpec, MakesAnAligner) {
  const PolicySpec spec = parse_policy_spec(spec_text(), "spec");
  LiveAligner aligner(spec);
  const float row[2] = {1, 2};
  ASSERT_EQ(aligner.push(0, 0, row, sizeof row), LiveStatus::kOk);
  std::vector<double> out(aligner.output_bytes() / sizeof(double) + 1);
  const LiveResult made = aligner.query(LiveNow::at(3000000), out.data());
  ASSERT_EQ(made, LiveStatus::kOk);
  EXPECT_EQ(aligner.outputs()[0].key, "obs");
  const double first = (1 - 0.1) * 3.5, second = (2 - 0.1) * 3.5;
  EXPECT_EQ(out[2], first);
  EXPECT_EQ(out[3], second);
  const double answer[4] = {4, 8, 4, 8};
  double action[4];
  const LiveKey* const key = aligner.find_key("action");
  ASSERT_NE(key, nullptr);
  EXPECT_EQ(aligner.find_key("joints"), nullptr);  // it stands in a group
  ASSERT_EQ(aligner.undo(made.ticket, *key, answer, 2, action), LiveStatus::kOk);
  // Normalized values, deltas over half a second, the scale of the stream, and what it is relative
  // to: the second joint, and nothing.
  const double deltas[2] = {4 / 4.0 + 1, 8 / 8.0 + 2};
  EXPECT_EQ(action[0], (first + deltas[0] * 0.5) / 0.5 + 1 + 2);
  EXPECT_EQ(action[1], (second + deltas[1] * 0.5) / 0.25 + 2);
  EXPECT_EQ(action[2], (first + deltas[0] * 0.5 + deltas[0] * 0.5) / 0.5 + 1 + 2);
}

TEST(PolicySpec, OptionsHaveNeitherGroupsNorTransforms) {
  const PolicySpec spec = parse_policy_spec(spec_text(), "spec");
  LiveOptions options;
  options.transforms = spec.transforms;
  EXPECT_EQ(error_of([&] { LiveAligner aligner(spec, options); }),
            "ValueError transforms: expected none beside the spec's, got 2 more");
  options.concat = spec.concat;
  EXPECT_EQ(error_of([&] { LiveAligner aligner(spec, options); }),
            "ValueError concat: expected none beside the spec's, got 1 more");
}

TEST(PolicySpec, FilesAreRead) {
  const std::string path =
      ::testing::TempDir() + "policy_spec_" + std::to_string(::getpid()) + ".json";
  std::ofstream(path) << spec_text();
  EXPECT_EQ(read_policy_spec(path).streams.size(), 2U);
  std::string text = spec_text();
  text.replace(text.find("\"F32\""), 5, "\"F31\"");
  std::ofstream(path) << text;
  EXPECT_EQ(error_of([&] { read_policy_spec(path); }),
            "ValueError " + path +
                ": streams[0].dtype: expected BOOL, U8, I8, U16, I16, U32, I32, U64, I64, F16, "
                "BF16, F32 or F64, got \"F31\"");
  std::ofstream(path) << "";
  EXPECT_EQ(error_of([&] { read_policy_spec(path); }),
            "ValueError " + path + ": expected JSON, got nothing (0 bytes)");
  std::ofstream(path) << " \n";
  EXPECT_EQ(error_of([&] { read_policy_spec(path); }),
            "ValueError " + path + ": expected JSON, got white space alone (2 bytes)");
  std::ofstream(path) << spec_text().substr(0, 200);
  EXPECT_EQ(error_of([&] { read_policy_spec(path); }),
            "ValueError " + path + ": expected JSON, got one that ends early, after 200 bytes");
  std::ofstream(path) << "streams: [joints]";
  EXPECT_EQ(error_of([&] { read_policy_spec(path); }),
            "ValueError " + path + ": expected JSON, got \"streams: [joints\" at byte 1");
  ASSERT_EQ(std::remove(path.c_str()), 0);
  EXPECT_EQ(
      error_of([&] { read_policy_spec(path); }),
      "ValueError " + path + ": expected a file that can be read, got No such file or directory");
  EXPECT_EQ(error_of([] { read_policy_spec("/"); }),
            "ValueError /: expected a file that can be read, got Is a directory");
}

}  // namespace
}  // namespace robocache::testing
