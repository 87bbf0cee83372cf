// Error messages of LiveAligner's constructor.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "robocache/live.h"
#include "support/error_of.h"

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
    state().offsets = {-20'000'000, 0};
    image().name = "image";
    image().dtype = DataType::kUInt8;
    image().shape = {4, 5, 3};
    image().channels_first = true;
    image().offsets = {0};
    action().name = "action";
    action().offsets = {0, 20'000'000};
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
  expect("ValueError streams[1].name: expected a name, got \"\"",
         [](Call& call) { call.image().name = ""; });
  expect("ValueError streams[1].name: expected each name once, got \"state\"",
         [](Call& call) { call.image().name = "state"; });
  expect("ValueError streams: expected keys of the output that differ, got 'state_is_pad' twice",
         [](Call& call) { call.image().name = "state_is_pad"; });
  expect(
      "ValueError streams: expected at most 64 windows, relative ones counted twice, got 65 "
      "and 1 relative ones",
      [](Call& call) {
        for (int i = 0; i < 62; ++i) {
          call.streams.push_back(call.state());
          call.streams.back().name = "state" + std::to_string(i);
        }
      });
}

TEST(LiveErrors, Rows) {
  expect("TypeError dtype['state']: expected a type that an episode store holds, got complex64",
         [](Call& call) { call.state().dtype = DataType::kComplex64; });
  expect("ValueError shape['state']: expected sizes of 1 or more, got [3,0]",
         [](Call& call) { call.state().shape = {3, 0}; });
  expect(
      "ValueError shape['state']: expected a row of at most 2^26 elements, got "
      "[3,9223372036854775807]",
      [](Call& call) { call.state().shape = {3, INT64_MAX}; });
  expect("TypeError out_dtype['state']: expected \"I64\", since such rows are copied, got \"F32\"",
         [](Call& call) {
           call.state().dtype = DataType::kInt64;
           call.state().method = Method::kPrevious;
         });
  expect(
      "ValueError method['state']: expected \"previous\" or \"nearest\" for rows that are copied, "
      "got \"linear\"",
      [](Call& call) { call.state().dtype = call.state().out_dtype = DataType::kInt64; });
  expect(
      "ValueError normalization['state'].multiply: expected none for rows that are copied, got "
      "[1.0,1.0]",
      [](Call& call) {
        call.state().dtype = call.state().out_dtype = DataType::kBool;
        call.state().method = Method::kPrevious;
        call.state().multiply = {1, 1};
      });
  expect("TypeError out_dtype['state']: expected U8, F16, BF16, F32 or F64, got \"I64\"",
         [](Call& call) { call.state().out_dtype = DataType::kInt64; });
  const std::string is_none =
      "ValueError channels_first['image']: expected false for rows that are no images [H,W,C] of "
      "U8, C at most 4, got true";
  expect(is_none, [](Call& call) { call.image().shape = {4, 5}; });
  expect(is_none, [](Call& call) { call.image().shape = {4, 5, 5}; });
}

TEST(LiveErrors, Windows) {
  expect("ValueError offsets['state']: expected 1 offset or more, got []",
         [](Call& call) { call.state().offsets = {}; });
  expect("ValueError has_axis['state']: expected true with several offsets, got false",
         [](Call& call) { call.state().has_axis = false; });
  expect("ValueError rate['state']: expected 0 or more Hz, got -1.0",
         [](Call& call) { call.state().rate = -1; });
  expect("ValueError rate['state']: expected 0 or more Hz, got null",
         [](Call& call) { call.state().rate = std::numeric_limits<double>::quiet_NaN(); });
  expect("ValueError latency_ns['state']: expected 0 or more, got -5",
         [](Call& call) { call.state().latency_ns = -5; });
  expect("ValueError max_gap_ns['state']: expected 0 or more, got -1",
         [](Call& call) { call.state().max_gap_ns = -1; });
  expect("ValueError normalization['state'].subtract: expected 1 or 2 numbers, got [1.0,2.0,3.0]",
         [](Call& call) { call.state().subtract = {1, 2, 3}; });
  expect("ValueError normalization['image'].multiply: expected 1 or 3 numbers, got [1.0,1.0]",
         [](Call& call) { call.image().multiply = {1, 1}; });
  expect("ValueError normalization['state'].multiply: expected finite numbers, got [null]",
         [](Call& call) { call.state().multiply = {std::numeric_limits<double>::infinity()}; });
  expect("ValueError offsets['state']: expected ascending offsets with method \"sum\", got [0,-9]",
         [](Call& call) {
           call.state().method = Method::kSum;
           call.state().buffer_rows = 9;
           call.state().offsets = {0, -9};
         });
  // Windows with offsets past now are never computed, but validated too.
  expect(
      "ValueError method['action']: expected runs of 4 elements for slerp_xyzw, got \"slerp_xyzw\"",
      [](Call& call) { call.action().method = Method::kSlerpXyzw; });
}

TEST(LiveErrors, Buffers) {
  expect("ValueError buffer_rows['state']: expected at least the 3 rows of its reach, got 1",
         [](Call& call) { call.state().buffer_rows = 1; });
  expect("ValueError buffer_rows['state']: expected at least the 51 rows of its reach, got 50",
         [](Call& call) {
           call.state().latency_ns = 500'000'000;
           call.state().buffer_rows = 50;
         });
  expect("ValueError buffer_rows['state']: expected at least the 4 rows of its reach, got 3",
         [](Call& call) {
           call.state().timeline = Timeline::kRows;
           call.state().offsets = {-3, 0};
           call.state().buffer_rows = 3;
         });
  expect(
      "ValueError buffer_rows['state']: expected a number of rows where the stream has no rate, "
      "got 0",
      [](Call& call) { call.state().rate = 0; });
  expect(
      "ValueError buffer_rows['state']: expected a number of rows for method sum, whose first "
      "offset "
      "adds all of an episode's, got 0",
      [](Call& call) {
        call.state().method = Method::kSum;
        call.action().reference_columns = {-1, -1};
      });
  expect("ValueError ring_rows['state']: expected 0 to 536870911, got -1",
         [](Call& call) { call.state().ring_rows = -1; });
  expect(
      "ValueError offsets['state']: expected at most 536870911 rows in a buffer, got 922337203687 "
      "rows "
      "of their reach",
      [](Call& call) { call.state().offsets = {INT64_MIN, 0}; });
  expect(
      "ValueError buffer_rows['state']: expected less than 1000000000000000 bytes, got "
      "86694292665401344 of all robots",
      [](Call& call) {
        call.options.robots = 1 << 20;
        call.state().buffer_rows = call.state().ring_rows = (1 << 29) - 1;
        call.state().shape = {};
        call.action().reference_columns = {0, 0};
      });
}

TEST(LiveErrors, DefaultCapacities) {
  const auto set_rate = [](Call& call) { call.state().rate = 1e8; };
  expect(
      "ValueError buffer_rows['state']: expected default capacities of at most 1073741824 bytes "
      "for a robot's streams, got 4312011410, of which 4312001540 for 28000010 rows in the buffer "
      "and 28000010 in the ring at the rate of 100000000 Hz (correct the rate and the offsets, or "
      "set buffer_rows and ring_rows)",
      set_rate);
  // Capacities that the user sets have no limit: a buffer of its least rows, and a ring.
  Call call;
  set_rate(call);
  call.state().buffer_rows = 2'000'001;
  call.state().ring_rows = 5;
  EXPECT_EQ(error_of([&] { LiveAligner(call.streams, call.options); }), "no error");
  // Streams add up.
  Call images;
  images.streams = {images.image(), images.image()};
  for (LiveStream& image : images.streams) image.shape = {2160, 3840, 3};
  images.streams[1].name = "other";
  EXPECT_EQ(
      error_of([&] { LiveAligner(images.streams, images.options); }).substr(0, 88),
      "ValueError buffer_rows['image']: expected default capacities of at most 1073741824 bytes");
}

TEST(LiveErrors, References) {
  const std::string to = "ValueError relative_to['action'].stream: expected ";
  expect(to + "the name of a stream, got \"force\"",
         [](Call& call) { call.action().relative_to = "force"; });
  expect(to + "a stream that is not relative itself, got \"action\"",
         [](Call& call) { call.action().relative_to = "action"; });
  expect(to + "a stream that is not relative itself, got \"state\"", [](Call& call) {
    call.streams.push_back(call.state());
    call.streams.back().name = "force";
    call.state().relative_to = "force";
    call.state().reference_columns = {0, -1};
  });
  expect(
      "TypeError relative_to['action'].stream: expected a stream of float16, bfloat16, float32, "
      "float64 or uint8, got \"state\"",
      [](Call& call) {
        call.state().dtype = call.state().out_dtype = DataType::kInt64;
        call.state().method = Method::kPrevious;
      });
  expect(to + "a stream without channels_first, got \"image\"",
         [](Call& call) { call.action().relative_to = "image"; });
  const std::string columns = "ValueError relative_to['action'].columns: expected ";
  expect(columns + "2, one for each element, got []",
         [](Call& call) { call.action().reference_columns.clear(); });
  const std::string mask = " (rc.Relative(mask=) leaves elements as they are)";
  expect(columns + "-1 to 1, the elements of \"state\", got [0,2]" + mask,
         [](Call& call) { call.action().reference_columns = {0, 2}; });
  expect(columns + "elements of \"state\" that are no quaternion's and no sums, got [0,1]" + mask,
         [](Call& call) {
           call.state().method = Method::kSum;
           call.state().buffer_rows = 9;
         });
  expect(
      "ValueError relative_to['state'].columns: expected none without a stream to be relative to, "
      "got 1",
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
  expect(
      "ValueError concat['obs']: expected rows that are vectors, got 'image' of shape "
      "[4,5,3]",
      group({"state", "image"}));
  expect("ValueError concat['obs']: expected the offsets of 'state', got others of 'action'",
         group({"state", "action"}));
  expect(
      "ValueError concat['obs']: expected float32 like 'state', got float64 of 'force' "
      "(rc.Window(dtype=) changes it)",
      [&](Call& call) {
        group({"state", "force"})(call);
        call.streams.back().out_dtype = DataType::kFloat64;
      });
}

TEST(LiveErrors, Options) {
  expect("ValueError robots: expected 1 to 1048576, got 0",
         [](Call& call) { call.options.robots = 0; });
  expect("ValueError margin: expected a number of 0 or more, got -0.5",
         [](Call& call) { call.options.margin = -0.5; });
  expect("ValueError pause_ns: expected 0 or more, got -1",
         [](Call& call) { call.options.pause_ns = -1; });
  expect("ValueError query_every_ns: expected 0 or more, got -1",
         [](Call& call) { call.options.query_every_ns = -1; });
  expect("ValueError max_future_ns: expected 0 or more, got -1",
         [](Call& call) { call.options.max_future_ns = -1; });
  expect("ValueError cuda_slots: expected 0 to 64, got 65",
         [](Call& call) { call.options.cuda_slots = 65; });
}

}  // namespace
}  // namespace robocache::testing
