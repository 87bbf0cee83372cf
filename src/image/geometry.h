// The deterministic geometry of a window: from pixels of the output to positions in the source.
#pragma once

#include <algorithm>
#include <cmath>

#include "image/spec.h"
#include "robocache/image.h"

namespace robocache {

/// A map from output to source as ImageParameters has it, before it is rounded to float32, and the
/// rectangle of the source that exists.
struct ImageGeometry {
  double map[6];
  double bounds[4];
};

/// The geometry of a spec without its `center`. A rectangle of `crop` pixels fills the output:
///
///     kStretch   each side by itself
///     kPad       openpi's resize_with_pad: both sides are divided by the larger of the two ratios
///                and rounded down to whole pixels; the first padding of a side is the smaller
///     kCrop      both sides by the smaller of the two ratios, centered
inline ImageGeometry compose_geometry(const ImageSpec& spec, ImageSize source, ImageSize out) {
  const ImageSize crop = crop_size(spec, source);
  const auto crop_width = static_cast<double>(crop.width);
  const auto crop_height = static_cast<double>(crop.height);
  const auto width = static_cast<double>(out.width);
  const auto height = static_cast<double>(out.height);
  double scale_x = crop_width / width;  // source pixels per output pixel
  double scale_y = crop_height / height;
  double first_x = 0;  // where the crop begins, in output pixels
  double first_y = 0;
  if (spec.mode == ResizeMode::kPad) {
    const double ratio = std::max(scale_x, scale_y);
    const double resized_width = std::max(1.0, std::floor(crop_width / ratio));
    const double resized_height = std::max(1.0, std::floor(crop_height / ratio));
    scale_x = crop_width / resized_width;
    scale_y = crop_height / resized_height;
    first_x = std::floor((width - resized_width) / 2);
    first_y = std::floor((height - resized_height) / 2);
  } else if (spec.mode == ResizeMode::kCrop) {
    scale_x = scale_y = std::min(scale_x, scale_y);
    first_x = (width - crop_width / scale_x) / 2;
    first_y = (height - crop_height / scale_y) / 2;
  }
  const double left = spec.crop_left;
  const double top = spec.crop_top;
  return {{scale_x, 0, left - first_x * scale_x, 0, scale_y, top - first_y * scale_y},
          {left, top, left + crop_width, top + crop_height}};
}

/// Enlarges the center of the output, `share` of both sides, to fill it.
inline void enlarge_center(ImageGeometry& geometry, ImageSize out, double share) {
  const double first_x = static_cast<double>(out.width) * (1 - share) / 2;
  const double first_y = static_cast<double>(out.height) * (1 - share) / 2;
  geometry.map[2] += geometry.map[0] * first_x;
  geometry.map[5] += geometry.map[4] * first_y;
  geometry.map[0] *= share;
  geometry.map[4] *= share;
}

/// The parameters of frames without augmentation.
inline ImageParameters fixed_parameters(const ImageSpec& spec, ImageSize source, ImageSize out) {
  ImageGeometry geometry = compose_geometry(spec, source, out);
  if (spec.center != 1) enlarge_center(geometry, out, spec.center);
  ImageParameters parameters{};
  for (int i = 0; i < 6; ++i) parameters.map[i] = static_cast<float>(geometry.map[i]);
  for (int i = 0; i < 4; ++i) parameters.bounds[i] = static_cast<float>(geometry.bounds[i]);
  parameters.sharpness = 1;
  return parameters;
}

}  // namespace robocache
