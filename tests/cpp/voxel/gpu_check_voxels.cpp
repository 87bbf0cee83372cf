// Voxelization: each kernel, no clouds, bad offsets.
#include <cstdint>
#include <exception>
#include <limits>
#include <string>

#include "align/random_problem.h"
#include "support/gpu_check.h"
#include "support/random.h"
#include "voxel/engine.h"

namespace robocache::testing {
namespace {

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

}  // namespace

/// Every kernel of voxelization, forward and backward, on problems of any shape and type.
void check_voxelization() {
  const VoxelEngine& cpu = voxel_engine("cpu");
  const VoxelEngine& cuda = voxel_engine("cuda");
  const auto check = [&](const std::string& what, const VoxelProblem& problem,
                         const std::string& wrong) {
    testing::check(what, wrong.empty() ? "" : wrong + problem.text());
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
        check(what, wrong);
      }
      problem.points = Tensor(DataType::kFloat32, {7, 3});
      problem.features = Tensor(DataType::kFloat32, {7, 2});
      problem.offsets = Tensor(DataType::kInt64, {1});
      cuda.dense(problem);
      cuda.sparse(problem);
      const std::string wrong =
          difference_of("gradient of points in no cloud", Tensor(DataType::kFloat32, {7, 2}),
                        cuda.dense_gradient(problem, problem.make_grid()));
      check(what, wrong);
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

}  // namespace robocache::testing
