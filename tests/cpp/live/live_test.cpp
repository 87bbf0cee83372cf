// The LiveAligner against the loader on a recording of the same rows, bit for bit, and every count
// of what went wrong on the way. A failure names its seed; `random_live_problem(seed)` makes the
// same problem again.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "live/reference.h"

namespace robocache::testing {
namespace {

/// Pushes and asks as a problem says; what differs, and at which query.
std::string replay(const LiveProblem& problem) {
  LiveAligner aligner(problem.streams, problem.options);
  LiveReference reference(aligner.streams(), aligner.options());
  std::size_t pushed = 0;
  for (std::size_t q = 0; q < problem.queries.size(); ++q) {
    const LiveQuery& query = problem.queries[q];
    for (; pushed < query.rows; ++pushed) {
      const LiveRow& row = problem.rows[pushed];
      const LiveStatus status = aligner.push(row.stream, row.time_ns, row.values.data(),
                                             row.values.size(), row.robot, row.is_valid);
      if (status != LiveStatus::kOk) return std::string("push: ") + name_of(status);
      reference.push(row);
    }
    const Bytes expected = reference.query(aligner, query.now_ns);
    const Bytes got = answer(aligner, LiveNow::each(query.now_ns.data()));
    const std::string where = " at query " + std::to_string(q);
    const std::string difference = difference_of(aligner, got, expected);
    if (!difference.empty()) return difference + where;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(problem.streams.size()); ++i) {
      for (std::int64_t r = 0; r < problem.options.robots; ++r) {
        const std::string counts = difference_of(aligner.stats(i, r), reference.stats(i, r));
        if (!counts.empty()) return counts + "of stream " + std::to_string(i) + where;
        const LiveStatus status = aligner.status(i, r);
        if (status == reference.status(i, r)) continue;
        return name_of(status) + (" of stream " + std::to_string(i)) + where + ", expected " +
               name_of(reference.status(i, r));
      }
    }
  }
  return "";
}

void check(std::uint64_t first_seed, std::uint64_t count, const LiveWanted& wanted) {
  for (std::uint64_t seed = first_seed; seed < first_seed + count; ++seed) {
    const LiveProblem problem = random_live_problem(seed, wanted);
    try {
      EXPECT_EQ(replay(problem), "") << "seed " << seed << problem.text();
    } catch (const std::exception& error) {
      ADD_FAILURE() << "seed " << seed << " threw " << error.what() << problem.text();
    }
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(Live, AnyProblem) { check(0, 120, {}); }

TEST(Live, RelativeWindows) {
  LiveWanted wanted;
  wanted.is_relative = true;
  check(5'000, 60, wanted);
}

TEST(Live, Images) {
  LiveWanted wanted;
  wanted.is_image = true;
  check(10'000, 30, wanted);
}

}  // namespace
}  // namespace robocache::testing
