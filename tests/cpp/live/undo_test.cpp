// Undo by tickets: an answer is relative to the query that it came from, however late it comes.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "live/scalars.h"
#include "support/error_of.h"

namespace robocache::testing {
namespace {

/// Numbers that a policy observes, and predicts relative to now.
std::vector<LiveStream> streams() {
  LiveStream action = scalar({0, 20}, "action");
  action.relative_to = "state";
  action.reference_columns = {0};
  return {scalar({-1, 0}, "state"), action};
}

struct Robots {
  LiveAligner aligner;
  std::vector<std::byte> out;

  explicit Robots(const LiveOptions& options = {}, std::vector<LiveStream> given = streams())
      : aligner(given, options), out(aligner.output_bytes()) {}

  void push(std::int64_t time_ms, float value, std::int64_t robot = 0, bool is_valid = true) {
    ASSERT_EQ(aligner.push<float>(0, time_ms * kMs, &value, 1, robot, is_valid), LiveStatus::kOk);
  }
  LiveTicket query(std::int64_t time_ms, LiveStatus status = LiveStatus::kOk) {
    const LiveResult made = aligner.query(LiveNow::at(time_ms * kMs), out.data());
    EXPECT_EQ(made, status);
    return made.ticket;
  }
  /// The action of 0 of each robot, as it is absolute; `status` is that of the call.
  std::vector<double> undo(const LiveTicket& ticket, LiveStatus expected) {
    const auto robots = static_cast<std::size_t>(aligner.options().robots);
    const std::vector<double> zeros(robots, 0);
    std::vector<double> absolute(robots, -1);
    EXPECT_EQ(aligner.undo(ticket, aligner.keys()[1], zeros.data(), 1, absolute.data()), expected)
        << "of query " << ticket.sequence;
    return absolute;
  }
};

using Actions = std::vector<double>;

TEST(LiveUndo, AnswersAreRelativeToTheirOwnQueries) {
  Robots robot;
  std::vector<LiveTicket> tickets;
  for (int i = 0; i < 5; ++i) {
    robot.push(10 * i, static_cast<float>(100 + i));
    tickets.push_back(robot.query(10 * i));
    EXPECT_EQ(tickets.back().now_ns, 10 * i * kMs);
  }
  for (const std::size_t i : {4U, 0U, 3U, 1U, 2U, 0U}) {
    EXPECT_EQ(robot.undo(tickets[i], LiveStatus::kOk), Actions{100.0 + static_cast<double>(i)})
        << i;
  }
}

TEST(LiveUndo, TheLastQueriesAreKept) {
  LiveOptions options;
  options.kept_queries = 3;
  Robots robot(options);
  std::vector<LiveTicket> tickets;
  for (int i = 0; i < 5; ++i) {
    robot.push(i, static_cast<float>(i));
    tickets.push_back(robot.query(i));
  }
  EXPECT_EQ(robot.undo(tickets[1], LiveStatus::kUnknownTicket), Actions{-1});  // nothing is written
  for (const std::size_t i : {2U, 3U, 4U}) {
    EXPECT_EQ(robot.undo(tickets[i], LiveStatus::kOk), Actions{static_cast<double>(i)});
  }
  EXPECT_EQ(Robots().aligner.options().kept_queries, 64);
  const auto refused = [](std::int64_t count) {
    LiveOptions wrong;
    wrong.kept_queries = count;
    return error_of([&] { Robots made(wrong); });
  };
  EXPECT_EQ(refused(0), "ValueError kept_queries: expected 1 to 65536, got 0");
  EXPECT_EQ(refused(65537), "ValueError kept_queries: expected 1 to 65536, got 65537");
}

TEST(LiveUndo, TicketsOfOthersAreRefused) {
  Robots left, right;
  left.push(0, 1);
  right.push(0, 2);
  const LiveTicket of_left = left.query(0), of_right = right.query(0);
  EXPECT_EQ(left.undo(of_left, LiveStatus::kOk), Actions{1});
  EXPECT_EQ(left.undo(of_right, LiveStatus::kUnknownTicket), Actions{-1});
  EXPECT_EQ(left.undo({}, LiveStatus::kNoQuery), Actions{-1});
  EXPECT_EQ(left.undo({-1, 0}, LiveStatus::kUnknownTicket), Actions{-1});
  // A query that writes nothing has no ticket.
  const LiveResult failed = left.aligner.query(LiveNow::at(0), nullptr);
  EXPECT_EQ(failed.status, LiveStatus::kBadPointer);
  EXPECT_EQ(failed.ticket.sequence, 0);
}

TEST(LiveUndo, AResetForgetsQueries) {
  LiveOptions options;
  options.robots = 2;
  Robots robots(options);
  for (const std::int64_t robot : {0, 1}) robots.push(0, static_cast<float>(5 + robot), robot);
  const LiveTicket before = robots.query(0);
  EXPECT_EQ(robots.undo(before, LiveStatus::kOk), (Actions{5, 6}));
  ASSERT_EQ(robots.aligner.reset(1), LiveStatus::kOk);
  EXPECT_EQ(robots.undo(before, LiveStatus::kUnknownTicket), (Actions{-1, -1}));
  robots.push(1, 7, 1);
  const LiveTicket after = robots.query(1);
  EXPECT_EQ(robots.undo(after, LiveStatus::kOk), (Actions{5, 7}));
  robots.aligner.reset();
  robots.undo(after, LiveStatus::kUnknownTicket);
}

TEST(LiveUndo, PaddedReferencesAreFlagged) {
  std::vector<LiveStream> given = streams();
  given[0].max_gap_ns = 5 * kMs;
  Robots robot({}, given);
  const LiveTicket empty = robot.query(0, LiveStatus::kNoRows);
  robot.push(10, 1);
  const LiveTicket fresh = robot.query(12);
  const LiveTicket held = robot.query(15);
  const LiveTicket stale = robot.query(16, LiveStatus::kStale);
  robot.push(20, 2, 0, false);
  const LiveTicket invalid = robot.query(20);
  robot.push(21, 3);
  const LiveTicket again = robot.query(21);
  EXPECT_EQ(robot.undo(empty, LiveStatus::kNoRows), Actions{0});
  EXPECT_EQ(robot.undo(fresh, LiveStatus::kOk), Actions{1});
  EXPECT_EQ(robot.undo(held, LiveStatus::kOk), Actions{1});
  EXPECT_EQ(robot.undo(stale, LiveStatus::kPadded), Actions{1});  // and written, as it is held
  EXPECT_EQ(robot.undo(invalid, LiveStatus::kPadded), Actions{2});
  EXPECT_EQ(robot.undo(again, LiveStatus::kOk), Actions{3});
}

TEST(LiveUndo, TransformsAreInvertedByTheirOwnQueries) {
  std::vector<LiveStream> given = streams();
  given[1].relative_to.clear();
  given[1].reference_columns.clear();
  for (LiveStream& stream : given) stream.shape = {1};
  given[0].max_gap_ns = 5 * kMs;
  LiveOptions options;
  options.transforms = {DeltaTransform{"action", "state", DeltaDirection::kToDelta, {}}};
  Robots robot(options, given);
  const LiveTicket empty = robot.query(0, LiveStatus::kNoRows);
  robot.push(10, 4);
  const LiveTicket first = robot.query(10);
  robot.push(11, 9);
  const LiveTicket second = robot.query(11);
  const LiveTicket stale = robot.query(17, LiveStatus::kStale);
  EXPECT_EQ(robot.undo(empty, LiveStatus::kNoRows), Actions{0});
  EXPECT_EQ(robot.undo(first, LiveStatus::kOk), Actions{4});
  EXPECT_EQ(robot.undo(second, LiveStatus::kOk), Actions{9});
  EXPECT_EQ(robot.undo(stale, LiveStatus::kPadded), Actions{9});
}

}  // namespace
}  // namespace robocache::testing
