// Resizing, cropping and padding beside their definition in float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "image/problem.h"
#include "image/reference.h"
#include "support/numbers.h"
#include "support/random.h"

namespace robocache::testing {
namespace {

/// The largest difference to the definition, in units of the source. Pixels whose positions lie on
/// the border of two pixels for kNearest, may go either way.
double largest_error(const ImageProblem& problem) {
  const std::vector<double> expected = image_by_definition(problem);
  const Tensor got = process_on_cpu(problem);
  const std::int64_t channels = problem.frames.shape()[3];
  const std::int64_t pixels = problem.out_height() * problem.out_width();
  double most = 0;
  for (std::int64_t i = 0; i < pixels; ++i) {
    const SourcePosition at =
        position_by_definition(problem, i % problem.out_width(), i / problem.out_width());
    const auto is_ambiguous = [](double x) { return std::abs(x - std::round(x)) < 1e-3; };
    if (problem.spec.filter == ResizeFilter::kNearest && (is_ambiguous(at.x) || is_ambiguous(at.y)))
      continue;
    for (std::int64_t c = 0; c < channels; ++c) {
      const double value = got.get(problem.channels_first ? c * pixels + i : i * channels + c);
      const double wanted = expected[static_cast<std::size_t>(i * channels + c)];
      if (std::isnan(wanted)) continue;  // see image_by_definition
      const double error = std::abs(value - wanted);
      most = error <= most ? most : std::isnan(error) ? 1e9 : error;
    }
  }
  return most;
}

TEST(ImageGeometry, IsThatOfTheDefinition) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Random random(seed);
    const DataType type = random.pick({DataType::kUInt8, DataType::kUInt8, DataType::kUInt16});
    const auto side = [&] { return 1 + random.below(random.one_in(5) ? 300 : 40); };
    ImageProblem problem = make_image_problem(seed, type, 1, side(), side(), 1 + random.below(4));
    const std::vector<std::int64_t> shape = problem.frames.shape();
    problem.channels_first = random.one_in(2);
    ImageSpec& spec = problem.spec;
    spec.height = static_cast<std::int32_t>(side());
    spec.width = static_cast<std::int32_t>(side());
    spec.mode = random.pick({ResizeMode::kStretch, ResizeMode::kPad, ResizeMode::kCrop});
    spec.filter = random.pick({ResizeFilter::kBilinear, ResizeFilter::kBilinear,
                               ResizeFilter::kNearest, ResizeFilter::kMasked});
    if (random.one_in(3)) {
      spec.crop_height = static_cast<std::int32_t>(1 + random.below(shape[1]));
      spec.crop_width = static_cast<std::int32_t>(1 + random.below(shape[2]));
      spec.crop_top = static_cast<std::int32_t>(random.below(shape[1] - spec.crop_height + 1));
      spec.crop_left = static_cast<std::int32_t>(random.below(shape[2] - spec.crop_width + 1));
    }
    if (random.one_in(3)) spec.center = random.between(0.3, 1);
    // Weights of columns are multiples of 2^-14; positions are float32.
    const double tolerance = type == DataType::kUInt8 ? 0.25 : 1;
    EXPECT_LT(largest_error(problem), tolerance) << "seed " << seed << ": " << problem.text();
  }
}

TEST(ImageGeometry, OfTheSourceItselfKeepsEveryBit) {
  for (const DataType type :
       {DataType::kUInt8, DataType::kUInt16, DataType::kFloat16, DataType::kFloat32}) {
    for (const ResizeFilter filter : {ResizeFilter::kBilinear, ResizeFilter::kNearest}) {
      for (const std::int64_t channels : {1, 2, 3, 4}) {
        ImageProblem problem = make_image_problem(7, type, 2, 13, 21, channels);
        problem.spec.filter = filter;
        problem.out_type = type;
        ASSERT_EQ(bit_difference(problem.frames, process_on_cpu(problem)), "") << problem.text();
        // A centered crop of the output is a crop of the source.
        problem.spec.height = 13;
        problem.spec.width = 21;
        ASSERT_EQ(bit_difference(problem.frames, process_on_cpu(problem)), "") << problem.text();
      }
    }
  }
}

TEST(ImageGeometry, AppliesTheScaleInFloat64) {
  ImageProblem problem = make_image_problem(3, DataType::kUInt8, 1, 16, 16, 3);
  problem.subtract = {123.675, 116.28, 103.53};
  problem.multiply = {1 / 58.395, 1 / 57.12, 1 / 57.375};
  for (const DataType type :
       {DataType::kFloat16, DataType::kBFloat16, DataType::kFloat32, DataType::kUInt8}) {
    problem.out_type = type;
    const Tensor got = process_on_cpu(problem);
    for (std::int64_t i = 0; i < got.size(); ++i) {
      const auto c = static_cast<std::size_t>(i % 3);
      const double x = (problem.frames.get(i) - problem.subtract[c]) * problem.multiply[c];
      ASSERT_TRUE(is_same_number(got.get(i), rounded(x, type))) << name_of(type) << " " << i;
    }
  }
}

TEST(ImageGeometry, PadsAsOpenpi) {
  // 640 x 480 to 224 x 224: 224 x 168, with 28 black rows above and below.
  ImageProblem problem = make_image_problem(1, DataType::kUInt8, 1, 480, 640, 1);
  problem.frames.fill_bytes(200);
  problem.spec.height = problem.spec.width = 224;
  problem.spec.mode = ResizeMode::kPad;
  const Tensor got = process_on_cpu(problem);
  for (std::int64_t v = 0; v < 224; ++v) {
    for (std::int64_t u = 0; u < 224; ++u) {
      ASSERT_NEAR(got.get(v * 224 + u), v >= 28 && v < 196 ? 200 : 0, 1e-3) << u << "," << v;
    }
  }
  // An odd rest goes to the end: 5 x 2 to 5 x 5 has one row above and two below.
  problem = make_image_problem(1, DataType::kUInt8, 1, 2, 5, 1);
  problem.frames.fill_bytes(9);
  problem.spec.height = problem.spec.width = 5;
  problem.spec.mode = ResizeMode::kPad;
  const Tensor small = process_on_cpu(problem);
  for (std::int64_t i = 0; i < 25; ++i) ASSERT_EQ(small.get(i), i / 5 == 1 || i / 5 == 2 ? 9 : 0);
}

TEST(ImageGeometry, MasksDepth) {
  ImageProblem problem = make_image_problem(1, DataType::kFloat32, 1, 1, 4, 1);
  const double nan = std::nan("");
  problem.spec.height = 1;
  problem.spec.width = 2;
  problem.spec.filter = ResizeFilter::kMasked;
  const auto halves = [&](double a, double b, double c, double d) {
    const double values[4] = {a, b, c, d};
    for (int i = 0; i < 4; ++i) problem.frames.set(i, values[i]);
    const Tensor got = process_on_cpu(problem);
    return std::pair(got.get(0), got.get(1));
  };
  EXPECT_EQ(halves(2, nan, 0, HUGE_VAL), std::pair(2.0, 0.0));
  EXPECT_EQ(halves(nan, 4, 0, HUGE_VAL), std::pair(4.0, 4.0));
  EXPECT_EQ(halves(nan, 0, 0, -HUGE_VAL), std::pair(0.0, 0.0));
  EXPECT_EQ(halves(3, 3, 3, 3), std::pair(3.0, 3.0));
}

}  // namespace
}  // namespace robocache::testing
