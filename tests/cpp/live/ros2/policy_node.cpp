// The C++ node of examples/ros2, with a stand-in for ROS, which is not installed here.
#include "robocache_policy/policy_node.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "robocache/jpeg.h"
#include "robocache_policy/policy.h"

namespace robocache_policy {

namespace {

bool has_policy = false;

}  // namespace

/// The policy under test: the newest positions, normalized anew, or none.
std::vector<float> run_policy(const robocache::LiveAligner& aligner, const std::byte* windows) {
  if (!has_policy) return {};
  std::vector<float> action(2);
  const robocache::LiveArray* const array = aligner.find_output("/joint_states/position");
  std::memcpy(action.data(), windows + array->offset, 2 * sizeof(float));
  return action;
}

namespace {

using sensor_msgs::msg::Image;
using sensor_msgs::msg::JointState;
using Names = std::vector<std::string>;

std::string stream_text(const std::string& name, const std::string& rest) {
  return R"({"name": ")" + name + R"(", "rate": 100, "timeline": "time", "has_axis": true,
    "outside": "hold", "max_gap_ns": null, "tolerance_ns": 0, "mean_window_ns": null,
    "latency_ns": 0, "channels_first": false, "method": "linear", "relative_to": null,
    "normalize": null, )" +
         rest + "}";
}

std::string joints_text(const std::string& name, const std::string& rest) {
  return stream_text(name, R"("dtype": "F32", "shape": [2], "out_dtype": "F32",
    "channels": ["shoulder", "elbow"], )" +
                               rest);
}

/// The file of this process's spec: ctest runs tests in processes of their own, several at once.
std::string spec_path() {
  return ::testing::TempDir() + "policy_node_" + std::to_string(::getpid()) + ".json";
}

std::string spec_file(bool has_names = true) {
  const std::string now = R"("offsets": [0], "causal": true, "normalization": null)";
  std::string text =
      R"({"robocache_policy_spec": 2, "library": "", "anchor": "camera", "rate": null,
    "with_age": false, "concat": {}, "transforms": [], "streams": [)" +
      joints_text("/joint_states/position", now) + ", " +
      joints_text("/joint_states/velocity", now) + ", " +
      stream_text("camera", R"("dtype": "U8", "shape": [2, 3, 3],
                       "out_dtype": "U8", )" +
                                now) +
      ", " + joints_text("action", R"("offsets": [0, 20000000], "causal": false,
                       "normalization": {"subtract": [1, -2], "multiply": [0.5, 4]})") +
      "]}";
  const std::string names = R"("channels": ["shoulder", "elbow"],)";
  for (std::size_t at = text.find(names); !has_names && at != std::string::npos;) {
    text.erase(at, names.size());
    at = text.find(names);
  }
  std::ofstream(spec_path()) << text;
  return spec_path();
}

class Ros2Node : public ::testing::Test {
 protected:
  void SetUp() override {
    rclcpp::world() = {};
    has_policy = false;
    set("spec", spec_file());
    set("topics", Names{"camera:=/camera/image_raw"});
  }

  void TearDown() override { std::remove(spec_path().c_str()); }

  template <typename Value>
  static void set(const std::string& name, const Value& value) {
    rclcpp::world().parameters[name] = value;
  }

  template <typename Message>
  static void deliver(const std::string& topic, const Message& message) {
    rclcpp::world().subscriptions.at(topic)(&message);
  }

  static JointState joints(const Names& names, const std::vector<double>& position) {
    JointState message;
    message.header.stamp.nanosec = 5'000'000;
    message.name = names;
    message.position = position;
    return message;
  }

  static Image image(const std::string& encoding, std::uint32_t step) {
    Image message;
    message.header.stamp.nanosec = 5'000'000;
    message.height = 2;
    message.width = 3;
    message.encoding = encoding;
    message.step = step;
    for (std::uint32_t i = 0; i < 2 * step; ++i)
      message.data.push_back(static_cast<std::uint8_t>(i));
    return message;
  }

  static void deliver_all() {
    JointState message = joints({"elbow", "gripper", "shoulder"}, {2, 9, 1});
    message.velocity = {4, 9, 3};
    deliver("/joint_states", message);
    deliver("/camera/image_raw", image("rgb8", 9));
  }

  static std::string error_of_node() {
    try {
      PolicyNode node;
    } catch (const std::exception& error) {
      return error.what();
    }
    return "none";
  }
};

TEST_F(Ros2Node, PublishesTheActionInTheRobotsUnits) {
  has_policy = true;
  set("rate_hz", 25.0);
  PolicyNode node;
  EXPECT_EQ(rclcpp::world().subscriptions.size(), 2U);
  std::set<std::shared_ptr<rclcpp::CallbackGroup>> groups;
  for (const auto& group : rclcpp::world().groups) groups.insert(group.lock());
  EXPECT_EQ(groups.size(), 3U);
  EXPECT_EQ(groups.count(nullptr), 0U);
  ASSERT_EQ(rclcpp::world().timers.size(), 1U);
  EXPECT_EQ(rclcpp::world().timers[0].first, 0.04);
  deliver_all();
  rclcpp::world().now_ns = 5'000'000;
  rclcpp::world().timers[0].second();
  EXPECT_EQ(rclcpp::world().warnings, Names{});
  const auto& sent = rclcpp::world().published["commands"];
  ASSERT_EQ(sent.size(), 1U);
  // The policy answers with the joints in the order of the spec: 1 and 2.
  EXPECT_EQ(std::any_cast<std_msgs::msg::Float64MultiArray>(sent[0]).data,
            (std::vector<double>{1 / 0.5 + 1, 2 / 4.0 - 2}));
}

TEST_F(Ros2Node, CommandsNothingWithoutAPolicy) {
  PolicyNode node;
  deliver_all();
  rclcpp::world().now_ns = 5'000'000;
  rclcpp::world().timers[0].second();
  EXPECT_TRUE(rclcpp::world().published.empty());
}

TEST_F(Ros2Node, CommandsNothingWhileASensorIsSilent) {
  has_policy = true;
  PolicyNode node;
  deliver("/camera/image_raw", image("rgb8", 9));
  rclcpp::world().now_ns = 5'000'000;
  rclcpp::world().timers[0].second();
  EXPECT_TRUE(rclcpp::world().published.empty());
  EXPECT_EQ(rclcpp::world().warnings, (Names{"no command: /joint_states/position: NoRows, "
                                             "/joint_states/velocity: NoRows"}));
}

/// The bytes of an array after a query of a loop.
std::vector<unsigned char> bytes_of(PolicyLoop& loop, const std::string& key, std::size_t bytes) {
  auto& aligner = const_cast<robocache::LiveAligner&>(loop.aligner());
  std::vector<std::byte> out(aligner.output_bytes());
  static_cast<void>(aligner.query(robocache::LiveNow::at(5'000'000), out.data()));
  std::vector<unsigned char> found(bytes);
  std::memcpy(found.data(), out.data() + aligner.find_output(key)->offset, bytes);
  return found;
}

TEST_F(Ros2Node, ImagesAreCopiedWithoutPaddingAndAsRgb) {
  Parameters parameters;
  parameters.spec = spec_file();
  parameters.topics = {"camera:=/camera/image_raw"};
  PolicyLoop loop(parameters);
  const Image message = image("bgr8", 12);
  const ImageView view{message.height, message.width, message.encoding, message.step, message.data};
  EXPECT_EQ(loop.push_image(2, 5'000'000, view), "");
  EXPECT_EQ(
      bytes_of(loop, "camera", 18),
      (std::vector<unsigned char>{2, 1, 0, 5, 4, 3, 8, 7, 6, 14, 13, 12, 17, 16, 15, 20, 19, 18}));
}

TEST_F(Ros2Node, ImagesThatWereJpegComeAsCompressedImages) {
  std::ifstream file(spec_path());
  std::string text((std::istreambuf_iterator<char>(file)), {});
  const std::string camera = R"("dtype": "U8",)";
  text.replace(
      text.find(camera), camera.size(),
      R"("dtype": "U8", "encoding": {"format": "jpeg", "quality": 90, "chroma": "4:2:0"},)");
  std::ofstream(spec_path()) << text;
  PolicyNode node;
  sensor_msgs::msg::CompressedImage message;
  message.header.stamp.nanosec = 5'000'000;
  message.format = "rgb8; jpeg compressed bgr8";
  const std::vector<std::uint8_t> pixels(18, 200);
  robocache::JpegEncoder encoder;
  ASSERT_EQ(encoder.encode(pixels.data(), 3, 2, 3, 9, message.data), robocache::JpegStatus::kOk);
  deliver("/camera/image_raw", message);
  EXPECT_EQ(rclcpp::world().warnings, Names{});
  Parameters parameters;
  parameters.spec = spec_path();
  parameters.topics = {"camera:=/camera/image_raw"};
  PolicyLoop loop(parameters);
  EXPECT_EQ(loop.push_compressed(2, 5'000'000, message.format, message.data), "");
  EXPECT_EQ(bytes_of(loop, "camera", 18), std::vector<unsigned char>(18, 200));
  ASSERT_EQ(encoder.encode(pixels.data(), 2, 3, 3, 6, message.data), robocache::JpegStatus::kOk);
  deliver("/camera/image_raw", message);
  message.data = {0x89, 'P', 'N', 'G'};
  message.format = "rgb8; png compressed bgr8";
  deliver("/camera/image_raw", message);
  const std::string wanted = "/camera/image_raw: expected JPEG of 2 x 3 pixels, as recorded, got ";
  EXPECT_EQ(rclcpp::world().warnings,
            (Names{wanted + "WrongSize (format 'rgb8; jpeg compressed bgr8')",
                   wanted + "NotJpeg (format 'rgb8; png compressed bgr8')"}));
}

TEST_F(Ros2Node, WarnsOfMessagesThatDoNotFit) {
  PolicyNode node;
  deliver("/joint_states", joints({"elbow"}, {2}));
  deliver("/joint_states", joints({"elbow", "shoulder"}, {2, 1, 3}));
  deliver("/joint_states", joints({"wheel"}, {9}));  // of another node: ignored
  Image high = image("rgb8", 9);
  high.height = 4;
  deliver("/camera/image_raw", high);
  deliver("/camera/image_raw", image("16UC1", 9));
  Image cut = image("rgb8", 9);
  cut.data.pop_back();
  deliver("/camera/image_raw", cut);
  const std::string wanted =
      "/camera/image_raw: expected 2 x 3 pixels of rgb8 or bgr8, as recorded, got ";
  EXPECT_EQ(rclcpp::world().warnings,
            (Names{"/joint_states: names['/joint_states/position']: expected all of the stream's "
                   "channels, got none named 'shoulder' (the message has 'elbow')",
                   "/joint_states: WrongSize", wanted + "4 x 3 of rgb8", wanted + "2 x 3 of 16UC1",
                   wanted + "2 x 3 of rgb8"}));
}

TEST_F(Ros2Node, JointsMayHaveOtherNames) {
  has_policy = true;
  set("joint_names", Names{"shoulder:=left/1", "elbow:=left/2"});
  PolicyNode node;
  deliver_all();  // the names of the spec still do
  JointState message = joints({"left/2", "left/1"}, {4, 3});
  message.header.stamp.nanosec = 6'000'000;
  deliver("/joint_states", message);
  rclcpp::world().now_ns = 6'000'000;
  rclcpp::world().timers[0].second();
  const auto& sent = rclcpp::world().published["commands"];
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(std::any_cast<std_msgs::msg::Float64MultiArray>(sent[0]).data,
            (std::vector<double>{3 / 0.5 + 1, 4 / 4.0 - 2}));
}

TEST_F(Ros2Node, ParametersThatDoNotFitAreErrors) {
  EXPECT_EQ(error_of_node(), "none");
  set("topics", Names{"/joint_states/position:=/arm"});
  EXPECT_EQ(error_of_node(),
            "topics['/joint_states/position']: expected a topic and a field of JointState, as in "
            "'/joint_states/position', got '/arm'");
  set("topics", Names{"action:=/a/position"});
  EXPECT_EQ(error_of_node(),
            "topics: expected streams that take rows (/joint_states/position, "
            "/joint_states/velocity, camera), got 'action'");
  set("topics", Names{"camera"});
  EXPECT_EQ(error_of_node(), "topics: expected KEY:=VALUE, got 'camera'");
  set("topics", Names{""});
  set("joint_names", Names{"a:=b", "a:=c"});
  EXPECT_EQ(error_of_node(), "joint_names: expected each key once, got 'a' twice");
  set("joint_names", Names{""});
  set("action", std::string("jump"));
  EXPECT_EQ(error_of_node(), "action: expected a key of the batch, got 'jump'");
  set("rate_hz", 0.0);
  EXPECT_EQ(error_of_node(), "rate_hz: expected a rate above 0, got 0.000000");
}

TEST_F(Ros2Node, WithoutNamesOfChannelsJointsAreTakenInTheirOrder) {
  has_policy = true;
  set("spec", spec_file(false));
  PolicyNode node;
  const std::string text = ": the spec has no names of channels; joints are taken in their order";
  EXPECT_EQ(rclcpp::world().warnings,
            (Names{"/joint_states/position" + text, "/joint_states/velocity" + text}));
  deliver("/joint_states", joints({"elbow", "shoulder"}, {2, 1}));
  deliver("/joint_states", joints({"elbow", "shoulder", "more"}, {2, 1, 3}));
  EXPECT_EQ(rclcpp::world().warnings.back(), "/joint_states: WrongSize");
}

}  // namespace
}  // namespace robocache_policy
