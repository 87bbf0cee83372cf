// Policies trained on a mixture of data sets: keys, padded rows, missing streams and the index.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "robocache/live.h"
#include "support/error_of.h"

namespace robocache::testing {
namespace {

LiveStream stream(const char* name, std::int64_t width, std::int64_t padded_width = 0) {
  LiveStream made;
  made.name = name;
  made.shape = {width};
  made.rate = 100;
  made.offsets = {-10'000'000, 0};
  made.padded_width = padded_width;
  return made;
}

/// Streams of a robot: "qpos", called "joints" and padded from 2 to 3, and "grip", which it lacks.
std::vector<LiveStream> robot_streams() {
  std::vector<LiveStream> streams{stream("qpos", 2, 3), stream("grip", 1)};
  streams[0].key = "joints";
  streams[0].subtract = {1, 2};
  streams[0].multiply = {10, 100};
  streams[1].is_missing = true;
  return streams;
}

struct Robots {
  LiveAligner aligner;
  std::vector<std::byte> out;

  Robots(const std::vector<LiveStream>& streams, const LiveOptions& options)
      : aligner(streams, options), out(aligner.output_bytes(), std::byte{0x7f}) {}

  /// The numbers of an array of the output.
  template <typename Number>
  std::vector<Number> array(const std::string& key) const {
    const LiveArray* const found = aligner.find_output(key);
    if (found == nullptr) throw std::out_of_range(key);
    std::int64_t count = 1;
    for (const std::int64_t size : found->shape) count *= size;
    std::vector<Number> numbers(static_cast<std::size_t>(count));
    std::memcpy(numbers.data(), out.data() + found->offset, numbers.size() * sizeof(Number));
    return numbers;
  }
};

TEST(LiveMixture, WritesConstantsOfEveryRobot) {
  LiveOptions options;
  options.robots = 2;
  options.dataset_index = 5;
  Robots robots(robot_streams(), options);
  const float row[] = {3, 4};
  for (std::int64_t r = 0; r < 2; ++r) {
    ASSERT_EQ(robots.aligner.push(0, 0, row, sizeof row, r), LiveStatus::kOk);
  }
  ASSERT_EQ(robots.aligner.query(LiveNow::at(0), robots.out.data()), LiveStatus::kOk);
  using Floats = std::vector<float>;
  using Bytes = std::vector<std::uint8_t>;
  // The first step lies before the row, which is held.
  EXPECT_EQ(robots.array<float>("joints"),
            (Floats{20, 200, 0, 20, 200, 0, 20, 200, 0, 20, 200, 0}));
  EXPECT_EQ(robots.array<std::uint8_t>("joints_is_pad"), (Bytes{1, 0, 1, 0}));
  EXPECT_EQ(robots.array<std::uint8_t>("joints_dim_is_pad"), (Bytes{0, 0, 1, 0, 0, 1}));
  EXPECT_EQ(robots.array<float>("grip"), Floats(4));
  EXPECT_EQ(robots.array<std::uint8_t>("grip_is_pad"), Bytes(4, 1));
  EXPECT_EQ(robots.array<std::int64_t>("grip_age"), std::vector<std::int64_t>(4));
  EXPECT_EQ(robots.array<std::int64_t>("dataset_index"), (std::vector<std::int64_t>{5, 5}));
  EXPECT_EQ(robots.aligner.find_output("qpos"), nullptr);
  EXPECT_EQ(robots.aligner.find_output("grip_dim_is_pad"), nullptr);
}

TEST(LiveMixture, UndoDropsPaddedElements) {
  LiveOptions options;
  options.concat = {{"obs", {"grip", "qpos"}}};
  Robots robots(robot_streams(), options);
  const LiveKey& key = *robots.aligner.find_key("obs");
  EXPECT_EQ(key.shape, std::vector<std::int64_t>{4});
  EXPECT_EQ(key.aligned, std::vector<std::int64_t>{2});
  const float answer[] = {7, 10, 200, 8, 9, 30, 400, 6};
  float out[4];
  ASSERT_EQ(robots.aligner.undo({}, key, answer, 2, out), LiveStatus::kOk);
  EXPECT_EQ(std::vector<float>(out, out + 4), (std::vector<float>{2, 4, 4, 6}));
}

TEST(LiveMixture, AMissingStreamTakesNothing) {
  Robots robots(robot_streams(), {});
  const float row[] = {3};
  EXPECT_EQ(robots.aligner.push(1, 0, row, sizeof row), LiveStatus::kTakesNoRows);
  EXPECT_EQ(robots.aligner.query(LiveNow::newest_of(1), robots.out.data()),
            LiveStatus::kTakesNoRows);
  float out[1];
  EXPECT_EQ(robots.aligner.undo({}, *robots.aligner.find_key("grip"), row, 1, out),
            LiveStatus::kNotInvertible);
  EXPECT_EQ(robots.aligner.streams()[1].buffer_rows, 0);
}

TEST(LiveMixture, Errors) {
  const auto expect = [](const std::string& error,
                         const std::function<void(std::vector<LiveStream>&)>& spoil) {
    std::vector<LiveStream> streams = robot_streams();
    spoil(streams);
    EXPECT_EQ(error_of([&] { LiveAligner(streams, {}); }), error);
  };
  expect("ValueError padded_width['qpos']: expected 2 elements to 2^26, got 1",
         [](auto& streams) { streams[0].padded_width = 1; });
  expect("ValueError padded_width['grip']: expected none for rows that are no vectors, got 2",
         [](auto& streams) {
           streams[1].shape = {1, 1};
           streams[1].padded_width = 2;
         });
  expect("ValueError is_missing['grip']: expected a stream without normalization, got one with it",
         [](auto& streams) { streams[1].multiply = {2}; });
  expect(
      "ValueError is_missing['grip']: expected a stream that is not relative, got one relative "
      "to 'qpos'",
      [](auto& streams) {
        streams[1].relative_to = "qpos";
        streams[1].reference_columns = {0};
      });
  expect(
      "ValueError is_missing['grip']: expected a stream that no other is relative to, got "
      "'qpos', which is",
      [](auto& streams) {
        streams[0].relative_to = "grip";
        streams[0].reference_columns = {0, -1};
      });
  expect("ValueError streams: expected keys of the output that differ, got 'grip' twice",
         [](auto& streams) { streams[0].key = "grip"; });
}

}  // namespace
}  // namespace robocache::testing
