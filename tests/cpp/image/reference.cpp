#include "image/reference.h"

#include <algorithm>
#include <cmath>

#include "image/spec.h"

namespace robocache::testing {
namespace {

double clamp_to_one(double x) { return std::clamp(x, 0.0, 1.0); }

}  // namespace

SourcePosition position_by_definition(const ImageProblem& problem, std::int64_t u, std::int64_t v) {
  const ImageSpec& spec = problem.spec;
  const std::vector<std::int64_t> shape = problem.frames.shape();
  const bool has_crop = spec.crop_height > 0;
  const double crop_height = has_crop ? spec.crop_height : static_cast<double>(shape[1]);
  const double crop_width = has_crop ? spec.crop_width : static_cast<double>(shape[2]);
  const auto height = static_cast<double>(problem.out_height());
  const auto width = static_cast<double>(problem.out_width());
  // In pixels of the output without `center`, and then as a share of the resized image.
  double x = width / 2 + (static_cast<double>(u) + 0.5 - width / 2) * spec.center;
  double y = height / 2 + (static_cast<double>(v) + 0.5 - height / 2) * spec.center;
  if (spec.mode == ResizeMode::kPad) {
    const double ratio = std::max(crop_width / width, crop_height / height);
    const double resized_width = std::max(1.0, std::trunc(crop_width / ratio));
    const double resized_height = std::max(1.0, std::trunc(crop_height / ratio));
    x = (x - std::floor((width - resized_width) / 2)) / resized_width;
    y = (y - std::floor((height - resized_height) / 2)) / resized_height;
  } else if (spec.mode == ResizeMode::kCrop) {
    const double ratio = std::min(crop_width / width, crop_height / height);
    x = 0.5 + (x - width / 2) * ratio / crop_width;
    y = 0.5 + (y - height / 2) * ratio / crop_height;
  } else {
    x /= width;
    y /= height;
  }
  return {spec.crop_left + x * crop_width, spec.crop_top + y * crop_height,
          x >= 0 && x < 1 && y >= 0 && y < 1};
}

double sample_by_definition(const ImageProblem& problem, std::int64_t frame, double x, double y,
                            double width_x, double width_y, std::int64_t channel) {
  const std::vector<std::int64_t> shape = problem.frames.shape();
  const ImageSpec& spec = problem.spec;
  const bool has_crop = spec.crop_height > 0;
  const std::int64_t top = spec.crop_top;
  const std::int64_t left = spec.crop_left;
  const std::int64_t bottom = has_crop ? top + spec.crop_height : shape[1];
  const std::int64_t right = has_crop ? left + spec.crop_width : shape[2];
  const auto pixel = [&](std::int64_t i, std::int64_t j) {
    return problem.frames.get(((frame * shape[1] + i) * shape[2] + j) * shape[3] + channel);
  };
  if (spec.filter == ResizeFilter::kNearest) {
    return pixel(std::clamp(static_cast<std::int64_t>(y), top, bottom - 1),
                 std::clamp(static_cast<std::int64_t>(x), left, right - 1));
  }
  double sum = 0;
  double weights = 0;
  bool is_near = false;  // whether there is a measurement
  // Pixels farther away have no weight.
  const auto first = [](double at, double width, std::int64_t least) {
    return std::max(least, static_cast<std::int64_t>(at - width) - 2);
  };
  const auto last = [](double at, double width, std::int64_t most) {
    return std::min(most, static_cast<std::int64_t>(at + width) + 3);
  };
  for (std::int64_t i = first(y, width_y, top); i < last(y, width_y, bottom); ++i) {
    const double row = 1 - std::abs(static_cast<double>(i) + 0.5 - y) / width_y;
    if (row <= -1e-3) continue;
    for (std::int64_t j = first(x, width_x, left); j < last(x, width_x, right); ++j) {
      const double column = 1 - std::abs(static_cast<double>(j) + 0.5 - x) / width_x;
      const double value = pixel(i, j);
      const bool is_measured = std::isfinite(value) && value != 0;
      if (column <= -1e-3 || (spec.filter == ResizeFilter::kMasked && !is_measured)) continue;
      is_near = true;
      if (row <= 0 || column <= 0) continue;
      sum += row * column * value;
      weights += row * column;
    }
  }
  if (spec.filter == ResizeFilter::kMasked && weights < 1e-4 && is_near) return std::nan("");
  return weights > 0 ? sum / weights : 0;
}

std::vector<double> image_by_definition(const ImageProblem& problem) {
  const std::int64_t channels = problem.frames.shape()[3];
  const SourcePosition first = position_by_definition(problem, 0, 0);
  const SourcePosition second = position_by_definition(problem, 1, 1);
  const double width_x = std::max(1.0, second.x - first.x);
  const double width_y = std::max(1.0, second.y - first.y);
  std::vector<double> image;
  for (std::int64_t v = 0; v < problem.out_height(); ++v) {
    for (std::int64_t u = 0; u < problem.out_width(); ++u) {
      const SourcePosition at = position_by_definition(problem, u, v);
      for (std::int64_t c = 0; c < channels; ++c) {
        image.push_back(
            at.exists ? sample_by_definition(problem, 0, at.x, at.y, width_x, width_y, c) : 0);
      }
    }
  }
  return image;
}

void change_by_definition(ColorStep step, double factor, double mean, double (&rgb)[3]) {
  const double luma = 0.2989 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2];
  if (step == ColorStep::kHue) {
    const double most = std::max({rgb[0], rgb[1], rgb[2]});
    const double chroma = most - std::min({rgb[0], rgb[1], rgb[2]});
    if (chroma == 0) return;
    double hue = most == rgb[0]   ? (rgb[1] - rgb[2]) / chroma
                 : most == rgb[1] ? 2 + (rgb[2] - rgb[0]) / chroma
                                  : 4 + (rgb[0] - rgb[1]) / chroma;
    hue = std::fmod(hue + 6 * factor + 12, 6.0);
    const double x = chroma * (1 - std::abs(std::fmod(hue, 2.0) - 1));
    const double table[6][3] = {{chroma, x, 0}, {x, chroma, 0}, {0, chroma, x},
                                {0, x, chroma}, {x, 0, chroma}, {chroma, 0, x}};
    for (int c = 0; c < 3; ++c) rgb[c] = most - chroma + table[static_cast<int>(hue) % 6][c];
    return;
  }
  for (double& x : rgb) {
    switch (step) {
      case ColorStep::kBrightness:
        x = clamp_to_one(x * factor);
        break;
      case ColorStep::kShift:
        x = clamp_to_one(x + factor);
        break;
      case ColorStep::kContrast:
        x = clamp_to_one(factor * x + (1 - factor) * mean);
        break;
      case ColorStep::kSaturation:
        x = clamp_to_one(factor * x + (1 - factor) * luma);
        break;
      case ColorStep::kGamma:
        x = clamp_to_one(std::pow(x, factor));
        break;
      default:
        x = luma;
    }
  }
}

}  // namespace robocache::testing
