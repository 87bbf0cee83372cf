// Errors about the contents of tensors, which the CPU validates: times out of order, lengths out of
// range.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "align/errors_call.h"

namespace robocache::testing {
namespace {

TEST(Errors, LengthsOutOfRange) {
  const auto expect_length_error = [](const std::string& expected, const Tensor& lengths) {
    expect_error(expected, [&](Call& call) { call.streams[0].lengths = lengths.view(); });
  };
  expect_length_error("ValueError lengths: expected 0 to S=3, got 4 at [1]",
                      Tensor(DataType::kInt64, {2}, {3, 4}));
  expect_length_error("ValueError lengths: expected 0 to S=3, got -1 at [0]",
                      Tensor(DataType::kInt32, {2}, {-1, 4}));
  expect_length_error("ValueError lengths: expected 0 to S=3, got 4 at []",
                      Tensor(DataType::kInt32, {}, {4}));
}

TEST(Errors, UnorderedTimes) {
  const auto expect_order_error = [](const std::string& expected, const Tensor& times) {
    const Tensor targets(times.type(), {2, 4});
    expect_error(expected, [&](Call& call) {
      call.set_time_type(times.type());
      call.streams[0].times = times.view();
      call.target_times = targets.view();
    });
  };
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  expect_order_error("ValueError times: expected ascending times, got 5 after 7 at [1,2]",
                     Tensor(DataType::kInt64, {2, 3}, {1, 2, 3, 7, 7, 5}));
  expect_order_error("ValueError times: expected ascending times, got 5 after 7 at [1]",
                     Tensor(DataType::kInt64, {3}, {7, 5, 3}));
  expect_order_error("ValueError times: expected ascending times, got 0.25 after 0.5 at [0,1]",
                     Tensor(DataType::kFloat32, {2, 3}, {0.5, 0.25, 1, 3, 2, 1}));
  expect_order_error("ValueError times: expected ascending times, got nan at [1,0]",
                     Tensor(DataType::kFloat64, {2, 3}, {1, 2, 3, kNan, 2, 3}));
  expect_order_error("ValueError times: expected ascending times, got nan at [2]",
                     Tensor(DataType::kFloat64, {3}, {1, 2, kNan}));
}

TEST(Errors, UnorderedTargetsOfASum) {
  const auto expect_target_error = [](const std::string& expected, const Tensor& targets) {
    const Tensor times(targets.type(), {3});
    expect_error(expected, [&](Call& call) {
      call.set_time_type(targets.type());
      call.streams[0].method = Method::kSum;
      call.streams[0].times = times.view();
      call.target_times = targets.view();
    });
  };
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const std::string start =
      "ValueError target_times: expected ascending times for method 'sum', got ";
  expect_target_error(start + "5 after 7 at [1,2]",
                      Tensor(DataType::kInt64, {2, 4}, {1, 2, 2, 9, 0, 7, 5, 8}));
  expect_target_error(start + "-1 after 3 at [3]", Tensor(DataType::kInt64, {4}, {1, 2, 3, -1}));
  expect_target_error(start + "0.25 after 0.5 at [0,3]",
                      Tensor(DataType::kFloat32, {2, 4}, {0, 0.5, kNan, 0.25, 3, 2, 1, 0}));
  expect_target_error(start + "-inf after 2 at [2]",
                      Tensor(DataType::kFloat64, {4}, {kNan, 2, -HUGE_VAL, kNan}));
}

TEST(Errors, TargetsThatMayComeInAnyOrder) {
  Call call;
  const Tensor descending(DataType::kInt64, {2, 4}, {3, 2, 1, 0, 3, 2, 1, 0});
  call.target_times = descending.view();
  EXPECT_EQ(error_of([&] { call.align(); }), "no error") << "no run is a sum";
  const Tensor equal(DataType::kInt64, {2, 4}, {1, 1, 1, 2, 0, 0, 3, 3});
  call.target_times = equal.view();
  call.streams[0].method = Method::kSum;
  EXPECT_EQ(error_of([&] { call.align(); }), "no error") << "equal ones ascend";
}

TEST(Errors, UnorderedTimesOfARaggedStreamAreCountedFromItsFirstRow) {
  const Tensor times(DataType::kInt64, {6}, {9, 1, 2, 8, 5, 7});
  const Tensor begins(DataType::kInt64, {2}, {1, 3});
  const Tensor lengths(DataType::kInt64, {2}, {3, 2});
  expect_error("ValueError times: expected ascending times, got 5 after 8 at [4]", [&](Call& call) {
    call.streams[0].values = any_view(DataType::kFloat32, {6, 2});
    call.streams[0].times = times.view();
    call.streams[0].begins = begins.view();
    call.streams[0].lengths = lengths.view();
  });
}

TEST(Errors, OfManyBatchRowsTheFirstUnorderedOneIsNamed) {
  constexpr std::int64_t kBatch = 64;
  constexpr std::int64_t kRows = 4096;
  Call call;
  const Tensor values(DataType::kUInt8, {kRows, 1});
  Tensor times(DataType::kInt64, {kBatch, kRows});
  for (std::int64_t i = 0; i < times.size(); ++i) times.set_int(i, i % kRows);
  for (const std::int64_t b : {21, 22, 50}) times.set_int(b * kRows + 4000 - b, -1);
  const Tensor targets(DataType::kInt64, {4});
  Tensor out(DataType::kUInt8, {kBatch, 4, 1});
  out.fill_bytes(kUntouched);
  call.streams[0].values = values.view();
  call.streams[0].times = times.view();
  call.target_times = targets.view();
  call.values_out = out.view();
  call.valid_out = {};
  call.age_out = {};
  EXPECT_EQ(error_of([&] { call.align(); }),
            "ValueError times: expected ascending times, got -1 after 3978 at [21,3979]");
  EXPECT_TRUE(out.is_untouched(kUntouched));
}

TEST(Errors, RowsPastAnEpisodesEndDoNotExist) {
  Call call;
  const Tensor times(DataType::kInt64, {2, 3}, {1, 2, 0, 7, 5, 5});
  const Tensor lengths(DataType::kInt64, {2}, {2, 1});
  call.streams[0].times = times.view();
  call.streams[0].lengths = lengths.view();
  EXPECT_EQ(error_of([&] { call.align(); }), "no error");
}

}  // namespace
}  // namespace robocache::testing
