// What the loader refuses, and in which words; nothing is written then.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "support/error_of.h"
#include "loader/problem.h"

namespace robocache::testing {
namespace {

/// A plan that is right until something is changed: two episodes of four and two rows, of two
/// streams.
struct Call {
  LoaderProblem problem;
  std::vector<std::int64_t> indices = {0, 2};
  std::vector<std::int64_t> state = {0, 0, 0, 0};
  ExecutionContext context = on_cpu();

  Call() {
    for (const Timeline timeline : {Timeline::kTime, Timeline::kRows}) {
      WindowData window;
      window.options.name = timeline == Timeline::kTime ? "force" : "action";
      window.options.timeline = timeline;
      window.values = Tensor(DataType::kFloat32, {6, 4});
      window.times = numbers({0, 10, 20, 30, 5, 15});
      window.offsets = numbers({0, 4, 6});
      window.steps = numbers({-10, 0});
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

void expect(const std::string& error, const std::function<void(Call&)>& spoil) {
  Call call;
  spoil(call);
  EXPECT_EQ(error_of([&] { call.plan(); }), error);
}

/// What `make` throws, given a plan and its outputs; these must stay as they are.
void expect_of_call(const std::string& error,
                    const std::function<void(Call&, const BatchPlan&, BatchResult&)>& make) {
  Call call;
  const BatchPlan plan = call.plan();
  BatchResult result(call.problem, 2);
  EXPECT_EQ(error_of([&] { make(call, plan, result); }), error);
  for (const Tensor* tensor : result.tensors()) {
    EXPECT_TRUE(tensor->is_untouched(BatchResult::kGap));
  }
}

TEST(LoaderErrors, NothingIsWrong) {
  expect("no error", [](Call&) {});
}

TEST(LoaderErrors, Streams) {
  expect("ValueError force.offsets: expected [Es+1], 1 to E+1=3 numbers, got [4]",
         [](Call& call) { call.by_time().offsets = Call::numbers({0, 4, 6, 6}); });
  expect("ValueError force.offsets: expected [Es+1], 1 to E+1=3 numbers, got [0]",
         [](Call& call) { call.by_time().offsets = Call::numbers({}); });
  expect("no error", [](Call& call) { call.by_time().offsets = Call::numbers({0, 4}); });
  expect("ValueError force.offsets: expected [Es+1], 1 to 2 numbers from first_episode on, got [3]",
         [](Call& call) { call.by_time().options.first_episode = 1; });
  expect("ValueError force.first_episode: expected 0 to E=2, got 3",
         [](Call& call) { call.by_time().options.first_episode = 3; });
  expect("ValueError force.first_episode: expected 0 to E=2, got -1",
         [](Call& call) { call.by_time().options.first_episode = -1; });
  expect("no error", [](Call& call) { call.by_time().begins = Call::numbers({8, 0}); });
  expect("ValueError force.begins: expected [Es=2], got [3]",
         [](Call& call) { call.by_time().begins = Call::numbers({0, 4, 6}); });
  expect("TypeError force.begins: expected int64, got float64",
         [](Call& call) { call.by_time().begins = Tensor(DataType::kFloat64, {2}); });
  expect("TypeError force.offsets: expected int64, got float32",
         [](Call& call) { call.by_time().offsets = Tensor(DataType::kFloat32, {3}); });
  expect("ValueError force.steps: expected [K], got [2,1]",
         [](Call& call) { call.by_time().steps = Tensor(DataType::kInt64, {2, 1}); });
  expect("ValueError force.values: expected [N,D], got [6]",
         [](Call& call) { call.by_time().values = Tensor(DataType::kFloat32, {6}); });
  expect("TypeError force.values: expected float16, bfloat16, float32, float64 or uint8, got int32",
         [](Call& call) { call.by_time().values = Tensor(DataType::kInt32, {6, 4}); });
  expect("ValueError force.values: expected a last stride of 1, got 2",
         [](Call& call) { call.by_time().values = Tensor(DataType::kFloat32, {6, 4}, {8, 2}, 0); });
  expect("ValueError force.times: expected [N=6], got none",
         [](Call& call) { call.by_time().times = {}; });
  expect("no error", [](Call& call) { call.by_row().times = {}; });
  expect("ValueError force.times: expected [N=6], got [5]",
         [](Call& call) { call.by_time().times = Call::numbers({0, 1, 2, 3, 4}); });
  expect("ValueError force.times: expected contiguous [N=6], got gaps between elements",
         [](Call& call) { call.by_time().times = Tensor(DataType::kInt64, {6}, {2}, 0); });
  expect("TypeError force.valid: expected bool, got uint8",
         [](Call& call) { call.by_time().valid = Tensor(DataType::kUInt8, {6}); });
  expect("ValueError force.received: expected [N=6], got [4]",
         [](Call& call) { call.by_time().received = Call::numbers({0, 1, 2, 3}); });
  expect("ValueError force.latency: expected 0 or more, got -1",
         [](Call& call) { call.by_time().options.latency_ns = -1; });
  expect("TypeError force.subtract: expected float32 (the compute type), got float64",
         [](Call& call) { call.by_time().subtract = Tensor(DataType::kFloat64, {4}); });
  expect("ValueError force.multiply: expected contiguous [D], got gaps between elements",
         [](Call& call) { call.by_time().multiply = Tensor(DataType::kFloat32, {4}, {2}, 0); });
  expect("ValueError force.method: expected runs that sum to D=4, got 3",
         [](Call& call) { call.by_time().options.layout = {{Method::kLinear, 3}}; });
  expect("ValueError force.mean_window: expected a duration for method 'mean', got None",
         [](Call& call) { call.by_time().options.layout = {{Method::kMean, 4}}; });
  expect("ValueError streams: expected at most 64, got 65",
         [](Call& call) { call.problem.windows.assign(std::size_t{65}, call.by_row()); });
}

TEST(LoaderErrors, WindowsByRow) {
  expect("ValueError action.max_gap: expected none for a window by row, got one",
         [](Call& call) { call.by_row().options.max_gap = Duration::nanoseconds(1); });
  expect("ValueError action.tolerance: expected none for a window by row, got one",
         [](Call& call) { call.by_row().options.tolerance = Duration::nanoseconds(1); });
  expect("ValueError action.outside: expected hold for a window by row, got 1",
         [](Call& call) { call.by_row().options.outside = Outside::kZero; });
}

TEST(LoaderErrors, Images) {
  const auto image = [](Call& call) -> WindowData& {
    WindowData& window = call.by_time();
    window.values = Tensor(DataType::kUInt8, {6, 12});
    window.options.layout = {{Method::kPrevious, 12}};
    window.options.channels_first = true;
    window.options.pixels = 4;
    window.options.colors = 3;
    return window;
  };
  expect("no error", [&](Call& call) { image(call); });
  expect("TypeError force.values: expected uint8 for images whose channels come first, got float32",
         [&](Call& call) { image(call).values = Tensor(DataType::kFloat32, {6, 12}); });
  expect("ValueError force.colors: expected 1 to 4, got 6", [&](Call& call) {
    image(call).options.pixels = 2;
    call.by_time().options.colors = 6;
  });
  expect(
      "ValueError force.pixels: expected pixels and colors of which there are D=12, got 5 times 3",
      [&](Call& call) { image(call).options.pixels = 5; });
  expect("ValueError force.method: expected linear, previous or nearest for images, got another",
         [&](Call& call) { image(call).options.layout = {{Method::kAngle, 12}}; });
  expect("TypeError force.multiply: expected float64, got float32",
         [&](Call& call) { image(call).multiply = Tensor(DataType::kFloat32, {3}); });
  expect("ValueError force.subtract: expected [colors=3], got [12]",
         [&](Call& call) { image(call).subtract = Tensor(DataType::kFloat64, {12}); });
}

TEST(LoaderErrors, RelativeWindows) {
  const auto columns = [](const std::vector<std::int64_t>& list) {
    Tensor tensor(DataType::kInt32, {static_cast<std::int64_t>(list.size())});
    for (std::size_t i = 0; i < list.size(); ++i) {
      tensor.set(static_cast<std::int64_t>(i), static_cast<double>(list[i]));
    }
    return tensor;
  };
  // Of action, by row, to force, by time.
  const auto relative = [&](Call& call) -> WindowData& {
    call.by_row().options.relative_to = 0;
    call.by_row().reference_columns = columns({0, 1, -1, 3});
    return call.by_row();
  };
  expect("no error", [&](Call& call) { relative(call); });
  expect("ValueError action.relative_to: expected a number below that of streams, 2, got 2",
         [&](Call& call) { relative(call).options.relative_to = 2; });
  expect("ValueError action.relative_to: expected a stream's number, or -1, got -2",
         [&](Call& call) { relative(call).options.relative_to = -2; });
  expect("ValueError action.relative_to: expected another stream, got itself",
         [&](Call& call) { relative(call).options.relative_to = 1; });
  expect("ValueError force.relative_to: expected a stream that is not relative itself, got action",
         [&](Call& call) {
           relative(call);
           call.by_time().options.relative_to = 1;
           call.by_time().reference_columns = columns({0, 1, 2, 3});
         });
  expect("ValueError action.reference_columns: expected none without relative_to, got some",
         [&](Call& call) { relative(call).options.relative_to = -1; });
  expect("ValueError action.reference_columns: expected [D=4], got none",
         [&](Call& call) { relative(call).reference_columns = {}; });
  expect("ValueError action.reference_columns: expected [D=4], got [3]",
         [&](Call& call) { relative(call).reference_columns = columns({0, 1, 2}); });
  expect("TypeError action.reference_columns: expected int32, got int64",
         [&](Call& call) { relative(call).reference_columns = Call::numbers({0, 1, 2, 3}); });
  expect("ValueError action.reference_columns: expected -1 to 3 (of force), got 4 at [1]",
         [&](Call& call) { relative(call).reference_columns.set(1, 4); });
  expect("ValueError action.reference_columns: expected -1 to 3 (of force), got -2 at [3]",
         [&](Call& call) { relative(call).reference_columns.set(3, -2); });
  for (const Timeline timeline : {Timeline::kTime, Timeline::kRows}) {
    expect(
        "ValueError action.reference_columns: expected -1 for a quaternion's channels, got 0 at "
        "[0]",
        [&](Call& call) {
          relative(call).options.layout = {{Method::kSlerpXyzw, 4}};
          call.by_row().options.timeline = timeline;
        });
  }
  for (const Method method : {Method::kSlerpXyzw, Method::kSum}) {
    expect(
        "ValueError action.reference_columns: expected channels of force that are no quaternion's "
        "and no sums, got 0 at [0]",
        [&](Call& call) {
          relative(call);
          call.by_time().options.layout = {{method, 4}};
        });
    expect("no error", [&](Call& call) {
      relative(call);
      call.by_time().options.layout = {{method, 4}};
      call.by_time().options.timeline = Timeline::kRows;
    });
  }
  expect(
      "TypeError action.out_type: expected float16, bfloat16, float32 or float64 with "
      "relative_to, got uint8",
      [&](Call& call) { relative(call).options.out_type = DataType::kUInt8; });
  const auto make_image = [](WindowData& window) {
    window.values = Tensor(DataType::kUInt8, {6, 4});
    window.options.channels_first = true;
    window.options.pixels = 2;
    window.options.colors = 2;
  };
  expect(
      "ValueError action.relative_to: expected none for images whose channels come first, got "
      "force",
      [&](Call& call) { make_image(relative(call)); });
  expect(
      "ValueError action.relative_to: expected a stream whose channels do not come first, got "
      "force",
      [&](Call& call) {
        relative(call);
        make_image(call.by_time());
      });
  expect(
      "ValueError action.relative_to: expected a stream of at most 4096 channels, got force of "
      "4097",
      [&](Call& call) {
        relative(call);
        call.by_time().values = Tensor(DataType::kFloat32, {6, 4097});
      });
  expect(
      "ValueError streams: expected at most 64, relative ones counted twice, got 64 and 1 "
      "relative ones",
      [&](Call& call) {
        relative(call);
        call.problem.windows.resize(std::size_t{64}, call.by_time());
      });
  expect("ValueError streams: expected at most 512 runs in all, got 514", [&](Call& call) {
    std::vector<robocache::Run> runs(256, {Method::kLinear, 1});
    for (std::size_t run = 1; run < runs.size(); run += 2) runs[run].method = Method::kPrevious;
    WindowData& force = call.by_time();
    relative(call);
    force.values = Tensor(DataType::kFloat32, {6, 256});
    force.options.layout = runs;
    call.by_row().options.layout = {{Method::kAngle, 2}, {Method::kLinear, 2}};
  });
}

TEST(LoaderErrors, WhatTensorsHold) {
  expect("ValueError force.offsets: expected ascending offsets, got 3 after 4 at [2]",
         [](Call& call) { call.by_time().offsets = Call::numbers({0, 4, 3}); });
  expect("ValueError force.offsets: expected at most N=6, got 7 at [2]",
         [](Call& call) { call.by_time().offsets = Call::numbers({0, 4, 7}); });
  expect("ValueError force.offsets: expected 0 or more, got -1 at [0]",
         [](Call& call) { call.by_time().offsets = Call::numbers({-1, 4, 6}); });
  expect(
      "ValueError force.times: expected ascending times in an episode, got 4 after 5 at [5], in "
      "episode 1",
      [](Call& call) { call.by_time().times.set_int(5, 4); });
  expect(
      "ValueError force.received: expected ascending times in an episode, got 1 after 2 at [2], in "
      "episode 0",
      [](Call& call) { call.by_time().received = Call::numbers({0, 2, 1, 3, 0, 0}); });
  expect("ValueError force.steps: expected ascending steps for method 'sum', got -5 after 0 at [1]",
         [](Call& call) {
           call.by_time().options.layout = {{Method::kSum, 4}};
           call.by_time().steps = Call::numbers({0, -5});
         });
  expect("ValueError anchors: expected episodes of 0 to 1, got 2 at [1]",
         [](Call& call) { call.problem.anchors.set_int(2, 2); });
  expect("ValueError anchors: expected frames of 0 or more, got -1 at [2]",
         [](Call& call) { call.problem.anchors.set_int(4, -(std::int64_t{1} << 32)); });
}

TEST(LoaderErrors, AnchorsEpisodesAndOrder) {
  expect("ValueError anchors: expected [A,2], got [6]",
         [](Call& call) { call.problem.anchors = Tensor(DataType::kInt64, {6}); });
  expect("ValueError anchors: expected one or more, got none",
         [](Call& call) { call.problem.anchors = Tensor(DataType::kInt64, {0, 2}); });
  expect("ValueError episodes: expected [E,4], got [2,2]",
         [](Call& call) { call.problem.episodes = Tensor(DataType::kInt64, {2, 2}); });
  expect("ValueError ranks: expected 1 to 3 (one sample for each), got 4",
         [](Call& call) { call.problem.order.ranks = 4; });
  expect("ValueError rank: expected 0 to 1, got 2", [](Call& call) {
    call.problem.order.ranks = 2;
    call.problem.order.rank = 2;
  });
  expect("ValueError batch_size: expected 1 to 536870911, got 0",
         [](Call& call) { call.problem.order.batch_size = 0; });
  expect(
      "ValueError batch_size: expected 1 to 3 (the samples of each rank, as drop_last leaves out "
      "smaller ones), got 4",
      [](Call& call) {
        call.problem.order.drop_last = true;
        call.problem.order.batch_size = 4;
      });
}

TEST(LoaderErrors, Mixtures) {
  // Of one anchor, and of two.
  const auto mixture = [](Call& call) -> LoaderProblem& {
    LoaderProblem& problem = call.problem;
    problem.parts = Call::numbers({0, 1, 3});
    problem.thresholds = Call::numbers({1, 0});
    problem.order.samples = 5;
    return problem;
  };
  expect("no error", [&](Call& call) { mixture(call); });
  expect("ValueError samples: expected 0 to A=3 without parts, got 5", [&](Call& call) {
    mixture(call).parts = {};
    call.problem.thresholds = {};
  });
  expect("ValueError thresholds: expected none without parts, got some",
         [&](Call& call) { mixture(call).parts = {}; });
  expect("ValueError thresholds: expected [M=2], got none",
         [&](Call& call) { mixture(call).thresholds = {}; });
  expect("ValueError thresholds: expected [M=2], got [3]",
         [&](Call& call) { mixture(call).thresholds = Call::numbers({1, 2, 3}); });
  expect("ValueError parts: expected [M+1] of one part or more, got [1]",
         [&](Call& call) { mixture(call).parts = Call::numbers({0}); });
  expect("TypeError parts: expected int64, got float64",
         [&](Call& call) { mixture(call).parts = Tensor(DataType::kFloat64, {3}); });
  expect("ValueError parts: expected 0 to A=3, got -1 at [0]",
         [&](Call& call) { mixture(call).parts = Call::numbers({-1, 1, 3}); });
  expect("ValueError parts: expected 1 to A=3, got 0 at [2]",
         [&](Call& call) { mixture(call).parts = Call::numbers({0, 1, 0}); });
  expect("ValueError parts: expected 1 to A=3, got 4 at [2]",
         [&](Call& call) { mixture(call).parts = Call::numbers({0, 1, 4}); });
  expect("ValueError parts: expected anchors in every part that is drawn from, got none in part 0",
         [&](Call& call) { mixture(call).parts = Call::numbers({1, 1, 3}); });
  expect("ValueError parts: expected anchors in every part that is drawn from, got none in part 1",
         [&](Call& call) { mixture(call).parts = Call::numbers({0, 3, 3}); });
  expect("ValueError thresholds: expected ascending numbers of 64 bits, got 1 after 2 at [1]",
         [&](Call& call) {
           mixture(call).parts = Call::numbers({0, 1, 2, 3});
           call.problem.thresholds = Call::numbers({2, 1, 0});
         });
  expect("ValueError samples: expected 1 to 2^62, got 0",
         [&](Call& call) { mixture(call).order.samples = 0; });
  expect("ValueError shuffle: expected true for a mixture, got false",
         [&](Call& call) { mixture(call).order.shuffle = false; });
  expect("ValueError ranks: expected 1 to 5 (one sample for each), got 6",
         [&](Call& call) { mixture(call).order.ranks = 6; });
}

TEST(LoaderErrors, Calls) {
  const auto gather = [](const BatchPlan& plan, const Call& call, BatchResult& result) {
    plan.gather(call.indices.data(), 2, result.outputs().data(), result.metadata(), call.context);
  };
  const auto next = [](const BatchPlan& plan, Call& call, std::int64_t size, BatchResult& result) {
    plan.next(call.state.data(), size, result.outputs().data(), result.metadata(), call.context);
  };
  expect_of_call("ValueError indices: expected 0 to 2, got 3 at [1]",
                 [&](Call& call, const BatchPlan& plan, BatchResult& result) {
                   call.indices[1] = 3;
                   gather(plan, call, result);
                 });
  expect_of_call("ValueError indices: expected so many numbers, got none",
                 [&](Call& call, const BatchPlan& plan, BatchResult& result) {
                   plan.gather(nullptr, 2, result.outputs().data(), {}, call.context);
                 });
  expect_of_call(
      "ValueError size: expected 2 (the batch size), got 1",
      [&](Call& call, const BatchPlan& plan, BatchResult& result) { next(plan, call, 1, result); });
  expect_of_call("ValueError size: expected 1 (what the epoch has left), got 2",
                 [&](Call& call, const BatchPlan& plan, BatchResult& result) {
                   call.state[1] = 2;
                   next(plan, call, 2, result);
                 });
  expect_of_call("ValueError state: expected a position of 0 to 2, got 3",
                 [&](Call& call, const BatchPlan& plan, BatchResult& result) {
                   call.state[1] = 3;
                   next(plan, call, 2, result);
                 });
  expect_of_call("ValueError state: expected a position of 0 to 1, got 2",
                 [&](Call& call, const BatchPlan&, BatchResult& result) {
                   call.problem.order.drop_last = true;  // a rest of 1 of 3 makes no batch of 2
                   call.state[1] = 2;
                   next(call.plan(), call, 1, result);
                 });
  expect_of_call("ValueError position: expected 0 to 1, got 2",
                 [&](Call& call, const BatchPlan&, BatchResult&) {
                   call.problem.order.drop_last = true;
                   call.plan().batch_size_at(2);
                 });
  expect_of_call("ValueError state: expected an epoch of 0 or more, got -1",
                 [&](Call& call, const BatchPlan& plan, BatchResult& result) {
                   call.state[0] = -1;
                   next(plan, call, 2, result);
                 });
  expect_of_call("ValueError force.row_stride: expected 4 to 536870911, got 3",
                 [&](Call& call, const BatchPlan& plan, BatchResult& result) {
                   std::vector<WindowOutput> outputs = result.outputs();
                   outputs[0].row_stride = 3;
                   plan.gather(call.indices.data(), 2, outputs.data(), {}, call.context);
                 });
  expect_of_call("ValueError action.output: expected memory for the values, got none",
                 [&](Call& call, const BatchPlan& plan, BatchResult& result) {
                   std::vector<WindowOutput> outputs = result.outputs();
                   outputs[1].values = nullptr;
                   plan.gather(call.indices.data(), 2, outputs.data(), {}, call.context);
                 });
  expect_of_call("ValueError context: expected device cpu, got cuda",
                 [&](Call& call, const BatchPlan& plan, BatchResult& result) {
                   plan.gather(call.indices.data(), 2, result.outputs().data(), {},
                               on_cuda(nullptr));
                 });
  expect_of_call("ValueError position: expected 0 to 2, got 3",
                 [&](Call&, const BatchPlan& plan, BatchResult&) { plan.batch_size_at(3); });
  EXPECT_EQ(error_of([] { permuted(0, 0, 0, 0); }), "ValueError count: expected 1 to 2^62, got 0");
  EXPECT_EQ(error_of([] { permuted(0, 0, 4, 4); }), "ValueError place: expected 0 to 3, got 4");
}

}  // namespace
}  // namespace robocache::testing
