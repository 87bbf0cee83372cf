// Calls of several streams that are refused, and what messages call them.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "align/errors_call.h"

namespace robocache::testing {
namespace {

TEST(Errors, HowManyStreams) {
  expect_error("ValueError streams: expected 1 to 64, got 0",
               [](Call& call) { call.streams.clear(); });
  expect_error("ValueError streams: expected 1 to 64, got 65", [](Call& call) { call.repeat(65); });
}

TEST(Errors, HowManyRunsInAll) {
  // As many as one stream takes, as often as it takes to have too many.
  Call call;
  std::vector<robocache::Run> runs(kMaxRuns, {Method::kLinear, 1});
  for (std::size_t i = 0; i < runs.size(); i += 2) runs[i].method = Method::kPrevious;
  const Tensor values(DataType::kFloat32, {2, 3, kMaxRuns});
  call.streams[0].values = values.view();
  call.streams[0].layout = runs;
  const std::size_t most = kMaxRunsInAll / kMaxRuns;
  call.repeat(most);
  const auto columns = static_cast<std::int64_t>(most * kMaxRuns);
  Tensor out(DataType::kFloat32, {2, 4, columns});
  call.values_out = out.view();
  call.valid_out = {};
  call.age_out = {};
  EXPECT_EQ(error_of([&] { call.align(); }), "no error");
  Stream one_more = call.streams[0];
  one_more.layout.clear();
  call.streams.push_back(one_more);
  EXPECT_EQ(error_of([&] { call.align(); }),
            "ValueError streams: expected at most " + std::to_string(kMaxRunsInAll) +
                " runs in all, got " + std::to_string(kMaxRunsInAll + 1));
}

TEST(Errors, OneStreamMayBeNumbered) {
  const auto expect_numbered = [](const std::string& expected,
                                  const std::function<void(Call&)>& spoil) {
    expect_error(expected, [&](Call& call) {
      call.options.names.streams_are_numbered = true;
      spoil(call);
    });
  };
  expect_numbered("ValueError streams[0].times: expected [B=2,S=3], got [2,4]",
                  [](Call& call) { call.streams[0].times = any_view(DataType::kInt64, {2, 4}); });
  expect_numbered("TypeError target_times: expected int64 like streams[0].times, got float32",
                  [](Call& call) { call.target_times.dtype = DataType::kFloat32; });
  expect_numbered("ValueError streams[0].max_gap: expected 0 or more, got -1",
                  [](Call& call) { call.streams[0].max_gap = Duration::nanoseconds(-1); });
  expect_numbered(
      "TypeError streams[0].clock_offset: expected nanoseconds for int64 times, got seconds",
      [](Call& call) { call.streams[0].clock_offset = Duration::seconds(1); });
  const Tensor times(DataType::kInt64, {3}, {2, 1, 1});
  expect_numbered("ValueError streams[0].times: expected ascending times, got 1 after 2 at [1]",
                  [&](Call& call) { call.streams[0].times = times.view(); });
  const Tensor lengths(DataType::kInt64, {2}, {0, 9});
  expect_numbered("ValueError streams[0].lengths: expected 0 to S=3, got 9 at [1]",
                  [&](Call& call) { call.streams[0].lengths = lengths.view(); });
  const Tensor begins(DataType::kInt64, {2}, {0, 9});
  const Tensor ragged_times(DataType::kInt64, {6});
  expect_numbered("ValueError streams[0].begins: expected 0 to N=6, got 9 at [1]", [&](Call& call) {
    call.streams[0].values = any_view(DataType::kFloat32, {6, 2});
    call.streams[0].times = ragged_times.view();
    call.streams[0].begins = begins.view();
    call.streams[0].lengths = any_view(DataType::kInt64, {2});
  });
}

TEST(Errors, OfSeveralStreamsTheOneIsNamed) {
  expect_error("ValueError streams[1].values: expected [B=2,S,D], got [3,3,2]", [](Call& call) {
    call.streams.push_back(call.streams[0]);
    call.streams[1].values = any_view(DataType::kFloat32, {3, 3, 2});
  });
  // Batch sizes that differ, whichever argument brings them.
  expect_error("ValueError streams[1].times: expected [B=2,S=3], got [4,3]", [](Call& call) {
    call.repeat(2);
    call.streams[1].times = any_view(DataType::kInt64, {4, 3});
  });
  expect_error("ValueError streams[1].lengths: expected [B=2], got [3]", [](Call& call) {
    call.repeat(2);
    call.streams[1].lengths = any_view(DataType::kInt64, {3});
  });
  expect_error("ValueError streams[2].valid: expected [B=2,S=3], got [1,3]", [](Call& call) {
    call.repeat(3);
    call.streams[2].valid = any_view(DataType::kBool, {1, 3});
  });
  expect_error("ValueError streams[1].values: expected [B=5,S,D], got [2,3,2]", [](Call& call) {
    call.repeat(2);
    call.streams[0].values = any_view(DataType::kFloat32, {3, 2});
    call.streams[0].times = any_view(DataType::kInt64, {3});
    call.target_times = any_view(DataType::kInt64, {5, 4});
  });
  expect_error("ValueError streams[1].begins: expected [B=2], got [3]", [](Call& call) {
    call.repeat(2);
    call.streams[1].values = any_view(DataType::kFloat32, {3, 2});
    call.streams[1].times = any_view(DataType::kInt64, {3});
    call.streams[1].lengths = any_view(DataType::kInt64, {2});
    call.streams[1].begins = any_view(DataType::kInt64, {3});
  });
  expect_error("ValueError streams[1].mean_window: expected 0 or more, got -1", [](Call& call) {
    call.repeat(2);
    call.streams[1].mean_window = Duration::nanoseconds(-1);
  });
  expect_error("ValueError valid_out: expected [B=2,T=4,streams=2], got [2,4,1]", [](Call& call) {
    call.repeat(2);
    call.values_out = any_view(DataType::kFloat32, {2, 4, 4});
  });
  expect_error("ValueError age_out: expected [B=2,T=4,streams=2], got [2,4,1]", [](Call& call) {
    call.repeat(2);
    call.values_out = any_view(DataType::kFloat32, {2, 4, 4});
    call.valid_out = any_view(DataType::kBool, {2, 4, 2});
  });
  expect_error(
      "TypeError target_times: expected float32 or float64 like streams[1].times, got int64",
      [](Call& call) {
        call.streams.push_back(call.streams[0]);
        call.streams[1].times.dtype = DataType::kFloat64;
      });
  expect_error("ValueError streams[1].method: expected runs that sum to D=2, got 1",
               [](Call& call) {
                 call.streams.push_back(call.streams[0]);
                 call.streams[1].layout = {{Method::kLinear, 1}};
                 call.values_out = any_view(DataType::kFloat32, {2, 4, 4});
                 call.valid_out = any_view(DataType::kBool, {2, 4, 2});
               });
  expect_error("ValueError values_out: expected [B=2,T=4,D=4], got [2,4,2]",
               [](Call& call) { call.streams.push_back(call.streams[0]); });
}

TEST(Errors, ALaterStreamsTimesAreCheckedBeforeAnythingIsWritten) {
  Call call;
  Tensor out(DataType::kFloat32, {2, 4, 4});
  Tensor mask(DataType::kBool, {2, 4, 2});
  out.fill_bytes(kUntouched);
  mask.fill_bytes(kUntouched);
  const Tensor times(DataType::kInt64, {2, 3}, {1, 2, 3, 3, 2, 1});
  call.streams.push_back(call.streams[0]);
  call.streams[1].times = times.view();
  call.values_out = out.view();
  call.valid_out = mask.view();
  call.age_out = {};
  EXPECT_EQ(error_of([&] { call.align(); }),
            "ValueError streams[1].times: expected ascending times, got 2 after 3 at [1,1]");
  EXPECT_TRUE(out.is_untouched(kUntouched) && mask.is_untouched(kUntouched));
}

TEST(Errors, AFrontEndsOwnNames) {
  const ArgumentNames names = {"data", "source_times", "when", "source_lengths", "source_valid"};
  const auto expect_name = [&](const std::string& expected,
                               const std::function<void(Call&)>& spoil) {
    expect_error(expected, [&](Call& call) {
      call.options.names = names;
      spoil(call);
    });
  };
  expect_name("ValueError data: expected [B,S,D] or [S,D], got []",
              [](Call& call) { call.streams[0].values = {}; });
  expect_name("TypeError when: expected int64 like source_times, got float32",
              [](Call& call) { call.target_times.dtype = DataType::kFloat32; });
  const Tensor lengths(DataType::kInt64, {2}, {0, 9});
  expect_name("ValueError source_lengths: expected 0 to S=3, got 9 at [1]",
              [&](Call& call) { call.streams[0].lengths = lengths.view(); });
  const Tensor times(DataType::kInt64, {3}, {2, 1, 1});
  expect_name("ValueError source_times: expected ascending times, got 1 after 2 at [1]",
              [&](Call& call) { call.streams[0].times = times.view(); });
  expect_name("TypeError source_valid: expected bool, got int64",
              [](Call& call) { call.streams[0].valid = any_view(DataType::kInt64, {3}); });
}

TEST(Errors, AlignedShape) {
  Call call;
  const auto shape = [&](DataType out_type) {
    return aligned_shape(call.streams.data(), call.streams.size(), call.target_times, call.options,
                         out_type, call.context);
  };
  const AlignedShape batched = shape(DataType::kFloat16);
  EXPECT_TRUE(batched.is_batched);
  EXPECT_EQ(batched.batch, 2);
  EXPECT_EQ(batched.targets, 4);
  EXPECT_EQ(batched.channels, 2);
  EXPECT_EQ(
      error_of([&] { shape(DataType::kInt32); }),
      "TypeError out_dtype: expected float16, bfloat16, float32, float64 or uint8, got int32");
  call.streams[0].times = any_view(DataType::kInt64, {3, 3});
  EXPECT_EQ(error_of([&] { shape(DataType::kFloat32); }),
            "ValueError times: expected [B=2,S=3], got [3,3]");
  call.streams[0].values = any_view(DataType::kFloat32, {3, 2});
  call.streams[0].times = any_view(DataType::kInt64, {3});
  call.target_times = any_view(DataType::kInt64, {4});
  EXPECT_FALSE(shape(DataType::kFloat32).is_batched);
  EXPECT_EQ(shape(DataType::kFloat32).batch, 1);
}

}  // namespace
}  // namespace robocache::testing
