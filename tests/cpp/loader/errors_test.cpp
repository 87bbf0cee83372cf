// What the loader refuses, and in which words; nothing is written then.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "loader/problem.h"
#include "support/error_of.h"

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
  expect("ValueError row_offsets['force']: expected [Es+1], 1 to E+1=3 numbers, got [4]",
         [](Call& call) { call.by_time().row_offsets = Call::numbers({0, 4, 6, 6}); });
  expect("ValueError row_offsets['force']: expected [Es+1], 1 to E+1=3 numbers, got [0]",
         [](Call& call) { call.by_time().row_offsets = Call::numbers({}); });
  expect("no error", [](Call& call) { call.by_time().row_offsets = Call::numbers({0, 4}); });
  expect(
      "ValueError row_offsets['force']: expected [Es+1], 1 to 2 numbers from first_episode on, got "
      "[3]",
      [](Call& call) { call.by_time().options.first_episode = 1; });
  expect("ValueError first_episode['force']: expected 0 to E=2, got 3",
         [](Call& call) { call.by_time().options.first_episode = 3; });
  expect("ValueError first_episode['force']: expected 0 to E=2, got -1",
         [](Call& call) { call.by_time().options.first_episode = -1; });
  expect("no error", [](Call& call) { call.by_time().value_begins = Call::numbers({8, 0}); });
  expect("ValueError value_begins['force']: expected [Es=2], got [3]",
         [](Call& call) { call.by_time().value_begins = Call::numbers({0, 4, 6}); });
  expect("TypeError value_begins['force']: expected int64, got float64",
         [](Call& call) { call.by_time().value_begins = Tensor(DataType::kFloat64, {2}); });
  expect("TypeError row_offsets['force']: expected int64, got float32",
         [](Call& call) { call.by_time().row_offsets = Tensor(DataType::kFloat32, {3}); });
  expect("ValueError window_offsets['force']: expected [K=2], got [2,1]",
         [](Call& call) { call.by_time().window_offsets = Tensor(DataType::kInt64, {2, 1}); });
  expect("ValueError values['force']: expected [N,D=4], got [6]",
         [](Call& call) { call.by_time().values = Tensor(DataType::kFloat32, {6}); });
  expect("TypeError values['force']: expected float32, got int32",
         [](Call& call) { call.by_time().values = Tensor(DataType::kInt32, {6, 4}); });
  expect("ValueError values['force']: expected a last stride of 1, got 2",
         [](Call& call) { call.by_time().values = Tensor(DataType::kFloat32, {6, 4}, {8, 2}, 0); });
  expect("ValueError times['force']: expected [N=6], got none",
         [](Call& call) { call.by_time().times = {}; });
  expect("no error", [](Call& call) { call.by_row().times = {}; });
  expect("ValueError times['force']: expected [N=6], got [5]",
         [](Call& call) { call.by_time().times = Call::numbers({0, 1, 2, 3, 4}); });
  expect("ValueError times['force']: expected contiguous [N=6], got gaps between elements",
         [](Call& call) { call.by_time().times = Tensor(DataType::kInt64, {6}, {2}, 0); });
  expect("TypeError valid['force']: expected bool, got uint8",
         [](Call& call) { call.by_time().valid = Tensor(DataType::kUInt8, {6}); });
  expect("ValueError received['force']: expected [N=6], got [4]",
         [](Call& call) { call.by_time().received = Call::numbers({0, 1, 2, 3}); });
  expect("ValueError latency_ns['force']: expected 0 or more, got -1",
         [](Call& call) { call.by_time().options.spec.latency_ns = -1; });
  expect("TypeError subtract['force']: expected float32 (the compute type), got float64",
         [](Call& call) { call.by_time().subtract = Tensor(DataType::kFloat64, {4}); });
  expect("ValueError multiply['force']: expected contiguous [D], got gaps between elements",
         [](Call& call) { call.by_time().multiply = Tensor(DataType::kFloat32, {4}, {2}, 0); });
  expect(
      "ValueError method['force']: expected runs that sum to the row's 4 elements, got "
      "[[\"linear\",3]]",
      [](Call& call) { call.by_time().options.spec.layout = {{Method::kLinear, 3}}; });
  expect("ValueError mean_window_ns['force']: expected nanoseconds with method \"mean\", got null",
         [](Call& call) { call.by_time().options.spec.layout = {{Method::kMean, 4}}; });
  expect("ValueError streams: expected at most 64 windows, got 65",
         [](Call& call) { call.problem.windows.assign(std::size_t{65}, call.by_row()); });
}

TEST(LoaderErrors, WindowsByRow) {
  expect("ValueError max_gap_ns['action']: expected null with timeline \"rows\", got 1",
         [](Call& call) { call.by_row().options.spec.max_gap_ns = 1; });
  expect("ValueError tolerance_ns['action']: expected 0 with timeline \"rows\", got 1",
         [](Call& call) { call.by_row().options.spec.tolerance_ns = 1; });
  expect("ValueError outside['action']: expected \"hold\" with timeline \"rows\", got \"zero\"",
         [](Call& call) { call.by_row().options.spec.outside = Outside::kZero; });
  expect("ValueError offsets['action']: expected rows below 2^31, got [2147483648]",
         [](Call& call) { call.by_row().options.spec.offsets = {std::int64_t{1} << 31}; });
}

TEST(LoaderErrors, CopiedRows) {
  const auto counter = [](Call& call) -> WindowData& {
    WindowData& window = call.by_time();
    window.values = Tensor(DataType::kInt64, {6, 4});
    window.options.spec.method = Method::kPrevious;
    window.options.spec.out_dtype = DataType::kInt64;
    window.fill_spec();
    return window;
  };
  expect("no error", [&](Call& call) { counter(call); });
  // Every method but those that copy a row, which are listed: a new one would be refused too.
  for (const Method method : {Method::kLinear, Method::kSlerpXyzw, Method::kSlerpWxyz,
                              Method::kAngle, Method::kMean, Method::kSum}) {
    Call call;
    counter(call).options.spec.method = method;
    call.by_time().options.spec.mean_window_ns =
        method == Method::kMean ? std::optional<std::int64_t>(5) : std::nullopt;
    const std::string error = error_of([&] { call.plan(); });
    EXPECT_EQ(error.substr(0, error.find(", got")),
              "ValueError method['force']: expected \"previous\" or \"nearest\" for rows that are "
              "copied");
  }
  expect("TypeError out_dtype['force']: expected \"I64\", since such rows are copied, got \"F32\"",
         [&](Call& call) { counter(call).options.spec.out_dtype = DataType::kFloat32; });
  expect("TypeError values['force']: expected int64, got int32",
         [&](Call& call) { counter(call).values = Tensor(DataType::kInt32, {6, 4}); });
}

TEST(LoaderErrors, Images) {
  const auto image = [](Call& call) -> WindowData& {
    WindowData& window = call.by_time();
    window.values = Tensor(DataType::kUInt8, {6, 12});
    window.options.spec.layout = {{Method::kPrevious, 12}};
    window.options.spec.channels_first = true;
    window.options.spec.shape = {2, 2, 3};
    window.fill_spec();
    return window;
  };
  const auto is_none = [](const std::string& got) {
    return "ValueError channels_first['force']: expected false for rows that are no images [H,W,C] "
           "of U8, C at most 4, got " +
           got;
  };
  expect("no error", [&](Call& call) { image(call); });
  expect(is_none("true"), [&](Call& call) { image(call).options.spec.dtype = DataType::kFloat32; });
  expect(is_none("true"), [&](Call& call) { image(call).options.spec.shape = {1, 2, 6}; });
  expect(is_none("true"), [&](Call& call) { image(call).options.spec.shape = {12}; });
  expect("ValueError values['force']: expected [N,D=15], got [6,12]", [&](Call& call) {
    image(call).options.spec.shape = {5, 1, 3};
    call.by_time().options.spec.layout = {};
  });
  expect(
      "ValueError method['force']: expected \"linear\", \"previous\" or \"nearest\" with "
      "channels_first, got [[\"angle\",12]]",
      [&](Call& call) { image(call).options.spec.layout = {{Method::kAngle, 12}}; });
  expect("TypeError multiply['force']: expected float64, got float32",
         [&](Call& call) { image(call).multiply = Tensor(DataType::kFloat32, {3}); });
  expect("ValueError subtract['force']: expected [C=3], got [12]",
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
  const auto relative = [&](Call& call) -> WindowSpec& {
    call.by_row().options.spec.relative_to = "force";
    call.by_row().reference_columns = columns({0, 1, -1, 3});
    call.by_row().fill_spec();
    return call.by_row().options.spec;
  };
  const auto set_columns = [&](Call& call, const std::vector<std::int64_t>& list) {
    call.by_row().reference_columns = columns(list);
    call.by_row().fill_spec();
  };
  expect("no error", [&](Call& call) { relative(call); });
  expect("ValueError relative_to['action'].stream: expected the name of a stream, got \"torque\"",
         [&](Call& call) { relative(call).relative_to = "torque"; });
  const std::string is_relative =
      "ValueError relative_to['action'].stream: expected a stream that is not relative itself, "
      "got ";
  expect(is_relative + "\"action\"", [&](Call& call) { relative(call).relative_to = "action"; });
  expect(
      "ValueError relative_to['force'].stream: expected a stream that is not relative itself, got "
      "\"action\"",
      [&](Call& call) {
        relative(call);
        call.by_time().options.spec.relative_to = "action";
        call.by_time().reference_columns = columns({0, 1, 2, 3});
        call.by_time().fill_spec();
      });
  expect(
      "ValueError relative_to['action'].columns: expected none without a stream to be relative to, "
      "got 4",
      [&](Call& call) { relative(call).relative_to = ""; });
  expect("ValueError reference_columns['action']: expected none without relative_to, got some",
         [&](Call& call) {
           relative(call).relative_to = "";
           call.by_row().options.spec.reference_columns.clear();
         });
  expect("ValueError reference_columns['action']: expected [D=4], got none", [&](Call& call) {
    relative(call);
    call.by_row().reference_columns = {};
  });
  expect("ValueError relative_to['action'].columns: expected 4, one for each element, got [0,1,2]",
         [&](Call& call) {
           relative(call);
           set_columns(call, {0, 1, 2});
         });
  expect("TypeError reference_columns['action']: expected int32, got int64", [&](Call& call) {
    relative(call);
    call.by_row().reference_columns = Call::numbers({0, 1, 2, 3});
  });
  expect("ValueError reference_columns['action']: expected 1 as the spec has it, got 2 at [1]",
         [&](Call& call) {
           relative(call);
           call.by_row().reference_columns.set(1, 2);
         });
  const std::string mask = " (rc.Relative(mask=) leaves elements as they are)";
  for (const std::int64_t column : {4, -2}) {
    expect(
        "ValueError relative_to['action'].columns: expected -1 to 3, the elements of \"force\", "
        "got [0," +
            std::to_string(column) + ",-1,3]" + mask,
        [&](Call& call) {
          relative(call);
          set_columns(call, {0, column, -1, 3});
        });
  }
  for (const Timeline timeline : {Timeline::kTime, Timeline::kRows}) {
    expect(
        "ValueError relative_to['action'].columns: expected -1 for a quaternion's elements, got "
        "[0,1,-1,3]" +
            mask,
        [&](Call& call) {
          relative(call).layout = {{Method::kSlerpXyzw, 4}};
          call.by_row().options.spec.timeline = timeline;
        });
  }
  for (const Method method : {Method::kSlerpXyzw, Method::kSum}) {
    expect(
        "ValueError relative_to['action'].columns: expected elements of \"force\" that are no "
        "quaternion's and no sums, got [0,1,-1,3]" +
            mask,
        [&](Call& call) {
          relative(call);
          call.by_time().options.spec.layout = {{method, 4}};
        });
    expect("no error", [&](Call& call) {
      relative(call);
      call.by_time().options.spec.layout = {{method, 4}};
      call.by_time().options.spec.timeline = Timeline::kRows;
    });
  }
  expect(
      "TypeError out_dtype['action']: expected F16, BF16, F32 or F64 for a relative stream, got "
      "\"U8\" (rc.Window(dtype=) changes it)",
      [&](Call& call) { relative(call).out_dtype = DataType::kUInt8; });
  expect(
      "TypeError relative_to['action'].stream: expected none for rows of \"I64\", got \"force\" "
      "(rows of float16, bfloat16, float32, float64 or uint8 can be relative)",
      [&](Call& call) {
        WindowSpec& action = relative(call);
        action.dtype = action.out_dtype = DataType::kInt64;
      });
  expect(
      "TypeError relative_to['action'].stream: expected a stream of float16, bfloat16, float32, "
      "float64 or uint8, got \"force\"",
      [&](Call& call) {
        relative(call);
        WindowSpec& force = call.by_time().options.spec;
        force.dtype = force.out_dtype = DataType::kInt64;
        force.layout = {{Method::kPrevious, 4}};
      });
  const auto make_image = [](WindowData& window) {
    window.values = Tensor(DataType::kUInt8, {6, 4});
    window.options.spec.channels_first = true;
    window.options.spec.shape = {1, 2, 2};
    window.fill_spec();
  };
  expect("ValueError channels_first['action']: expected false for a relative stream, got true",
         [&](Call& call) {
           relative(call);
           make_image(call.by_row());
         });
  expect(
      "ValueError relative_to['action'].stream: expected a stream without channels_first, got "
      "\"force\"",
      [&](Call& call) {
        relative(call);
        make_image(call.by_time());
      });
  expect(
      "ValueError relative_to['action'].stream: expected a stream of at most 4096 elements in a "
      "row, not 4097, got \"force\"",
      [&](Call& call) {
        relative(call);
        call.by_time().values = Tensor(DataType::kFloat32, {6, 4097});
        call.by_time().fill_spec();
      });
  expect(
      "ValueError streams: expected at most 64 windows, relative ones counted twice, got 64 and 1 "
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
    force.options.spec.layout = runs;
    force.fill_spec();
    call.by_row().options.spec.layout = {{Method::kAngle, 2}, {Method::kLinear, 2}};
  });
}

TEST(LoaderErrors, WhatTensorsHold) {
  expect("ValueError row_offsets['force']: expected ascending offsets, got 3 after 4 at [2]",
         [](Call& call) { call.by_time().row_offsets = Call::numbers({0, 4, 3}); });
  expect("ValueError row_offsets['force']: expected at most N=6, got 7 at [2]",
         [](Call& call) { call.by_time().row_offsets = Call::numbers({0, 4, 7}); });
  expect("ValueError row_offsets['force']: expected 0 or more, got -1 at [0]",
         [](Call& call) { call.by_time().row_offsets = Call::numbers({-1, 4, 6}); });
  expect(
      "ValueError times['force']: expected ascending times in an episode, got 4 after 5 at [5], in "
      "episode 1",
      [](Call& call) { call.by_time().times.set_int(5, 4); });
  expect(
      "ValueError received['force']: expected ascending times in an episode, got 1 after 2 at [2], "
      "in "
      "episode 0",
      [](Call& call) { call.by_time().received = Call::numbers({0, 2, 1, 3, 0, 0}); });
  expect("ValueError offsets['force']: expected ascending offsets with method \"sum\", got [0,-5]",
         [](Call& call) {
           call.by_time().options.spec.layout = {{Method::kSum, 4}};
           call.by_time().window_offsets = Call::numbers({0, -5});
           call.by_time().fill_spec();
         });
  expect("ValueError window_offsets['force']: expected 0 as the spec has it, got -5 at [1]",
         [](Call& call) { call.by_time().window_offsets = Call::numbers({-10, -5}); });
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
  expect_of_call("ValueError row_stride['force']: expected 4 to 536870911, got 3",
                 [&](Call& call, const BatchPlan& plan, BatchResult& result) {
                   std::vector<WindowOutput> outputs = result.outputs();
                   outputs[0].row_stride = 3;
                   plan.gather(call.indices.data(), 2, outputs.data(), {}, call.context);
                 });
  expect_of_call("ValueError output['action']: expected memory for the values, got none",
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
