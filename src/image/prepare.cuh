// prepare_kernel: draws the parameters of all frames of a launch, and writes their recipes.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "core/early_launch.cuh"
#include "image/backends.h"
#include "image/process_cpu_kernels.h"
#include "image/recipe.h"

namespace robocache::cuda {

static_assert(sizeof(FrameRecipe) <= kRecipeBytes);

inline constexpr int kPrepareThreads = 256;

/// The windows of a launch and their parts of a grid: `first[i]` is the first of window i, and the
/// last element the end.
struct LaunchParts {
  std::int64_t first[kMaxImageLaunch + 1];
  std::int32_t count;

  /// The window that has a place.
  __device__ int find(std::int64_t place) const {
    int i = 0;
    while (i + 1 < count && place >= first[i + 1]) ++i;
    return i;
  }
};

struct PrepareLaunch {
  ImageCall calls[kMaxImageLaunch];
  LaunchParts frames;
  char* recipes;
};

/// The sum of a number over the block, in all of its threads. `partial` has a place for each warp.
__device__ inline std::uint32_t block_sum(std::uint32_t x, std::uint32_t* partial) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(~0u, x, step);
  __syncthreads();  // the places may still be read
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = x;
  __syncthreads();
  std::uint32_t sum = 0;
#pragma unroll
  for (int i = 0; i < kPrepareThreads / 32; ++i) sum += partial[i];
  return sum;
}

/// The mean luma of a frame before step `step`, by all threads of the block.
__device__ inline float mean_before(const ImagePlan& plan, const FrameRecipe& recipe,
                                    const std::uint8_t* frame, std::int32_t step,
                                    std::uint32_t* partial) {
  const std::int32_t columns = grid_size(plan.out_width);
  const std::int32_t rows = grid_size(plan.out_height);
  std::uint32_t sum = 0;
#pragma unroll 4
  for (std::int32_t k = static_cast<std::int32_t>(threadIdx.x); k < rows * columns;
       k += kPrepareThreads) {
    const std::int32_t row = k / columns;
    Rgb x = nearest_color(plan, frame, recipe.sampling,
                          grid_pixel(k - row * columns, columns, plan.out_width),
                          grid_pixel(row, rows, plan.out_height));
    for (std::int32_t i = 0; i < step; ++i) {
      with_kind(recipe.colors[i].kind,
                [&](auto kind) { x = changed<decltype(kind)::kValue>(recipe.colors[i], x); });
    }
    sum += fixed_luma(x, plan.channels == 1);
  }
  return mean_of(block_sum(sum, partial), rows * columns);
}

/// A block for each frame.
static __global__ void __launch_bounds__(kPrepareThreads)
    prepare_kernel(const __grid_constant__ PrepareLaunch launch) {
  __shared__ FrameRecipe recipe;
  __shared__ std::uint32_t partial[kPrepareThreads / 32];
  wait_for_stream();
  const std::int64_t place = blockIdx.x;
  const int window = launch.frames.find(place);
  const ImagePlan& plan = launch.calls[window].plan;
  const std::int64_t n = place - launch.frames.first[window];
  if (threadIdx.x == 0) {
    ImageParameters parameters;
    draw_frame(launch.calls[window].draw, n, parameters);
    recipe = make_recipe(plan, parameters);
  }
  __syncthreads();
  const auto* const frame =
      static_cast<const std::uint8_t*>(plan.frames) + n * plan.frame_elements();
  for (std::int32_t i = 0; i < recipe.steps; ++i) {
    if (recipe.colors[i].kind != ColorStep::kContrast) continue;
    const float mean = mean_before(plan, recipe, frame, i, partial);
    if (threadIdx.x == 0) {
      recipe.colors[i] = prepare_step(ColorStep::kContrast, recipe.colors[i].factor, mean);
    }
    __syncthreads();
  }
  auto* const to = reinterpret_cast<std::uint32_t*>(launch.recipes + place * kRecipeBytes);
  const auto* const from = reinterpret_cast<const std::uint32_t*>(&recipe);
  if (threadIdx.x < sizeof(FrameRecipe) / 4) to[threadIdx.x] = from[threadIdx.x];
}

/// Copies a frame's recipe to shared memory, by all threads of a block of 128 or more.
__device__ inline void load_recipe(const char* recipes, std::int64_t place, FrameRecipe& recipe) {
  const auto* const from = reinterpret_cast<const std::uint32_t*>(recipes + place * kRecipeBytes);
  if (threadIdx.x < sizeof(FrameRecipe) / 4) {
    reinterpret_cast<std::uint32_t*>(&recipe)[threadIdx.x] = from[threadIdx.x];
  }
  __syncthreads();
}

}  // namespace robocache::cuda
