// Every CUDA kernel on small data, compared with the CPU backend or the reference: a program of a few seconds for
// compute-sanitizer, which tests/gpu.sh runs it under. Bad input that CUDA does not look at,
// lengths out of range, times and offsets in any order, must stay within bounds; what it gives is
// not compared.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <limits>
#include <string>
#include <vector>

#include "engine.h"
#include "environment.h"
#include "loader_engine.h"
#include "loader_reference.h"
#include "numbers.h"
#include "problem.h"
#include "random_problem.h"
#include "transform_engine.h"
#include "voxel_engine.h"

namespace robocache::testing {
namespace {

int failures = 0;
int comparisons = 0;

void fail(const std::string& what, const std::string& why) {
  ++failures;
  std::printf("FAILED %s: %s\n", what.c_str(), why.c_str());
}

bool is_exact(const Problem& problem) {
  for (const StreamData& data : problem.streams) {
    for (const Run& run : data.runs()) {
      if (is_slerp(run.method) || run.method == Method::kAngle) return false;
    }
  }
  return true;
}

/// Nothing if the arrays agree: by value for exact methods, else to `slack` of their size.
std::string compare(const Tensor& expected, const Tensor& got, double slack) {
  ++comparisons;
  for (std::int64_t i = 0; i < expected.size(); ++i) {
    const double x = expected.get(i);
    const double y = got.get(i);
    if (is_same_number(x, y) || std::fabs(x - y) <= slack * (1 + std::fabs(x))) continue;
    return "element " + std::to_string(i) + " is " + std::to_string(x) + " on the CPU and " +
           std::to_string(y) + " on the GPU";
  }
  return "";
}

/// Ages are exact, but that a NaN may be any NaN.
std::string compare_ages(const Tensor& expected, const Tensor& got) {
  ++comparisons;
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

std::string difference_of(const SparseResult& expected, const SparseResult& got) {
  for (const std::string& wrong :
       {difference_of("coordinates", expected.coordinates, got.coordinates),
        difference_of("counts", expected.counts, got.counts),
        difference_of("features", expected.features, got.features),
        difference_of("point_to_voxel", expected.point_to_voxel, got.point_to_voxel),
        difference_of("offsets", expected.offsets, got.offsets),
        difference_of("dropped", expected.dropped, got.dropped)}) {
    if (!wrong.empty()) return wrong;
  }
  return "";
}

/// Every kernel of voxelization, forward and backward, on problems of any shape and type.
void check_voxelization() {
  const VoxelEngine& cpu = voxel_engine("cpu");
  const VoxelEngine& cuda = voxel_engine("cuda");
  const auto check = [&](const std::string& what, const VoxelProblem& problem,
                         const std::string& wrong) {
    ++comparisons;
    if (!wrong.empty()) fail(what, wrong + problem.text());
  };
  for (std::uint64_t seed = 84'000; seed < 84'060; ++seed) {
    const std::string what = "voxels, seed " + std::to_string(seed);
    VoxelWanted wanted;
    VoxelProblem problem = random_voxel_problem(seed, wanted);
    const DenseResult dense = cpu.dense(problem);
    const DenseResult dense_got = cuda.dense(problem);
    check(what, problem, difference_of("grid", dense.grid, dense_got.grid));
    check(what, problem, difference_of("dropped", dense.dropped, dense_got.dropped));

    wanted.is_differentiable = true;
    problem = random_voxel_problem(seed, wanted);
    Random random(seed);
    Tensor grad(problem.out_type, problem.make_grid().shape());
    fill_at_random(grad, random, 1);
    check(what, problem,
          difference_of("gradient", cpu.dense_gradient(problem, grad),
                        cuda.dense_gradient(problem, grad)));

    wanted.is_sparse = true;
    problem = random_voxel_problem(seed, wanted);
    const SparseResult sparse = cpu.sparse(problem);
    check(what, problem, difference_of(sparse, cuda.sparse(problem)));
    grad = Tensor(problem.out_type, sparse.features.shape());
    fill_at_random(grad, random, 1);
    check(what, problem,
          difference_of("gradient", cpu.sparse_gradient(problem, sparse, grad),
                        cuda.sparse_gradient(problem, sparse, grad)));
  }
}

/// Voxelizations of B=0; and points that belong to none of no clouds, which CUDA does not look at.
void check_no_clouds() {
  const VoxelEngine& cpu = voxel_engine("cpu");
  const VoxelEngine& cuda = voxel_engine("cuda");
  for (const VoxelMode mode : kFeatureModes) {
    const std::string what = "no clouds, mode " + std::to_string(static_cast<int>(mode));
    VoxelProblem problem;
    problem.mode = mode;
    problem.points = Tensor(DataType::kFloat32, {0, 7, 3});
    problem.features = Tensor(DataType::kFloat32, {0, 7, 2});
    const Tensor grad = problem.make_grid();
    const SparseResult sparse = cpu.sparse(problem);
    try {
      for (const std::string& wrong :
           {difference_of("grid", cpu.dense(problem).grid, cuda.dense(problem).grid),
            difference_of("gradient", cpu.dense_gradient(problem, grad),
                          cuda.dense_gradient(problem, grad)),
            difference_of(sparse, cuda.sparse(problem)),
            difference_of("gradient", cpu.sparse_gradient(problem, sparse, sparse.features),
                          cuda.sparse_gradient(problem, sparse, sparse.features))}) {
        ++comparisons;
        if (!wrong.empty()) fail(what, wrong);
      }
      problem.points = Tensor(DataType::kFloat32, {7, 3});
      problem.features = Tensor(DataType::kFloat32, {7, 2});
      problem.offsets = Tensor(DataType::kInt64, {1});
      cuda.dense(problem);
      cuda.sparse(problem);
      const std::string wrong =
          difference_of("gradient of points in no cloud", Tensor(DataType::kFloat32, {7, 2}),
                        cuda.dense_gradient(problem, problem.make_grid()));
      ++comparisons;
      if (!wrong.empty()) fail(what, wrong);
    } catch (const std::exception& error) {
      fail(what, error.what());
    }
  }
}

/// Offsets in no order and out of range, which CUDA does not look at.
void check_bad_offsets() {
  constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kHighest = std::numeric_limits<std::int64_t>::max();
  for (std::uint64_t seed = 85'000; seed < 85'040; ++seed) {
    VoxelWanted wanted;
    wanted.is_differentiable = true;
    wanted.is_sparse = true;
    VoxelProblem problem = random_voxel_problem(seed, wanted);
    if (!problem.offsets.present()) continue;
    Random random(seed);
    for (std::int64_t i = 0; i < problem.offsets.size(); ++i) {
      if (problem.offsets.type() == DataType::kInt64) {
        problem.offsets.set_int(i, random.pick<std::int64_t>({kLowest, -1, 0, 20, 9999, kHighest}));
      } else {
        problem.offsets.set(i, random.pick({-2147483648.0, -1.0, 0.0, 20.0, 2147483647.0}));
      }
    }
    try {
      const VoxelEngine& cuda = voxel_engine("cuda");
      cuda.dense(problem);
      Tensor grad(problem.out_type, problem.make_grid().shape());
      cuda.dense_gradient(problem, grad);
      cuda.sparse(problem);
    } catch (const std::exception& error) {
      fail("bad offsets, seed " + std::to_string(seed), error.what() + problem.text());
    }
  }
}

/// Batches of the loader against its reference: streams of float32 alone and of any type, few and
/// many, copied, relative and neither, by indices and by a state that moves on.
void check_loader() {
  const LoaderEngine& cuda = loader_engine("cuda");
  const auto check = [&](const std::string& what, const std::string& wrong) {
    ++comparisons;
    if (!wrong.empty()) fail(what, wrong);
  };
  for (std::uint64_t seed = 87'000; seed < 87'060; ++seed) {
    const std::string what = "loader, seed " + std::to_string(seed);
    LoaderWanted wanted;
    if (seed % 3 == 0) wanted.value_type = wanted.out_type = DataType::kFloat32;
    if (seed % 6 == 0) wanted.method = Method::kLinear;
    if (seed % 10 == 0) wanted.streams = 9;
    wanted.is_image = seed % 7 == 0;
    wanted.is_relative = seed % 5 == 2;
    if (seed % 4 == 1) {
      wanted.is_copied = true;
      wanted.timeline = Timeline::kRows;
      wanted.is_image = false;
    }
    const LoaderProblem problem = random_loader_problem(seed, wanted);
    Random random(seed);
    const std::vector<std::int64_t> indices = random_indices(problem, random.below(40), random);
    try {
      BatchResult gathered = cuda.gather(problem, indices);
      check(what, check_batch(problem, indices, gathered));
      const std::vector<std::int64_t> drawn = expected_samples(problem, 0, 0);
      std::vector<std::int64_t> state(kBatchStateSize);
      std::vector<BatchResult> next =
          cuda.next(problem, state, {static_cast<std::int64_t>(drawn.size())});
      check(what, check_batch(problem, drawn, next[0]));
      const Progress after = expected_progress(problem, {});
      const bool is_after = state == std::vector<std::int64_t>{after.epoch, after.position, 0, 0};
      check(what, is_after ? "" : "the state is not what it is to be" + problem.text());
    } catch (const std::exception& error) {
      fail(what, error.what() + problem.text());
    }
  }
}

/// Indices, anchors, offsets, times and reference columns in no order and out of range, which CUDA
/// does not look at.
void check_bad_loader_input() {
  constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kHighest = std::numeric_limits<std::int64_t>::max();
  for (std::uint64_t seed = 88'000; seed < 88'030; ++seed) {
    LoaderWanted wanted;
    wanted.has_begins = false;  // these say where to read
    wanted.is_relative = seed % 2 == 0;
    LoaderProblem problem = random_loader_problem(seed, wanted);
    Random random(seed);
    const auto spoil = [&random](Tensor& tensor) {
      for (std::int64_t i = 0; i < tensor.size(); ++i) {
        if (random.one_in(2)) {
          tensor.set_int(i, random.pick<std::int64_t>({kLowest, -1, 0, 1, 20, 9999, kHighest}));
        }
      }
    };
    for (WindowData& window : problem.windows) {
      for (Tensor* tensor : {&window.times, &window.received, &window.offsets, &window.steps}) {
        spoil(*tensor);
      }
      Tensor& columns = window.reference_columns;
      for (std::int64_t c = 0; c < columns.size(); ++c) {
        columns.set(c, random.pick<double>({-9, -1, 0, 1, 3, 99999}));
      }
    }
    if (seed % 2 == 0) spoil(problem.anchors);
    if (seed % 3 == 0) {
      spoil(problem.parts);
      spoil(problem.thresholds);
    }
    Tensor indices(DataType::kInt64, {20});
    Tensor state(DataType::kInt64, {kBatchStateSize});
    spoil(indices);
    for (const std::int64_t i : {0, 1}) {
      state.set_int(i, random.pick<std::int64_t>({kLowest, -1, 5, kHighest}));
    }
    const auto numbers = [](const Tensor& tensor) {
      std::vector<std::int64_t> numbers;
      for (std::int64_t i = 0; i < tensor.size(); ++i) numbers.push_back(tensor.get_int(i));
      return numbers;
    };
    try {
      loader_engine("cuda").gather(problem, numbers(indices));
      std::vector<std::int64_t> drawing = numbers(state);
      loader_engine("cuda").next(problem, drawing, {7, 0, 3});
    } catch (const std::exception& error) {
      fail("bad loader input, seed " + std::to_string(seed), error.what() + problem.text());
    }
  }
}

void check_transforms() {
  for (std::uint64_t seed = 90'000; seed < 90'200; ++seed) {
    const TransformCall call = random_transform(seed);
    const std::string what = "transform, seed " + std::to_string(seed);
    try {
      const TransformResult expected = run_transform("cpu", call);
      const TransformResult got = run_transform("cuda", call);
      std::string why = compare(expected.out, got.out, 0) + compare(expected.grad_x, got.grad_x, 0);
      if (call.row.present()) why += compare(expected.grad_row, got.grad_row, 0);
      if (!why.empty()) fail(what, why + call.text());
    } catch (const std::exception& error) {
      fail(what, error.what() + call.text());
    }
  }
}

}  // namespace
}  // namespace robocache::testing

int main() {
  using namespace robocache::testing;
  const std::string problem = engine("cuda").problem();
  if (!problem.empty()) {
    std::printf("robocache_gpu_check: skipped, as there is no GPU that it can use: %s\n",
                problem.c_str());
    return is_required("cuda") ? 1 : 0;
  }
  check_plain_kernels();
  check_runs_kernels();
  check_streams();
  check_wide_kernel();
  check_random_problems();
  check_bad_input();
  check_voxelization();
  check_no_clouds();
  check_bad_offsets();
  check_loader();
  check_bad_loader_input();
  check_transforms();
  std::printf("robocache_gpu_check: %d comparisons with the CPU, %d failures\n", comparisons,
              failures);
  return failures == 0 ? 0 : 1;
}
