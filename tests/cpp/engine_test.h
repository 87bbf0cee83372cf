// Tests that run once per engine, and skip with the reason where one cannot run.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine.h"

namespace robocache::testing {

class EngineTest : public ::testing::TestWithParam<const Engine*> {
 protected:
  void SetUp() override {
    const std::string problem = engine().problem();
    if (!problem.empty()) GTEST_SKIP() << engine().name() << ": " << problem;
  }

  static const Engine& engine() { return *GetParam(); }
};

/// How gtest prints an engine: tests are listed with it.
inline void PrintTo(const Engine* engine, std::ostream* out) { *out << engine->name(); }

}  // namespace robocache::testing

#define INSTANTIATE_ENGINES(Suite)             \
  INSTANTIATE_TEST_SUITE_P(                    \
      , Suite, ::testing::ValuesIn(engines()), \
      [](const ::testing::TestParamInfo<const Engine*>& info) { return info.param->name(); })
