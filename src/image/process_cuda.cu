// Processes the frames of some windows on CUDA: one kernel writes the recipes of all frames, the
// others write the outputs, a launch for all windows of one kind.
#include <cuda_runtime.h>

#include <cstdint>

#include "core/early_launch.cuh"
#include "image/backends.h"
#include "image/pixel_kernel.cuh"
#include "image/prepare.cuh"
#include "image/rgb_kernel.cuh"

namespace robocache {
namespace {

constexpr char kName[] = "process_images";

/// Whether rgb_kernel takes a window's frames.
bool is_rgb(const ImagePlan& plan) {
  return plan.type == DataType::kUInt8 && plan.channels == 3 &&
         plan.filter == ResizeFilter::kBilinear;
}

/// Adds the windows that `is_taken` to a launch. Returns the number of their blocks.
template <typename Launch, typename Taken, typename BlocksPerFrame>
std::int64_t add_windows(const ImageCall* calls, int count, const Taken& is_taken,
                         const BlocksPerFrame& blocks_per_frame, Launch& launch) {
  std::int64_t frames = 0;
  std::int64_t blocks = 0;
  std::int32_t& windows = launch.blocks.count;
  for (int i = 0; i < count; ++i) {
    const ImagePlan& plan = calls[i].plan;
    if (is_taken(plan)) {
      launch.plans[windows] = plan;
      launch.first_frame[windows] = frames;
      launch.blocks.first[windows++] = blocks;
      blocks += plan.count * blocks_per_frame(plan);
      launch.blocks.first[windows] = blocks;
    }
    frames += plan.count;
  }
  return blocks;
}

/// Launches pixel_kernel for the windows of a type that rgb_kernel does not take.
template <typename Source>
void launch_pixels(const ImageCall* calls, int count, DataType type, const char* recipes,
                   cudaStream_t stream) {
  cuda::PixelLaunch launch{};
  launch.recipes = recipes;
  const std::int64_t blocks = add_windows(
      calls, count, [&](const ImagePlan& plan) { return plan.type == type && !is_rgb(plan); },
      [](const ImagePlan& plan) {
        return (plan.pixels() + cuda::kPixelThreads - 1) / cuda::kPixelThreads;
      },
      launch);
  if (blocks == 0) return;
  cuda::launch_early(kName, cuda::pixel_kernel<Source>, static_cast<unsigned>(blocks),
                     cuda::kPixelThreads, 0, stream, launch);
}

/// Launches rgb_kernel for the windows with an output type.
template <typename Out>
void launch_rgb(const ImageCall* calls, int count, DataType out_type, const char* recipes,
                cudaStream_t stream) {
  cuda::RgbLaunch launch{};
  launch.recipes = recipes;
  const std::int64_t blocks = add_windows(
      calls, count,
      [&](const ImagePlan& plan) { return plan.out_type == out_type && is_rgb(plan); },
      [](const ImagePlan& plan) {
        const std::int64_t across = (plan.out_width + cuda::kTileWidth - 1) / cuda::kTileWidth;
        return across * ((plan.out_height + cuda::kTileHeight - 1) / cuda::kTileHeight);
      },
      launch);
  if (blocks == 0) return;
  for (int i = 0; i < launch.blocks.count; ++i) {
    const ImagePlan& plan = launch.plans[i];
    for (int c = 0; c < 3; ++c) {
      launch.finish[i][0][c] = cuda::make_finisher(1, plan.subtract[c], plan.multiply[c]);
      launch.finish[i][1][c] = cuda::make_finisher(255, plan.subtract[c], plan.multiply[c]);
    }
  }
  cuda::launch_early(kName, cuda::rgb_kernel<Out>, static_cast<unsigned>(blocks), cuda::kRgbThreads,
                     0, stream, launch);
}

}  // namespace

void process_images_on_cuda(const ImageCall* calls, int count, void* recipes, CUstream_st* stream) {
  cuda::PrepareLaunch prepare{};
  std::int64_t frames = 0;
  for (int i = 0; i < count; ++i) {
    prepare.calls[i] = calls[i];
    prepare.frames.first[i] = frames;
    frames += calls[i].plan.count;
  }
  prepare.frames.first[count] = frames;
  prepare.frames.count = count;
  prepare.recipes = static_cast<char*>(recipes);
  cuda::launch_early(kName, cuda::prepare_kernel, static_cast<unsigned>(frames),
                     cuda::kPrepareThreads, 0, stream, prepare);
  const auto* const made = static_cast<const char*>(recipes);
  launch_rgb<std::uint8_t>(calls, count, DataType::kUInt8, made, stream);
  launch_rgb<cuda::Float16>(calls, count, DataType::kFloat16, made, stream);
  launch_rgb<cuda::BFloat16>(calls, count, DataType::kBFloat16, made, stream);
  launch_rgb<float>(calls, count, DataType::kFloat32, made, stream);
  launch_pixels<std::uint8_t>(calls, count, DataType::kUInt8, made, stream);
  launch_pixels<std::uint16_t>(calls, count, DataType::kUInt16, made, stream);
  launch_pixels<cuda::Float16>(calls, count, DataType::kFloat16, made, stream);
  launch_pixels<float>(calls, count, DataType::kFloat32, made, stream);
}

}  // namespace robocache
