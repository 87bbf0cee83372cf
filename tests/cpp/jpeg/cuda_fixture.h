// Tests of the CUDA decoder, which skip with the reason where there is no GPU.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "robocache/build_info.h"
#include "support/environment.h"

namespace robocache::testing {

class JpegCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string problem = cuda_problem(0);
    if (problem.empty()) return;
    if (is_required("cuda")) FAIL() << problem;
    GTEST_SKIP() << problem;
  }
};

}  // namespace robocache::testing
