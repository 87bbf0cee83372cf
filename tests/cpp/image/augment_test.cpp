// Draws of augmentation: the same on every device and in any batch; directions and order of the
// geometric steps; and the checks of plans. tests/python/image tests the distributions.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "robocache/augment.h"
#include "robocache/build_info.h"
#include "support/environment.h"
#include "support/error_of.h"
#include "support/random.h"
#if defined(ROBOCACHE_HAS_CUDA)
#include "support/device.h"
#endif

namespace robocache::testing {
namespace {

AugmentStep step_of(AugmentKind kind, float low = 0, float high = 0) {
  AugmentStep step;
  step.kind = kind;
  step.low[0] = low;
  step.high[0] = high;
  return step;
}

AugmentPlan plan_of(const std::vector<AugmentStep>& steps) {
  AugmentPlan plan;
  plan.geometry.height = 224;
  plan.geometry.width = 224;
  plan.geometry.bounds[2] = plan.geometry.bounds[3] = 224;
  plan.seed = 7;
  plan.camera = 0x1234;
  for (const AugmentStep& step : steps) plan.steps[plan.step_count++] = step;
  return plan;
}

/// A plan of random steps, with ranges over all of their valid values.
AugmentPlan random_plan(std::uint64_t seed) {
  Random random(seed);
  AugmentPlan plan = plan_of({});
  plan.seed = seed;
  plan.camera = static_cast<std::uint64_t>(random.below(1 << 30)) << 32;
  plan.geometry.height = static_cast<std::int32_t>(1 + random.below(400));
  plan.geometry.width = static_cast<std::int32_t>(1 + random.below(400));
  for (double& each : plan.geometry.map) each = random.between(-3, 3);
  plan.per_frame = random.one_in(2) ? 1 : 0;
  plan.cameras = static_cast<std::int32_t>(1 + random.below(4));
  plan.camera_index = static_cast<std::int32_t>(random.below(plan.cameras));
  const auto add = [&](AugmentKind kind, std::vector<std::pair<double, double>> limits) {
    AugmentStep step = step_of(kind);
    step.probability = static_cast<float>(random.between(0, 1));
    step.weight = static_cast<float>(random.between(0.1, 3));
    step.mask = static_cast<std::int32_t>(random.below(16));
    for (std::size_t i = 0; i < limits.size(); ++i) {
      const double low = random.between(limits[i].first, limits[i].second);
      step.low[i] = static_cast<float>(low);
      step.high[i] = static_cast<float>(random.between(low, limits[i].second));
      if (step.high[i] < step.low[i]) step.high[i] = step.low[i];
    }
    plan.steps[plan.step_count++] = step;
  };
  if (random.one_in(2)) {
    add(AugmentKind::kSubset, {});
    AugmentStep& subset = plan.steps[0];
    subset.size = 8;
    subset.count = static_cast<std::int32_t>(1 + random.below(8));
    subset.random_order = random.one_in(2) ? 1 : 0;
  }
  add(AugmentKind::kCrop, {{0.1, 1}});
  add(AugmentKind::kJitter, {{0, 3}, {0, 3}, {0, 3}, {-0.5, 0.5}});
  add(AugmentKind::kResizedCrop, {{0.1, 1}, {-2, 2}});
  add(AugmentKind::kGamma, {{-3, 3}});
  add(AugmentKind::kRotation, {{-7, 7}});
  add(AugmentKind::kFlip, {});
  add(AugmentKind::kAffine, {{-7, 7}, {-1, 1}, {-1, 1}, {0.1, 4}, {-1.5, 1.5}, {-1.5, 1.5}});
  add(AugmentKind::kShift, {{-1, 1}});
  add(AugmentKind::kGrayscale, {});
  add(AugmentKind::kSharpness, {{0, 3}});
  add(AugmentKind::kNoise, {{0, 1}});
  add(AugmentKind::kErase, {{0, 1}, {-2, 2}, {0, 1}, {0, 1}, {0, 1}});
  add(AugmentKind::kDropout, {});
  return plan;
}

/// The samples of a batch.
struct Samples {
  explicit Samples(std::int64_t batch, std::uint64_t seed) {
    Random random(seed);
    for (std::int64_t i = 0; i < batch; ++i) {
      datasets.push_back(random.below(3));
      episodes.push_back(random.below(1000));
      frames.push_back(random.below(100'000));
    }
  }

  ImageSamples view() const { return {datasets.data(), episodes.data(), frames.data(), &epoch}; }

  std::vector<std::int64_t> datasets, episodes, frames;
  std::int64_t epoch = 3;
};

std::vector<ImageParameters> draw(const AugmentPlan& plan, const Samples& samples,
                                  std::int64_t frames) {
  const auto batch = static_cast<std::int64_t>(samples.episodes.size());
  std::vector<ImageParameters> drawn(static_cast<std::size_t>(batch * frames));
  draw_augmentation(plan, batch, frames, samples.view(), drawn.data(), on_cpu());
  return drawn;
}

ImageParameters draw_one(const AugmentPlan& plan, std::int64_t frame = 0) {
  Samples samples(1, 1);
  samples.frames[0] = frame;
  return draw(plan, samples, 1)[0];
}

/// The bytes of all members: padding between them is unspecified.
std::string bytes_of(const ImageParameters& p) {
  std::string bytes;
  const auto add = [&](const auto& member) {
    bytes.append(reinterpret_cast<const char*>(&member), sizeof(member));
  };
  add(p.map);
  add(p.bounds);
  add(p.colors);
  add(p.factors);
  add(p.means);
  add(p.sharpness);
  add(p.noise);
  add(p.noise_key);
  add(p.erase);
  add(p.erase_value);
  add(p.is_black);
  return bytes;
}

TEST(Augment, DrawsTheSameInAnyBatch) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const AugmentPlan plan = random_plan(seed);
    const Samples samples(20, seed);
    const std::vector<ImageParameters> together = draw(plan, samples, 3);
    for (std::size_t i = 0; i < 20; ++i) {
      Samples one(0, 0);
      one.datasets = {samples.datasets[i]};
      one.episodes = {samples.episodes[i]};
      one.frames = {samples.frames[i]};
      const std::vector<ImageParameters> alone = draw(plan, one, 3);
      for (std::size_t k = 0; k < 3; ++k) {
        ASSERT_EQ(bytes_of(alone[k]), bytes_of(together[3 * i + k])) << seed << " " << i;
      }
    }
  }
}

TEST(Augment, DrawsTheSameOnTheDevice) {
  const std::string problem = cuda_problem(0);
  if (!problem.empty()) {
    ASSERT_FALSE(is_required("cuda")) << problem;
    GTEST_SKIP() << problem;
  }
#if defined(ROBOCACHE_HAS_CUDA)
  constexpr std::int64_t kBatch = 300;
  constexpr std::int64_t kFrames = 3;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const AugmentPlan plan = random_plan(seed);
    const Samples samples(kBatch, seed);
    const std::vector<ImageParameters> expected = draw(plan, samples, kFrames);
    const auto upload = [](const std::int64_t* values, std::size_t count) {
      DeviceMemory memory = device_memory(count * sizeof(*values));
      expect_success(
          cudaMemcpy(memory.get(), values, count * sizeof(*values), cudaMemcpyHostToDevice));
      return memory;
    };
    const DeviceMemory datasets = upload(samples.datasets.data(), kBatch);
    const DeviceMemory episodes = upload(samples.episodes.data(), kBatch);
    const DeviceMemory frames = upload(samples.frames.data(), kBatch);
    const DeviceMemory epoch = upload(&samples.epoch, 1);
    const std::size_t bytes = expected.size() * sizeof(ImageParameters);
    const DeviceMemory out = device_memory(bytes);
    const CudaStream stream;
    const auto indices = [](const DeviceMemory& memory) {
      return static_cast<const std::int64_t*>(memory.get());
    };
    draw_augmentation(plan, kBatch, kFrames,
                      {indices(datasets), indices(episodes), indices(frames), indices(epoch)},
                      static_cast<ImageParameters*>(out.get()), on_cuda(stream.get()));
    stream.wait();
    std::vector<ImageParameters> drawn(expected.size());
    expect_success(cudaMemcpy(drawn.data(), out.get(), bytes, cudaMemcpyDeviceToHost));
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      ASSERT_EQ(bytes_of(drawn[i]), bytes_of(expected[i])) << "seed " << seed << ", frame " << i;
    }
  }
#endif
}

TEST(Augment, DrawsForEachFrameIfAsked) {
  AugmentPlan plan =
      plan_of({step_of(AugmentKind::kRotation, -1, 1), step_of(AugmentKind::kNoise, 0.1F, 0.1F)});
  const Samples samples(1, 1);
  const std::vector<ImageParameters> shared = draw(plan, samples, 2);
  EXPECT_EQ(shared[0].map[0], shared[1].map[0]);
  EXPECT_NE(shared[0].noise_key, shared[1].noise_key);
  plan.per_frame = 1;
  const std::vector<ImageParameters> own = draw(plan, samples, 2);
  EXPECT_NE(own[0].map[0], own[1].map[0]);
  EXPECT_EQ(own[0].noise_key, shared[0].noise_key);
}

/// The position in the source of a position in the output.
std::pair<double, double> mapped(const ImageParameters& p, double x, double y) {
  return {static_cast<double>(p.map[0]) * x + static_cast<double>(p.map[1]) * y +
              static_cast<double>(p.map[2]),
          static_cast<double>(p.map[3]) * x + static_cast<double>(p.map[4]) * y +
              static_cast<double>(p.map[5])};
}

void expect_near(const std::pair<double, double>& got, double x, double y) {
  EXPECT_NEAR(got.first, x, 1e-3);
  EXPECT_NEAR(got.second, y, 1e-3);
}

TEST(Augment, RotationIsCounterclockwise) {
  constexpr float kQuarter = 1.57079632679F;
  AugmentPlan plan = plan_of({step_of(AugmentKind::kRotation, kQuarter, kQuarter)});
  plan.geometry.width = 100;
  // The top of the output is the right side of the source.
  expect_near(mapped(draw_one(plan), 50, 12), 150, 112);
}

TEST(Augment, AffineIsClockwiseAndMovesTheImage) {
  AugmentStep step = step_of(AugmentKind::kAffine, 1.57079632679F, 1.57079632679F);
  step.low[3] = step.high[3] = 2;
  const AugmentPlan turned = plan_of({step});
  // The right side of the output is the top of the source; all is twice as large.
  expect_near(mapped(draw_one(turned), 212, 112), 112, 62);
  step.low[0] = step.high[0] = 0;
  step.low[1] = step.high[1] = 0.25F;  // to the right
  step.low[3] = step.high[3] = 1;
  expect_near(mapped(draw_one(plan_of({step})), 112, 112), 56, 112);
  step.low[1] = step.high[1] = 0;
  step.low[4] = step.high[4] = 0.78539816F;
  // torchvision's matrix [[1, -tan(s)], [0, 1]]: what lies lower moves to the left.
  expect_near(mapped(draw_one(plan_of({step})), 112, 122), 122, 122);
}

TEST(Augment, StepsApplyInTheirOrder) {
  // The rotation turns the crop: the output's center is the crop's.
  const AugmentStep crop = step_of(AugmentKind::kCrop, 0.5F, 0.5F);
  const AugmentStep rotation = step_of(AugmentKind::kRotation, 1, 1);
  const ImageParameters cropped = draw_one(plan_of({crop}));
  const ImageParameters both = draw_one(plan_of({crop, rotation}));
  const auto [x, y] = mapped(cropped, 112, 112);
  expect_near(mapped(both, 112, 112), x, y);
  const ImageParameters flipped = draw_one(plan_of({crop, step_of(AugmentKind::kFlip)}));
  const auto [left, top] = mapped(cropped, 0, 0);
  expect_near(mapped(flipped, 224, 0), left, top);
}

TEST(Augment, CropOfTheSourcesResolutionCopiesPixels) {
  AugmentPlan plan = plan_of({step_of(AugmentKind::kCrop, 76.0F / 84, 76.0F / 84)});
  plan.geometry.width = plan.geometry.height = 76;
  plan.geometry.map[0] = plan.geometry.map[4] = 84.0 / 76;
  std::vector<int> counts(9);
  for (std::int64_t frame = 0; frame < 9000; ++frame) {
    const ImageParameters p = draw_one(plan, frame);
    EXPECT_EQ(p.map[0], 1);
    EXPECT_EQ(p.map[4], 1);
    EXPECT_EQ(p.map[2], std::floor(p.map[2]));
    ++counts.at(static_cast<std::size_t>(p.map[2]));
  }
  for (const int count : counts) EXPECT_NEAR(count, 1000, 150);
  // Behind a flip too, where positions fall.
  plan.steps[1] = plan.steps[0];
  plan.steps[0] = step_of(AugmentKind::kFlip);
  plan.step_count = 2;
  const ImageParameters flipped = draw_one(plan);
  EXPECT_EQ(flipped.map[0], -1);
  EXPECT_EQ(flipped.map[2], std::floor(flipped.map[2]));
  EXPECT_GE(flipped.map[2], 76);
  EXPECT_LE(flipped.map[2], 84);
}

TEST(Augment, GeometryIsThatOfTheSpecWithoutItsCenter) {
  AugmentPlan plan = plan_of({});
  ImageSpec spec;
  spec.height = 120;
  spec.width = 80;
  spec.center = 0.5;
  set_augment_geometry(plan, spec, 240, 320);
  EXPECT_EQ(plan.geometry.height, 120);
  EXPECT_EQ(plan.geometry.width, 80);
  expect_near(mapped(draw_one(plan), 80, 120), 320, 240);
  EXPECT_EQ(plan.geometry.bounds[2], 320);
  spec.crop_height = 241;
  spec.crop_width = 1;
  EXPECT_EQ(error_of([&] {
              set_augment_geometry(plan, spec, 240, 320);
            }).rfind("ValueError spec.crop: expected", 0),
            0U);
}

TEST(Augment, NoStepsChangeNothing) {
  const ImageParameters p = draw_one(plan_of({}));
  expect_near(mapped(p, 10, 20), 10, 20);
  EXPECT_EQ(p.colors[0], ColorStep::kNone);
  EXPECT_EQ(p.sharpness, 1);
  EXPECT_EQ(p.noise, 0);
  EXPECT_EQ(p.erase[2], 0);
  EXPECT_EQ(p.is_black, 0U);
}

class AugmentErrors : public ::testing::Test {
 protected:
  static std::string message(const std::function<void(AugmentPlan&)>& spoil) {
    AugmentPlan plan = plan_of({step_of(AugmentKind::kCrop, 0.5F, 0.5F)});
    spoil(plan);
    return error_of([&] { check_augment_plan(plan, "augment"); });
  }
};

TEST_F(AugmentErrors, OfSteps) {
  EXPECT_EQ(message([](AugmentPlan& p) { p.step_count = 17; }),
            "ValueError augment: expected at most 16 steps, got 17");
  EXPECT_EQ(message([](AugmentPlan& p) { p.steps[0].kind = static_cast<AugmentKind>(99); }),
            "ValueError augment.steps[0].kind: expected an AugmentKind, got 99");
  EXPECT_EQ(message([](AugmentPlan& p) { p.steps[0].probability = 2; }),
            "ValueError augment.steps[0].probability: expected 0 to 1, got 2.000000");
  EXPECT_EQ(message([](AugmentPlan& p) { p.steps[0].weight = 0; }),
            "ValueError augment.steps[0].weight: expected 0.0001 to 10000, got 0.000000");
  EXPECT_EQ(message([](AugmentPlan& p) { p.steps[0].high[0] = 1.5F; }),
            "ValueError augment.steps[0].low[0]: expected a range within 0.001000 to 1.000000, got "
            "0.500000 to 1.500000");
  EXPECT_EQ(
      message([](AugmentPlan& p) { p.steps[0].low[0] = std::numeric_limits<float>::quiet_NaN(); }),
      "ValueError augment.steps[0].low[0]: expected a range within 0.001000 to 1.000000, got "
      "nan to 0.500000");
  EXPECT_EQ(message([](AugmentPlan& p) { p.camera_index = 1; }),
            "ValueError augment.camera_index: expected 0 to 0, got 1");
}

TEST_F(AugmentErrors, OfSubsetsAndKinds) {
  const auto subset = [](std::int32_t size, std::int32_t count, AugmentKind kind) {
    return [=](AugmentPlan& p) {
      p.steps[0] = step_of(AugmentKind::kSubset);
      p.steps[0].size = size;
      p.steps[0].count = count;
      p.steps[1] = step_of(kind);
      p.step_count = 2;
    };
  };
  EXPECT_EQ(message(subset(2, 1, AugmentKind::kFlip)),
            "ValueError augment.steps[0].size: expected 1 to 1, got 2");
  EXPECT_EQ(message(subset(1, 2, AugmentKind::kFlip)),
            "ValueError augment.steps[0].count: expected 1 to 1, got 2");
  EXPECT_EQ(message(subset(1, 1, AugmentKind::kDropout)),
            "ValueError augment.steps[0]: expected steps other than subsets and camera dropout, "
            "got one of them");
  EXPECT_EQ(message([](AugmentPlan& p) {
              p.steps[0] = p.steps[1] = step_of(AugmentKind::kNoise);
              p.step_count = 2;
            }),
            "ValueError augment: expected at most one step of sharpness, noise, erasing and camera "
            "dropout, got two of one");
  EXPECT_EQ(message([](AugmentPlan& p) {
              for (AugmentStep& step : p.steps) step = step_of(AugmentKind::kGrayscale);
              p.step_count = 9;
            }),
            "ValueError augment: expected at most 8 color steps, got 9");
}

TEST_F(AugmentErrors, OfWindows) {
  AugmentPlan plan = plan_of({step_of(AugmentKind::kCrop, 2, 2)});
  std::vector<std::uint8_t> pixels(96);
  std::vector<std::uint8_t> made(pixels.size());
  ImageWindow window;
  window.augment = &plan;
  window.frames = {pixels.data(), DataType::kUInt8, {2, 4, 4, 3}};
  window.out = {made.data(), DataType::kUInt8, {2, 4, 4, 3}};
  const Samples samples(2, 1);
  const auto error = [&] {
    return error_of([&] { process_images({window}, 2, samples.view(), {}, on_cpu()); });
  };
  EXPECT_EQ(error(),
            "ValueError windows[0].augment.steps[0].low[0]: expected a range within 0.001000 to "
            "1.000000, got 2.000000 to 2.000000");
  plan.step_count = 17;
  EXPECT_EQ(error(), "ValueError windows[0].augment: expected at most 16 steps, got 17");
}

TEST_F(AugmentErrors, OfCalls) {
  AugmentPlan plan = plan_of({});
  const Samples samples(2, 1);
  std::vector<ImageParameters> drawn(2);
  const auto error = [&](std::int64_t batch, std::int64_t frames, const ImageSamples& given) {
    return error_of([&] { draw_augmentation(plan, batch, frames, given, drawn.data(), on_cpu()); });
  };
  EXPECT_EQ(error(2, 1, samples.view()), "no error");
  EXPECT_EQ(error(-1, 1, samples.view()), "ValueError batch: expected 0 or more, got -1");
  EXPECT_EQ(error(2, 0, samples.view()), "ValueError frames_per_sample: expected 1 or more, got 0");
  EXPECT_EQ(
      error(2, 1, {}),
      "ValueError samples: expected episode_index, frame_index and epoch, got a null pointer");
  EXPECT_EQ(error(0, 1, {}), "no error");
  plan.geometry.height = 0;
  EXPECT_EQ(error(2, 1, samples.view()),
            "ValueError plan.geometry: expected a height and width of 1 or more, got 0 and 224");
  plan.geometry.map[0] = std::numeric_limits<double>::infinity();
  EXPECT_EQ(error(2, 1, samples.view()),
            "ValueError plan.geometry.map: expected finite numbers, got others");
}

}  // namespace
}  // namespace robocache::testing
