// Rows of streams by rows that do not come at the rate of training.
#include <gtest/gtest.h>

#include <cstdint>

#include "live/scalars.h"

namespace robocache::testing {
namespace {

/// A number at 50 Hz, seen one row back.
LiveStream by_rows(double nominal_rate = 50) {
  LiveStream stream = scalar({0});
  stream.timeline = Timeline::kRows;
  stream.offsets = {-1, 0};
  stream.rate = 50;
  stream.nominal_rate = nominal_rate;
  return stream;
}

void push_at(LiveAligner& aligner, std::int64_t time_ns) {
  const float value = 1;
  EXPECT_EQ(aligner.push(0, time_ns, &value, sizeof value), LiveStatus::kOk);
}

/// The status after `rows` rows, one every `period_ns`.
LiveStatus status_of(LiveAligner& aligner, std::int64_t period_ns, int rows = 40,
                     std::int64_t first_ns = 0) {
  for (int i = 0; i < rows; ++i) push_at(aligner, first_ns + i * period_ns);
  return Seen::of(aligner, LiveNow::at(first_ns + (rows - 1) * period_ns)).status;
}

LiveStatus status_of(const LiveStream& stream, std::int64_t period_ns, int rows = 40) {
  LiveAligner aligner({stream}, {});
  return status_of(aligner, period_ns, rows);
}

TEST(LiveRate, RowsAtAnotherRateThanTheNominalOneAreReported) {
  EXPECT_EQ(status_of(by_rows(), 20 * kMs), LiveStatus::kOk);
  EXPECT_EQ(status_of(by_rows(), 10 * kMs), LiveStatus::kWrongRate);
  EXPECT_EQ(status_of(by_rows(), 40 * kMs), LiveStatus::kWrongRate);
  EXPECT_EQ(status_of(by_rows(), 0), LiveStatus::kWrongRate);  // stamps that stand still
  // 15% are allowed: 43.5 and 57.4 Hz are nominal.
  EXPECT_EQ(status_of(by_rows(), 22'999'999), LiveStatus::kOk);
  EXPECT_EQ(status_of(by_rows(), 23'000'001), LiveStatus::kWrongRate);
  EXPECT_EQ(status_of(by_rows(), 17'391'305), LiveStatus::kOk);
  EXPECT_EQ(status_of(by_rows(), 17'391'304), LiveStatus::kWrongRate);
}

TEST(LiveRate, StreamsByTimeAndWithoutANominalRateHaveNone) {
  EXPECT_EQ(status_of(by_rows(0), 10 * kMs), LiveStatus::kOk);
  LiveStream by_time = scalar({-20, 0});
  by_time.nominal_rate = 50;
  EXPECT_EQ(status_of(by_time, 10 * kMs), LiveStatus::kOk);
}

TEST(LiveRate, NineRowsAreTheFewest) {
  EXPECT_EQ(status_of(by_rows(), 10 * kMs, 8), LiveStatus::kOk);
  EXPECT_EQ(status_of(by_rows(), 10 * kMs, 9), LiveStatus::kWrongRate);
  LiveStream small = by_rows();
  small.buffer_rows = 8;
  EXPECT_EQ(status_of(small, 10 * kMs), LiveStatus::kOk);
  // A window of more rows than 33 is measured as a whole.
  LiveStream wide = by_rows();
  wide.offsets = {-99, 0};
  wide.ring_rows = 100;
  LiveAligner aligner({wide}, {});
  EXPECT_EQ(status_of(aligner, 20 * kMs, 60), LiveStatus::kOk);
  EXPECT_EQ(status_of(aligner, 10 * kMs, 40, 1200 * kMs), LiveStatus::kWrongRate);
  EXPECT_EQ(aligner.stats(0).period_ns, (59 * 20 + 20 + 39 * 10) * kMs / 99);
}

TEST(LiveRate, AMissingRowAndJitterAreNotReported) {
  LiveAligner aligner({by_rows()}, {});
  for (const int row : {0, 1, 2, 4, 5, 6, 7, 8, 9}) push_at(aligner, row * 20 * kMs);
  EXPECT_EQ(Seen::of(aligner, LiveNow::at(180 * kMs)).status, LiveStatus::kOk);
  aligner.reset();
  for (int row = 0; row < 9; ++row) {
    push_at(aligner, row * 20 * kMs + (row == 0 ? -6 : row == 8 ? 6 : 0) * kMs);
    const LiveStatus status = Seen::of(aligner, LiveNow::at(row * 20 * kMs + 6 * kMs)).status;
    EXPECT_EQ(status, LiveStatus::kOk) << row;
  }
}

TEST(LiveRate, CountersHaveThePeriodAndTheQueries) {
  LiveStream deep = by_rows();
  deep.buffer_rows = 200;
  LiveAligner aligner({deep}, {});
  EXPECT_EQ(aligner.stats(0).period_ns, -1);
  EXPECT_EQ(status_of(aligner, 10 * kMs), LiveStatus::kWrongRate);
  EXPECT_EQ(aligner.stats(0).period_ns, 10 * kMs);
  EXPECT_EQ(aligner.status(0), LiveStatus::kWrongRate);
  EXPECT_EQ(Seen::of(aligner, LiveNow::at(390 * kMs)).status, LiveStatus::kWrongRate);
  EXPECT_EQ(aligner.stats(0).wrong_rate, 2);
  // The driver is set right: after 33 rows none of the others is measured.
  EXPECT_EQ(status_of(aligner, 20 * kMs, 33, 400 * kMs), LiveStatus::kOk);
  EXPECT_EQ(aligner.stats(0).period_ns, 20 * kMs);
  EXPECT_EQ(aligner.stats(0).wrong_rate, 2);
  aligner.reset();
  EXPECT_EQ(status_of(aligner, 10 * kMs, 8, 2000 * kMs), LiveStatus::kOk);
  EXPECT_EQ(aligner.stats(0).period_ns, -1);
}

TEST(LiveRate, RowsBeforeALossAreNotMeasured) {
  LiveStream stream = by_rows();
  stream.ring_rows = 10;
  LiveAligner aligner({stream}, {});
  EXPECT_EQ(status_of(aligner, 20 * kMs, 10), LiveStatus::kOk);
  EXPECT_EQ(status_of(aligner, 20 * kMs, 30, 200 * kMs), LiveStatus::kOk);  // 20 were overwritten
  EXPECT_GT(aligner.stats(0).overwritten, 0);
  EXPECT_EQ(aligner.stats(0).period_ns, 20 * kMs);
}

TEST(LiveRate, StampsMayBeAnyNumbers) {
  LiveAligner aligner({by_rows()}, {});
  for (int row = 0; row < 10; ++row) push_at(aligner, row < 5 ? INT64_MIN : INT64_MAX);
  EXPECT_EQ(aligner.stats(0).wrong_rate, 0);
  EXPECT_NE(Seen::of(aligner, LiveNow::at(INT64_MAX)).status, LiveStatus::kOk);
  EXPECT_EQ(aligner.stats(0).wrong_rate, 1);
}

}  // namespace
}  // namespace robocache::testing
