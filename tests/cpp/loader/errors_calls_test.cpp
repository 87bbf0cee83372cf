// Error messages about the contents of tensors, the order of samples, and calls of a plan. A
// refused call writes nothing.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "loader/errors_call.h"

namespace robocache::testing {
namespace {

TEST(LoaderErrors, Contents) {
  expect_error(
      "ValueError row_offsets['force']: expected ascending offsets, got 3 after 4 at [2]",
      [](LoaderCall& call) { call.by_time().row_offsets = LoaderCall::numbers({0, 4, 3}); });
  expect_error(
      "ValueError row_offsets['force']: expected at most N=6, got 7 at [2]",
      [](LoaderCall& call) { call.by_time().row_offsets = LoaderCall::numbers({0, 4, 7}); });
  expect_error(
      "ValueError row_offsets['force']: expected 0 or more, got -1 at [0]",
      [](LoaderCall& call) { call.by_time().row_offsets = LoaderCall::numbers({-1, 4, 6}); });
  expect_error(
      "ValueError times['force']: expected ascending times in an episode, got 4 after 5 at [5], in "
      "episode 1",
      [](LoaderCall& call) { call.by_time().times.set_int(5, 4); });
  expect_error(
      "ValueError received['force']: expected ascending times in an episode, got 1 after 2 at [2], "
      "in "
      "episode 0",
      [](LoaderCall& call) { call.by_time().received = LoaderCall::numbers({0, 2, 1, 3, 0, 0}); });
  expect_error(
      "ValueError offsets['force']: expected ascending offsets with method \"sum\", got [0,-5]",
      [](LoaderCall& call) {
        call.by_time().options.spec.layout = {{Method::kSum, 4}};
        call.by_time().window_offsets = LoaderCall::numbers({0, -5});
        call.by_time().fill_spec();
      });
  expect_error(
      "ValueError window_offsets['force']: expected 0 as the spec has it, got -5 at [1]",
      [](LoaderCall& call) { call.by_time().window_offsets = LoaderCall::numbers({-10, -5}); });
  expect_error("ValueError anchors: expected episodes of 0 to 1, got 2 at [1]",
               [](LoaderCall& call) { call.problem.anchors.set_int(2, 2); });
  expect_error("ValueError anchors: expected frames of 0 or more, got -1 at [2]",
               [](LoaderCall& call) { call.problem.anchors.set_int(4, -(std::int64_t{1} << 32)); });
}

TEST(LoaderErrors, AnchorsEpisodesAndOrder) {
  expect_error("ValueError anchors: expected [A,2], got [6]",
               [](LoaderCall& call) { call.problem.anchors = Tensor(DataType::kInt64, {6}); });
  expect_error("ValueError anchors: expected one or more, got none",
               [](LoaderCall& call) { call.problem.anchors = Tensor(DataType::kInt64, {0, 2}); });
  expect_error("ValueError episodes: expected [E,4], got [2,2]",
               [](LoaderCall& call) { call.problem.episodes = Tensor(DataType::kInt64, {2, 2}); });
  expect_error("ValueError ranks: expected 1 to 3 (one sample for each), got 4",
               [](LoaderCall& call) { call.problem.order.ranks = 4; });
  expect_error("ValueError rank: expected 0 to 1, got 2", [](LoaderCall& call) {
    call.problem.order.ranks = 2;
    call.problem.order.rank = 2;
  });
  expect_error("ValueError batch_size: expected 1 to 536870911, got 0",
               [](LoaderCall& call) { call.problem.order.batch_size = 0; });
  expect_error(
      "ValueError batch_size: expected 1 to 3 (the samples of each rank, as drop_last leaves out "
      "smaller ones), got 4",
      [](LoaderCall& call) {
        call.problem.order.drop_last = true;
        call.problem.order.batch_size = 4;
      });
}

TEST(LoaderErrors, Mixtures) {
  // Two parts, of one anchor and of two.
  const auto mixture = [](LoaderCall& call) -> LoaderProblem& {
    LoaderProblem& problem = call.problem;
    problem.parts = LoaderCall::numbers({0, 1, 3});
    problem.thresholds = LoaderCall::numbers({1, 0});
    problem.order.samples = 5;
    return problem;
  };
  expect_error("no error", [&](LoaderCall& call) { mixture(call); });
  expect_error("ValueError samples: expected 0 to A=3 without parts, got 5", [&](LoaderCall& call) {
    mixture(call).parts = {};
    call.problem.thresholds = {};
  });
  expect_error("ValueError thresholds: expected none without parts, got some",
               [&](LoaderCall& call) { mixture(call).parts = {}; });
  expect_error("ValueError thresholds: expected [M=2], got none",
               [&](LoaderCall& call) { mixture(call).thresholds = {}; });
  expect_error("ValueError thresholds: expected [M=2], got [3]", [&](LoaderCall& call) {
    mixture(call).thresholds = LoaderCall::numbers({1, 2, 3});
  });
  expect_error("ValueError parts: expected [M+1] of one part or more, got [1]",
               [&](LoaderCall& call) { mixture(call).parts = LoaderCall::numbers({0}); });
  expect_error("TypeError parts: expected int64, got float64",
               [&](LoaderCall& call) { mixture(call).parts = Tensor(DataType::kFloat64, {3}); });
  expect_error("ValueError parts: expected 0 to A=3, got -1 at [0]",
               [&](LoaderCall& call) { mixture(call).parts = LoaderCall::numbers({-1, 1, 3}); });
  expect_error("ValueError parts: expected 1 to A=3, got 0 at [2]",
               [&](LoaderCall& call) { mixture(call).parts = LoaderCall::numbers({0, 1, 0}); });
  expect_error("ValueError parts: expected 1 to A=3, got 4 at [2]",
               [&](LoaderCall& call) { mixture(call).parts = LoaderCall::numbers({0, 1, 4}); });
  expect_error(
      "ValueError parts: expected anchors in every part that is drawn from, got none in part 0",
      [&](LoaderCall& call) { mixture(call).parts = LoaderCall::numbers({1, 1, 3}); });
  expect_error(
      "ValueError parts: expected anchors in every part that is drawn from, got none in part 1",
      [&](LoaderCall& call) { mixture(call).parts = LoaderCall::numbers({0, 3, 3}); });
  expect_error("ValueError thresholds: expected ascending numbers of 64 bits, got 1 after 2 at [1]",
               [&](LoaderCall& call) {
                 mixture(call).parts = LoaderCall::numbers({0, 1, 2, 3});
                 call.problem.thresholds = LoaderCall::numbers({2, 1, 0});
               });
  expect_error("ValueError samples: expected 1 to 2^62, got 0",
               [&](LoaderCall& call) { mixture(call).order.samples = 0; });
  expect_error("ValueError shuffle: expected true for a mixture, got false",
               [&](LoaderCall& call) { mixture(call).order.shuffle = false; });
  expect_error("ValueError ranks: expected 1 to 5 (one sample for each), got 6",
               [&](LoaderCall& call) { mixture(call).order.ranks = 6; });
}

TEST(LoaderErrors, Calls) {
  const auto gather = [](const BatchPlan& plan, const LoaderCall& call, BatchResult& result) {
    plan.gather(call.indices.data(), 2, result.outputs().data(), result.metadata(), call.context);
  };
  const auto next = [](const BatchPlan& plan, LoaderCall& call, std::int64_t size,
                       BatchResult& result) {
    plan.next(call.state.data(), size, result.outputs().data(), result.metadata(), call.context);
  };
  expect_call_error("ValueError indices: expected 0 to 2, got 3 at [1]",
                    [&](LoaderCall& call, const BatchPlan& plan, BatchResult& result) {
                      call.indices[1] = 3;
                      gather(plan, call, result);
                    });
  expect_call_error("ValueError indices: expected 2 numbers, got null",
                    [&](LoaderCall& call, const BatchPlan& plan, BatchResult& result) {
                      plan.gather(nullptr, 2, result.outputs().data(), {}, call.context);
                    });
  expect_call_error("ValueError size: expected 2 (the batch size), got 1",
                    [&](LoaderCall& call, const BatchPlan& plan, BatchResult& result) {
                      next(plan, call, 1, result);
                    });
  expect_call_error("ValueError size: expected 1 (what the epoch has left), got 2",
                    [&](LoaderCall& call, const BatchPlan& plan, BatchResult& result) {
                      call.state[1] = 2;
                      next(plan, call, 2, result);
                    });
  expect_call_error("ValueError state: expected a position of 0 to 2, got 3",
                    [&](LoaderCall& call, const BatchPlan& plan, BatchResult& result) {
                      call.state[1] = 3;
                      next(plan, call, 2, result);
                    });
  expect_call_error("ValueError state: expected a position of 0 to 1, got 2",
                    [&](LoaderCall& call, const BatchPlan&, BatchResult& result) {
                      call.problem.order.drop_last = true;  // a rest of 1 of 3 makes no batch of 2
                      call.state[1] = 2;
                      next(call.plan(), call, 1, result);
                    });
  expect_call_error("ValueError position: expected 0 to 1, got 2",
                    [&](LoaderCall& call, const BatchPlan&, BatchResult&) {
                      call.problem.order.drop_last = true;
                      call.plan().batch_size_at(2);
                    });
  expect_call_error("ValueError state: expected an epoch of 0 or more, got -1",
                    [&](LoaderCall& call, const BatchPlan& plan, BatchResult& result) {
                      call.state[0] = -1;
                      next(plan, call, 2, result);
                    });
  expect_call_error("ValueError row_stride['force']: expected 4 to 536870911, got 3",
                    [&](LoaderCall& call, const BatchPlan& plan, BatchResult& result) {
                      std::vector<WindowOutput> outputs = result.outputs();
                      outputs[0].row_stride = 3;
                      plan.gather(call.indices.data(), 2, outputs.data(), {}, call.context);
                    });
  expect_call_error("ValueError output['action']: expected memory for the values, got none",
                    [&](LoaderCall& call, const BatchPlan& plan, BatchResult& result) {
                      std::vector<WindowOutput> outputs = result.outputs();
                      outputs[1].values = nullptr;
                      plan.gather(call.indices.data(), 2, outputs.data(), {}, call.context);
                    });
  expect_call_error("ValueError context: expected device cpu, got cuda",
                    [&](LoaderCall& call, const BatchPlan& plan, BatchResult& result) {
                      plan.gather(call.indices.data(), 2, result.outputs().data(), {},
                                  on_cuda(nullptr));
                    });
  expect_call_error(
      "ValueError position: expected 0 to 2, got 3",
      [&](LoaderCall&, const BatchPlan& plan, BatchResult&) { plan.batch_size_at(3); });
  EXPECT_EQ(error_of([] { permuted(0, 0, 0, 0); }), "ValueError count: expected 1 to 2^62, got 0");
  EXPECT_EQ(error_of([] { permuted(0, 0, 4, 4); }), "ValueError place: expected 0 to 3, got 4");
}

}  // namespace
}  // namespace robocache::testing
