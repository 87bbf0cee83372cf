// Alignment: each kernel, layouts of all kinds, bad input.
#include <cmath>
#include <cstdint>
#include <exception>
#include <limits>
#include <string>
#include <vector>

#include "align/engine.h"
#include "align/problem.h"
#include "align/random_problem.h"
#include "support/gpu_check.h"
#include "support/numbers.h"

namespace robocache::testing {
namespace {

bool is_exact(const Problem& problem) {
  for (const StreamData& data : problem.streams) {
    for (const Run& run : data.runs()) {
      if (is_slerp(run.method) || run.method == Method::kAngle) return false;
    }
  }
  return true;
}

/// Ages are exact, but that a NaN may be any NaN.
std::string compare_ages(const Tensor& expected, const Tensor& got) {
  ++tally().comparisons;
  for (std::int64_t i = 0; i < expected.size(); ++i) {
    const bool agree = expected.type() == DataType::kInt64
                           ? expected.get_int(i) == got.get_int(i)
                           : is_same_number(expected.get(i), got.get(i));
    if (!agree) return "age " + std::to_string(i) + " differs";
  }
  return "";
}

/// Units in the last place of 1 by which slerp and angle may differ, times what the scale of a
/// random problem may make of it.
double slack_of(const Problem& problem, DataType out_type) {
  if (is_exact(problem)) return 0;
  if (out_type == DataType::kUInt8) return 1;
  if (out_type == DataType::kBFloat16) return 0x1p-7;
  if (out_type == DataType::kFloat16) return 0x1p-10;
  const bool is_double =
      out_type == DataType::kFloat64 && problem.streams[0].values.type() == DataType::kFloat64;
  return is_double ? 0x1p-46 : 0x1p-17;
}

void run(const Engine& engine, Problem& problem) {
  problem.values_out.fill_bytes(0);
  problem.valid_out.fill_bytes(0);
  problem.age_out.fill_bytes(0);
  engine.align(problem.views(), problem.target_times.view(), problem.options,
               problem.values_out.view(), problem.valid_out.view(), problem.age_out.view());
}

void check_forward(const std::string& what, Problem problem) {
  try {
    Problem expected = problem;
    run(engine("cpu"), expected);
    run(engine("cuda"), problem);
    const double slack = slack_of(problem, problem.values_out.type());
    std::string wrong = compare(expected.values_out, problem.values_out, slack);
    if (wrong.empty()) wrong = compare(expected.valid_out, problem.valid_out, 0);
    if (wrong.empty()) wrong = compare_ages(expected.age_out, problem.age_out);
    if (!wrong.empty()) fail(what, wrong + problem.text());
  } catch (const std::exception& error) {
    fail(what, error.what() + problem.text());
  }
}

Tensor gradient(const Engine& engine, const Problem& problem, const Tensor& grad_output) {
  const StreamData& data = problem.streams[0];
  Tensor grad_values(data.values.type(), data.values.shape());
  engine.align_backward(data.stream(), problem.target_times.view(), problem.options,
                        grad_output.view(), grad_values.view());
  return grad_values;
}

void check_backward(const std::string& what, const Problem& problem) {
  try {
    Tensor grad_output(problem.values_out.type(), problem.values_out.shape());
    Random random(1);
    fill_at_random(grad_output, random, 1);
    const Tensor expected = gradient(engine("cpu"), problem, grad_output);
    const Tensor got = gradient(engine("cuda"), problem, grad_output);
    const double slack = problem.streams[0].has_slerp() ? 1e-3 : 0;
    const std::string wrong = compare(expected, got, slack);
    if (!wrong.empty()) fail(what, wrong + problem.text());
  } catch (const std::exception& error) {
    fail(what, error.what() + problem.text());
  }
}

}  // namespace

/// Every instantiation of the kernel of one plain run, with vectors and without; and, since a clock
/// offset is not for it, the general kernel on the same.
void check_plain_kernels() {
  std::uint64_t seed = 80'000;
  for (const DataType value_type : kValueTypes) {
    for (const DataType out_type : kValueTypes) {
      for (const bool is_vectorized : {true, false}) {
        Wanted wanted;
        wanted.value_type = value_type;
        wanted.out_type = out_type;
        wanted.is_vectorized = is_vectorized;
        wanted.method = kMethods[seed % 3];
        wanted.time_type = kTimeTypes[seed / 3 % 3];
        Problem problem = random_problem(seed, wanted);
        StreamData& data = problem.streams[0];
        data.clock_offset.reset();
        problem.age_out = {};
        check_forward("plain, seed " + std::to_string(seed), problem);
        data.clock_offset = problem.target_times.type() == DataType::kInt64
                                ? Duration::nanoseconds(3)
                                : Duration::seconds(-0.1);
        check_forward("plain with an offset, seed " + std::to_string(seed), problem);
        ++seed;
      }
    }
  }
}

void check_runs_kernels() {
  std::uint64_t seed = 81'000;
  for (const DataType value_type : {DataType::kFloat32, DataType::kFloat64, DataType::kBFloat16}) {
    for (const DataType time_type : kTimeTypes) {
      for (const Method method :
           {Method::kSlerpXyzw, Method::kSlerpWxyz, Method::kAngle, Method::kMean, Method::kSum}) {
        Wanted wanted;
        wanted.value_type = value_type;
        wanted.out_type = value_type;
        wanted.time_type = time_type;
        wanted.method = method;
        check_forward("runs, seed " + std::to_string(seed), random_problem(seed, wanted));
        check_backward("runs backward, seed " + std::to_string(seed), random_problem(seed, wanted));
        ++seed;
      }
    }
  }
}

/// Launches of one, a few and many streams; streams of one plain run in vectors, without and of any
/// layout; and into every type, which is what the general kernel is compiled by.
void check_streams() {
  std::uint64_t seed = 85'000;
  for (const DataType out_type : kValueTypes) {
    for (const int streams : {1, 3, 20}) {
      for (const int kind : {0, 1, 2}) {
        Wanted wanted;
        wanted.out_type = out_type;
        wanted.streams = streams;
        if (kind < 2) wanted.is_vectorized = kind == 1;
        check_forward("streams, seed " + std::to_string(seed), random_problem(seed, wanted));
        ++seed;
      }
    }
  }
  for (const int streams : {1, 4, kMaxStreams}) {
    Wanted wanted;
    wanted.streams = streams;
    wanted.is_wide = streams < kMaxStreams;  // more channels than a block has threads
    check_forward("wide streams, seed " + std::to_string(seed), random_problem(seed, wanted));
    ++seed;
  }
}

/// Outputs with gaps between batch rows, which go by the kernel for very large strides.
void check_wide_kernel() {
  int checked = 0;
  for (std::uint64_t seed = 86'000; checked < 12; ++seed) {
    Wanted wanted;
    wanted.streams = 1 + static_cast<int>(seed % 2);
    if (seed % 3 == 0) wanted.value_type = DataType::kFloat64;
    Problem problem = random_problem(seed, wanted);
    const std::vector<std::int64_t> shape = problem.values_out.shape();
    if (shape.size() < 3 || shape[0] < 2 || problem.values_out.size() == 0) continue;
    problem.values_out = Tensor(problem.values_out.type(), shape,
                                {shape[1] * shape[2] + 5, shape[2], 1}, /*offset=*/0);
    check_forward("gaps, seed " + std::to_string(seed), problem);
    ++checked;
  }
}

/// Any layout, shape and type: ragged, empty, of one row, several streams.
void check_random_problems() {
  for (std::uint64_t seed = 82'000; seed < 82'060; ++seed) {
    Wanted wanted;
    if (seed % 3 == 0) wanted.is_ragged = true;
    wanted.streams = seed % 4 == 0 ? 3 : 1;
    check_forward("random, seed " + std::to_string(seed), random_problem(seed, wanted));
    wanted.streams = 1;
    wanted.is_differentiable = true;
    check_backward("random backward, seed " + std::to_string(seed), random_problem(seed, wanted));
  }
}

/// Times in no order, NaN among them, and lengths and begins far out of range.
void check_bad_input() {
  for (std::uint64_t seed = 83'000; seed < 83'030; ++seed) {
    Wanted wanted;
    wanted.is_differentiable = true;
    if (seed % 2 == 0) wanted.is_ragged = true;
    Problem problem = random_problem(seed, wanted);
    Random random(seed);
    StreamData& data = problem.streams[0];
    constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();
    constexpr std::int64_t kHighest = std::numeric_limits<std::int64_t>::max();
    for (std::int64_t i = 0; i < data.times.size(); ++i) {
      if (data.times.type() == DataType::kInt64) {
        data.times.set_int(i, random.pick<std::int64_t>({kLowest, -5, 0, 7, 1000, kHighest}));
      } else {
        data.times.set(i, random.pick({std::numeric_limits<double>::quiet_NaN(),
                                       -std::numeric_limits<double>::infinity(), -1.0, 0.0, 0.3,
                                       1e30, std::numeric_limits<double>::infinity()}));
      }
    }
    // The targets in no order either, those of sums too.
    for (std::int64_t i = 0; seed % 3 != 0 && i < problem.target_times.size(); ++i) {
      if (problem.target_times.type() == DataType::kInt64) {
        problem.target_times.set_int(i, random.pick<std::int64_t>({kLowest, 3, 500, kHighest}));
      } else {
        problem.target_times.set(i, random.between(-1, 3));
      }
    }
    for (std::int64_t i = 0; i < data.lengths.size(); ++i) {
      if (data.lengths.type() == DataType::kInt64) {
        data.lengths.set_int(i, random.pick<std::int64_t>({kLowest, -1, 0, 1, 1000, kHighest}));
      } else {
        data.lengths.set(i, random.pick({-2147483648.0, -1.0, 0.0, 1.0, 2147483647.0}));
      }
    }
    for (std::int64_t i = 0; i < data.begins.size(); ++i) {
      data.begins.set_int(i, random.pick<std::int64_t>({kLowest, -1, 0, 1, 1000, kHighest}));
    }
    try {
      run(engine("cuda"), problem);
      Tensor grad_output(problem.values_out.type(), problem.values_out.shape());
      fill_at_random(grad_output, random, 1);
      gradient(engine("cuda"), problem, grad_output);
    } catch (const std::exception& error) {
      fail("bad input, seed " + std::to_string(seed), error.what() + problem.text());
    }
  }
}

}  // namespace robocache::testing
