// Tests that run once per engine, of alignment or of voxelization, and skip with the reason where
// one cannot run.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "align/engine.h"
#include "support/environment.h"
#include "voxel/engine.h"

namespace robocache::testing {

/// The parameter is an engine's name, which `find` knows it by.
template <typename Interface, const Interface& (*find)(const std::string& name)>
class TestOfEngines : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::string problem = engine().problem();
    if (problem.empty()) return;
    if (is_required(engine().name())) FAIL() << engine().name() << ": " << problem;
    GTEST_SKIP() << engine().name() << ": " << problem;
  }

  static const Interface& engine() { return find(GetParam()); }
};

using EngineTest = TestOfEngines<Engine, engine>;
using VoxelEngineTest = TestOfEngines<VoxelEngine, voxel_engine>;

template <typename Interface>
std::vector<std::string> names_of(const std::vector<const Interface*>& engines) {
  std::vector<std::string> names;
  for (const Interface* engine : engines) names.push_back(engine->name());
  return names;
}

}  // namespace robocache::testing

#define INSTANTIATE_ENGINES_OF(Suite, engines)           \
  INSTANTIATE_TEST_SUITE_P(                              \
      , Suite, ::testing::ValuesIn(names_of(engines())), \
      [](const ::testing::TestParamInfo<std::string>& info) { return info.param; })
#define INSTANTIATE_ENGINES(Suite) INSTANTIATE_ENGINES_OF(Suite, engines)
#define INSTANTIATE_VOXEL_ENGINES(Suite) INSTANTIATE_ENGINES_OF(Suite, voxel_engines)
