// A call that is right, to be spoiled: what tests of errors have in common.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "align/problem.h"
#include "robocache/align.h"
#include "support/error_of.h"
#include "support/tensor.h"

namespace robocache::testing {

/// A call that is right, of shapes B=2, S=3, T=4 and D=2; its arguments may be replaced one by one.
struct Call {
  StreamData data;
  Tensor targets, out, mask, age, grad_output, grad_values;
  AlignOptions options;
  // The arguments of the call.
  std::vector<Stream> streams;
  ConstTensorView target_times, grad_output_view;
  TensorView values_out, valid_out, age_out, grad_values_view;
  std::vector<std::int64_t> scratch = std::vector<std::int64_t>(1000);
  Workspace workspace{scratch.data(), 8000};
  ExecutionContext context = on_cpu();

  Call() {
    data.values = Tensor(DataType::kFloat32, {2, 3, 2});
    data.times = Tensor(DataType::kInt64, {2, 3});
    for (std::int64_t i = 0; i < 6; ++i) data.times.set_int(i, 10 * (i % 3));
    targets = Tensor(DataType::kInt64, {2, 4});
    out = Tensor(DataType::kFloat32, {2, 4, 2});
    mask = Tensor(DataType::kBool, {2, 4, 1});
    age = Tensor(DataType::kInt64, {2, 4, 1});
    grad_output = Tensor(DataType::kFloat32, {2, 4, 2});
    grad_values = Tensor(DataType::kFloat32, {2, 3, 2});
    out.fill_bytes(kUntouched);
    mask.fill_bytes(kUntouched);
    age.fill_bytes(kUntouched);
    grad_values.fill_bytes(kUntouched);
    take_views();
  }

  /// So many streams, all like the first.
  void repeat(std::size_t count) {
    const Stream first = streams[0];
    streams.assign(count, first);
  }
  /// Times and ages of another type; all of them are 0 or what the old bits stand for.
  void set_time_type(DataType type) {
    for (Stream& stream : streams) stream.times.dtype = type;
    target_times.dtype = type;
    age_out.dtype = type;
  }

  void take_views() {
    streams = {data.stream()};
    target_times = targets.view();
    grad_output_view = grad_output.view();
    values_out = out.view();
    valid_out = mask.view();
    age_out = age.view();
    grad_values_view = grad_values.view();
  }

  void align() const {
    robocache::align(streams.data(), streams.size(), target_times, options, values_out, valid_out,
                     age_out, context);
  }
  void align_backward() const {
    robocache::align_backward(streams[0], target_times, options, grad_output_view, grad_values_view,
                              workspace, context);
  }
  bool is_untouched() const {
    return out.is_untouched(kUntouched) && mask.is_untouched(kUntouched) &&
           age.is_untouched(kUntouched) && grad_values.is_untouched(kUntouched);
  }
};

inline void expect_error(const std::string& expected, const std::function<void(Call&)>& spoil) {
  Call call;
  spoil(call);
  EXPECT_EQ(error_of([&] { call.align(); }), expected);
  EXPECT_TRUE(call.is_untouched()) << expected;
}

inline void expect_backward_error(const std::string& expected,
                                  const std::function<void(Call&)>& spoil) {
  Call call;
  spoil(call);
  EXPECT_EQ(error_of([&] { call.align_backward(); }), expected);
  EXPECT_TRUE(call.is_untouched()) << expected;
}

}  // namespace robocache::testing
