// Options that are refused, by message; nothing has been written by then.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "align/errors_call.h"

namespace robocache::testing {
namespace {

TEST(Errors, Layout) {
  const auto expect_layout_error = [](const std::string& expected,
                                      const std::vector<robocache::Run>& layout,
                                      std::int64_t channels) {
    expect_error("ValueError method: expected " + expected, [&](Call& call) {
      call.streams[0].values = any_view(DataType::kFloat32, {2, 3, channels});
      call.values_out = any_view(DataType::kFloat32, {2, 4, channels});
      call.streams[0].layout = layout;
    });
  };
  constexpr Method kLinear = Method::kLinear;
  constexpr Method kSlerp = Method::kSlerpXyzw;
  constexpr std::int64_t kHighest = std::numeric_limits<std::int64_t>::max();
  expect_layout_error("runs that sum to D=7, got 8", {{kLinear, 7}, {Method::kPrevious, 1}}, 7);
  expect_layout_error("runs that sum to D=7, got 8", {{kLinear, 8}}, 7);
  expect_layout_error("runs that sum to D=7, got 5", {{kLinear, 1}, {kSlerp, 4}}, 7);
  expect_layout_error("runs that sum to D=7, got 9223372036854775807",
                      {{kLinear, 3}, {kLinear, kHighest}, {kLinear, kHighest}}, 7);
  expect_layout_error("runs of at least 1 channel, got -1", {{kLinear, 8}, {kLinear, -1}}, 7);
  expect_layout_error("a run of 4 channels for slerp_xyzw, got 3", {{kLinear, 4}, {kSlerp, 3}}, 7);
  expect_layout_error("a run of 4 channels for slerp_wxyz, got 7", {{Method::kSlerpWxyz, 7}}, 7);
  expect_layout_error("runs of at least 1 channel, got 0", {{kLinear, 7}, {kLinear, 0}}, 7);
  expect_layout_error("runs of at least 1 channel, got -1", {{kLinear, -1}, {kLinear, 8}}, 7);
  std::vector<robocache::Run> many(kMaxRuns + 1, {kLinear, 1});
  for (std::size_t i = 0; i < many.size(); i += 2) many[i].method = Method::kPrevious;
  expect_layout_error("at most 256 runs, got 257", many, kMaxRuns + 1);
  expect_error("ValueError method: expected a run of 4 channels for slerp_wxyz, got 2",
               [](Call& call) { call.streams[0].method = Method::kSlerpWxyz; });
}

TEST(Errors, RunsOfOneMethodCountAsOne) {
  Call call;
  const Tensor values(DataType::kFloat32, {2, 3, kMaxRuns + 1});
  Tensor out(DataType::kFloat32, {2, 4, kMaxRuns + 1});
  call.streams[0].values = values.view();
  call.values_out = out.view();
  call.streams[0].layout.assign(kMaxRuns + 1, {Method::kLinear, 1});
  EXPECT_EQ(error_of([&] { call.align(); }), "no error");
}

TEST(Errors, Durations) {
  const auto floating = [](Call& call) { call.set_time_type(DataType::kFloat64); };
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  expect_error("TypeError max_gap: expected nanoseconds for int64 times, got seconds",
               [](Call& call) { call.streams[0].max_gap = Duration::seconds(1); });
  expect_error("TypeError tolerance: expected nanoseconds for int64 times, got seconds",
               [](Call& call) { call.streams[0].tolerance = Duration::seconds(1); });
  expect_error("TypeError max_gap: expected seconds for floating times, got nanoseconds",
               [&](Call& call) {
                 floating(call);
                 call.streams[0].max_gap = Duration::nanoseconds(1);
               });
  expect_error("ValueError max_gap: expected 0 or more, got -1",
               [](Call& call) { call.streams[0].max_gap = Duration::nanoseconds(-1); });
  expect_error("ValueError tolerance: expected 0 or more, got -0.500000", [&](Call& call) {
    floating(call);
    call.streams[0].tolerance = Duration::seconds(-0.5);
  });
  expect_error("ValueError max_gap: expected 0 or more, got nan", [&](Call& call) {
    floating(call);
    call.streams[0].max_gap = Duration::seconds(kNan);
  });
}

TEST(Errors, MeanWindow) {
  const auto expect_window_error = [](const std::string& expected, DataType time_type,
                                      std::optional<Duration> window) {
    expect_error(expected, [&](Call& call) {
      call.set_time_type(time_type);
      call.streams[0].method = Method::kMean;
      call.streams[0].mean_window = window;
    });
  };
  const std::string none =
      "ValueError mean_window: expected a duration for method 'mean', got None";
  expect_window_error(none, DataType::kInt64, std::nullopt);
  expect_window_error(none, DataType::kFloat32, std::nullopt);
  expect_error(
      none, [](Call& call) { call.streams[0].layout = {{Method::kSum, 1}, {Method::kMean, 1}}; });
  expect_window_error("ValueError mean_window: expected 0 or more, got -4", DataType::kInt64,
                      Duration::nanoseconds(-4));
  expect_window_error("ValueError mean_window: expected 0 or more, got -0.250000",
                      DataType::kFloat32, Duration::seconds(-0.25));
  expect_window_error("ValueError mean_window: expected 0 or more, got nan", DataType::kFloat64,
                      Duration::seconds(std::numeric_limits<double>::quiet_NaN()));
  expect_window_error("TypeError mean_window: expected nanoseconds for int64 times, got seconds",
                      DataType::kInt64, Duration::seconds(1));
  expect_window_error("TypeError mean_window: expected seconds for floating times, got nanoseconds",
                      DataType::kFloat64, Duration::nanoseconds(1));
  expect_error("ValueError streams[1]." + none.substr(11), [](Call& call) {
    call.repeat(2);
    call.streams[1].method = Method::kMean;
    call.values_out = any_view(DataType::kFloat32, {2, 4, 4});
    call.valid_out = any_view(DataType::kBool, {2, 4, 2});
    call.age_out = any_view(DataType::kInt64, {2, 4, 2});
  });
  expect_error(
      "ValueError mean_window: expected None without a run of method 'mean', got a duration",
      [](Call& call) { call.streams[0].mean_window = Duration::nanoseconds(3); });
}

TEST(Errors, ClockOffset) {
  const auto expect_offset_error = [](const std::string& expected, DataType time_type,
                                      Duration offset) {
    expect_error(expected, [&](Call& call) {
      call.set_time_type(time_type);
      call.streams[0].clock_offset = offset;
    });
  };
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  expect_offset_error("ValueError clock_offset: expected a finite number, got nan",
                      DataType::kFloat64,
                      Duration::seconds(std::numeric_limits<double>::quiet_NaN()));
  expect_offset_error("ValueError clock_offset: expected a finite number, got inf",
                      DataType::kFloat64, Duration::seconds(kInfinity));
  expect_offset_error("ValueError clock_offset: expected a finite number, got -inf",
                      DataType::kFloat32, Duration::seconds(-kInfinity));
  expect_offset_error("TypeError clock_offset: expected nanoseconds for int64 times, got seconds",
                      DataType::kInt64, Duration::seconds(-1));
  expect_offset_error(
      "TypeError clock_offset: expected seconds for floating times, got nanoseconds",
      DataType::kFloat32, Duration::nanoseconds(-1));
  Call call;
  call.streams[0].clock_offset = Duration::nanoseconds(std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(error_of([&] { call.align(); }), "no error") << "it may be negative";
}

TEST(Errors, Methods) {
  expect_error("ValueError method: expected a method, got 8",
               [](Call& call) { call.streams[0].method = static_cast<Method>(8); });
  expect_error("ValueError method: expected a method, got 255", [](Call& call) {
    call.streams[0].layout = {{Method::kSum, 1}, {static_cast<Method>(255), 1}};
  });
}

TEST(Errors, OutsideNanForIntegers) {
  expect_error("ValueError outside: expected hold, zero or extrapolate for uint8 output, got 'nan'",
               [](Call& call) {
                 call.options.outside = Outside::kNan;
                 call.values_out.dtype = DataType::kUInt8;
               });
}

}  // namespace
}  // namespace robocache::testing
