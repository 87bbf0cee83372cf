// Alignment against the sequential reference, on every engine: random shapes, strides, types and
// options. A failure names its seed; `random_problem(seed, wanted)` makes the same problem again.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "align/engine_test.h"
#include "align/problem.h"
#include "align/random_problem.h"
#include "support/check.h"

namespace robocache::testing {
namespace {

class Align : public EngineTest {
 protected:
  std::uint64_t seed = 0;

  /// So many problems of a kind; stops at the first that goes wrong.
  void check(const Wanted& wanted, std::uint64_t count) {
    for (const std::uint64_t end = seed + count; seed < end && !HasFailure(); ++seed) {
      Problem problem = random_problem(seed, wanted);
      const std::string wrong = check_alignment(engine(), problem);
      EXPECT_EQ(wrong, "") << "seed " << seed;
    }
  }
};

TEST_P(Align, AnyProblem) { check({}, 400); }

TEST_P(Align, RaggedSources) {
  seed = 10'000;
  Wanted wanted;
  wanted.is_ragged = true;
  check(wanted, 100);
}

TEST_P(Align, EveryPairOfValueTypes) {
  seed = 20'000;
  for (const DataType value_type : kValueTypes) {
    for (const DataType out_type : kValueTypes) {
      for (const bool is_vectorized : {false, true}) {
        Wanted wanted;
        wanted.value_type = value_type;
        wanted.out_type = out_type;
        wanted.is_vectorized = is_vectorized;
        check(wanted, 4);
      }
    }
  }
}

TEST_P(Align, EveryMethodByTimeTypeAndPrecision) {
  seed = 30'000;
  for (const Method method : kMethods) {
    for (const DataType time_type : kTimeTypes) {
      for (const DataType value_type : {DataType::kFloat32, DataType::kFloat64}) {
        Wanted wanted;
        wanted.method = method;
        wanted.time_type = time_type;
        wanted.value_type = value_type;
        wanted.out_type = value_type;
        check(wanted, 6);
      }
    }
  }
}

/// One stream of float32 values and its targets, both [.,1] or [.].
Problem small_problem(DataType time_type, std::initializer_list<double> values,
                      std::int64_t targets) {
  Problem problem;
  StreamData data;
  const auto rows = static_cast<std::int64_t>(values.size());
  data.values = Tensor(DataType::kFloat32, {rows, 1}, values);
  data.times = Tensor(time_type, {rows});
  problem.streams.push_back(data);
  problem.target_times = Tensor(time_type, {targets});
  problem.values_out = Tensor(DataType::kFloat32, {targets, 1});
  problem.valid_out = Tensor(DataType::kBool, {targets, 1});
  return problem;
}

TEST_P(Align, UnixNanosecondsLoseNothing) {
  constexpr std::int64_t kNow = 1'700'000'000'000'000'000;
  Problem problem = small_problem(DataType::kInt64, {0, 8}, 9);
  for (const std::int64_t row : {0, 1}) problem.streams[0].times.set_int(row, kNow + row * 8);
  for (std::int64_t i = 0; i < 9; ++i) problem.target_times.set_int(i, kNow + i);
  ASSERT_EQ(check_alignment(engine(), problem), "");
  for (std::int64_t i = 0; i < 9; ++i) EXPECT_EQ(problem.values_out.get(i), static_cast<double>(i));
}

TEST_P(Align, TheWholeRangeOfIntegerTimes) {
  constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kHighest = std::numeric_limits<std::int64_t>::max();
  Problem problem = small_problem(DataType::kInt64, {0, 1}, 5);
  problem.streams[0].times.set_int(0, kLowest);
  problem.streams[0].times.set_int(1, kHighest);
  const std::int64_t targets[] = {kLowest, kLowest / 2, 0, kHighest / 2, kHighest};
  for (std::int64_t i = 0; i < 5; ++i) problem.target_times.set_int(i, targets[i]);
  ASSERT_EQ(check_alignment(engine(), problem), "");
  const double expected[] = {0, 0.25, 0.5, 0.75, 1};
  for (std::int64_t i = 0; i < 5; ++i) EXPECT_FLOAT_EQ(problem.values_out.get(i), expected[i]);
  problem.streams[0].max_gap = Duration::nanoseconds(kHighest);
  ASSERT_EQ(check_alignment(engine(), problem), "");
  EXPECT_EQ(problem.valid_out.get(2), 0) << "the gap is twice the longest duration";
}

TEST_P(Align, InfiniteTimesAreEqualToThemselves) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const DataType time_type : {DataType::kFloat32, DataType::kFloat64}) {
    Problem problem = small_problem(time_type, {1, 2, 3}, 3);
    problem.streams[0].times = Tensor(time_type, {3}, {-kInfinity, 0, kInfinity});
    problem.target_times = Tensor(time_type, {3}, {-kInfinity, 0, kInfinity});
    problem.options.outside = Outside::kZero;
    ASSERT_EQ(check_alignment(engine(), problem), "");
    for (std::int64_t i = 0; i < 3; ++i) EXPECT_EQ(problem.valid_out.get(i), 1);
  }
}

// Half of a window that is odd is rounded down; of floating times it is not.
TEST_P(Align, BothEndsOfAMeanWindowCount) {
  for (const DataType time_type : kTimeTypes) {
    Problem problem = small_problem(time_type, {1, 2, 4, 8, 16}, 1);
    StreamData& data = problem.streams[0];
    data.method = Method::kMean;
    const bool is_integer = time_type == DataType::kInt64;
    for (std::int64_t row = 0; row < 5; ++row) {
      if (is_integer) {
        data.times.set_int(row, 2 * row);
      } else {
        data.times.set(row, static_cast<double>(row) / 2);
      }
    }
    if (is_integer) {
      problem.target_times.set_int(0, 4);
    } else {
      problem.target_times.set(0, 1);
    }
    data.mean_window = is_integer ? Duration::nanoseconds(5) : Duration::seconds(1);
    ASSERT_EQ(check_alignment(engine(), problem), "");
    EXPECT_FLOAT_EQ(static_cast<float>(problem.values_out.get(0)), 14.0F / 3);
    data.mean_window = is_integer ? Duration::nanoseconds(3) : Duration::seconds(0.999);
    ASSERT_EQ(check_alignment(engine(), problem), "");
    EXPECT_EQ(problem.values_out.get(0), 4);
  }
}

// Targets that descend are an error of the CPU backend; elsewhere nobody looks, and such a target
// has no rows of its own.
TEST_P(Align, ASumBetweenDescendingTargetsIsZero) {
  if (engine().name() == "cpu") return;
  Problem problem = small_problem(DataType::kInt64, {1, 2, 4, 8, 16}, 5);
  StreamData& data = problem.streams[0];
  data.method = Method::kSum;
  for (std::int64_t row = 0; row < 5; ++row) data.times.set_int(row, row);
  const std::int64_t targets[] = {2, 1, 3, 3, 0};
  for (std::int64_t i = 0; i < 5; ++i) problem.target_times.set_int(i, targets[i]);
  ASSERT_EQ(check_alignment(engine(), problem), "");
  const double expected[] = {7, 0, 12, 0, 0};
  for (std::int64_t i = 0; i < 5; ++i) EXPECT_EQ(problem.values_out.get(i), expected[i]);
  data.valid = Tensor(DataType::kBool, {5}, {1, 1, 1, 1, 1});
  ASSERT_EQ(check_alignment(engine(), problem), "");
  EXPECT_EQ(problem.valid_out.get(1), 1) << "no row, no fault";
}

// More channels than one stretch of CUDA's grid has: its blocks come round again.
TEST_P(Align, VeryWideRows) {
  constexpr std::int64_t kChannels = 128 * 65535 + 129;
  Problem problem = small_problem(DataType::kInt64, {0, 0}, 2);
  StreamData& data = problem.streams[0];
  data.method = Method::kPrevious;
  data.values = Tensor(DataType::kUInt8, {2, kChannels});
  for (std::int64_t i = 0; i < data.values.size(); ++i) {
    data.values.set(i, static_cast<double>(i * 7 % 251));
  }
  data.times.set_int(1, 10);
  problem.target_times.set_int(0, 3);
  problem.target_times.set_int(1, 12);
  problem.values_out = Tensor(DataType::kUInt8, {2, kChannels});
  engine().align(problem.views(), problem.target_times.view(), problem.options,
                 problem.values_out.view(), problem.valid_out.view());
  EXPECT_TRUE(problem.values_out.bytes() == data.values.bytes());
}

INSTANTIATE_ENGINES(Align);

}  // namespace
}  // namespace robocache::testing
