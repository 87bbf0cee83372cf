// A validated call of `draw_augmentation`, and its CUDA backend.
#pragma once

#include "image/draw.h"
#include "robocache/augment.h"

namespace robocache {

struct DrawCall {
  AugmentPlan plan;
  ImageSamples samples;
  std::int64_t batch, frames_per_sample;
  ImageParameters* parameters;
};

/// In a build without CUDA it is not called.
void draw_augmentation_on_cuda(const DrawCall& call, CUstream_st* stream);

namespace ROBOCACHE_TARGET {

/// Draws the parameters of frame `i` of the batch.
ROBOCACHE_HOST_DEVICE void draw_frame(const DrawCall& call, std::int64_t i) {
  const std::int64_t sample = i / call.frames_per_sample;
  const ImageSamples& samples = call.samples;
  const std::int64_t dataset = samples.dataset_index == nullptr ? 0 : samples.dataset_index[sample];
  draw_image_parameters(call.plan, *samples.epoch, dataset, samples.episode_index[sample],
                        samples.frame_index[sample], i - sample * call.frames_per_sample,
                        call.parameters[i]);
}

}  // namespace ROBOCACHE_TARGET
}  // namespace robocache
