// Properties and validation of an ImageSpec, which windows and `process_images` share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "robocache/image.h"

namespace robocache {

inline constexpr std::pair<std::string_view, ResizeMode> kResizeModeNames[] = {
    {"stretch", ResizeMode::kStretch},
    {"pad", ResizeMode::kPad},
    {"crop", ResizeMode::kCrop},
};

inline constexpr std::pair<std::string_view, ResizeFilter> kResizeFilterNames[] = {
    {"bilinear", ResizeFilter::kBilinear},
    {"nearest", ResizeFilter::kNearest},
    {"masked", ResizeFilter::kMasked},
};

/// The largest height and width of an output.
inline constexpr std::int32_t kMaxImageSide = 4096;

/// Height and width of an image, in pixels.
struct ImageSize {
  std::int64_t height, width;
};

/// The size of the rectangle that a spec takes of a source image.
ImageSize crop_size(const ImageSpec& spec, ImageSize source);

/// The size of the output that a spec makes of a source image.
ImageSize output_size(const ImageSpec& spec, ImageSize source);

/// Validates a spec for source images of a size: throws ValueError, whose message begins with
/// `name` and the name of the spec's field in JSON, "image['front'].crop: expected ...".
void check_image_spec(const std::string& name, const ImageSpec& spec, ImageSize source);

}  // namespace robocache
