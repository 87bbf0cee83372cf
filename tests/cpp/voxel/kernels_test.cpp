// The CPU kernels of the baseline give what the reference does, and those of every other
// instruction set the same bits as they.
#if defined(ROBOCACHE_TEST_KERNELS)
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "core/cpu_target.h"
#include "voxel/checks.h"
#include "voxel/problem.h"
#include "voxel/voxelize_cpu_kernels.h"

namespace robocache::testing {
namespace {

/// The results of one kernel set for a problem: cells, bounds, keys, coordinates, reductions and
/// gradients.
struct Outcome {
  std::vector<std::int64_t> cells;
  SparseBounds bounds = SparseBounds::of_nothing();
  std::int64_t dropped = 0;
  std::vector<std::uint64_t> keys;
  std::vector<std::int32_t> coordinates;
  Tensor reduced, gathered, scattered;
};

Outcome run(const VoxelCpuKernels& kernels, const VoxelProblem& problem) {
  CheckedCloud checked = check_cloud(problem.cloud(), on_cpu());
  const GridPlan grid = check_grid(problem.grid, checked, problem.mode, problem.out_type);
  const CloudPlan& cloud = checked.plan;
  const std::int64_t count = cloud.count;
  FeaturePlan& features = checked.features;
  features.mode = problem.mode;
  features.out_type = problem.out_type;

  Outcome outcome;
  outcome.cells.resize(static_cast<std::size_t>(count));
  kernels.dense_cells(cloud, grid, 0, count, outcome.cells.data());
  outcome.dropped = kernels.sparse_bounds(cloud, grid.geometry, 0, count, outcome.bounds);
  const SparseBox box = SparseBox::around(outcome.bounds, 1);
  outcome.keys.resize(static_cast<std::size_t>(count));
  kernels.sparse_keys(cloud, grid.geometry, box, 0, 0, count, outcome.keys.data());
  const auto key_of = [&](std::uint32_t point) { return outcome.keys[point]; };
  std::vector<std::uint32_t> points(static_cast<std::size_t>(count));
  std::iota(points.begin(), points.end(), 0u);
  std::stable_sort(points.begin(), points.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return key_of(a) < key_of(b); });
  // A voxel of each run of keys; its number takes the place of the key.
  std::vector<std::int64_t> starts, voxel_of(points.size(), -1);
  std::vector<std::uint64_t> numbers;
  std::vector<std::int32_t> counts;
  std::uint64_t last_key = box.limit;
  std::int64_t in_voxels = 0;
  for (const std::uint32_t point : points) {
    if (key_of(point) == box.limit) break;
    if (key_of(point) != last_key) {
      last_key = key_of(point);
      numbers.push_back(starts.size());
      starts.push_back(in_voxels);
      counts.push_back(0);
      std::int32_t cell[3];
      box.cell_of(last_key, cell);
      outcome.coordinates.insert(outcome.coordinates.end(), cell, cell + 3);
    }
    voxel_of[point] = static_cast<std::int64_t>(numbers.back());
    ++counts.back();
    ++in_voxels;
  }
  const auto voxels = static_cast<std::int64_t>(starts.size());
  starts.push_back(in_voxels);
  const SortedPoints sorted{count, points.data(), starts.data(), numbers.data()};
  outcome.reduced = Tensor(problem.out_type, {voxels, features.channels});
  kernels.reduce(features, sorted, 0, voxels, {outcome.reduced.view().data, 0, features.channels});

  GradientPlan gradient{};
  gradient.features = features;
  gradient.points = count;
  gradient.batch = 1;
  gradient.cells = voxels;
  gradient.shape[0] = voxels;
  gradient.shape[1] = gradient.shape[2] = 1;
  gradient.grad_output = outcome.reduced.view().data;
  gradient.strides[0] = features.channels;
  gradient.channel_stride = 1;
  for (Tensor* result : {&outcome.gathered, &outcome.scattered}) {
    *result = Tensor(problem.features.type(), problem.features.shape());
    gradient.grad_features = result->view().data;
    if (result == &outcome.gathered) {
      kernels.gather(gradient, voxel_of.data(), counts.data(), 0, count);
    } else {
      kernels.scatter_to_winners(gradient, sorted, 0, voxels);
    }
  }
  return outcome;
}

std::vector<std::int64_t> numbers_of(const SparseBounds& bounds) {
  std::vector<std::int64_t> numbers(bounds.lowest, bounds.lowest + 3);
  numbers.insert(numbers.end(), bounds.highest, bounds.highest + 3);
  numbers.push_back(bounds.first_beyond);
  return numbers;
}

void expect_same(const VoxelCpuKernels& kernels, const char* name) {
  VoxelWanted wanted;
  wanted.is_differentiable = true;
  for (std::uint64_t seed = 106'000; seed < 106'150; ++seed) {
    wanted.mode = kFeatureModes[seed % 4];
    const VoxelProblem problem = random_voxel_problem(seed, wanted);
    SCOPED_TRACE(std::string(name) + ", seed " + std::to_string(seed) + problem.text());
    const Outcome expected = run(baseline::voxel_cpu_kernels(), problem);
    const Outcome got = run(kernels, problem);
    ASSERT_EQ(got.cells, expected.cells);
    ASSERT_EQ(numbers_of(got.bounds), numbers_of(expected.bounds));
    ASSERT_EQ(got.dropped, expected.dropped);
    ASSERT_EQ(got.keys, expected.keys);
    ASSERT_EQ(got.coordinates, expected.coordinates);
    ASSERT_EQ(difference_of("reduced", expected.reduced, got.reduced), "");
    ASSERT_EQ(difference_of("gathered", expected.gathered, got.gathered), "");
    ASSERT_EQ(difference_of("scattered", expected.scattered, got.scattered), "");
  }
}

/// How many points each cell of the grid has.
Tensor counts_of(const std::vector<std::int64_t>& cells, const VoxelProblem& problem) {
  Tensor counts(DataType::kInt64, problem.make_grid().shape());
  for (const std::int64_t cell : cells) {
    if (cell >= 0) counts.set_int(cell, counts.get_int(cell) + 1);
  }
  return counts;
}

TEST(VoxelKernels, Baseline) {
  VoxelWanted wanted;
  wanted.is_differentiable = true;
  int compared = 0;
  for (std::uint64_t seed = 107'000; compared < 60; ++seed) {
    wanted.mode = kFeatureModes[seed % 4];
    const VoxelProblem problem = random_voxel_problem(seed, wanted);
    if (problem.is_batched()) continue;  // the kernels are run as if all points were of one cloud
    ++compared;
    SCOPED_TRACE("seed " + std::to_string(seed) + problem.text());
    const Outcome got = run(baseline::voxel_cpu_kernels(), problem);

    VoxelProblem counting = problem;
    counting.features = {};
    counting.mode = VoxelMode::kCount;
    counting.out_type = DataType::kInt64;
    ASSERT_EQ(
        difference_of("counts", reference_dense(counting).grid, counts_of(got.cells, counting)),
        "");
    const SparseResult expected = reference_sparse(problem);
    SparseBounds bounds = SparseBounds::of_nothing();
    std::vector<std::int32_t> coordinates;
    for (std::int64_t i = 0; i < expected.coordinates.size(); ++i) {
      const auto x = static_cast<std::int64_t>(expected.coordinates.get(i));
      bounds.lowest[i % 3] = std::min(bounds.lowest[i % 3], x);
      bounds.highest[i % 3] = std::max(bounds.highest[i % 3], x);
      coordinates.push_back(static_cast<std::int32_t>(x));
    }
    ASSERT_EQ(numbers_of(got.bounds), numbers_of(bounds));
    ASSERT_EQ(got.dropped, expected.dropped.get_int(0));
    ASSERT_EQ(got.coordinates, coordinates);
    ASSERT_EQ(difference_of("reduced", expected.features, got.reduced), "");
    ASSERT_EQ(difference_of("gradient", reference_gradient(problem, got.reduced, &expected),
                            picks_one(problem.mode) ? got.scattered : got.gathered),
              "");
  }
}

#if defined(ROBOCACHE_TEST_X86_KERNELS)
TEST(VoxelKernels, Avx2) {
  if (cpu_target() < CpuTarget::kAvx2) GTEST_SKIP() << "this CPU has no avx2";
  expect_same(avx2::voxel_cpu_kernels(), "avx2");
}

TEST(VoxelKernels, Avx512) {
  if (cpu_target() < CpuTarget::kAvx512) GTEST_SKIP() << "this CPU has no avx512";
  expect_same(avx512::voxel_cpu_kernels(), "avx512");
}
#endif

}  // namespace
}  // namespace robocache::testing
#endif
