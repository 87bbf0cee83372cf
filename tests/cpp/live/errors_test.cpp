// What a LiveAligner refuses when it is built, and in which words.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "support/error_of.h"
#include "robocache/live.h"

namespace robocache::testing {
namespace {

/// Valid arguments for tests to spoil: a state, images, and actions relative to the state.
struct Call {
  std::vector<LiveStream> streams = std::vector<LiveStream>(3);
  LiveOptions options;

  Call() {
    for (LiveStream& stream : streams) {
      stream.rate = 100;
      stream.shape = {2};
    }
    state().name = "state";
    state().steps = {-20'000'000, 0};
    image().name = "image";
    image().dtype = DataType::kUInt8;
    image().shape = {4, 5, 3};
    image().channels_first = true;
    image().steps = {0};
    action().name = "action";
    action().steps = {0, 20'000'000};
    action().relative_to = "state";
    action().reference_columns = {0, 1};
  }

  LiveStream& state() { return streams[0]; }
  LiveStream& image() { return streams[1]; }
  LiveStream& action() { return streams[2]; }
};

void expect(const std::string& error, const std::function<void(Call&)>& spoil) {
  Call call;
  spoil(call);
  EXPECT_EQ(error_of([&] { LiveAligner(call.streams, call.options); }), error);
}

TEST(LiveErrors, NothingIsWrongToBeginWith) {
  expect("no error", [](Call&) {});
}

TEST(LiveErrors, Names) {
  expect("ValueError streams: expected one or more, got none",
         [](Call& call) { call.streams.clear(); });
  expect("ValueError streams[1].name: expected a name, got none",
         [](Call& call) { call.image().name = ""; });
  expect("ValueError streams[1].name: expected a name of its own, got 'state' again",
         [](Call& call) { call.image().name = "state"; });
  expect("ValueError streams: expected keys of the output that differ, got 'state_is_pad' twice",
         [](Call& call) { call.image().name = "state_is_pad"; });
  expect("ValueError streams: expected at most 64, got 66", [](Call& call) {
    for (int i = 0; i < 62; ++i) {
      call.streams.push_back(call.state());
      call.streams.back().name = "state" + std::to_string(i);
    }
  });
}

TEST(LiveErrors, Rows) {
  expect("TypeError state.dtype: expected a type that an episode store holds, got complex64",
         [](Call& call) { call.state().dtype = DataType::kComplex64; });
  expect(
      "ValueError state.shape: expected sizes of 1 or more, 536870912 elements at most in a row, "
      "got a size of 0",
      [](Call& call) { call.state().shape = {3, 0}; });
  expect(
      "ValueError state.shape: expected sizes of 1 or more, 536870912 elements at most in a row, "
      "got a size of 9223372036854775807",
      [](Call& call) { call.state().shape = {3, INT64_MAX}; });
  expect("TypeError state.out_type: expected int64, which is copied as it is, got float32",
         [](Call& call) { call.state().dtype = DataType::kInt64; });
  expect("ValueError state.method: expected previous or nearest for int64 values, got another",
         [](Call& call) { call.state().dtype = call.state().out_type = DataType::kInt64; });
  expect("ValueError state.multiply: expected none for bool values, got some", [](Call& call) {
    call.state().dtype = call.state().out_type = DataType::kBool;
    call.state().method = Method::kPrevious;
    call.state().multiply = {1, 1};
  });
  expect(
      "TypeError state.out_dtype: expected float16, bfloat16, float32, float64 or uint8, got int64",
      [](Call& call) { call.state().out_type = DataType::kInt64; });
  expect(
      "ValueError image.shape: expected [H,W,C] of images whose channels come first, got 2 "
      "dimensions",
      [](Call& call) { call.image().shape = {4, 5}; });
  expect("ValueError image.colors: expected 1 to 4, got 5",
         [](Call& call) { call.image().shape = {4, 5, 5}; });
}

TEST(LiveErrors, Windows) {
  expect("ValueError state.steps: expected one or more, got none",
         [](Call& call) { call.state().steps = {}; });
  expect("ValueError state.steps: expected one without an axis of steps, got 2",
         [](Call& call) { call.state().has_step_axis = false; });
  expect("ValueError state.rate: expected 0 or more Hz, got -1",
         [](Call& call) { call.state().rate = -1; });
  expect("ValueError state.rate: expected 0 or more Hz, got nan",
         [](Call& call) { call.state().rate = std::numeric_limits<double>::quiet_NaN(); });
  expect("ValueError state.latency_ns: expected 0 or more, got -5",
         [](Call& call) { call.state().latency_ns = -5; });
  expect("ValueError state.max_gap: expected 0 or more, got -1",
         [](Call& call) { call.state().max_gap_ns = -1; });
  expect("ValueError state.subtract: expected [D=2], got [3]",
         [](Call& call) { call.state().subtract = {1, 2, 3}; });
  expect("ValueError image.multiply: expected [colors=3], got [60]",
         [](Call& call) { call.image().multiply.resize(60); });
  expect("ValueError state.steps: expected ascending steps for method 'sum', got -9 after 0 at [1]",
         [](Call& call) {
           call.state().method = Method::kSum;
           call.state().buffer_rows = 9;
           call.state().steps = {0, -9};
         });
  // Of a window that is never made, too.
  expect("ValueError action.method: expected a run of 4 channels for slerp_xyzw, got 2",
         [](Call& call) { call.action().method = Method::kSlerpXyzw; });
}

TEST(LiveErrors, Buffers) {
  expect("ValueError state.buffer_rows: expected at least the 3 rows of its reach, got 1",
         [](Call& call) { call.state().buffer_rows = 1; });
  expect("ValueError state.buffer_rows: expected at least the 51 rows of its reach, got 50",
         [](Call& call) {
           call.state().latency_ns = 500'000'000;
           call.state().buffer_rows = 50;
         });
  expect("ValueError state.buffer_rows: expected at least the 4 rows of its reach, got 3",
         [](Call& call) {
           call.state().timeline = Timeline::kRows;
           call.state().steps = {-3, 0};
           call.state().buffer_rows = 3;
         });
  expect(
      "ValueError state.buffer_rows: expected a number of rows where the stream has no rate, got 0",
      [](Call& call) { call.state().rate = 0; });
  expect(
      "ValueError state.buffer_rows: expected a number of rows for method sum, whose first step "
      "adds all of an episode's, got 0",
      [](Call& call) { call.state().method = Method::kSum; });
  expect("ValueError state.ring_rows: expected 0 to 536870911, got -1",
         [](Call& call) { call.state().ring_rows = -1; });
  expect(
      "ValueError state.steps: expected at most 536870911 rows in a buffer, got 922337203687 rows "
      "of their reach",
      [](Call& call) { call.state().steps = {INT64_MIN, 0}; });
  expect(
      "ValueError state.buffer_rows: expected less than 1000000000000000 bytes, got "
      "6755399428472832 of all robots",
      [](Call& call) {
        call.options.robots = 1 << 20;
        call.state().buffer_rows = call.state().ring_rows = (1 << 29) - 1;
        call.state().shape = {};
      });
}

TEST(LiveErrors, References) {
  expect("ValueError action.relative_to: expected the name of a stream, got 'force'",
         [](Call& call) { call.action().relative_to = "force"; });
  expect(
      "ValueError action.relative_to: expected a stream that is not relative itself, got 'action'",
      [](Call& call) { call.action().relative_to = "action"; });
  expect(
      "ValueError action.relative_to: expected a stream that is not relative itself, got 'state'",
      [](Call& call) {
        call.state().relative_to = "image";
        call.state().reference_columns = {0, -1};
      });
  expect(
      "TypeError action.relative_to: expected a stream of float16, bfloat16, float32, float64 or "
      "uint8, got int64",
      [](Call& call) {
        call.state().dtype = call.state().out_type = DataType::kInt64;
        call.state().method = Method::kPrevious;
      });
  expect(
      "ValueError action.relative_to: expected a stream whose channels do not come first, got "
      "image",
      [](Call& call) { call.action().relative_to = "image"; });
  expect("ValueError action.reference_columns: expected [D=2], got [0]",
         [](Call& call) { call.action().reference_columns.clear(); });
  expect("ValueError action.reference_columns: expected -1 to 1, the channels of 'state', got 2",
         [](Call& call) { call.action().reference_columns = {0, 2}; });
  expect(
      "ValueError action.reference_columns: expected channels of state that are no quaternion's "
      "and no sums, got 0 at [0]",
      [](Call& call) {
        call.state().method = Method::kSum;
        call.state().buffer_rows = 9;
      });
  expect("ValueError state.reference_columns: expected none without relative_to, got [1]",
         [](Call& call) { call.state().reference_columns = {0}; });
}

TEST(LiveErrors, Groups) {
  const auto group = [](const std::vector<std::string>& streams) {
    return [streams](Call& call) {
      call.streams.push_back(call.state());
      call.streams.back().name = "force";
      call.options.concat = {{"obs", streams}};
    };
  };
  expect("no error", group({"force", "state"}));
  expect("ValueError concat['obs']: expected one stream or more, got none", group({}));
  expect("ValueError concat['obs']: expected names of streams, got 'joints'",
         group({"state", "joints"}));
  expect("ValueError concat['obs']: expected each stream once, got 'state', which 'obs' has",
         group({"state", "state"}));
  expect("ValueError concat['obs']: expected rows that are vectors, got 'image' of 3 dimensions",
         group({"state", "image"}));
  expect("ValueError concat['obs']: expected the steps of 'state', got others of 'action'",
         group({"state", "action"}));
  expect("ValueError concat['obs']: expected float32 like 'state', got float64 of 'force'",
         [&](Call& call) {
           group({"state", "force"})(call);
           call.streams.back().out_type = DataType::kFloat64;
         });
}

TEST(LiveErrors, Options) {
  expect("ValueError robots: expected 1 to 1048576, got 0",
         [](Call& call) { call.options.robots = 0; });
  expect("ValueError margin: expected a number of 0 or more, got -0.5",
         [](Call& call) { call.options.margin = -0.5; });
  expect("ValueError pause_ns: expected 0 or more, got -1",
         [](Call& call) { call.options.pause_ns = -1; });
  expect("ValueError max_future_ns: expected 0 or more, got -1",
         [](Call& call) { call.options.max_future_ns = -1; });
  expect("ValueError cuda_slots: expected 0 to 64, got 65",
         [](Call& call) { call.options.cuda_slots = 65; });
}

}  // namespace
}  // namespace robocache::testing
