// Voxelization against the plain reference: the same numbers, whatever shapes, strides, types,
// modes and points come, and the same on every engine.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "align/engine_test.h"
#include "align/random_problem.h"
#include "robocache/error.h"
#include "support/environment.h"
#include "support/random.h"

namespace robocache::testing {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Voxel : public VoxelEngineTest {
 protected:
  static void check_dense(const VoxelProblem& problem, const std::string& name) {
    SCOPED_TRACE(name + problem.text());
    const DenseResult expected = reference_dense(problem);
    const DenseResult got = engine().dense(problem);
    EXPECT_EQ(difference_of("grid", expected.grid, got.grid), "");
    EXPECT_EQ(difference_of("dropped", expected.dropped, got.dropped), "");
  }

  static void check_sparse(const VoxelProblem& problem, const std::string& name) {
    SCOPED_TRACE(name + problem.text());
    const SparseResult expected = reference_sparse(problem);
    const SparseResult got = engine().sparse(problem);
    ASSERT_EQ(got.voxels, expected.voxels);
    EXPECT_EQ(difference_of("coordinates", expected.coordinates, got.coordinates), "");
    EXPECT_EQ(difference_of("counts", expected.counts, got.counts), "");
    EXPECT_EQ(difference_of("features", expected.features, got.features), "");
    EXPECT_EQ(difference_of("point_to_voxel", expected.point_to_voxel, got.point_to_voxel), "");
    EXPECT_EQ(difference_of("offsets", expected.offsets, got.offsets), "");
    EXPECT_EQ(difference_of("dropped", expected.dropped, got.dropped), "");
  }

  /// A tensor of gradients, its elements apart from each other or shared now and then.
  static Tensor random_gradient(const std::vector<std::int64_t>& shape, DataType type,
                                Random& random) {
    std::vector<std::int64_t> strides(shape.size());
    const std::int64_t layout = random.below(4);  // 0: all elements are one; 1: channels last
    std::int64_t stride = 1;
    for (std::size_t step = 0; step < shape.size(); ++step) {
      const std::size_t axis = layout == 1 ? step : shape.size() - 1 - step;
      strides[axis] = layout == 0 ? 0 : stride;
      stride *= shape[axis] + (layout == 2 ? 1 : 0);
    }
    Tensor gradient(type, shape, strides, 0);
    fill_at_random(gradient, random, 1);
    return gradient;
  }
};

TEST_P(Voxel, AnyDenseProblem) {
  for (std::uint64_t seed = 100'000; seed < 100'400 && !HasFailure(); ++seed) {
    check_dense(random_voxel_problem(seed), "seed " + std::to_string(seed));
  }
}

TEST_P(Voxel, EveryModeByTypes) {
  std::uint64_t seed = 101'000;
  for (const VoxelMode mode : kVoxelModes) {
    for (const DataType point_type : kFloatingTypes) {
      for (const DataType feature_type : kValueTypes) {
        VoxelWanted wanted;
        wanted.mode = mode;
        wanted.point_type = point_type;
        wanted.feature_type = feature_type;
        check_dense(random_voxel_problem(seed, wanted), "seed " + std::to_string(seed));
        if (HasFailure()) return;
        ++seed;
      }
    }
  }
}

TEST_P(Voxel, AnySparseProblem) {
  VoxelWanted wanted;
  wanted.is_sparse = true;
  for (std::uint64_t seed = 102'000; seed < 102'400 && !HasFailure(); ++seed) {
    check_sparse(random_voxel_problem(seed, wanted), "seed " + std::to_string(seed));
  }
}

TEST_P(Voxel, AnyDenseGradient) {
  VoxelWanted wanted;
  wanted.is_differentiable = true;
  for (std::uint64_t seed = 103'000; seed < 103'200 && !HasFailure(); ++seed) {
    const VoxelProblem problem = random_voxel_problem(seed, wanted);
    SCOPED_TRACE("seed " + std::to_string(seed) + problem.text());
    Random random(seed);
    const Tensor grad = random_gradient(problem.make_grid().shape(), problem.out_type, random);
    EXPECT_EQ(difference_of("gradient", reference_gradient(problem, grad, nullptr),
                            engine().dense_gradient(problem, grad)),
              "");
  }
}

TEST_P(Voxel, AnySparseGradient) {
  VoxelWanted wanted;
  wanted.is_differentiable = true;
  wanted.is_sparse = true;
  for (std::uint64_t seed = 104'000; seed < 104'200 && !HasFailure(); ++seed) {
    const VoxelProblem problem = random_voxel_problem(seed, wanted);
    SCOPED_TRACE("seed " + std::to_string(seed) + problem.text());
    const SparseResult forward = reference_sparse(problem);
    Random random(seed);
    const Tensor grad = random_gradient(forward.features.shape(), problem.out_type, random);
    EXPECT_EQ(difference_of("gradient", reference_gradient(problem, grad, &forward),
                            engine().sparse_gradient(problem, forward, grad)),
              "");
  }
}

VoxelProblem one_cloud(DataType type, std::initializer_list<double> coordinates) {
  VoxelProblem problem;
  problem.points =
      Tensor(type, {static_cast<std::int64_t>(coordinates.size()) / 3, 3}, coordinates);
  for (std::int64_t& size : problem.grid.shape) size = 4;
  return problem;
}

TEST_P(Voxel, OnFaces) {
  // A point on a face belongs to the cell above it; on the last face it is outside.
  VoxelProblem problem =
      one_cloud(DataType::kFloat32, {0, 0, 0, 1, 1, 1, 4, 0, 0, 0, -0.0, 3.9999});
  problem.mode = VoxelMode::kCount;
  problem.out_type = DataType::kInt32;
  const DenseResult got = engine().dense(problem);
  EXPECT_EQ(got.grid.get(0), 1);
  EXPECT_EQ(got.grid.get((1 * 4 + 1) * 4 + 1), 1);
  EXPECT_EQ(got.grid.get(3), 1);
  EXPECT_EQ(got.dropped.get_int(0), 1);
  check_dense(problem, "faces");
}

// Every face of a long row of cells whose size no binary number has, and the neighbors of each
// face, in float32 and float64, near the origin and where a meter is the ninth digit.
TEST_P(Voxel, AroundEveryFace) {
  for (const DataType type : {DataType::kFloat32, DataType::kFloat64}) {
    for (const double origin : {0.0, -25.6, 0.05, 4.0e6}) {
      VoxelProblem problem;
      problem.grid.shape[0] = 512;
      problem.grid.geometry.voxel_size[0] = 0.1;
      problem.grid.geometry.origin[0] = origin;
      problem.points = Tensor(type, {3 * 513, 3});
      for (std::int64_t face = 0; face <= 512; ++face) {
        const double x = origin + static_cast<double>(face) * 0.1;
        for (std::int64_t side = 0; side < 3; ++side) {
          double moved = x;
          if (type == DataType::kFloat32) {
            const auto rounded = static_cast<float>(x);
            moved =
                side == 1 ? rounded : std::nextafter(rounded, side == 0 ? -HUGE_VALF : HUGE_VALF);
          } else if (side != 1) {
            moved = std::nextafter(x, side == 0 ? -HUGE_VAL : HUGE_VAL);
          }
          problem.points.set(3 * (3 * face + side), moved);
        }
      }
      problem.mode = VoxelMode::kCount;
      problem.out_type = DataType::kInt32;
      check_dense(problem, "faces");
      check_sparse(problem, "faces");
    }
  }
}

TEST_P(Voxel, NothingToVoxelize) {
  for (const VoxelMode mode : kVoxelModes) {
    VoxelProblem problem;
    problem.mode = mode;
    problem.out_type = mode == VoxelMode::kCount ? DataType::kInt32 : DataType::kFloat32;
    problem.points = Tensor(DataType::kFloat32, {0, 3});
    if (mode >= VoxelMode::kMean) problem.features = Tensor(DataType::kFloat32, {0, 2});
    check_dense(problem, "no points");
    if (mode >= VoxelMode::kMean) check_sparse(problem, "no points");

    problem.points = Tensor(DataType::kFloat32, {2, 3, 3});
    for (std::int64_t i = 0; i < 18; ++i) problem.points.set(i, i % 2 == 0 ? kNan : -kInfinity);
    if (mode >= VoxelMode::kMean) problem.features = Tensor(DataType::kFloat32, {2, 3, 2});
    check_dense(problem, "all dropped");
    if (mode >= VoxelMode::kMean) check_sparse(problem, "all dropped");
  }
}

TEST_P(Voxel, NoClouds) {
  for (const VoxelMode mode : kVoxelModes) {
    const bool has_features = mode >= VoxelMode::kMean;
    VoxelProblem batch;
    batch.mode = mode;
    batch.out_type = mode == VoxelMode::kCount ? DataType::kInt32 : DataType::kFloat32;
    batch.points = Tensor(DataType::kFloat32, {0, 7, 3});
    VoxelProblem ragged = batch;
    ragged.points = Tensor(DataType::kFloat32, {0, 3});
    ragged.offsets = Tensor(DataType::kInt64, {1});
    if (has_features) {
      batch.features = Tensor(DataType::kFloat32, {0, 7, 2});
      ragged.features = Tensor(DataType::kFloat32, {0, 2});
    }
    for (const VoxelProblem& problem : {batch, ragged}) {
      check_dense(problem, "no clouds");
      if (!has_features) continue;
      check_sparse(problem, "no clouds");
      const Tensor grad = problem.make_grid();
      EXPECT_EQ(difference_of("gradient", reference_gradient(problem, grad, nullptr),
                              engine().dense_gradient(problem, grad)),
                "");
      const SparseResult forward = reference_sparse(problem);
      EXPECT_EQ(difference_of("gradient", reference_gradient(problem, forward.features, &forward),
                              engine().sparse_gradient(problem, forward, forward.features)),
                "");
    }
  }
}

TEST_P(Voxel, TheSameBitsWhateverTheOrderOfThreads) {
  // Many points a voxel, numbers of all sizes: a sum in another order would round otherwise.
  Random random(105'000);
  VoxelProblem problem;
  constexpr std::int64_t kPoints = 60'000;
  problem.points = Tensor(DataType::kFloat32, {kPoints, 3});
  problem.features = Tensor(DataType::kFloat32, {kPoints, 3});
  for (std::int64_t i = 0; i < 3 * kPoints; ++i) {
    problem.points.set(i, random.between(0, 4) * random.between(0, 1));
    problem.features.set(i, std::ldexp(random.between(-1, 1), static_cast<int>(random.below(20))));
  }
  for (std::int64_t& size : problem.grid.shape) size = 4;
  for (const VoxelMode mode : {VoxelMode::kSum, VoxelMode::kMean}) {
    problem.mode = mode;
    check_dense(problem, "sums");
    check_sparse(problem, "sums");
  }
}

TEST_P(Voxel, FarCoordinates) {
  // The lowest and highest coordinates that fit int32, and a key of 62 bits.
  VoxelProblem problem =
      one_cloud(DataType::kFloat64, {-2147483648.0, 0, 0, 2147483647.5, 1073741822.0, -0.5});
  problem.mode = VoxelMode::kMean;
  check_sparse(problem, "far");
  EXPECT_EQ(engine().sparse(problem).voxels, 2);
}

TEST_P(Voxel, SparseRefusesWhatDoesNotFit) {
  const auto error_of = [&](const VoxelProblem& problem) -> std::string {
    try {
      engine().sparse(problem);
    } catch (const ValueError& error) {
      return error.what();
    }
    return "no error";
  };
  const std::string beyond =
      "points: expected voxel coordinates from -2147483648 to 2147483647 (a larger voxel_size or "
      "an origin "
      "nearer the points makes them smaller), got others for point ";
  EXPECT_EQ(error_of(one_cloud(DataType::kFloat64,
                               {0, 0, 0, kNan, 1e300, 0, 0, 2147483648.0, 0, 0, 1e300, 0})),
            beyond + "2 of all clouds");
  EXPECT_EQ(
      error_of(one_cloud(DataType::kFloat64,
                         {-2147483648.0, -2147483648.0, 0, 2147483647.0, 2147483647.0, 0})),
      "points: expected fewer than 2^63 - 1 cells in the box around all of them, times B (a larger "
      "voxel_size, no outliers or fewer clouds make it smaller), got B=1 x 4294967296 x 4294967296 "
      "x 1 from "
      "[-2147483648,-2147483648,0]");
  VoxelProblem dense = one_cloud(DataType::kFloat32, {0, 0, 0});
  dense.points = Tensor(DataType::kFloat32, {2, 2, 3});
  dense.points.set(10, 3e38);
  EXPECT_EQ(error_of(dense), beyond + "3 of all clouds");
}

// On the CPU these take long, and much memory.
bool is_left_out(const VoxelEngine& engine) {
  return engine.name() != "cuda" && environment("ROBOCACHE_TEST_LARGE").empty();
}

TEST_P(Voxel, MorePointsThan31BitsCount) {
  if (is_left_out(engine())) GTEST_SKIP() << "ROBOCACHE_TEST_LARGE is not set";
  constexpr std::int64_t kPoints = (std::int64_t{1} << 31) + 8;
  VoxelProblem problem;
  problem.points = Tensor(DataType::kFloat32, {kPoints, 3}, {0, 1}, 0);  // all of them one
  for (std::int64_t axis = 0; axis < 3; ++axis) problem.points.set(axis, 1.5);
  for (std::int64_t& size : problem.grid.shape) size = 2;
  problem.mode = VoxelMode::kCount;
  problem.out_type = DataType::kInt64;
  const DenseResult inside = engine().dense(problem);
  EXPECT_EQ(inside.grid.get_int(7), kPoints);
  EXPECT_EQ(inside.dropped.get_int(0), 0);
  problem.points.set(1, 2);
  const DenseResult outside = engine().dense(problem);
  EXPECT_EQ(outside.grid.get_int(7), 0);
  EXPECT_EQ(outside.dropped.get_int(0), kPoints);
}

TEST_P(Voxel, MoreCellsThan31BitsNumber) {
  if (is_left_out(engine())) GTEST_SKIP() << "ROBOCACHE_TEST_LARGE is not set";
  constexpr std::int64_t kSide = 1291;  // whose cube is above 2^31
  VoxelProblem problem =
      one_cloud(DataType::kFloat32, {kSide - 0.5, kSide - 0.5, kSide - 0.5, 0, 0, 1});
  for (std::int64_t& size : problem.grid.shape) size = kSide;
  problem.out_type = DataType::kUInt8;
  const Tensor grid = engine().dense(problem).grid;
  EXPECT_EQ(grid.get(kSide * kSide * kSide - 1), 1);
  EXPECT_EQ(grid.get(1), 1);
  EXPECT_EQ(std::count(grid.bytes().begin(), grid.bytes().end(), 1), 2);

  problem.features = Tensor(DataType::kUInt8, {2, 1}, {7, 9});
  problem.mode = VoxelMode::kMean;
  const Tensor mean = engine().dense(problem).grid;
  EXPECT_EQ(mean.get(kSide * kSide * kSide - 1), 7);
  EXPECT_EQ(mean.get(1), 9);
}

INSTANTIATE_VOXEL_ENGINES(Voxel);

}  // namespace
}  // namespace robocache::testing
