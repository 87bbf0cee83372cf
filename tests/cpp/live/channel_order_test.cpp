// Rows pushed in the order of a driver's messages, by the names of their elements.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "live/reference.h"
#include "support/error_of.h"

namespace robocache::testing {
namespace {

using Names = std::vector<std::string>;

LiveStream arm(DataType dtype = DataType::kFloat32) {
  LiveStream stream;
  stream.name = "arm";
  stream.shape = {3};
  stream.channels = {"shoulder", "elbow", "wrist"};
  stream.rate = 100;
  stream.dtype = dtype;
  stream.out_dtype = DataType::kFloat64;
  return stream;
}

/// The row that a query returns after a push by names.
std::vector<double> row_of(LiveAligner& aligner, std::int64_t time_ns) {
  Bytes out(aligner.output_bytes());
  EXPECT_EQ(aligner.query(LiveNow::at(time_ns), out.data()), LiveStatus::kOk);
  std::vector<double> row(3);
  std::memcpy(row.data(), out.data(), 3 * sizeof(double));
  return row;
}

TEST(LiveChannelOrder, PutsAMessageInTheOrderOfTheStream) {
  LiveAligner aligner({arm(DataType::kFloat64)}, {});
  const Names names{"wrist", "gripper", "shoulder", "elbow"};  // one that the stream lacks
  const ChannelOrder order = aligner.channel_order(0, names);
  EXPECT_EQ(order.stream(), 0);
  EXPECT_EQ(order.names(), names);
  EXPECT_EQ(order.indices(), (std::vector<std::int64_t>{2, 3, 0}));
  const double positions[] = {3, -1, 1, 2};
  EXPECT_EQ(aligner.push(order, 5, positions, 4), LiveStatus::kOk);
  EXPECT_EQ(row_of(aligner, 5), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(aligner.push(order, 6, positions, 4, 0, false), LiveStatus::kOk);
  Bytes out(aligner.output_bytes());
  ASSERT_EQ(aligner.query(LiveNow::at(6), out.data()), LiveStatus::kOk);
  EXPECT_EQ(out[static_cast<std::size_t>(aligner.find_output("arm_is_pad")->offset)], 1);
}

TEST(LiveChannelOrder, RoundsFloatsToTheTypeOfTheStream) {
  const double message[] = {0.1, 1.0 / 3, -2.7};
  const float narrow[] = {0.1F, 1.0F / 3, -2.7F};
  const std::pair<DataType, std::vector<double>> rounded[] = {
      {DataType::kFloat16, {0.333251953125, 0.0999755859375, -2.69921875}},
      {DataType::kBFloat16, {0.333984375, 0.10009765625, -2.703125}},
      {DataType::kFloat32, {double{1.0F / 3}, double{0.1F}, double{-2.7F}}},
      {DataType::kFloat64, {1.0 / 3, 0.1, -2.7}},
  };
  for (const auto& [dtype, row] : rounded) {
    LiveAligner aligner({arm(dtype)}, {});
    const ChannelOrder order = aligner.channel_order(0, {"elbow", "shoulder", "wrist"});
    EXPECT_EQ(aligner.push(order, 5, message, 3), LiveStatus::kOk);
    EXPECT_EQ(row_of(aligner, 5), row) << name_of(dtype);
    EXPECT_EQ(aligner.push(order, 6, narrow, 3), LiveStatus::kOk);
    const std::vector<double> widened{double{1.0F / 3}, double{0.1F}, double{-2.7F}};
    EXPECT_EQ(row_of(aligner, 6), dtype == DataType::kFloat64 ? widened : row) << name_of(dtype);
  }
}

TEST(LiveChannelOrder, CopiesElementsOfTheTypeOfTheStream) {
  LiveStream ticks = arm(DataType::kInt64);
  ticks.out_dtype = DataType::kInt64;
  ticks.method = Method::kPrevious;
  LiveStream halves = arm(DataType::kBFloat16);
  halves.name = "halves";
  LiveAligner aligner({ticks, halves}, {});
  const Names names{"wrist", "shoulder", "elbow"};
  const ChannelOrder order = aligner.channel_order(0, names);
  const std::int64_t counts[] = {INT64_MAX, INT64_MIN, 7};
  EXPECT_EQ(aligner.push(order, 5, counts, 3), LiveStatus::kOk);
  const std::uint16_t bits[] = {0x4040, 0x3f80, 0x4000};  // 3, 1, 2
  EXPECT_EQ(aligner.push(aligner.channel_order(1, names), 5, bits, 3), LiveStatus::kOk);
  Bytes out(aligner.output_bytes());
  ASSERT_EQ(aligner.query(LiveNow::at(5), out.data()), LiveStatus::kOk);
  std::int64_t seen[3];
  std::memcpy(seen, out.data(), sizeof seen);
  EXPECT_EQ(seen[0], INT64_MIN);
  EXPECT_EQ(seen[1], 7);
  EXPECT_EQ(seen[2], INT64_MAX);
  double floats[3];
  std::memcpy(floats, out.data() + aligner.find_output("halves")->offset, sizeof floats);
  EXPECT_EQ(floats[0], 1);
  EXPECT_EQ(floats[1], 2);
  EXPECT_EQ(floats[2], 3);
  const float wrong[] = {1, 2, 3};
  EXPECT_EQ(aligner.push(order, 6, wrong, 3), LiveStatus::kWrongType);
  EXPECT_EQ(aligner.stats(0).refused, 1);
}

TEST(LiveChannelOrder, EachRobotHasARow) {
  LiveOptions options;
  options.robots = 2;
  LiveAligner aligner({arm(DataType::kFloat64)}, options);
  const ChannelOrder order = aligner.channel_order(0, {"elbow", "wrist", "shoulder"});
  const double rows[2][3] = {{2, 3, 1}, {5, 6, 4}};
  for (const std::int64_t robot : {0, 1}) {
    ASSERT_EQ(aligner.push(order, 5, rows[robot], 3, robot), LiveStatus::kOk);
  }
  Bytes out(aligner.output_bytes());
  ASSERT_EQ(aligner.query(LiveNow::at(5), out.data()), LiveStatus::kOk);
  double seen[6];
  std::memcpy(seen, out.data(), sizeof seen);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(seen[i], i + 1);
  EXPECT_EQ(aligner.push(order, 5, rows[0], 3, 2), LiveStatus::kUnknownRobot);
}

TEST(LiveChannelOrder, RefusesMessagesThatDoNotFit) {
  LiveStream unnamed = arm();
  unnamed.name = "unnamed";
  unnamed.channels.clear();
  LiveAligner aligner({arm()}, {}), others({unnamed}, {});
  const ChannelOrder order = aligner.channel_order(0, {"elbow", "wrist", "shoulder"});
  const double row[] = {1, 2, 3, 4};
  EXPECT_EQ(aligner.push(order, 5, row, 4), LiveStatus::kWrongSize);
  EXPECT_EQ(aligner.push(order, 5, row, 0), LiveStatus::kWrongSize);
  const int whole[] = {1, 2, 3};
  EXPECT_EQ(aligner.push(order, 5, whole, 3), LiveStatus::kWrongType);
  EXPECT_EQ(aligner.stats(0).refused, 3);
  EXPECT_EQ(aligner.push(order, 5, static_cast<const double*>(nullptr), 3),
            LiveStatus::kBadPointer);
  EXPECT_EQ(others.push(order, 5, row, 3), LiveStatus::kWrongSize);  // an order of another aligner
  EXPECT_EQ(aligner.stats(0).pushed, 0);
}

TEST(LiveChannelOrder, NamesThatAreMissingOrTwiceAreErrors) {
  LiveStream action = arm();
  action.name = "action";
  action.offsets = {0, 10};
  LiveStream unnamed = arm();
  unnamed.name = "unnamed";
  unnamed.channels.clear();
  LiveStream twice = arm();
  twice.name = "twice";
  twice.channels = {"a", "b", "a"};
  const LiveAligner aligner({arm(), action, unnamed, twice}, {});
  const auto error = [&](std::int64_t stream, const Names& names) {
    return error_of([&] { static_cast<void>(aligner.channel_order(stream, names)); });
  };
  EXPECT_EQ(error(0, {"left/elbow", "shoulder"}),
            "ValueError names['arm']: expected all of the stream's channels, got none named "
            "'elbow', 'wrist' (the message has 'left/elbow', 'shoulder')");
  EXPECT_EQ(error(0, {}),
            "ValueError names['arm']: expected all of the stream's channels, got none named "
            "'shoulder', 'elbow', 'wrist' (the message has no names)");
  EXPECT_EQ(error(0, {"wrist", "elbow", "shoulder", "elbow"}),
            "ValueError names['arm']: expected each name once, got 'elbow' twice");
  EXPECT_EQ(error(0, {"1", "2", "3", "4", "5", "6", "7", "8", "9"}),
            "ValueError names['arm']: expected all of the stream's channels, got none named "
            "'shoulder', 'elbow', 'wrist' (the message has '1', '2', '3', '4', '5', '6', '7', '8', "
            "...)");
  EXPECT_EQ(error(2, {"a"}),
            "ValueError channels['unnamed']: expected a name for each of the stream's elements, "
            "got none (the spec has the store's: StoreWriter.declare takes them)");
  EXPECT_EQ(error(3, {"a", "b"}),
            "ValueError channels['twice']: expected each name once, got 'a' twice");
  for (const std::int64_t stream : {-1, 1, 4}) {
    EXPECT_EQ(error(stream, {"a"}),
              "ValueError stream: expected the number of a stream that takes rows, got " +
                  std::to_string(stream));
  }
}

}  // namespace
}  // namespace robocache::testing
