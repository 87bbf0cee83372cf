// Colors, sharpness, noise, erasing and turned geometry beside their definitions in float64.
#include <gtest/gtest.h>

#include <cmath>

#include "image/problem.h"
#include "image/reference.h"
#include "support/random.h"

namespace robocache::testing {
namespace {

constexpr double kPi = 3.14159265358979323846;

/// The mean luma of frame 0's pixels.
double mean_luma(const Tensor& frames) {
  const std::int64_t pixels = frames.size() / 3;
  double sum = 0;
  for (std::int64_t i = 0; i < pixels; ++i) {
    sum +=
        0.2989 * frames.get(3 * i) + 0.587 * frames.get(3 * i + 1) + 0.114 * frames.get(3 * i + 2);
  }
  return sum / 255 / static_cast<double>(pixels);
}

void expect_step(AugmentKind kind, ColorStep step, double drawn, double factor, int mask) {
  ImageProblem problem = make_image_problem(5, DataType::kUInt8, 1, 40, 50, 3);
  std::vector<double> values(4, drawn);
  problem.add_step(kind, values).mask = mask;
  const Tensor got = process_on_cpu(problem);
  const double mean = mean_luma(problem.frames);  // the grid has every pixel
  for (std::int64_t i = 0; i < got.size() / 3; ++i) {
    double rgb[3];
    for (int c = 0; c < 3; ++c) rgb[c] = problem.frames.get(3 * i + c) / 255;
    change_by_definition(step, factor, mean, rgb);
    for (int c = 0; c < 3; ++c) {
      ASSERT_NEAR(got.get(3 * i + c), rgb[c] * 255, 5e-3)
          << "step " << static_cast<int>(step) << ", factor " << factor << ", pixel " << i;
    }
  }
}

TEST(ImageColors, AreThoseOfTheDefinition) {
  for (const double factor : {0.0, 0.3, 1.0, 1.7, 4.0}) {
    expect_step(AugmentKind::kJitter, ColorStep::kBrightness, factor, factor, 1);
    expect_step(AugmentKind::kJitter, ColorStep::kContrast, factor, factor, 2);
    expect_step(AugmentKind::kJitter, ColorStep::kSaturation, factor, factor, 4);
  }
  for (const double turn : {-0.5, -0.31, -0.1, 0.0, 0.05, 0.25, 0.5}) {
    expect_step(AugmentKind::kJitter, ColorStep::kHue, turn, turn, 8);
    expect_step(AugmentKind::kShift, ColorStep::kShift, turn, turn, 0);
  }
  for (const double gamma : {0.1, 0.5, 1.0, 2.2, 8.0}) {
    expect_step(AugmentKind::kGamma, ColorStep::kGamma, std::log(gamma), gamma, 0);
  }
  expect_step(AugmentKind::kGrayscale, ColorStep::kGrayscale, 0, 0, 0);
}

TEST(ImageColors, OfGrayImagesAreThoseOfEqualChannels) {
  ImageProblem gray = make_image_problem(5, DataType::kUInt8, 1, 9, 11, 1);
  ImageProblem rgb = make_image_problem(5, DataType::kUInt8, 1, 9, 11, 3);
  for (std::int64_t i = 0; i < rgb.frames.size(); ++i) rgb.frames.set(i, gray.frames.get(i / 3));
  rgb.episodes = gray.episodes;  // the same order of steps
  rgb.rows = gray.rows;
  for (ImageProblem* problem : {&gray, &rgb}) {
    problem->add_step(AugmentKind::kJitter, {0.8, 1.5}).mask = 3;
    problem->add_step(AugmentKind::kGamma, {0.2});
    problem->add_step(AugmentKind::kSharpness, {2});
  }
  const Tensor expected = process_on_cpu(rgb);
  const Tensor got = process_on_cpu(gray);
  for (std::int64_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got.get(i), expected.get(3 * i), 0.1);
}

TEST(ImageColors, SharpenAsTorchvision) {
  ImageProblem problem = make_image_problem(2, DataType::kUInt8, 1, 9, 12, 3);
  for (const double factor : {0.0, 0.5, 2.0}) {
    problem.augment.step_count = 0;
    problem.add_step(AugmentKind::kSharpness, {factor});
    const Tensor got = process_on_cpu(problem);
    const auto at = [&](std::int64_t v, std::int64_t u, std::int64_t c) {
      return problem.frames.get((v * 12 + u) * 3 + c);
    };
    for (std::int64_t i = 0; i < got.size(); ++i) {
      const std::int64_t c = i % 3;
      const std::int64_t u = i / 3 % 12;
      const std::int64_t v = i / 36;
      double smooth = at(v, u, c);
      if (u > 0 && u < 11 && v > 0 && v < 8) {
        smooth *= 4;
        for (std::int64_t k = 0; k < 9; ++k) smooth += at(v + k / 3 - 1, u + k % 3 - 1, c);
        smooth /= 13;
      }
      const double expected = std::clamp(factor * at(v, u, c) + (1 - factor) * smooth, 0.0, 255.0);
      ASSERT_NEAR(got.get(i), expected, 1e-3) << "factor " << factor << ", element " << i;
    }
  }
}

TEST(ImageColors, HaveNoiseOfANormalDistribution) {
  ImageProblem problem = make_image_problem(2, DataType::kUInt8, 2, 200, 200, 3);
  problem.frames.fill_bytes(127);
  problem.add_step(AugmentKind::kNoise, {0.1});
  const Tensor got = process_on_cpu(problem);
  double sums[5] = {};
  std::int64_t beyond = 0;  // of two standard deviations
  const std::int64_t count = got.size();
  for (std::int64_t i = 0; i < count; ++i) {
    const double x = (got.get(i) - 127) / 25.5;
    for (int k = 0; k < 5; ++k) sums[k] += std::pow(x, k);
    if (std::abs(x) > 2) ++beyond;
  }
  const auto n = static_cast<double>(count);
  EXPECT_NEAR(sums[1] / n, 0, 0.01);
  EXPECT_NEAR(sums[2] / n, 1, 0.01);
  EXPECT_NEAR(sums[3] / n, 0, 0.03);
  EXPECT_NEAR(sums[4] / n, 3, 0.06);
  EXPECT_NEAR(static_cast<double>(beyond) / n, 0.0455, 0.002);
  std::int64_t equal = 0;  // to the frame after: another key
  for (std::int64_t i = 0; i < count / 2; ++i) equal += got.get(i) == got.get(i + count / 2);
  EXPECT_LT(equal, count / 1000);
}

TEST(ImageColors, EraseRectanglesAfterAllElse) {
  ImageProblem problem = make_image_problem(2, DataType::kUInt8, 1, 40, 30, 3);
  problem.add_step(AugmentKind::kErase, {0.25, std::log(2.0), 0.2, 0.4, 1.0});
  problem.add_step(AugmentKind::kJitter, {0.5}).mask = 1;
  const Tensor got = process_on_cpu(problem);
  std::int64_t erased = 0;
  for (std::int64_t i = 0; i < got.size() / 3; ++i) {
    const bool is_erased = std::abs(got.get(3 * i) - 51) < 1e-3 &&
                           std::abs(got.get(3 * i + 1) - 102) < 1e-3 && got.get(3 * i + 2) == 255;
    erased += is_erased;
    if (is_erased) continue;
    for (int c = 0; c < 3; ++c) {
      ASSERT_NEAR(got.get(3 * i + c), problem.frames.get(3 * i + c) / 2, 1e-3);
    }
  }
  EXPECT_NEAR(static_cast<double>(erased), 0.25 * 40 * 30, 30);
}

TEST(ImageColors, DropsACamera) {
  ImageProblem problem = make_image_problem(2, DataType::kUInt8, 3, 8, 8, 3);
  problem.subtract = {10, 20, 30};
  problem.add_step(AugmentKind::kDropout, {}).probability = 1;
  problem.augment.camera_index = 1;
  problem.augment.cameras = 2;
  std::int64_t dropped = 0;
  problem.episodes = {1, 2, 3};
  for (problem.epoch = 0; problem.epoch < 20; ++problem.epoch) {
    const Tensor got = process_on_cpu(problem);
    for (int n = 0; n < 3; ++n) {
      if (got.get(n * 192) == -10 && got.get(n * 192 + 190) == -20) ++dropped;
    }
  }
  EXPECT_GT(dropped, 10);
  EXPECT_LT(dropped, 50);
}

TEST(ImageColors, LeaveOutPaddedFrames) {
  ImageProblem problem = make_image_problem(2, DataType::kUInt8, 2, 8, 8, 3);
  problem.frames_per_sample = 2;
  problem.batch = 1;
  problem.is_pad = {0, 1};
  problem.add_step(AugmentKind::kJitter, {0.5}).mask = 1;
  const Tensor got = process_on_cpu(problem);
  for (std::int64_t i = 0; i < 192; ++i) {
    ASSERT_NEAR(got.get(i), problem.frames.get(i) / 2, 1e-3);
    ASSERT_EQ(got.get(192 + i), problem.frames.get(192 + i));
  }
}

/// Turned images are bilinear, or filtered where they shrink; fractions are multiples of 1 / 255.
TEST(ImageTurns, AreThoseOfTheDefinition) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    ImageProblem problem = make_image_problem(seed, DataType::kUInt8, 1, 20 + random.below(60),
                                              20 + random.below(60), random.pick({1, 3}));
    problem.spec.height = static_cast<std::int32_t>(20 + random.below(60));
    problem.spec.width = static_cast<std::int32_t>(20 + random.below(60));
    const double angle = random.between(-kPi, kPi);
    problem.add_step(AugmentKind::kRotation, {angle});
    const Tensor got = process_on_cpu(problem);
    const auto shape = problem.frames.shape();
    const auto width = static_cast<double>(problem.out_width());
    const auto height = static_cast<double>(problem.out_height());
    const double scale_x = static_cast<double>(shape[2]) / width;
    const double scale_y = static_cast<double>(shape[1]) / height;
    const double c = std::cos(angle);
    const double s = std::sin(angle);
    double width_x = std::max(1.0, scale_x);
    double width_y = std::max(1.0, scale_y);
    if (width_x < 1.25 && width_y < 1.25) width_x = width_y = 1;
    for (std::int64_t i = 0; i < got.size(); ++i) {
      const std::int64_t place = i / shape[3];
      const double u = static_cast<double>(place % problem.out_width()) + 0.5 - width / 2;
      const double v = static_cast<double>(place / problem.out_width()) + 0.5 - height / 2;
      // Counterclockwise as seen, where rows count downward.
      const double x = (width / 2 + c * u - s * v) * scale_x;
      const double y = (height / 2 + s * u + c * v) * scale_y;
      const auto is_near = [](double a, double b) { return std::abs(a - b) < 1e-3; };
      if (is_near(x, 0) || is_near(y, 0) || is_near(x, static_cast<double>(shape[2])) ||
          is_near(y, static_cast<double>(shape[1]))) {
        continue;
      }
      const bool exists = x >= 0 && y >= 0 && x < static_cast<double>(shape[2]) &&
                          y < static_cast<double>(shape[1]);
      const double expected =
          exists ? sample_by_definition(problem, 0, x, y, width_x, width_y, i % shape[3]) : 0;
      ASSERT_NEAR(got.get(i), expected, width_x == 1 ? 1.05 : 0.2)
          << "seed " << seed << ", element " << i << ": " << problem.text();
    }
  }
}

}  // namespace
}  // namespace robocache::testing
