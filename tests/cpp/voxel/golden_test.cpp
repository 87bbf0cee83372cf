// The golden cases of voxelization.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>

#include "align/engine_test.h"
#include "support/golden.h"

namespace robocache::testing {
namespace {

VoxelProblem problem_of(const Json& json) {
  const std::map<std::string, VoxelMode> modes = {{"occupancy", VoxelMode::kOccupancy},
                                                  {"count", VoxelMode::kCount},
                                                  {"mean", VoxelMode::kMean},
                                                  {"sum", VoxelMode::kSum},
                                                  {"max", VoxelMode::kMax},
                                                  {"min", VoxelMode::kMin}};
  VoxelProblem problem;
  problem.points = tensor_of(json.at("points"));
  problem.features = tensor_of(json.at("features"));
  problem.offsets = tensor_of(json.at("offsets"));
  problem.mode = lookup(modes, json.at("mode"));
  const Json& grid_size = json.at("grid_size");
  const Json& origin = json.at("origin");
  for (std::size_t axis = 0; axis < 3; ++axis) {
    problem.grid.geometry.voxel_size[axis] = json.at("voxel_size")[axis];
    if (!grid_size.is_null()) problem.grid.shape[axis] = grid_size[axis];
    if (!origin.is_null()) problem.grid.geometry.origin[axis] = origin[axis];
  }
  if (origin.is_null()) center_on_zero(problem.grid);
  return problem;
}

class VoxelGolden : public VoxelEngineTest {};

TEST_P(VoxelGolden, EveryCase) {
  const Json cases = cases_of("voxels.json");
  ASSERT_FALSE(cases.empty());
  for (const Json& json : cases) {
    SCOPED_TRACE(json.at("name").get<std::string>() + ": " + json.at("reason").get<std::string>());
    VoxelProblem problem = problem_of(json);
    const Json& expected = json.at("expected");
    const auto check = [&](const char* name, const Tensor& got) {
      EXPECT_EQ(difference_of(name, tensor_of(expected.at(name)), got), "");
    };
    if (json.at("form") == "dense") {
      problem.out_type = type_of(expected.at("grid").at("dtype"));
      const DenseResult got = engine().dense(problem);
      check("grid", got.grid);
      check("dropped", got.dropped);
      continue;
    }
    if (problem.features.present()) problem.out_type = problem.features.type();
    const SparseResult got = engine().sparse(problem);
    ASSERT_EQ(got.voxels, expected.at("counts").at("shape")[0].get<std::int64_t>());
    check("coordinates", got.coordinates);
    check("counts", got.counts);
    check("features", got.features);
    check("point_to_voxel", got.point_to_voxel);
    check("offsets", got.offsets);
    check("dropped", got.dropped);
  }
}

INSTANTIATE_VOXEL_ENGINES(VoxelGolden);

}  // namespace
}  // namespace robocache::testing
