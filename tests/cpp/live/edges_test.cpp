// Faults of live streams, one per test: the answers of queries, and the counters.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "live/scalars.h"

namespace robocache::testing {
namespace {

TEST(LiveEdges, BeforeTheFirstRowThereAreZerosAndPadding) {
  LiveAligner aligner({scalar({-2, 0})}, {});
  const Seen seen = Seen::of(aligner, LiveNow::at(5 * kMs));
  EXPECT_EQ(seen.status, LiveStatus::kNoRows);
  EXPECT_EQ(seen.values, (Values{0, 0}));
  EXPECT_EQ(seen.is_pad, (Flags{true, true}));
  EXPECT_EQ(seen.age, (Ages{0, 0}));
  EXPECT_EQ(aligner.stats(0).newest_ns, INT64_MIN);
}

TEST(LiveEdges, ALateRowIsPutInItsPlace) {
  LiveAligner aligner({scalar({-3, -2, -1, 0})}, {});
  for (const int ms : {7, 10, 8, 9}) push(aligner, ms, static_cast<float>(ms));
  const Seen seen = Seen::of(aligner, LiveNow::at(10 * kMs));
  EXPECT_EQ(seen.values, (Values{7, 8, 9, 10}));
  EXPECT_EQ(seen.is_pad, (Flags{false, false, false, false}));
  EXPECT_EQ(seen.age, (Ages{0, 0, 0, 0}));
  const LiveStats stats = aligner.stats(0);
  EXPECT_EQ(stats.late, 2);
  EXPECT_EQ(stats.clock_back, 1);
  EXPECT_EQ(stats.held, 4);
}

TEST(LiveEdges, ARowThatIsOlderThanAFullBufferIsGivenUp) {
  LiveStream stream = scalar({0});
  stream.buffer_rows = 3;
  LiveAligner aligner({stream}, {});
  for (const int ms : {5, 6, 7, 8, 4}) push(aligner, ms, static_cast<float>(ms));
  EXPECT_EQ(Seen::of(aligner, LiveNow::at(8 * kMs)).values, (Values{8}));
  const LiveStats stats = aligner.stats(0);
  EXPECT_EQ(stats.outdated, 1);
  EXPECT_EQ(stats.too_late, 1);
  EXPECT_EQ(stats.held, 3);
}

TEST(LiveEdges, OfRowsWithOneStampTheLastCounts) {
  LiveAligner aligner({scalar({0})}, {});
  push(aligner, 5, 1);
  push(aligner, 5, 2);
  push(aligner, 6, 9);
  push(aligner, 5, 3);
  EXPECT_EQ(Seen::of(aligner, LiveNow::at(5 * kMs)).values, (Values{3}));
  EXPECT_EQ(aligner.stats(0).repeated, 2);
  EXPECT_EQ(aligner.stats(0).early, 1);
}

TEST(LiveEdges, AClockThatJumpsBackIsCountedOnceAndItsRowsAreTooLate) {
  LiveStream stream = scalar({0});
  stream.buffer_rows = 10;
  LiveAligner aligner({stream}, {});
  for (int ms = 1000; ms < 1020; ++ms) push(aligner, ms, 1);
  for (int ms = 0; ms < 50; ++ms) push(aligner, ms, 2);
  const Seen seen = Seen::of(aligner, LiveNow::at(1020 * kMs));
  EXPECT_EQ(seen.values, (Values{1}));
  EXPECT_EQ(seen.is_pad, (Flags{false}));
  EXPECT_EQ(seen.age, (Ages{kMs}));
  EXPECT_EQ(aligner.stats(0).clock_back, 1);
  EXPECT_EQ(aligner.stats(0).too_late, 50);
  // A reset begins anew, by the clock as it is.
  aligner.reset();
  push(aligner, 50, 3);
  EXPECT_EQ(Seen::of(aligner, LiveNow::at(50 * kMs)).values, (Values{3}));
}

TEST(LiveEdges, StampsFarInTheFutureAreGivenUpAndThoseALittleEarlyWait) {
  LiveOptions options;
  options.max_future_ns = 5 * kMs;
  LiveAligner aligner({scalar({0})}, options);
  push(aligner, 10, 1);
  push(aligner, 15, 2);
  push(aligner, 16, 3);
  EXPECT_EQ(aligner.push(0, INT64_MAX, "four", 4), LiveStatus::kOk);
  EXPECT_EQ(Seen::of(aligner, LiveNow::at(10 * kMs)).values, (Values{1}));
  EXPECT_EQ(aligner.stats(0).early, 1);
  EXPECT_EQ(aligner.stats(0).future, 2);
  EXPECT_EQ(Seen::of(aligner, LiveNow::at(15 * kMs)).values, (Values{2}));
  EXPECT_EQ(Seen::of(aligner, LiveNow::at(INT64_MIN)).values, (Values{0}));
}

TEST(LiveEdges, RowsOfTheFutureDoNotPushOutThoseOfNow) {
  LiveStream stream = scalar({-2, 0});
  stream.buffer_rows = 10;
  LiveAligner aligner({stream}, {});
  for (int i = 0; i < 15; ++i) push(aligner, 5000 + i, -1);  // by a clock that is wrong
  for (int ms = 0; ms < 20; ++ms) push(aligner, ms, static_cast<float>(ms));
  const Seen seen = Seen::of(aligner, LiveNow::at(19 * kMs));
  EXPECT_EQ(seen.values, (Values{17, 19}));
  EXPECT_EQ(seen.is_pad, (Flags{false, false}));
  const LiveStats stats = aligner.stats(0);
  EXPECT_EQ(stats.too_late, 0);
  EXPECT_EQ(stats.early, 15);
  EXPECT_EQ(stats.future, 5 + 3);  // those past ten; and for the three rows that the window needs
  EXPECT_EQ(stats.held, 10);
  EXPECT_EQ(stats.taken, stats.held + stats.outdated + stats.future);
}

TEST(LiveEdges, NowMayLieBehindOtherStreamsByThePause) {
  LiveStream joints = scalar({-20, -10, 0}, "force");
  joints.rate = 500;
  LiveStream camera = scalar({0}, "camera");
  camera.rate = 30;
  LiveAligner aligner({joints, camera}, {});
  EXPECT_EQ(aligner.streams()[0].buffer_rows, 17 + 125 + 8);
  std::int64_t padded = 0;
  for (std::int64_t ms = 0; ms < 2000; ms += 2) {
    push(aligner, ms, static_cast<float>(ms));
    const std::int64_t taken = ms - 60;  // when the image was, which arrives by now
    if (taken < 40 || taken % 34 != 0) continue;
    push(aligner, taken, 1, 1);
    const Seen seen = Seen::of(aligner, LiveNow::newest_of(1));
    const auto newest = static_cast<float>(taken);
    EXPECT_EQ(seen.values, (Values{newest - 20, newest - 10, newest}));
    for (const bool is_pad : seen.is_pad) padded += is_pad ? 1 : 0;
  }
  EXPECT_EQ(padded, 0);
  EXPECT_EQ(aligner.stats(0).short_windows, 0);
}

TEST(LiveEdges, AClockRowFarInTheFutureIsGivenUpUnlessAnotherFollowsIt) {
  LiveAligner aligner({scalar({0}), scalar({0}, "camera")}, {});
  push(aligner, 5, 5);
  push(aligner, 5, 1, 1);
  const float value = 1;
  EXPECT_EQ(aligner.push(1, std::int64_t{1} << 62, &value, 4), LiveStatus::kOk);
  push(aligner, 6, 6);
  push(aligner, 6, 1, 1);
  EXPECT_EQ(Seen::of(aligner, LiveNow::newest_of(1)).values, (Values{6}));
  EXPECT_EQ(aligner.now_ns(), 6 * kMs);
  EXPECT_EQ(aligner.stats(1).future, 1);
  EXPECT_EQ(aligner.stats(1).late, 0);
  // A stream that had stopped for long goes on.
  push(aligner, 60'000, 1, 1);
  Seen::of(aligner, LiveNow::newest_of(1));
  EXPECT_EQ(aligner.now_ns(), 6 * kMs);
  push(aligner, 60'033, 1, 1);
  Seen::of(aligner, LiveNow::newest_of(1));
  EXPECT_EQ(aligner.now_ns(), 60'033 * kMs);
  EXPECT_EQ(aligner.stats(1).future, 2);
}

TEST(LiveEdges, ABufferThatIsShorterThanItsLatencyIsCounted) {
  LiveStream stream = scalar({0});
  stream.rate = 0;  // not known: nothing is checked
  stream.buffer_rows = 10;
  stream.ring_rows = 64;
  stream.latency_ns = 200 * kMs;
  LiveAligner aligner({stream}, {});
  for (int i = 0; i <= 20; ++i) push(aligner, 20 * i, 1);
  EXPECT_EQ(Seen::of(aligner, LiveNow::at(400 * kMs)).is_pad, (Flags{true}));
  EXPECT_EQ(aligner.stats(0).short_windows, 1);
}

TEST(LiveEdges, ABufferOfTheLeastRowsIsLongEnough) {
  LiveStream stream = scalar({-20, 0});
  stream.rate = 500;
  stream.buffer_rows = 11;
  LiveAligner aligner({stream}, {});
  for (int ms = 0; ms < 400; ++ms) {
    if (ms % 2 == 0) push(aligner, ms, 1);
    if (ms >= 20) Seen::of(aligner, LiveNow::at(ms * kMs + 1));
  }
  EXPECT_EQ(aligner.stats(0).short_windows, 0);
}

TEST(LiveEdges, AProducerThatStopsLeavesAHeldRowThatGetsOlder) {
  LiveStream stream = scalar({-1, 0});
  stream.max_gap_ns = 199 * kMs;
  LiveAligner aligner({stream}, {});
  for (int ms = 0; ms <= 100; ++ms) push(aligner, ms, static_cast<float>(ms));
  EXPECT_EQ(Seen::of(aligner, LiveNow::at(100 * kMs)).is_pad, (Flags{false, false}));
  const Seen seen = Seen::of(aligner, LiveNow::at(300 * kMs));
  EXPECT_EQ(seen.values, (Values{100, 100}));
  EXPECT_EQ(seen.is_pad, (Flags{false, true}));
  EXPECT_EQ(seen.age, (Ages{199 * kMs, 200 * kMs}));
  EXPECT_EQ(aligner.stats(0).newest_ns, 100 * kMs);
}

TEST(LiveEdges, AWindowThatReachesPastTheBufferIsCounted) {
  LiveStream stream = scalar({-20, 0});
  LiveAligner aligner({stream}, {});
  // 20 and the one before, half as many again, those of the pause, and 8
  EXPECT_EQ(aligner.streams()[0].buffer_rows, 32 + 250 + 8);
  EXPECT_EQ(aligner.streams()[0].ring_rows, 290);  // a second's would be more than the buffer's
  for (int ms = 0; ms < 100; ++ms) push(aligner, ms, static_cast<float>(ms));
  EXPECT_EQ(Seen::of(aligner, LiveNow::at(99 * kMs)).values, (Values{79, 99}));
  EXPECT_EQ(aligner.stats(0).short_windows, 0);
  for (int part = 2001; part < 3000; ++part) {  // at twenty times the rate that was said
    const float value = 1;
    if (part % 100 == 0) Seen::of(aligner, LiveNow::at(part * kMs / 20));
    EXPECT_EQ(aligner.push(0, part * kMs / 20, &value, 4), LiveStatus::kOk);
  }
  Seen::of(aligner, LiveNow::at(150 * kMs));
  EXPECT_GT(aligner.stats(0).short_windows, 0);
}

TEST(LiveEdges, NanAndInfinityAreData) {
  LiveAligner aligner({scalar({-1, 0})}, {});
  push(aligner, 4, std::numeric_limits<float>::infinity());
  push(aligner, 5, std::nanf(""));
  const Seen seen = Seen::of(aligner, LiveNow::at(5 * kMs));
  EXPECT_TRUE(std::isinf(seen.values[0]));
  EXPECT_TRUE(std::isnan(seen.values[1]));
  EXPECT_EQ(seen.is_pad, (Flags{false, false}));
}

TEST(LiveEdges, NowIsAStreamsNewestRow) {
  LiveStream camera = scalar({0}, "camera");
  LiveAligner aligner({scalar({0}), camera}, {});
  push(aligner, 0, 7);  // which is held until there is a now
  const Seen empty = Seen::of(aligner, LiveNow::newest_of(1));
  EXPECT_EQ(empty.status, LiveStatus::kNoRows);
  EXPECT_EQ(empty.values, (Values{0}));
  EXPECT_EQ(empty.is_pad, (Flags{true}));
  EXPECT_EQ(aligner.stats(0).held, 1);
  EXPECT_EQ(aligner.stats(0).future, 0);
  for (int ms = 0; ms < 10; ++ms) push(aligner, ms, static_cast<float>(ms));
  push(aligner, 3, 1, 1);
  push(aligner, 6, 1, 1);
  const Seen seen = Seen::of(aligner, LiveNow::newest_of(1));
  EXPECT_EQ(seen.status, LiveStatus::kOk);
  EXPECT_EQ(seen.values, (Values{6}));
  EXPECT_EQ(aligner.now_ns(), 6 * kMs);
  EXPECT_EQ(Seen::of(aligner, LiveNow::newest_of(2)).status, LiveStatus::kUnknownStream);
}

TEST(LiveEdges, ResetForgetsWhatIsHeldAndWhatIsOnItsWay) {
  LiveOptions options;
  options.robots = 2;
  LiveAligner aligner({scalar({0})}, options);
  for (const std::int64_t robot : {0, 1}) {
    push(aligner, 1, 1, 0, robot);
    Seen::of(aligner, LiveNow::at(kMs));
    push(aligner, 2, 2, 0, robot);
  }
  EXPECT_EQ(aligner.reset(1), LiveStatus::kOk);
  EXPECT_EQ(Seen::of(aligner, LiveNow::at(2 * kMs)).values, (Values{2, 0}));
  EXPECT_EQ(aligner.stats(0, 1).forgotten, 2);
  EXPECT_EQ(aligner.stats(0, 1).taken, 2);
  EXPECT_EQ(aligner.stats(0, 0).forgotten, 0);
  aligner.reset();
  EXPECT_EQ(Seen::of(aligner, LiveNow::at(2 * kMs)).values, (Values{0, 0}));
  EXPECT_EQ(aligner.now_ns(), 2 * kMs);
  EXPECT_EQ(aligner.reset(2), LiveStatus::kUnknownRobot);
}

TEST(LiveEdges, WhatIsRefusedIsCountedAndChangesNothing) {
  LiveStream action = scalar({0, 20}, "action");
  LiveAligner aligner({scalar({0}), action}, {});
  const float row[2] = {1, 2};
  EXPECT_EQ(aligner.push(0, 0, row, 8), LiveStatus::kWrongSize);
  EXPECT_EQ(aligner.push(0, 0, row, 0), LiveStatus::kWrongSize);
  EXPECT_EQ(aligner.stats(0).refused, 2);
  EXPECT_EQ(aligner.push(1, 0, row, 4), LiveStatus::kTakesNoRows);
  EXPECT_EQ(aligner.push(2, 0, row, 4), LiveStatus::kUnknownStream);
  EXPECT_EQ(aligner.push(-1, 0, row, 4), LiveStatus::kUnknownStream);
  EXPECT_EQ(aligner.push(0, 0, row, 4, 1), LiveStatus::kUnknownRobot);
  EXPECT_EQ(aligner.push(0, 0, nullptr, 4), LiveStatus::kBadPointer);
  EXPECT_EQ(aligner.misdirected(), 5);
  Bytes out(aligner.output_bytes() + 1);
  EXPECT_EQ(aligner.query(LiveNow::at(0), nullptr), LiveStatus::kBadPointer);
  EXPECT_EQ(aligner.query(LiveNow::at(0), out.data() + 1), LiveStatus::kBadPointer);
  EXPECT_EQ(aligner.query(LiveNow::each(nullptr), out.data()), LiveStatus::kBadPointer);
  EXPECT_EQ(aligner.query(LiveNow::newest_of(1), out.data()), LiveStatus::kTakesNoRows);
  EXPECT_EQ(aligner.query_on_cuda(LiveNow::at(0), out.data(), nullptr), LiveStatus::kNoDevice);
  EXPECT_EQ(aligner.wait_on_cuda(), LiveStatus::kNoDevice);
  EXPECT_EQ(aligner.stats(0).pushed, 0);
  EXPECT_EQ(aligner.stats(7, 7).pushed, 0);
  EXPECT_EQ(aligner.now_ns(), 0);
  EXPECT_STREQ(name_of(LiveStatus::kTakesNoRows), "TakesNoRows");
}

TEST(LiveEdges, TypedRowsAreChecked) {
  std::vector<LiveStream> streams;
  const auto add = [&](const char* name, DataType dtype) {
    LiveStream& stream = streams.emplace_back(scalar({0}, name));
    stream.shape = {2};
    stream.dtype = stream.out_dtype = dtype;
    stream.method = Method::kPrevious;
  };
  add("float32", DataType::kFloat32);
  add("float64", DataType::kFloat64);
  add("uint8", DataType::kUInt8);
  add("bool", DataType::kBool);
  add("int64", DataType::kInt64);
  add("bfloat16", DataType::kBFloat16);
  add("int16", DataType::kInt16);
  LiveAligner aligner(streams, {});
  const float floats[] = {1, 2, 3};
  const double doubles[] = {3, 4};
  const std::uint8_t bytes[] = {5, 6};
  const bool flags[] = {true, false};
  const std::int64_t counts[] = {7, 8};
  const std::uint16_t bits[] = {0x3fc0, 0xc020};
  const std::int16_t shorts[] = {-9, 10};
  EXPECT_EQ(aligner.push<float>(0, 0, floats, 2), LiveStatus::kOk);
  EXPECT_EQ(aligner.push<double>(1, 0, doubles, 2), LiveStatus::kOk);
  EXPECT_EQ(aligner.push<std::uint8_t>(2, 0, bytes, 2), LiveStatus::kOk);
  EXPECT_EQ(aligner.push<bool>(3, 0, flags, 2), LiveStatus::kOk);
  EXPECT_EQ(aligner.push<std::int64_t>(4, 0, counts, 2), LiveStatus::kOk);
  EXPECT_EQ(aligner.push<std::uint16_t>(5, 0, bits, 2), LiveStatus::kOk);
  EXPECT_EQ(aligner.push<std::int16_t>(6, 0, shorts, 2), LiveStatus::kOk);
  EXPECT_EQ(Seen::of(aligner, LiveNow::at(0), "float32").values, (Values{1, 2}));

  // A float64 row of one element has the bytes of a float32 row of two.
  EXPECT_EQ(aligner.push<double>(0, 0, doubles, 1), LiveStatus::kWrongType);
  EXPECT_EQ(aligner.push<float>(0, 0, floats, 3), LiveStatus::kWrongSize);
  EXPECT_EQ(aligner.push<float>(0, 0, floats, 2 * sizeof(float)), LiveStatus::kWrongSize);
  EXPECT_EQ(aligner.push<float>(0, 0, floats, SIZE_MAX / 4 + 3), LiveStatus::kWrongSize);
  EXPECT_EQ(aligner.stats(0).refused, 4);
  EXPECT_EQ(aligner.push<std::int16_t>(5, 0, shorts, 2), LiveStatus::kWrongType);
  EXPECT_EQ(aligner.push<std::uint16_t>(6, 0, bits, 2), LiveStatus::kWrongType);
  EXPECT_EQ(aligner.push<std::uint64_t>(4, 0, nullptr, 2), LiveStatus::kBadPointer);
  EXPECT_EQ(aligner.push<float>(7, 0, floats, 2), LiveStatus::kUnknownStream);
  EXPECT_EQ(aligner.push<float>(0, 0, floats, 2, 1), LiveStatus::kUnknownRobot);
  EXPECT_EQ(aligner.misdirected(), 3);
  EXPECT_EQ(aligner.stats(0).pushed, 1);
  EXPECT_STREQ(name_of(LiveStatus::kWrongType), "WrongType");
}

TEST(LiveEdges, OutputsAreLaidOutAsTheLoaderHasThem) {
  LiveStream joints = scalar({-1, 0}, "joints");
  joints.shape = {7};
  LiveStream camera = scalar({0}, "camera");
  camera.dtype = DataType::kUInt8;
  camera.shape = {4, 6, 3};
  camera.channels_first = true;
  camera.out_dtype = DataType::kFloat16;
  camera.has_axis = false;
  LiveOptions options;
  options.robots = 2;
  options.concat = {{"obs", {"force", "joints"}}};
  LiveAligner aligner({camera, joints, scalar({-1, 0}), scalar({5}, "action")}, options);
  std::vector<std::string> keys;
  for (const LiveArray& array : aligner.outputs()) {
    keys.push_back(array.key);
    EXPECT_EQ(array.offset % 64, 0);
  }
  EXPECT_EQ(keys,
            (std::vector<std::string>{"camera", "obs", "camera_is_pad", "joints_is_pad",
                                      "force_is_pad", "camera_age", "joints_age", "force_age"}));
  EXPECT_EQ(aligner.outputs()[0].shape, (std::vector<std::int64_t>{2, 3, 4, 6}));
  EXPECT_EQ(aligner.outputs()[0].dtype, DataType::kFloat16);
  EXPECT_EQ(aligner.outputs()[1].shape, (std::vector<std::int64_t>{2, 2, 8}));
  EXPECT_EQ(aligner.outputs()[2].shape, (std::vector<std::int64_t>{2}));
  EXPECT_EQ(aligner.outputs()[3].shape, (std::vector<std::int64_t>{2, 2}));
  ASSERT_NE(aligner.find_output("obs"), nullptr);
  EXPECT_EQ(aligner.find_output("obs"), &aligner.outputs()[1]);
  EXPECT_EQ(aligner.find_output("force_age"), &aligner.outputs()[7]);
  EXPECT_EQ(aligner.find_output("joints"), nullptr);  // a part of obs
  EXPECT_EQ(aligner.find_output("action"), nullptr);  // predicted by a policy
  EXPECT_EQ(aligner.find_stream("action"), 3);
  EXPECT_EQ(aligner.find_stream("obs"), std::nullopt);
  EXPECT_EQ(aligner.streams()[3].buffer_rows, 0);
}

TEST(LiveEdges, UndoTakesBackScaleAndReference) {
  LiveStream state = scalar({-1, 0}, "state");
  state.shape = {3};
  LiveStream action = scalar({0, 20}, "action");
  action.shape = {3};
  action.layout = {{Method::kLinear, 2}, {Method::kAngle, 1}};
  action.subtract = {1, 2, 0};
  action.multiply = {2, 0, 0.5};
  action.relative_to = "state";
  action.reference_columns = {2, -1, 0};
  LiveOptions options;
  options.robots = 2;
  LiveAligner aligner({state, action}, options);
  const double given[2 * 3] = {4, 9, 0.5, 0, 9, -1};  // one row a robot
  double out[6] = {};
  EXPECT_EQ(aligner.undo({}, aligner.keys()[1], given, 1, out), LiveStatus::kNoQuery);
  const float rows[2][3] = {{3, 5, 7}, {-3, 5, 8}};
  for (const std::int64_t robot : {0, 1}) {
    ASSERT_EQ(aligner.push(0, 5 * kMs, rows[robot], 12, robot), LiveStatus::kOk);
  }
  Bytes query(aligner.output_bytes());
  LiveResult made = aligner.query(LiveNow::at(5 * kMs), query.data());
  ASSERT_EQ(made, LiveStatus::kOk);
  EXPECT_EQ(aligner.undo(made.ticket, aligner.keys()[1], given, 1, out), LiveStatus::kOk);
  const double pi = std::acos(-1.0);
  const double expected[6] = {4 / 2.0 + 1 + 7, 2, 3 + 1 - 2 * pi, 0 + 1 + 8, 2, -3 - 2 + 2 * pi};
  for (int i = 0; i < 6; ++i) EXPECT_NEAR(out[i], expected[i], 1e-12) << i;
  float narrow[6] = {4, 9, 0.5, 0, 9, -1};
  EXPECT_EQ(aligner.undo(made.ticket, aligner.keys()[1], narrow, 1, narrow),
            LiveStatus::kOk);  // in place
  for (int i = 0; i < 6; ++i) EXPECT_EQ(narrow[i], static_cast<float>(out[i])) << i;
  // A reference without rows is 0, and is told.
  ASSERT_EQ(aligner.reset(1), LiveStatus::kOk);
  made = aligner.query(LiveNow::at(5 * kMs), query.data());
  ASSERT_EQ(made, LiveStatus::kNoRows);
  EXPECT_EQ(aligner.undo(made.ticket, aligner.keys()[1], given, 1, out), LiveStatus::kNoRows);
  EXPECT_EQ(out[3], 1);
  EXPECT_EQ(aligner.undo(made.ticket, aligner.keys()[1], given, -1, out), LiveStatus::kWrongSize);
  EXPECT_EQ(aligner.undo(made.ticket, aligner.keys()[1], given, 0, out), LiveStatus::kNoRows);
  EXPECT_EQ(aligner.undo(made.ticket, LiveKey{}, given, 1, out), LiveStatus::kUnknownKey);
}

TEST(LiveEdges, UndoOfAStreamThatIsNotRelativeNeedsNoQuery) {
  LiveStream action = scalar({0, 20}, "action");
  action.multiply = {0.25};
  LiveStream flag = scalar({0}, "flag");
  flag.dtype = flag.out_dtype = DataType::kInt64;
  flag.method = Method::kPrevious;
  LiveAligner aligner({action, flag}, {});
  const float given[3] = {1, 2, 3};
  float out[3] = {};
  EXPECT_EQ(aligner.undo({}, aligner.keys()[0], given, 3, out), LiveStatus::kOk);
  EXPECT_EQ(out[2], 12);
  EXPECT_EQ(aligner.undo({}, aligner.keys()[1], given, 3, out), LiveStatus::kNotInvertible);
  EXPECT_EQ(aligner.undo({}, aligner.keys()[0], given, 1, static_cast<float*>(nullptr)),
            LiveStatus::kBadPointer);
}

}  // namespace
}  // namespace robocache::testing
