// Validated calls of process_images as plain data, which kernels take as parameters.
#pragma once

#include <cstdint>

#include "core/target.h"
#include "robocache/augment.h"
#include "robocache/image.h"

namespace robocache {

/// A window, and how its frames are processed.
struct ImagePlan {
  const void* frames;  // [count, height, width, channels]
  std::int64_t count;
  std::int32_t height, width, channels;
  std::int32_t out_height, out_width;
  DataType type, out_type;
  ResizeFilter filter;
  bool channels_first;
  void* out;
  double subtract[4], multiply[4];

  ROBOCACHE_HOST_DEVICE_INLINE std::int64_t pixels() const {
    return std::int64_t{out_height} * out_width;
  }
  ROBOCACHE_HOST_DEVICE_INLINE std::int64_t frame_elements() const {
    return std::int64_t{height} * width * channels;
  }
};

/// The value of `is_black` of frames that are not written: those of another data set.
inline constexpr std::uint32_t kSkippedFrame = 2;

/// The draws of a window's frames.
struct ImageDrawPlan {
  ImageParameters fixed;  // of frames that are not augmented
  AugmentPlan augment;
  bool is_augmented;
  ImageSamples samples;
  std::int64_t frames_per_sample;
  std::int64_t dataset_index;  // negative: of all samples
  const bool* is_pad;          // may be null
};

}  // namespace robocache
