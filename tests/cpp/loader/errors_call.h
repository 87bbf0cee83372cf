// Valid arguments of the loader, to be spoiled: common to the tests of its errors.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "loader/problem.h"
#include "support/error_of.h"

namespace robocache::testing {

/// Valid arguments for tests to spoil: two streams of two episodes, with four and two rows.
struct LoaderCall {
  LoaderProblem problem;
  std::vector<std::int64_t> indices = {0, 2};
  std::vector<std::int64_t> state = {0, 0, 0, 0};
  ExecutionContext context = on_cpu();

  LoaderCall() {
    for (const Timeline timeline : {Timeline::kTime, Timeline::kRows}) {
      WindowData window;
      window.options.spec.name = timeline == Timeline::kTime ? "force" : "action";
      window.options.spec.timeline = timeline;
      window.values = Tensor(DataType::kFloat32, {6, 4});
      window.times = numbers({0, 10, 20, 30, 5, 15});
      window.row_offsets = numbers({0, 4, 6});
      window.window_offsets = numbers({-10, 0});
      window.fill_spec();
      problem.windows.push_back(window);
    }
    problem.anchors = Tensor(DataType::kInt64, {3, 2});
    for (std::int64_t i = 0; i < 3; ++i) problem.anchors.set_int(2 * i + 1, 10 * i);
    problem.episodes = Tensor(DataType::kInt64, {2, 4});
    problem.order.batch_size = 2;
  }

  static Tensor numbers(const std::vector<std::int64_t>& list) {
    Tensor tensor(DataType::kInt64, {static_cast<std::int64_t>(list.size())});
    for (std::size_t i = 0; i < list.size(); ++i) {
      tensor.set_int(static_cast<std::int64_t>(i), list[i]);
    }
    return tensor;
  }

  WindowData& by_time() { return problem.windows[0]; }
  WindowData& by_row() { return problem.windows[1]; }
  BatchPlan plan() const {
    return {problem.streams(), problem.anchors.view(), problem.episodes.view(), problem.drawing(),
            context};
  }
};

/// Expects an error of a plan of spoiled arguments.
inline void expect_error(const std::string& error, const std::function<void(LoaderCall&)>& spoil) {
  LoaderCall call;
  spoil(call);
  EXPECT_EQ(error_of([&] { call.plan(); }), error);
}

/// Expects an error of `make`, which gets a valid plan and its outputs; these must stay unchanged.
inline void expect_call_error(
    const std::string& error,
    const std::function<void(LoaderCall&, const BatchPlan&, BatchResult&)>& make) {
  LoaderCall call;
  const BatchPlan plan = call.plan();
  BatchResult result(call.problem, 2);
  EXPECT_EQ(error_of([&] { make(call, plan, result); }), error);
  for (const Tensor* tensor : result.tensors()) {
    EXPECT_TRUE(tensor->is_untouched(BatchResult::kGap));
  }
}

}  // namespace robocache::testing
