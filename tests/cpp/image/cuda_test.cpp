// CUDA gives the bits of the CPU.
#include <gtest/gtest.h>

#include <string>

#include "image/problem.h"
#include "robocache/build_info.h"
#include "support/environment.h"
#include "support/random.h"

namespace robocache::testing {
namespace {

class ImageCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string problem = cuda_problem(0);
    if (problem.empty()) return;
    if (is_required("cuda")) FAIL() << problem;
    GTEST_SKIP() << problem;
  }
};

void expect_same(const ImageProblem& problem, bool is_captured, const std::string& name) {
  ASSERT_EQ(bit_difference(process_on_cpu(problem), process_on_gpu(problem, is_captured)), "")
      << name << ": " << problem.text();
}

TEST_F(ImageCuda, GivesTheBitsOfTheCpu) {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    expect_same(random_image_problem(seed), seed % 9 == 0, "seed " + std::to_string(seed));
    if (HasFatalFailure()) return;
  }
}

/// RGB frames as policies take them: sizes of many tiles, each type and layout.
TEST_F(ImageCuda, GivesTheBitsOfTheCpuForCameras) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Random random(seed);
    const std::int64_t height = random.pick({224, 256, 240, 480, 101});
    const std::int64_t width = random.pick({224, 256, 320, 640, 203});
    ImageProblem problem =
        make_image_problem(seed, DataType::kUInt8, 2, height, width, 3, random.one_in(4) ? 1 : 0);
    problem.spec.height = random.pick({224, 112, 96, 225, 300});
    problem.spec.width = random.pick({224, 128, 96, 223, 300});
    problem.spec.mode = random.pick({ResizeMode::kStretch, ResizeMode::kPad, ResizeMode::kCrop});
    problem.out_type = random.pick(
        {DataType::kUInt8, DataType::kFloat16, DataType::kBFloat16, DataType::kFloat32});
    problem.channels_first = random.one_in(2);
    problem.subtract = {123.675, 116.28, 103.53};
    problem.multiply = {1 / 58.395, 1 / 57.12, 1 / 57.375};
    if (random.one_in(3)) {
      problem.subtract = {0, 0, 0};
      problem.multiply = {1 / 255.0, 1 / 255.0, 1 / 255.0};
    }
    if (!random.one_in(3)) problem.add_step(AugmentKind::kCrop, {random.between(0.8, 1)});
    if (!random.one_in(3)) {
      const double most = random.one_in(5) ? 3.2 : 0.2;
      problem.add_step(AugmentKind::kRotation, {random.between(-most, most)});
    }
    if (!random.one_in(3)) {
      problem
          .add_step(AugmentKind::kJitter, {random.between(0.6, 1.4), random.between(0.6, 1.4),
                                           random.between(0.5, 1.5), random.between(-0.1, 0.1)})
          .mask = static_cast<std::int32_t>(random.below(16));
    }
    if (random.one_in(5)) problem.add_step(AugmentKind::kSharpness, {random.between(0.5, 1.5)});
    if (random.one_in(5)) problem.add_step(AugmentKind::kErase, {0.1, 0.3, 0.5, 0.5, 0.5});
    expect_same(problem, false, "seed " + std::to_string(seed));
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace robocache::testing
