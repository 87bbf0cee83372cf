// pixel_kernel: frames of any kind, a thread for each output pixel.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "core/early_launch.cuh"
#include "image/pixel.h"
#include "image/prepare.cuh"

namespace robocache::cuda {

inline constexpr int kPixelThreads = 128;

struct PixelLaunch {
  ImagePlan plans[kMaxImageLaunch];
  std::int64_t first_frame[kMaxImageLaunch];  // of the launch, in the recipes
  LaunchParts blocks;
  const char* recipes;
};

/// Writes one element of any type.
__device__ inline void store_element(DataType type, void* out, std::int64_t index, float x,
                                     double unit, double subtract, double multiply) {
  switch (type) {
    case DataType::kUInt8:
      static_cast<std::uint8_t*>(out)[index] = finished<std::uint8_t>(x, unit, subtract, multiply);
      return;
    case DataType::kUInt16:
      static_cast<UInt16*>(out)[index] = finished<UInt16>(x, unit, subtract, multiply);
      return;
    case DataType::kFloat16:
      static_cast<Float16*>(out)[index] = finished<Float16>(x, unit, subtract, multiply);
      return;
    case DataType::kBFloat16:
      static_cast<BFloat16*>(out)[index] = finished<BFloat16>(x, unit, subtract, multiply);
      return;
    default:
      static_cast<float*>(out)[index] = finished<float>(x, unit, subtract, multiply);
  }
}

/// Writes the output pixel (u, v) of frame n.
template <typename Source>
__device__ void write_pixel(const ImagePlan& plan, const FrameRecipe& recipe, std::int64_t n,
                            std::int32_t u, std::int32_t v) {
  const SourceFrame<Source> frame{
      static_cast<const Source*>(plan.frames) + n * plan.frame_elements(), plan.height, plan.width,
      plan.channels};
  const Pixel made = processed_pixel(plan, recipe, frame, u, v);
  const std::int64_t place = std::int64_t{v} * plan.out_width + u;
  const std::int64_t step = plan.channels_first ? plan.pixels() : 1;
  const std::int64_t first =
      n * plan.pixels() * plan.channels + (plan.channels_first ? place : place * plan.channels);
#pragma unroll
  for (int c = 0; c < 4; ++c) {
    if (c >= plan.channels) break;
    store_element(plan.out_type, plan.out, first + c * step, made.values[c], recipe.unit,
                  plan.subtract[c], plan.multiply[c]);
  }
}

template <typename Source>
__global__ void __launch_bounds__(kPixelThreads)
    pixel_kernel(const __grid_constant__ PixelLaunch launch) {
  __shared__ FrameRecipe recipe;
  wait_for_stream();
  const int window = launch.blocks.find(blockIdx.x);
  const ImagePlan& plan = launch.plans[window];
  const auto pixels = static_cast<std::uint32_t>(plan.pixels());
  const std::uint32_t blocks_per_frame = (pixels + kPixelThreads - 1) / kPixelThreads;
  const auto block = static_cast<std::uint32_t>(blockIdx.x - launch.blocks.first[window]);
  const std::uint32_t n = block / blocks_per_frame;
  load_recipe(launch.recipes, launch.first_frame[window] + n, recipe);
  if (recipe.is_black == kSkippedFrame) return;
  const std::uint32_t pixel = (block - n * blocks_per_frame) * kPixelThreads + threadIdx.x;
  if (pixel >= pixels) return;
  const auto width = static_cast<std::uint32_t>(plan.out_width);
  const std::uint32_t v = pixel / width;
  write_pixel<Source>(plan, recipe, n, static_cast<std::int32_t>(pixel - v * width),
                      static_cast<std::int32_t>(v));
}

}  // namespace robocache::cuda
