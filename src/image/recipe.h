// The recipe of a frame: its parameters in the form that kernels use.
#pragma once

#include <cstdint>

#include "core/number.h"
#include "core/target.h"
#include "image/color.h"
#include "image/draw.h"
#include "image/plan.h"
#include "image/sample.h"

namespace robocache::ROBOCACHE_TARGET {

/// A value of an output of uint16, which no other operation computes with.
struct UInt16 {
  std::uint16_t value;
};

template <>
struct Round<UInt16> {
  // Saturates; NaN is 0. Adding and subtracting 2^52 rounds off the fraction to even.
  ROBOCACHE_HOST_DEVICE static UInt16 from(double x) {
    const double in_range = x > 0.0 ? (x < 65535.0 ? x : 65535.0) : 0.0;
    return {static_cast<std::uint16_t>((in_range + 0x1p52) - 0x1p52)};
  }
};

/// How a frame is processed: sampled, sharpened, changed in color, made noisy, and erased.
struct FrameRecipe {
  Sampling sampling;
  float scale;         // of the samples
  std::int32_t steps;  // of colors
  PreparedStep colors[kMaxColorSteps];
  float sharpness;
  float noise;
  std::uint64_t noise_key;
  std::int32_t erase[4];    // top, left, bottom, right
  float erase_value[4];     // in the unit of the values
  double unit;              // values times this are the source's values: 255 or 1
  std::int32_t has_colors;  // whether any color changes: values are then 0 to 1
  std::uint32_t is_black;   // kSkippedFrame: it is not written
};

/// Without the offsets of contrasts, whose means follow.
ROBOCACHE_HOST_DEVICE FrameRecipe make_recipe(const ImagePlan& plan,
                                              const ImageParameters& parameters) {
  FrameRecipe recipe;
  const bool is_bytes = plan.type == DataType::kUInt8;
  recipe.sampling = make_sampling(parameters, plan.filter, is_bytes, plan.height, plan.width);
  recipe.steps = 0;
  while (recipe.steps < kMaxColorSteps && parameters.colors[recipe.steps] != ColorStep::kNone) {
    const std::int32_t i = recipe.steps++;
    recipe.colors[i] = prepare_step(parameters.colors[i], parameters.factors[i], 0);
  }
  recipe.sharpness = parameters.sharpness;
  recipe.noise = parameters.noise;
  recipe.noise_key = parameters.noise_key;
  const bool has_colors = recipe.steps > 0 || recipe.sharpness != 1 || recipe.noise > 0;
  recipe.has_colors = has_colors ? 1 : 0;
  recipe.scale = sample_scale(recipe.sampling.kind, has_colors);
  recipe.unit = has_colors ? 255 : 1;
  for (int i = 0; i < 2; ++i) {
    recipe.erase[i] = parameters.erase[i];
    recipe.erase[i + 2] = parameters.erase[i] + parameters.erase[i + 2];
  }
  for (int c = 0; c < 4; ++c) {
    const float value = parameters.erase_value[c < 3 ? c : 2];
    recipe.erase_value[c] = is_bytes && !has_colors ? value * 255 : value;
  }
  recipe.is_black = parameters.is_black;
  return recipe;
}

/// The parameters of frame n, without the means of contrasts.
ROBOCACHE_HOST_DEVICE void draw_frame(const ImageDrawPlan& draw, std::int64_t n,
                                      ImageParameters& parameters) {
  const ImageSamples& samples = draw.samples;
  const std::int64_t b = n / draw.frames_per_sample;
  if (draw.dataset_index >= 0 && samples.dataset_index[b] != draw.dataset_index) {
    parameters = draw.fixed;
    parameters.is_black = kSkippedFrame;
    return;
  }
  const bool is_pad = draw.is_pad != nullptr && draw.is_pad[n];
  if (!draw.is_augmented || samples.epoch == nullptr || is_pad) {
    parameters = draw.fixed;
    return;
  }
  draw_image_parameters(
      draw.augment, *samples.epoch, samples.dataset_index == nullptr ? 0 : samples.dataset_index[b],
      samples.episode_index[b], samples.frame_index[b], n - b * draw.frames_per_sample, parameters);
}

/// The means of contrasts are those of a grid of at most so many pixels a side.
inline constexpr std::int32_t kMeanGrid = 64;
inline constexpr float kMeanUnit = 65536;

ROBOCACHE_HOST_DEVICE std::int32_t grid_size(std::int32_t size) {
  return size < kMeanGrid ? size : kMeanGrid;
}

/// The output pixel at place i of a grid: the middle of its part.
ROBOCACHE_HOST_DEVICE std::int32_t grid_pixel(std::int32_t i, std::int32_t grid,
                                              std::int32_t size) {
  return static_cast<std::int32_t>((std::int64_t{2} * i + 1) * size / (std::int64_t{2} * grid));
}

/// The color, 0 to 1, of the source pixel that contains the center of an output pixel.
ROBOCACHE_HOST_DEVICE Rgb nearest_color(const ImagePlan& plan, const std::uint8_t* frame,
                                        const Sampling& sampling, std::int32_t u, std::int32_t v) {
  const float x = position(sampling.map, u, v);
  const float y = position(sampling.map + 3, u, v);
  if (!is_on(sampling.x, x) || !is_on(sampling.y, y)) return {0, 0, 0};
  const SourceFrame<std::uint8_t> source{frame, plan.height, plan.width, plan.channels};
  if (plan.channels == 1) {
    const float gray = sample_nearest<1>(sampling, source, x, y, 0).sums[0] * (1.0f / 255.0f);
    return {gray, gray, gray};
  }
  const ChannelSums<3> sums = sample_nearest<3>(sampling, source, x, y, 0);
  const float scale = 1.0f / 255.0f;
  return {sums.sums[0] * scale, sums.sums[1] * scale, sums.sums[2] * scale};
}

/// A luma as an integer.
ROBOCACHE_HOST_DEVICE std::uint32_t fixed_luma(Rgb x, bool is_gray) {
  const float shifted = (is_gray ? x.r : luma(x)) * kMeanUnit + 0.5f;
  return static_cast<std::uint32_t>(shifted);
}

/// The mean of lumas from their sum.
ROBOCACHE_HOST_DEVICE float mean_of(std::uint32_t sum, std::int32_t count) {
  return static_cast<float>(sum) / (static_cast<float>(count) * kMeanUnit);
}

/// Whether a frame is sharpened; its outermost pixels are not.
ROBOCACHE_HOST_DEVICE bool is_sharpened_frame(const FrameRecipe& recipe, const ImagePlan& plan) {
  return recipe.sharpness != 1 && plan.out_width > 2 && plan.out_height > 2;
}

/// A pixel blended with its neighborhood: torchvision's adjust_sharpness. The pointers are those of
/// the pixel's column in three rows; `rest` is 1 - sharpness.
ROBOCACHE_HOST_DEVICE float sharpened(float sharpness, float rest, const float* above,
                                      const float* row, const float* below) {
  const float around =
      above[-1] + above[0] + above[1] + row[-1] + row[1] + below[-1] + below[0] + below[1];
  const float smooth = (around + row[0] * 5) * (1.0f / 13);
  return clamp_to_one(row[0] * sharpness + smooth * rest);
}

/// A value, 0 to 1, with noise. `index` is the value's place in the frame, channels last.
ROBOCACHE_HOST_DEVICE float noisy(const FrameRecipe& recipe, float x, std::uint32_t index) {
  return clamp_to_one(x + recipe.noise * normal_number(recipe.noise_key, index));
}

/// The value that is written: (x - subtract) * multiply, rounded once. x times the unit is exact.
template <typename Out>
ROBOCACHE_HOST_DEVICE Out finished(float x, double unit, double subtract, double multiply) {
  return Round<Out>::from((static_cast<double>(x) * unit - subtract) * multiply);
}

}  // namespace robocache::ROBOCACHE_TARGET
