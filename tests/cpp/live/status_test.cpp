// Statuses of queries: rows that rare queries lose, streams without rows, stale ones, and clocks.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "live/scalars.h"

namespace robocache::testing {
namespace {

TEST(LiveStatuses, AFullRingOverwritesTheOldestRow) {
  LiveStream stream = scalar({-1, 0});
  stream.ring_rows = 3;
  LiveAligner aligner({stream}, {});
  for (int ms = 0; ms < 8; ++ms) push(aligner, ms, static_cast<float>(ms));
  EXPECT_EQ(aligner.stats(0).overwritten, 5);
  const Seen seen = Seen::of(aligner, LiveNow::at(7 * kMs));
  EXPECT_EQ(seen.values, (Values{6, 7}));
  EXPECT_EQ(seen.status, LiveStatus::kOk);  // what is lost lies before the window
  EXPECT_EQ(aligner.stats(0).pushed, 8);
  EXPECT_EQ(aligner.stats(0).taken, 3);
  EXPECT_EQ(aligner.stats(0).short_windows, 0);
}

/// A policy that predicts chunks: one query a second, joints at 1 kHz, a window of 20 ms.
TEST(LiveStatuses, APolicyThatAsksRarelySeesTheNewestRows) {
  LiveAligner aligner({scalar({-20, -10, 0})}, {});
  for (int ms = 0; ms <= 5000; ++ms) {
    push(aligner, ms, static_cast<float>(ms));
    if (ms % 1000 != 0 || ms == 0) continue;
    const Seen seen = Seen::of(aligner, LiveNow::at(ms * kMs));
    const auto newest = static_cast<float>(ms);
    EXPECT_EQ(seen.values, (Values{newest - 20, newest - 10, newest}));
    EXPECT_EQ(seen.age, (Ages{0, 0, 0}));
    EXPECT_EQ(seen.status, LiveStatus::kOk);
  }
  EXPECT_EQ(aligner.stats(0).short_windows, 0);
}

TEST(LiveStatuses, AWindowThatReachesIntoOverwrittenRowsSaysSo) {
  LiveStream stream = scalar({-6, 0});
  stream.ring_rows = 4;
  LiveAligner aligner({stream}, {});
  int ms = 0;
  const auto push_until = [&](int end) {
    for (; ms < end; ++ms) push(aligner, ms, static_cast<float>(ms));
    return Seen::of(aligner, LiveNow::at((end - 1) * kMs)).status;
  };
  EXPECT_EQ(push_until(4), LiveStatus::kOk);
  EXPECT_EQ(push_until(8), LiveStatus::kOk);
  EXPECT_EQ(push_until(13), LiveStatus::kRowsLost);  // row 8 is gone; the window begins at 6
  EXPECT_EQ(aligner.status(0), LiveStatus::kRowsLost);
  EXPECT_EQ(push_until(15), LiveStatus::kRowsLost);  // at 8
  EXPECT_EQ(push_until(16), LiveStatus::kOk);        // at 9, the first row after the gap
  EXPECT_EQ(aligner.stats(0).short_windows, 2);
  EXPECT_EQ(aligner.stats(0).overwritten, 1);
}

TEST(LiveStatuses, ByRowTheRowsAfterTheGapCount) {
  LiveStream stream = scalar({});
  stream.timeline = Timeline::kRows;
  stream.offsets = {-2, 0};
  stream.ring_rows = 2;
  LiveAligner aligner({stream}, {});
  for (int ms = 0; ms < 5; ++ms) push(aligner, ms, 1);
  EXPECT_EQ(Seen::of(aligner, LiveNow::at(4 * kMs)).status, LiveStatus::kRowsLost);
  push(aligner, 5, 1);
  EXPECT_EQ(Seen::of(aligner, LiveNow::at(4 * kMs)).status, LiveStatus::kRowsLost);
  EXPECT_EQ(Seen::of(aligner, LiveNow::at(5 * kMs)).status, LiveStatus::kOk);
}

TEST(LiveStatuses, ATooLateRowAndOneWithoutRoomAreLost) {
  LiveStream stream = scalar({-2, 0});
  stream.buffer_rows = 3;
  LiveAligner aligner({stream}, {});
  for (const int ms : {5, 6, 7, 4}) push(aligner, ms, 1);  // the last finds a full buffer
  EXPECT_EQ(Seen::of(aligner, LiveNow::at(7 * kMs)).status, LiveStatus::kOk);
  EXPECT_EQ(Seen::of(aligner, LiveNow::at(6 * kMs)).status, LiveStatus::kRowsLost);
  aligner.reset();
  for (const int ms : {5, 6, 7, 8}) push(aligner, ms, 1);  // the window needs 5 to 7 at 7
  EXPECT_EQ(Seen::of(aligner, LiveNow::at(7 * kMs)).status, LiveStatus::kRowsLost);
  EXPECT_EQ(aligner.stats(0).future, 1);
}

TEST(LiveStatuses, TheRingFollowsTheSlowestQuery) {
  LiveStream wide = scalar({-1000, 0});
  LiveOptions options;
  const auto ring_rows = [&](std::int64_t query_every_ns) {
    options.query_every_ns = query_every_ns;
    return LiveAligner({wide}, options).streams()[0].ring_rows;
  };
  EXPECT_EQ(LiveAligner({wide}, {}).streams()[0].ring_rows, 1008);
  EXPECT_EQ(ring_rows(0), 8);
  EXPECT_EQ(ring_rows(20 * kMs), 28);
  EXPECT_EQ(ring_rows(3600'000 * kMs), 1502 + 250 + 8);  // as many as its buffer
  wide.rate = 0;
  wide.buffer_rows = 40;
  EXPECT_EQ(ring_rows(20 * kMs), 40);
}

TEST(LiveStatuses, StreamsWithoutRows) {
  LiveAligner aligner({scalar({0}), scalar({0}, "camera"), scalar({5}, "action")}, {});
  EXPECT_EQ(aligner.status(0), LiveStatus::kNoQuery);
  EXPECT_FALSE(aligner.ready());
  push(aligner, 1, 1);
  EXPECT_FALSE(aligner.ready());
  EXPECT_EQ(Seen::of(aligner, LiveNow::at(2 * kMs)).status, LiveStatus::kNoRows);
  EXPECT_EQ(aligner.status(0), LiveStatus::kOk);
  EXPECT_EQ(aligner.status(1), LiveStatus::kNoRows);
  push(aligner, 3, 1, 1);
  EXPECT_TRUE(aligner.ready());  // before a query takes the row, too
  EXPECT_EQ(Seen::of(aligner, LiveNow::at(2 * kMs)).status, LiveStatus::kNoRows);  // it is later
  EXPECT_EQ(Seen::of(aligner, LiveNow::at(3 * kMs)).status, LiveStatus::kOk);
  EXPECT_TRUE(aligner.ready());
  EXPECT_EQ(aligner.status(2), LiveStatus::kTakesNoRows);
  EXPECT_EQ(aligner.status(3), LiveStatus::kUnknownStream);
  EXPECT_EQ(aligner.status(0, 1), LiveStatus::kUnknownRobot);
  aligner.reset();
  EXPECT_FALSE(aligner.ready());
  EXPECT_EQ(aligner.status(0), LiveStatus::kNoQuery);
}

TEST(LiveStatuses, RobotsAreApart) {
  LiveOptions options;
  options.robots = 2;
  LiveAligner aligner({scalar({0})}, options);
  push(aligner, 1, 1, 0, 1);
  EXPECT_FALSE(aligner.ready());
  EXPECT_FALSE(aligner.ready(0));
  EXPECT_TRUE(aligner.ready(1));
  EXPECT_FALSE(aligner.ready(2));
  EXPECT_EQ(Seen::of(aligner, LiveNow::at(kMs)).status, LiveStatus::kNoRows);
  EXPECT_EQ(aligner.status(0, 0), LiveStatus::kNoRows);
  EXPECT_EQ(aligner.status(0, 1), LiveStatus::kOk);
  push(aligner, 1, 1);
  EXPECT_EQ(Seen::of(aligner, LiveNow::at(kMs)).status, LiveStatus::kOk);
  EXPECT_EQ(aligner.reset(1), LiveStatus::kOk);
  EXPECT_EQ(aligner.status(0, 0), LiveStatus::kOk);
  EXPECT_EQ(aligner.status(0, 1), LiveStatus::kNoQuery);
}

TEST(LiveStatuses, AStreamThatStopsIsStaleAfterItsLargestGap) {
  LiveStream stream = scalar({0});
  stream.latency_ns = 3 * kMs;
  LiveStream held = scalar({0}, "held");  // without a largest gap it is held for ever
  stream.max_gap_ns = 10 * kMs;
  LiveAligner aligner({stream, held}, {});
  for (const int number : {0, 1}) push(aligner, 5, 1, number);
  EXPECT_EQ(Seen::of(aligner, LiveNow::at(7 * kMs)).status, LiveStatus::kNoRows);  // latency
  EXPECT_EQ(Seen::of(aligner, LiveNow::at(15 * kMs)).status, LiveStatus::kOk);
  EXPECT_EQ(Seen::of(aligner, LiveNow::at(15 * kMs + 1)).status, LiveStatus::kStale);
  EXPECT_EQ(aligner.status(0), LiveStatus::kStale);
  EXPECT_EQ(aligner.status(1), LiveStatus::kOk);
}

TEST(LiveStatuses, StampsOfAnotherClock) {
  const std::int64_t epoch = 1'700'000'000'000;  // ms; the other clock counts from the start
  for (const bool is_ahead : {false, true}) {
    LiveAligner aligner({scalar({0}), scalar({0}, "camera")}, {});
    const std::int64_t now = is_ahead ? 0 : epoch;
    const std::int64_t stamp = is_ahead ? epoch : 0;
    push(aligner, now, 1, 1);
    push(aligner, stamp, 1);
    EXPECT_EQ(Seen::of(aligner, LiveNow::at(now * kMs)).status,
              is_ahead ? LiveStatus::kNoRows : LiveStatus::kOk);  // a single row may be an error
    push(aligner, stamp + 1, 1);
    EXPECT_EQ(Seen::of(aligner, LiveNow::at((now + 1) * kMs)).status, LiveStatus::kTwoClocks);
    EXPECT_EQ(Seen::of(aligner, LiveNow::at((now + 2) * kMs)).status, LiveStatus::kTwoClocks);
    EXPECT_EQ(aligner.status(0), LiveStatus::kTwoClocks);
    EXPECT_EQ(aligner.status(1), LiveStatus::kOk);
    push(aligner, now + 3, 1);  // the sensor's clock has been set
    EXPECT_EQ(Seen::of(aligner, LiveNow::at((now + 3) * kMs)).status, LiveStatus::kOk);
    aligner.reset();
    EXPECT_EQ(Seen::of(aligner, LiveNow::at(now * kMs)).status, LiveStatus::kNoRows);
  }
}

TEST(LiveStatuses, ClocksAreComparedWithTheStreamThatIsNow) {
  LiveAligner aligner({scalar({0}), scalar({0}, "camera")}, {});
  for (const int ms : {0, 1}) push(aligner, ms, 1);
  EXPECT_EQ(Seen::of(aligner, LiveNow::newest_of(1)).status, LiveStatus::kNoRows);
  push(aligner, 100'000, 1, 1);
  for (const int ms : {2, 3}) push(aligner, ms, 1);
  EXPECT_EQ(Seen::of(aligner, LiveNow::newest_of(1)).status, LiveStatus::kTwoClocks);
  EXPECT_EQ(aligner.status(0), LiveStatus::kTwoClocks);
  EXPECT_EQ(aligner.status(1), LiveStatus::kOk);
}

TEST(LiveStatuses, TheGravestIsReturned) {
  LiveStream stale = scalar({0}, "stale");
  stale.max_gap_ns = kMs;
  LiveStream lost = scalar({-3, 0}, "lost");
  lost.ring_rows = 1;
  LiveAligner aligner({stale, lost, scalar({0})}, {});
  push(aligner, 0, 1);
  for (const int ms : {17, 18, 19, 20}) push(aligner, ms, 1, 1);
  push(aligner, 20, 1, 2);
  EXPECT_EQ(Seen::of(aligner, LiveNow::at(20 * kMs)).status, LiveStatus::kStale);
  EXPECT_EQ(aligner.status(1), LiveStatus::kRowsLost);
  EXPECT_EQ(aligner.status(2), LiveStatus::kOk);
  EXPECT_TRUE(has_output(LiveStatus::kTwoClocks));
  EXPECT_FALSE(has_output(LiveStatus::kUnknownStream));
}

TEST(LiveStatuses, AStreamThatIsOnlyAReferenceHasOneToo) {
  LiveStream state = scalar({0, 20}, "state");  // reaches into the future
  LiveStream action = scalar({0, 20}, "action");
  action.relative_to = "state";
  action.reference_columns = {0};
  LiveAligner aligner({state, action}, {});
  EXPECT_EQ(Seen::of(aligner, LiveNow::at(0)).status, LiveStatus::kNoRows);
  EXPECT_EQ(aligner.status(1), LiveStatus::kTakesNoRows);
  push(aligner, 0, 1);
  EXPECT_TRUE(aligner.ready());
  EXPECT_EQ(Seen::of(aligner, LiveNow::at(0)).status, LiveStatus::kOk);
}

}  // namespace
}  // namespace robocache::testing
