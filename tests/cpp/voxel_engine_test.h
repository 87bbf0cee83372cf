// Tests that run once per engine of voxelization, and skip with the reason where one cannot run.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "voxel_engine.h"

namespace robocache::testing {

/// The parameter is an engine's name.
class VoxelEngineTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::string problem = engine().problem();
    if (problem.empty()) return;
    if (is_required(engine())) FAIL() << engine().name() << ": " << problem;
    GTEST_SKIP() << engine().name() << ": " << problem;
  }

  static const VoxelEngine& engine() { return voxel_engine(GetParam()); }
};

inline std::vector<std::string> voxel_engine_names() {
  std::vector<std::string> names;
  for (const VoxelEngine* engine : voxel_engines()) names.push_back(engine->name());
  return names;
}

}  // namespace robocache::testing

#define INSTANTIATE_VOXEL_ENGINES(Suite)                  \
  INSTANTIATE_TEST_SUITE_P(                               \
      , Suite, ::testing::ValuesIn(voxel_engine_names()), \
      [](const ::testing::TestParamInfo<std::string>& info) { return info.param; })
