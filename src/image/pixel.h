// One output pixel of a frame, by the recipe alone: slow paths of CUDA, and the tests' statement of
// what fast paths compute.
#pragma once

#include <cstdint>

#include "core/target.h"
#include "image/recipe.h"

namespace robocache::ROBOCACHE_TARGET {

/// The channels of a pixel.
struct Pixel {
  float values[4];
};

/// The samples of an output pixel, which are 0 outside the bounds.
template <typename Source>
ROBOCACHE_HOST_DEVICE_CALLED Pixel sampled_pixel(const FrameRecipe& recipe,
                                                 const SourceFrame<Source>& frame, std::int32_t u,
                                                 std::int32_t v) {
  Pixel pixel{};
  const Sampling& sampling = recipe.sampling;
  const float x = position(sampling.map, u, v);
  const float y = position(sampling.map + 3, u, v);
  if (!is_on(sampling.x, x) || !is_on(sampling.y, y)) return pixel;
  if (sizeof(Source) == 1 && frame.channels == 3) {
    const ChannelSums<3> sums = sample<3>(sampling, frame, x, y, 0);
    for (int c = 0; c < 3; ++c) pixel.values[c] = sums.sums[c] * recipe.scale;
    return pixel;
  }
  for (int c = 0; c < 4; ++c) {
    if (c >= frame.channels) break;
    pixel.values[c] = sample<1>(sampling, frame, x, y, c).sums[0] * recipe.scale;
  }
  return pixel;
}

/// Likewise, sharpened.
template <typename Source>
ROBOCACHE_HOST_DEVICE Pixel sharpened_pixel(const FrameRecipe& recipe,
                                            const SourceFrame<Source>& frame, std::int32_t u,
                                            std::int32_t v) {
  float rows[4][3][3];  // channels, rows, columns
  ROBOCACHE_NO_UNROLL
  for (std::int32_t i = 0; i < 9; ++i) {
    const Pixel pixel = sampled_pixel(recipe, frame, u + i % 3 - 1, v + i / 3 - 1);
    for (int c = 0; c < 4; ++c) rows[c][i / 3][i % 3] = pixel.values[c];
  }
  Pixel pixel;
  for (int c = 0; c < 4; ++c) {
    pixel.values[c] = sharpened(recipe.sharpness, 1 - recipe.sharpness, &rows[c][0][1],
                                &rows[c][1][1], &rows[c][2][1]);
  }
  return pixel;
}

/// An output pixel before (x - subtract) * multiply.
template <typename Source>
ROBOCACHE_HOST_DEVICE Pixel processed_pixel(const ImagePlan& plan, const FrameRecipe& recipe,
                                            const SourceFrame<Source>& frame, std::int32_t u,
                                            std::int32_t v) {
  Pixel pixel{};
  if (recipe.is_black != 0) return pixel;
  const bool is_inner = u > 0 && v > 0 && u + 1 < plan.out_width && v + 1 < plan.out_height;
  pixel = is_inner && is_sharpened_frame(recipe, plan) ? sharpened_pixel(recipe, frame, u, v)
                                                       : sampled_pixel(recipe, frame, u, v);
  float* const values = pixel.values;
  const bool is_gray = plan.channels == 1;
  for (std::int32_t i = 0; i < recipe.steps; ++i) {
    with_kind(recipe.colors[i].kind, [&](auto kind) {
      const Rgb x{values[0], is_gray ? values[0] : values[1], is_gray ? values[0] : values[2]};
      const Rgb y = changed<decltype(kind)::kValue>(recipe.colors[i], x);
      values[0] = y.r;
      values[1] = y.g;
      values[2] = y.b;
    });
  }
  if (recipe.noise > 0) {
    const auto place = static_cast<std::uint32_t>(v * plan.out_width + u);
    for (int c = 0; c < 4; ++c) {
      if (c >= plan.channels) break;
      const auto channels = static_cast<std::uint32_t>(plan.channels);
      values[c] = noisy(recipe, values[c], place * channels + static_cast<std::uint32_t>(c));
    }
  }
  if (v >= recipe.erase[0] && v < recipe.erase[2] && u >= recipe.erase[1] && u < recipe.erase[3]) {
    for (int c = 0; c < 4; ++c) values[c] = recipe.erase_value[c];
  }
  return pixel;
}

}  // namespace robocache::ROBOCACHE_TARGET
