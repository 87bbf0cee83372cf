// Error messages about the streams of a plan.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "loader/errors_call.h"

namespace robocache::testing {
namespace {

TEST(LoaderErrors, NothingIsWrong) {
  expect_error("no error", [](LoaderCall&) {});
}

TEST(LoaderErrors, Streams) {
  expect_error(
      "ValueError row_offsets['force']: expected [Es+1], 1 to E+1=3 numbers, got [4]",
      [](LoaderCall& call) { call.by_time().row_offsets = LoaderCall::numbers({0, 4, 6, 6}); });
  expect_error("ValueError row_offsets['force']: expected [Es+1], 1 to E+1=3 numbers, got [0]",
               [](LoaderCall& call) { call.by_time().row_offsets = LoaderCall::numbers({}); });
  expect_error("no error",
               [](LoaderCall& call) { call.by_time().row_offsets = LoaderCall::numbers({0, 4}); });
  expect_error(
      "ValueError row_offsets['force']: expected [Es+1], 1 to 2 numbers from first_episode on, got "
      "[3]",
      [](LoaderCall& call) { call.by_time().options.first_episode = 1; });
  expect_error("ValueError first_episode['force']: expected 0 to E=2, got 3",
               [](LoaderCall& call) { call.by_time().options.first_episode = 3; });
  expect_error("ValueError first_episode['force']: expected 0 to E=2, got -1",
               [](LoaderCall& call) { call.by_time().options.first_episode = -1; });
  expect_error("no error",
               [](LoaderCall& call) { call.by_time().value_begins = LoaderCall::numbers({8, 0}); });
  expect_error("ValueError value_begins['force']: expected [Es=2], got [3]", [](LoaderCall& call) {
    call.by_time().value_begins = LoaderCall::numbers({0, 4, 6});
  });
  expect_error(
      "TypeError value_begins['force']: expected int64, got float64",
      [](LoaderCall& call) { call.by_time().value_begins = Tensor(DataType::kFloat64, {2}); });
  expect_error("TypeError row_offsets['force']: expected int64, got float32", [](LoaderCall& call) {
    call.by_time().row_offsets = Tensor(DataType::kFloat32, {3});
  });
  expect_error(
      "ValueError window_offsets['force']: expected [K=2], got [2,1]",
      [](LoaderCall& call) { call.by_time().window_offsets = Tensor(DataType::kInt64, {2, 1}); });
  expect_error("ValueError values['force']: expected [N,D=4], got [6]",
               [](LoaderCall& call) { call.by_time().values = Tensor(DataType::kFloat32, {6}); });
  expect_error("TypeError values['force']: expected float32, got int32",
               [](LoaderCall& call) { call.by_time().values = Tensor(DataType::kInt32, {6, 4}); });
  expect_error("ValueError values['force']: expected a last stride of 1, got 2",
               [](LoaderCall& call) {
                 call.by_time().values = Tensor(DataType::kFloat32, {6, 4}, {8, 2}, 0);
               });
  expect_error("ValueError times['force']: expected [N=6], got none",
               [](LoaderCall& call) { call.by_time().times = {}; });
  expect_error("no error", [](LoaderCall& call) { call.by_row().times = {}; });
  expect_error("ValueError times['force']: expected [N=6], got [5]", [](LoaderCall& call) {
    call.by_time().times = LoaderCall::numbers({0, 1, 2, 3, 4});
  });
  expect_error(
      "ValueError times['force']: expected contiguous [N=6], got gaps between elements",
      [](LoaderCall& call) { call.by_time().times = Tensor(DataType::kInt64, {6}, {2}, 0); });
  expect_error("TypeError valid['force']: expected bool, got uint8",
               [](LoaderCall& call) { call.by_time().valid = Tensor(DataType::kUInt8, {6}); });
  expect_error("ValueError received['force']: expected [N=6], got [4]", [](LoaderCall& call) {
    call.by_time().received = LoaderCall::numbers({0, 1, 2, 3});
  });
  expect_error("ValueError latency_ns['force']: expected 0 or more, got -1",
               [](LoaderCall& call) { call.by_time().options.spec.latency_ns = -1; });
  expect_error("TypeError subtract['force']: expected float32 (the compute type), got float64",
               [](LoaderCall& call) { call.by_time().subtract = Tensor(DataType::kFloat64, {4}); });
  expect_error(
      "ValueError multiply['force']: expected contiguous [D], got gaps between elements",
      [](LoaderCall& call) { call.by_time().multiply = Tensor(DataType::kFloat32, {4}, {2}, 0); });
  expect_error(
      "ValueError method['force']: expected runs that sum to the row's 4 elements, got "
      "[[\"linear\",3]]",
      [](LoaderCall& call) { call.by_time().options.spec.layout = {{Method::kLinear, 3}}; });
  expect_error(
      "ValueError mean_window_ns['force']: expected nanoseconds with method \"mean\", got null",
      [](LoaderCall& call) { call.by_time().options.spec.layout = {{Method::kMean, 4}}; });
  expect_error("ValueError streams: expected at most 64 windows, got 65", [](LoaderCall& call) {
    call.problem.windows.assign(std::size_t{65}, call.by_row());
  });
}

TEST(LoaderErrors, WindowsByRow) {
  expect_error("ValueError max_gap_ns['action']: expected null with timeline \"rows\", got 1",
               [](LoaderCall& call) { call.by_row().options.spec.max_gap_ns = 1; });
  expect_error("ValueError tolerance_ns['action']: expected 0 with timeline \"rows\", got 1",
               [](LoaderCall& call) { call.by_row().options.spec.tolerance_ns = 1; });
  expect_error(
      "ValueError outside['action']: expected \"hold\" with timeline \"rows\", got \"zero\"",
      [](LoaderCall& call) { call.by_row().options.spec.outside = Outside::kZero; });
  expect_error(
      "ValueError offsets['action']: expected rows below 2^31, got [2147483648]",
      [](LoaderCall& call) { call.by_row().options.spec.offsets = {std::int64_t{1} << 31}; });
}

TEST(LoaderErrors, CopiedRows) {
  const auto counter = [](LoaderCall& call) -> WindowData& {
    WindowData& window = call.by_time();
    window.values = Tensor(DataType::kInt64, {6, 4});
    window.options.spec.method = Method::kPrevious;
    window.options.spec.out_dtype = DataType::kInt64;
    window.fill_spec();
    return window;
  };
  expect_error("no error", [&](LoaderCall& call) { counter(call); });
  // Every method but those that copy a row, which are listed: a new one would be refused too.
  for (const Method method : {Method::kLinear, Method::kSlerpXyzw, Method::kSlerpWxyz,
                              Method::kAngle, Method::kMean, Method::kSum}) {
    LoaderCall call;
    counter(call).options.spec.method = method;
    call.by_time().options.spec.mean_window_ns =
        method == Method::kMean ? std::optional<std::int64_t>(5) : std::nullopt;
    const std::string error = error_of([&] { call.plan(); });
    EXPECT_EQ(error.substr(0, error.find(", got")),
              "ValueError method['force']: expected \"previous\" or \"nearest\" for rows that are "
              "copied");
  }
  expect_error(
      "TypeError out_dtype['force']: expected \"I64\", since such rows are copied, got \"F32\"",
      [&](LoaderCall& call) { counter(call).options.spec.out_dtype = DataType::kFloat32; });
  expect_error("TypeError values['force']: expected int64, got int32",
               [&](LoaderCall& call) { counter(call).values = Tensor(DataType::kInt32, {6, 4}); });
}

TEST(LoaderErrors, Images) {
  const auto image = [](LoaderCall& call) -> WindowData& {
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
  expect_error("no error", [&](LoaderCall& call) { image(call); });
  expect_error(is_none("true"),
               [&](LoaderCall& call) { image(call).options.spec.dtype = DataType::kFloat32; });
  expect_error(is_none("true"),
               [&](LoaderCall& call) { image(call).options.spec.shape = {1, 2, 6}; });
  expect_error(is_none("true"), [&](LoaderCall& call) { image(call).options.spec.shape = {12}; });
  expect_error("ValueError values['force']: expected [N,D=15], got [6,12]", [&](LoaderCall& call) {
    image(call).options.spec.shape = {5, 1, 3};
    call.by_time().options.spec.layout = {};
  });
  expect_error(
      "ValueError method['force']: expected \"linear\", \"previous\" or \"nearest\" with "
      "channels_first, got [[\"angle\",12]]",
      [&](LoaderCall& call) { image(call).options.spec.layout = {{Method::kAngle, 12}}; });
  expect_error("TypeError multiply['force']: expected float64, got float32",
               [&](LoaderCall& call) { image(call).multiply = Tensor(DataType::kFloat32, {3}); });
  expect_error("ValueError subtract['force']: expected [C=3], got [12]",
               [&](LoaderCall& call) { image(call).subtract = Tensor(DataType::kFloat64, {12}); });
}

TEST(LoaderErrors, RelativeWindows) {
  const auto columns = [](const std::vector<std::int64_t>& list) {
    Tensor tensor(DataType::kInt32, {static_cast<std::int64_t>(list.size())});
    for (std::size_t i = 0; i < list.size(); ++i) {
      tensor.set(static_cast<std::int64_t>(i), static_cast<double>(list[i]));
    }
    return tensor;
  };
  // Makes the stream action, by row, relative to force, by time.
  const auto relative = [&](LoaderCall& call) -> WindowSpec& {
    call.by_row().options.spec.relative_to = "force";
    call.by_row().reference_columns = columns({0, 1, -1, 3});
    call.by_row().fill_spec();
    return call.by_row().options.spec;
  };
  const auto set_columns = [&](LoaderCall& call, const std::vector<std::int64_t>& list) {
    call.by_row().reference_columns = columns(list);
    call.by_row().fill_spec();
  };
  expect_error("no error", [&](LoaderCall& call) { relative(call); });
  expect_error(
      "ValueError relative_to['action'].stream: expected the name of a stream, got \"torque\"",
      [&](LoaderCall& call) { relative(call).relative_to = "torque"; });
  const std::string is_relative =
      "ValueError relative_to['action'].stream: expected a stream that is not relative itself, "
      "got ";
  expect_error(is_relative + "\"action\"",
               [&](LoaderCall& call) { relative(call).relative_to = "action"; });
  expect_error(
      "ValueError relative_to['force'].stream: expected a stream that is not relative itself, got "
      "\"action\"",
      [&](LoaderCall& call) {
        relative(call);
        call.by_time().options.spec.relative_to = "action";
        call.by_time().reference_columns = columns({0, 1, 2, 3});
        call.by_time().fill_spec();
      });
  expect_error(
      "ValueError relative_to['action'].columns: expected none without a stream to be relative to, "
      "got 4",
      [&](LoaderCall& call) { relative(call).relative_to = ""; });
  expect_error(
      "ValueError reference_columns['action']: expected none without relative_to, got some",
      [&](LoaderCall& call) {
        relative(call).relative_to = "";
        call.by_row().options.spec.reference_columns.clear();
      });
  expect_error("ValueError reference_columns['action']: expected [D=4], got none",
               [&](LoaderCall& call) {
                 relative(call);
                 call.by_row().reference_columns = {};
               });
  expect_error(
      "ValueError relative_to['action'].columns: expected 4, one for each element, got [0,1,2]",
      [&](LoaderCall& call) {
        relative(call);
        set_columns(call, {0, 1, 2});
      });
  expect_error("TypeError reference_columns['action']: expected int32, got int64",
               [&](LoaderCall& call) {
                 relative(call);
                 call.by_row().reference_columns = LoaderCall::numbers({0, 1, 2, 3});
               });
  expect_error(
      "ValueError reference_columns['action']: expected 1 as the spec has it, got 2 at [1]",
      [&](LoaderCall& call) {
        relative(call);
        call.by_row().reference_columns.set(1, 2);
      });
  const std::string mask = " (rc.Relative(mask=) leaves elements as they are)";
  for (const std::int64_t column : {4, -2}) {
    expect_error(
        "ValueError relative_to['action'].columns: expected -1 to 3, the elements of \"force\", "
        "got [0," +
            std::to_string(column) + ",-1,3]" + mask,
        [&](LoaderCall& call) {
          relative(call);
          set_columns(call, {0, column, -1, 3});
        });
  }
  for (const Timeline timeline : {Timeline::kTime, Timeline::kRows}) {
    expect_error(
        "ValueError relative_to['action'].columns: expected -1 for a quaternion's elements, got "
        "[0,1,-1,3]" +
            mask,
        [&](LoaderCall& call) {
          relative(call).layout = {{Method::kSlerpXyzw, 4}};
          call.by_row().options.spec.timeline = timeline;
        });
  }
  for (const Method method : {Method::kSlerpXyzw, Method::kSum}) {
    expect_error(
        "ValueError relative_to['action'].columns: expected elements of \"force\" that are no "
        "quaternion's and no sums, got [0,1,-1,3]" +
            mask,
        [&](LoaderCall& call) {
          relative(call);
          call.by_time().options.spec.layout = {{method, 4}};
        });
    expect_error("no error", [&](LoaderCall& call) {
      relative(call);
      call.by_time().options.spec.layout = {{method, 4}};
      call.by_time().options.spec.timeline = Timeline::kRows;
    });
  }
  expect_error(
      "TypeError out_dtype['action']: expected F16, BF16, F32 or F64 for a relative stream, got "
      "\"U8\" (rc.Window(dtype=) changes it)",
      [&](LoaderCall& call) { relative(call).out_dtype = DataType::kUInt8; });
  expect_error(
      "TypeError relative_to['action'].stream: expected none for rows of \"I64\", got \"force\" "
      "(rows of float16, bfloat16, float32, float64 or uint8 can be relative)",
      [&](LoaderCall& call) {
        WindowSpec& action = relative(call);
        action.dtype = action.out_dtype = DataType::kInt64;
      });
  expect_error(
      "TypeError relative_to['action'].stream: expected a stream of float16, bfloat16, float32, "
      "float64 or uint8, got \"force\"",
      [&](LoaderCall& call) {
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
  expect_error(
      "ValueError channels_first['action']: expected false for a relative stream, got true",
      [&](LoaderCall& call) {
        relative(call);
        make_image(call.by_row());
      });
  expect_error(
      "ValueError relative_to['action'].stream: expected a stream without channels_first, got "
      "\"force\"",
      [&](LoaderCall& call) {
        relative(call);
        make_image(call.by_time());
      });
  expect_error(
      "ValueError relative_to['action'].stream: expected a stream of at most 4096 elements in a "
      "row, not 4097, got \"force\"",
      [&](LoaderCall& call) {
        relative(call);
        call.by_time().values = Tensor(DataType::kFloat32, {6, 4097});
        call.by_time().fill_spec();
      });
  expect_error(
      "ValueError streams: expected at most 64 windows, relative ones counted twice, got 64 and 1 "
      "relative ones",
      [&](LoaderCall& call) {
        relative(call);
        call.problem.windows.resize(std::size_t{64}, call.by_time());
      });
  expect_error("ValueError streams: expected at most 512 runs in all, got 514",
               [&](LoaderCall& call) {
                 std::vector<robocache::Run> runs(256, {Method::kLinear, 1});
                 for (std::size_t run = 1; run < runs.size(); run += 2)
                   runs[run].method = Method::kPrevious;
                 WindowData& force = call.by_time();
                 relative(call);
                 force.values = Tensor(DataType::kFloat32, {6, 256});
                 force.options.spec.layout = runs;
                 force.fill_spec();
                 call.by_row().options.spec.layout = {{Method::kAngle, 2}, {Method::kLinear, 2}};
               });
}

}  // namespace
}  // namespace robocache::testing
