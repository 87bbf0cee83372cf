// Tensors that are refused by type, shape or device, by message; nothing has been written by then.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>

#include "align/errors_call.h"

namespace robocache::testing {
namespace {

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
  expect_device_error("age_out", [](Call& call) { call.age_out.device = kCuda; });
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
  expect_error("TypeError age_out: expected int64, got float64",
               [](Call& call) { call.age_out.dtype = DataType::kFloat64; });
  expect_error("TypeError age_out: expected float32, got int64", [](Call& call) {
    call.set_time_type(DataType::kFloat32);
    call.age_out.dtype = DataType::kInt64;
  });
  expect_error("ValueError age_out: expected [B=2,T=4,streams=1], got [2,4,2]",
               [](Call& call) { call.age_out = any_view(DataType::kInt64, {2, 4, 2}); });
  expect_error("ValueError age_out: expected [B=2,T=4,streams=1], got [4,1]",
               [](Call& call) { call.age_out = any_view(DataType::kInt64, {4, 1}); });
  expect_error("ValueError age_out: expected [T=4,streams=1], got [1,4,1]", [](Call& call) {
    call.streams[0].values = any_view(DataType::kFloat32, {3, 2});
    call.streams[0].times = any_view(DataType::kInt64, {3});
    call.target_times = any_view(DataType::kInt64, {4});
    call.values_out = any_view(DataType::kFloat32, {4, 2});
    call.valid_out = {};
    call.age_out = any_view(DataType::kInt64, {1, 4, 1});
  });
}

}  // namespace
}  // namespace robocache::testing
