// Tests that run once per engine, and skip with the reason where one cannot run.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine.h"

namespace robocache::testing {

/// The parameter is an engine's name.
class EngineTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::string problem = engine().problem();
    if (problem.empty()) return;
    if (is_required(engine())) FAIL() << engine().name() << ": " << problem;
    GTEST_SKIP() << engine().name() << ": " << problem;
  }

  static const Engine& engine() { return robocache::testing::engine(GetParam()); }
};

inline std::vector<std::string> engine_names() {
  std::vector<std::string> names(engines().size());
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = engines()[i]->name();
  return names;
}

}  // namespace robocache::testing

#define INSTANTIATE_ENGINES(Suite)                  \
  INSTANTIATE_TEST_SUITE_P(                         \
      , Suite, ::testing::ValuesIn(engine_names()), \
      [](const ::testing::TestParamInfo<std::string>& info) { return info.param; })
