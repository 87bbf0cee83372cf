#include "image/spec.h"

#include <cstdio>

#include "align/method_names.h"
#include "core/argument.h"
#include "core/check.h"

namespace robocache {

ImageSize crop_size(const ImageSpec& spec, ImageSize source) {
  if (spec.crop_height == 0 && spec.crop_width == 0) return source;
  return {spec.crop_height, spec.crop_width};
}

ImageSize output_size(const ImageSpec& spec, ImageSize source) {
  if (spec.height == 0 && spec.width == 0) return crop_size(spec, source);
  return {spec.height, spec.width};
}

void check_image_spec(const std::string& name, const ImageSpec& spec, ImageSize source) {
  const auto text = [](const auto&... numbers) { return bracket({std::to_string(numbers)...}); };
  const ImageSize size = output_size(spec, source);
  const auto is_side = [](std::int64_t side) { return side >= 1 && side <= kMaxImageSide; };
  if (!is_side(size.height) || !is_side(size.width)) {
    throw_value_error(name + ".size", "[height,width] of 1 to " + std::to_string(kMaxImageSide),
                      text(size.height, size.width));
  }
  if (!is_named(kResizeModeNames, spec.mode)) {
    throw_value_error(name + ".mode", "a ResizeMode", std::to_string(static_cast<int>(spec.mode)));
  }
  if (!is_named(kResizeFilterNames, spec.filter)) {
    throw_value_error(name + ".filter", "a ResizeFilter",
                      std::to_string(static_cast<int>(spec.filter)));
  }
  const ImageSize crop = crop_size(spec, source);
  const bool is_inside = crop.height >= 1 && crop.width >= 1 && spec.crop_top >= 0 &&
                         spec.crop_left >= 0 && spec.crop_top <= source.height - crop.height &&
                         spec.crop_left <= source.width - crop.width;
  if (!is_inside) {
    throw_value_error(
        name + ".crop",
        "[top,left,height,width] within an image of " + text(source.height, source.width),
        text(spec.crop_top, spec.crop_left, spec.crop_height, spec.crop_width));
  }
  const bool is_share = spec.center > 0 && spec.center <= 1;  // NaN is none
  if (!is_share) {
    char number[32];
    std::snprintf(number, sizeof number, "%g", spec.center);
    throw_value_error(name + ".center", "a share above 0, at most 1", number);
  }
}

}  // namespace robocache
