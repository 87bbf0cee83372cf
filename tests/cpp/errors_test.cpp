// What is refused, by message; and that nothing has been written by then.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "check.h"
#include "engine.h"
#include "problem.h"
#include "random_problem.h"
#include "robocache/align.h"
#include "robocache/build_info.h"
#include "robocache/error.h"
#include "tensor.h"
#if defined(ROBOCACHE_HAS_CUDA)
#include <cuda_runtime_api.h>
#endif

namespace robocache::testing {
namespace {

constexpr unsigned char kUntouched = 0x5A;

/// A call that is right, of shapes B=2, S=3, T=4 and D=2; its arguments may be replaced one by one.
struct Call {
  StreamData data;
  Tensor targets, out, mask, grad_output, grad_values;
  AlignOptions options;
  // What the call is made with.
  std::vector<Stream> streams;
  ConstTensorView target_times, grad_output_view;
  TensorView values_out, valid_out, grad_values_view;
  ExecutionContext context = on_cpu();

  Call() {
    data.values = Tensor(DataType::kFloat32, {2, 3, 2});
    data.times = Tensor(DataType::kInt64, {2, 3});
    for (std::int64_t i = 0; i < 6; ++i) data.times.set_int(i, 10 * (i % 3));
    targets = Tensor(DataType::kInt64, {2, 4});
    out = Tensor(DataType::kFloat32, {2, 4, 2});
    mask = Tensor(DataType::kBool, {2, 4, 1});
    grad_output = Tensor(DataType::kFloat32, {2, 4, 2});
    grad_values = Tensor(DataType::kFloat32, {2, 3, 2});
    out.fill_bytes(kUntouched);
    mask.fill_bytes(kUntouched);
    grad_values.fill_bytes(kUntouched);
    take_views();
  }

  void take_views() {
    streams = {data.stream()};
    target_times = targets.view();
    grad_output_view = grad_output.view();
    values_out = out.view();
    valid_out = mask.view();
    grad_values_view = grad_values.view();
  }

  void align() const {
    robocache::align(streams.data(), streams.size(), target_times, options, values_out, valid_out,
                     {}, context);
  }
  void align_backward() const {
    std::vector<std::int64_t> workspace(1000);
    robocache::align_backward(streams[0], target_times, options, grad_output_view, grad_values_view,
                              workspace.data(), context);
  }
  bool is_untouched() const {
    return out.is_untouched(kUntouched) && mask.is_untouched(kUntouched) &&
           grad_values.is_untouched(kUntouched);
  }
};

/// A view of a type and shape, of some memory that nobody is to look at.
TensorView any_view(DataType type, std::initializer_list<std::int64_t> shape) {
  static std::int64_t memory[4096];
  return {memory, type, shape};
}

/// The error that `call` throws: its class and its message.
std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const ValueError& error) {
    return std::string("ValueError ") + error.what();
  } catch (const TypeError& error) {
    return std::string("TypeError ") + error.what();
  } catch (const DeviceError& error) {
    return std::string("DeviceError ") + error.what();
  }
  return "no error";
}

void expect_error(const std::string& expected, const std::function<void(Call&)>& spoil) {
  Call call;
  spoil(call);
  EXPECT_EQ(error_of([&] { call.align(); }), expected);
  EXPECT_TRUE(call.is_untouched()) << expected;
}

void expect_backward_error(const std::string& expected, const std::function<void(Call&)>& spoil) {
  Call call;
  spoil(call);
  EXPECT_EQ(error_of([&] { call.align_backward(); }), expected);
  EXPECT_TRUE(call.is_untouched()) << expected;
}

TEST(Errors, TheCallThatIsSpoiledIsRight) {
  Call call;
  EXPECT_EQ(error_of([&] { call.align(); }), "no error");
  EXPECT_EQ(error_of([&] { call.align_backward(); }), "no error");
  EXPECT_FALSE(call.is_untouched());
}

TEST(Errors, Values) {
  expect_error("TypeError values: expected float16, bfloat16, float32, float64 or uint8, got int32",
               [](Call& call) { call.streams[0].values.dtype = DataType::kInt32; });
  expect_error(
      "TypeError values: expected float16, bfloat16, float32, float64 or uint8, got complex64",
      [](Call& call) { call.streams[0].values.dtype = DataType::kComplex64; });
  expect_error("ValueError values: expected [B,S,D] or [S,D], got [3]",
               [](Call& call) { call.streams[0].values = any_view(DataType::kFloat32, {3}); });
  expect_error("ValueError values: expected [B,S,D] or [S,D], got []",
               [](Call& call) { call.streams[0].values = {}; });
  expect_error("ValueError values: expected [B,S,D] or [S,D], got [1,2,3,4]", [](Call& call) {
    call.streams[0].values = any_view(DataType::kFloat32, {1, 2, 3, 4});
  });
  expect_error("ValueError values: expected [N,D], got [2,3,2]",
               [](Call& call) { call.streams[0].begins = any_view(DataType::kInt64, {2}); });
}

TEST(Errors, Times) {
  expect_error("TypeError times: expected int64, float32 or float64, got int32",
               [](Call& call) { call.streams[0].times.dtype = DataType::kInt32; });
  expect_error("ValueError times: expected [B,S] or [S], got [1,2,3]",
               [](Call& call) { call.streams[0].times = any_view(DataType::kInt64, {1, 2, 3}); });
  expect_error("ValueError times: expected [B,S] or [S], got []",
               [](Call& call) { call.streams[0].times = any_view(DataType::kInt64, {}); });
  expect_error("ValueError times: expected [B=2,S=3], got [2,4]",
               [](Call& call) { call.streams[0].times = any_view(DataType::kInt64, {2, 4}); });
  expect_error("ValueError times: expected [B=2,S=3], got [1,3]",
               [](Call& call) { call.streams[0].times = any_view(DataType::kInt64, {1, 3}); });
  expect_error("ValueError times: expected [S=3], got [4]",
               [](Call& call) { call.streams[0].times = any_view(DataType::kInt64, {4}); });
  expect_error("ValueError times: expected [N=3], got [2,3]", [](Call& call) {
    call.streams[0].values = any_view(DataType::kFloat32, {3, 2});
    call.streams[0].begins = any_view(DataType::kInt64, {2});
  });
}

TEST(Errors, TargetTimes) {
  expect_error("TypeError target_times: expected int64, float32 or float64, got uint8",
               [](Call& call) { call.target_times.dtype = DataType::kUInt8; });
  expect_error("TypeError target_times: expected int64 like times, got float64",
               [](Call& call) { call.target_times.dtype = DataType::kFloat64; });
  expect_error("TypeError target_times: expected float64 like times, got float32", [](Call& call) {
    call.streams[0].times.dtype = DataType::kFloat64;
    call.target_times.dtype = DataType::kFloat32;
  });
  expect_error("ValueError target_times: expected [B,T] or [T], got []",
               [](Call& call) { call.target_times = any_view(DataType::kInt64, {}); });
  expect_error("ValueError target_times: expected [B,T] or [T], got [1,2,3]",
               [](Call& call) { call.target_times = any_view(DataType::kInt64, {1, 2, 3}); });
  expect_error("ValueError target_times: expected [B=2,T], got [3,4]",
               [](Call& call) { call.target_times = any_view(DataType::kInt64, {3, 4}); });
}

TEST(Errors, Lengths) {
  expect_error("TypeError lengths: expected int64 or int32, got float32",
               [](Call& call) { call.streams[0].lengths = any_view(DataType::kFloat32, {2}); });
  expect_error("ValueError lengths: expected [B] or [], got [2,1]",
               [](Call& call) { call.streams[0].lengths = any_view(DataType::kInt64, {2, 1}); });
  expect_error("ValueError lengths: expected [B=2], got [3]",
               [](Call& call) { call.streams[0].lengths = any_view(DataType::kInt64, {3}); });
}

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

TEST(Errors, Begins) {
  const auto expect_begins_error = [](const std::string& expected, const Tensor& begins,
                                      const Tensor& lengths) {
    expect_error(expected, [&](Call& call) {
      static const Tensor times(DataType::kInt64, {3});
      call.streams[0].values = any_view(DataType::kFloat32, {3, 2});
      call.streams[0].times = times.view();
      call.streams[0].begins = begins.view();
      call.streams[0].lengths = lengths.view();
    });
  };
  const Tensor lengths(DataType::kInt64, {2}, {2, 2});
  expect_begins_error("TypeError begins: expected int64, got int32", Tensor(DataType::kInt32, {2}),
                      lengths);
  expect_begins_error("ValueError begins: expected [B=2], got [3]", Tensor(DataType::kInt64, {3}),
                      lengths);
  expect_begins_error("ValueError begins: expected [B=2], got []", Tensor(DataType::kInt64, {}),
                      lengths);
  expect_begins_error("ValueError lengths: expected a length for every one of begins, got none",
                      Tensor(DataType::kInt64, {2}), Tensor());
  expect_begins_error("ValueError begins: expected 0 to N=3, got -1 at [0]",
                      Tensor(DataType::kInt64, {2}, {-1, 0}), lengths);
  expect_begins_error("ValueError begins: expected 0 to N=3, got 4 at [1]",
                      Tensor(DataType::kInt64, {2}, {0, 4}), lengths);
  expect_begins_error("ValueError lengths: expected 0 to 1 (rows from its begin on), got 2 at [1]",
                      Tensor(DataType::kInt64, {2}, {0, 2}), lengths);
}

TEST(Errors, Valid) {
  expect_error("TypeError valid: expected bool, got uint8",
               [](Call& call) { call.streams[0].valid = any_view(DataType::kUInt8, {2, 3}); });
  expect_error("ValueError valid: expected [B,S] or [S], got [1,2,3]",
               [](Call& call) { call.streams[0].valid = any_view(DataType::kBool, {1, 2, 3}); });
  expect_error("ValueError valid: expected [B=2,S=3], got [2,4]",
               [](Call& call) { call.streams[0].valid = any_view(DataType::kBool, {2, 4}); });
  expect_error("ValueError valid: expected [S=3], got [4]",
               [](Call& call) { call.streams[0].valid = any_view(DataType::kBool, {4}); });
}

TEST(Errors, SubtractAndMultiply) {
  expect_error("TypeError subtract: expected float32 (the compute type), got float64",
               [](Call& call) { call.streams[0].subtract = any_view(DataType::kFloat64, {2}); });
  expect_error("TypeError multiply: expected float64 (the compute type), got float32",
               [](Call& call) {
                 call.values_out.dtype = DataType::kFloat64;
                 call.streams[0].multiply = any_view(DataType::kFloat32, {2});
               });
  expect_error("ValueError subtract: expected [D=2], got [3]",
               [](Call& call) { call.streams[0].subtract = any_view(DataType::kFloat32, {3}); });
  expect_error("ValueError multiply: expected [D=2], got [2,1]",
               [](Call& call) { call.streams[0].multiply = any_view(DataType::kFloat32, {2, 1}); });
}

TEST(Errors, Devices) {
  const auto expect_device_error = [](const std::string& name,
                                      const std::function<void(Call&)>& spoil) {
    expect_error("ValueError " + name + ": expected device cpu, got cuda", spoil);
  };
  const auto on_device = [](DataType type, std::initializer_list<std::int64_t> shape) {
    TensorView view = any_view(type, shape);
    view.device = DeviceType::kCuda;
    return view;
  };
  constexpr DeviceType kCuda = DeviceType::kCuda;
  expect_device_error("values", [](Call& call) { call.streams[0].values.device = kCuda; });
  expect_device_error("times", [](Call& call) { call.streams[0].times.device = kCuda; });
  expect_device_error("target_times", [](Call& call) { call.target_times.device = kCuda; });
  expect_device_error("values_out", [](Call& call) { call.values_out.device = kCuda; });
  expect_device_error("valid_out", [](Call& call) { call.valid_out.device = kCuda; });
  expect_device_error(
      "lengths", [&](Call& call) { call.streams[0].lengths = on_device(DataType::kInt64, {2}); });
  expect_device_error(
      "valid", [&](Call& call) { call.streams[0].valid = on_device(DataType::kBool, {2, 3}); });
  expect_device_error("subtract", [&](Call& call) {
    call.streams[0].subtract = on_device(DataType::kFloat32, {2});
  });
  expect_device_error("multiply", [&](Call& call) {
    call.streams[0].multiply = on_device(DataType::kFloat32, {2});
  });
  expect_device_error("begins", [&](Call& call) {
    call.streams[0].values = any_view(DataType::kFloat32, {3, 2});
    call.streams[0].times = any_view(DataType::kInt64, {3});
    call.streams[0].lengths = any_view(DataType::kInt64, {2});
    call.streams[0].begins = on_device(DataType::kInt64, {2});
  });
}

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
  expect_layout_error("at most 256 runs, got more", many, kMaxRuns + 1);
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
  const auto floating = [](Call& call) {
    call.streams[0].times.dtype = DataType::kFloat64;
    call.target_times.dtype = DataType::kFloat64;
  };
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

TEST(Errors, OutsideNanForIntegers) {
  expect_error("ValueError outside: expected hold, zero or extrapolate for uint8 output, got 'nan'",
               [](Call& call) {
                 call.options.outside = Outside::kNan;
                 call.values_out.dtype = DataType::kUInt8;
               });
}

TEST(Errors, Outputs) {
  expect_error(
      "TypeError values_out: expected float16, bfloat16, float32, float64 or uint8, got int64",
      [](Call& call) { call.values_out.dtype = DataType::kInt64; });
  expect_error("ValueError values_out: expected [B=2,T=4,D=2], got [2,4,3]",
               [](Call& call) { call.values_out = any_view(DataType::kFloat32, {2, 4, 3}); });
  expect_error("ValueError values_out: expected [B=2,T=4,D=2], got [4,2]",
               [](Call& call) { call.values_out = any_view(DataType::kFloat32, {4, 2}); });
  expect_error("ValueError values_out: expected [B=2,T=4,D=2], got [1,4,2]",
               [](Call& call) { call.values_out = any_view(DataType::kFloat32, {1, 4, 2}); });
  expect_error("ValueError values_out: expected [T=4,D=2], got [1,4,2]", [](Call& call) {
    call.streams[0].values = any_view(DataType::kFloat32, {3, 2});
    call.streams[0].times = any_view(DataType::kInt64, {3});
    call.target_times = any_view(DataType::kInt64, {4});
    call.values_out = any_view(DataType::kFloat32, {1, 4, 2});
  });
  expect_error("ValueError values_out: expected a last stride of 1, got 4",
               [](Call& call) { call.values_out.strides[2] = 4; });
  expect_error("TypeError valid_out: expected bool, got uint8",
               [](Call& call) { call.valid_out.dtype = DataType::kUInt8; });
  expect_error("ValueError valid_out: expected [B=2,T=4,streams=1], got [2,4]",
               [](Call& call) { call.valid_out = any_view(DataType::kBool, {2, 4}); });
}

TEST(Errors, UnorderedTimes) {
  const auto expect_order_error = [](const std::string& expected, const Tensor& times) {
    const Tensor targets(times.type(), {2, 4});
    expect_error(expected, [&](Call& call) {
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

TEST(Errors, OfSeveralStreamsTheOneIsNamed) {
  expect_error("ValueError streams: expected 1 to 64, got 0",
               [](Call& call) { call.streams.clear(); });
  expect_error("ValueError streams[1].values: expected [B=2,S,D], got [3,3,2]", [](Call& call) {
    call.streams.push_back(call.streams[0]);
    call.streams[1].values = any_view(DataType::kFloat32, {3, 3, 2});
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

// The first stream is in order; the second one's fault must be found before the first is written.
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

TEST(Errors, Backward) {
  expect_backward_error(
      "TypeError grad_output: expected float16, bfloat16, float32 or float64, got uint8",
      [](Call& call) { call.grad_output_view.dtype = DataType::kUInt8; });
  expect_backward_error(
      "ValueError grad_output: expected [B=2,T=4,D=2], got [2,4,3]",
      [](Call& call) { call.grad_output_view = any_view(DataType::kFloat32, {2, 4, 3}); });
  expect_backward_error("ValueError grad_output: expected device cpu, got cuda",
                        [](Call& call) { call.grad_output_view.device = DeviceType::kCuda; });
  expect_backward_error("TypeError grad_values: expected float32, got float64",
                        [](Call& call) { call.grad_values_view.dtype = DataType::kFloat64; });
  expect_backward_error(
      "ValueError grad_values: expected contiguous [2,3,2], got [3,2]",
      [](Call& call) { call.grad_values_view = any_view(DataType::kFloat32, {3, 2}); });
  expect_backward_error("ValueError grad_values: expected contiguous [2,3,2], got [2,3,2]",
                        [](Call& call) { call.grad_values_view.strides[1] = 4; });
  expect_backward_error("ValueError grad_values: expected device cpu, got cuda",
                        [](Call& call) { call.grad_values_view.device = DeviceType::kCuda; });
  expect_backward_error(
      "TypeError values: expected float16, bfloat16, float32, float64 or uint8, got bool",
      [](Call& call) { call.streams[0].values.dtype = DataType::kBool; });
  expect_backward_error("ValueError times: expected [B=2,S=3], got [2,4]", [](Call& call) {
    call.streams[0].times = any_view(DataType::kInt64, {2, 4});
  });
}

TEST(Errors, ABuildWithoutCudaSaysSo) {
  Call call;
  call.context = on_cuda(nullptr);
  const std::string error = error_of([&] { call.align(); });
  const std::string backward_error = error_of([&] { call.align_backward(); });
#if defined(ROBOCACHE_HAS_CUDA)
  EXPECT_EQ(error, "ValueError values: expected device cuda, got cpu");
  EXPECT_EQ(backward_error, error);
#else
  EXPECT_EQ(error, "DeviceError context: expected the CPU, got CUDA in " + cuda_problem(0));
  EXPECT_EQ(backward_error, error);
  EXPECT_NE(error.find("a build without CUDA; install nvcc"), std::string::npos) << error;
#endif
  EXPECT_TRUE(call.is_untouched());
}

#if defined(ROBOCACHE_HAS_CUDA)
TEST(Errors, AMachineWithoutAUsableGpuIsADeviceError) {
  if (cuda_problem(0).empty()) GTEST_SKIP() << "this machine has a usable GPU";
  Call call;
  call.context = on_cuda(nullptr);
  for (TensorView* view : {&call.values_out, &call.valid_out}) view->device = DeviceType::kCuda;
  call.streams[0].values.device = DeviceType::kCuda;
  call.streams[0].times.device = DeviceType::kCuda;
  call.target_times.device = DeviceType::kCuda;
  const std::string error = error_of([&] { call.align(); });
  EXPECT_EQ(error.rfind("DeviceError ", 0), 0U) << error;
  EXPECT_TRUE(call.is_untouched());
}

TEST(Errors, TheCudaContextStaysUsable) {
  const Engine& cuda = engine("cuda");
  if (!cuda.problem().empty()) GTEST_SKIP() << cuda.problem();
  EXPECT_NE(cuda_problem(12345), "");
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "left behind by a device that is not there";
  Call call;
  call.streams[0].layout = {{Method::kSlerpXyzw, 2}};
  EXPECT_EQ(error_of([&] {
              cuda.align(call.streams, call.target_times, call.options, call.values_out,
                         call.valid_out);
            }),
            "ValueError method: expected a run of 4 channels for slerp_xyzw, got 2");
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_TRUE(call.is_untouched());
  Problem problem = random_problem(84'000);
  EXPECT_EQ(check_alignment(cuda, problem), "");
}
#endif

}  // namespace
}  // namespace robocache::testing
