// Draws the parameters of a frame from an AugmentPlan, on every backend to the same bits.
//
// A frame has a key, a hash of the seed, the epoch, the sample and the camera. Number j of step i
// is a hash of the key and the counter i * kDrawsPerStep + j, so a step's draws do not depend on
// the steps before it. The arithmetic is float64 without fused multiply-add; sine and cosine are
// those of align/trigonometry.h. Results are rounded to float32 once.
#pragma once

#include <cstdint>

#include "align/trigonometry.h"
#include "core/number.h"
#include "core/random.h"
#include "core/target.h"
#include "robocache/augment.h"

namespace robocache::ROBOCACHE_TARGET {

/// The counters of a step. The last one decides whether the step is applied.
inline constexpr std::uint64_t kDrawsPerStep = 32;
inline constexpr std::uint64_t kApplyDraw = kDrawsPerStep - 1;

/// torchvision's RandomErasing draws sizes until one fits, at most so often.
inline constexpr std::uint64_t kEraseAttempts = 10;

/// The hash of a key and a number.
ROBOCACHE_HOST_DEVICE std::uint64_t extended_key(std::uint64_t key, std::uint64_t number) {
  return mix64(key + (number + 1) * kGolden);
}

/// The key of a sample, without its camera.
ROBOCACHE_HOST_DEVICE std::uint64_t sample_key(std::uint64_t seed, std::int64_t epoch,
                                               std::int64_t dataset, std::int64_t episode,
                                               std::int64_t frame) {
  std::uint64_t key = extended_key(mix64(seed + kGolden), static_cast<std::uint64_t>(epoch));
  key = extended_key(key, static_cast<std::uint64_t>(dataset));
  key = extended_key(key, static_cast<std::uint64_t>(episode));
  return extended_key(key, static_cast<std::uint64_t>(frame));
}

/// A number in [0, 1), a multiple of 2^-53.
ROBOCACHE_HOST_DEVICE double unit_interval(std::uint64_t random) {
  return static_cast<double>(random >> 11) * 0x1p-53;
}

/// The random numbers of a step.
struct StepDraws {
  std::uint64_t key;
  std::uint64_t first;

  ROBOCACHE_HOST_DEVICE std::uint64_t number(std::uint64_t counter) const {
    return extended_key(key, first + counter);
  }

  /// A number of a range.
  ROBOCACHE_HOST_DEVICE double within(double low, double high, std::uint64_t counter) const {
    return low + unit_interval(number(counter)) * (high - low);
  }

  /// A number of range `range` of a step, which has the counter of that number.
  ROBOCACHE_HOST_DEVICE double range(const AugmentStep& step, int range) const {
    return within(static_cast<double>(step.low[range]), static_cast<double>(step.high[range]),
                  static_cast<std::uint64_t>(range));
  }

  /// An integer from 0 to `count` - 1.
  ROBOCACHE_HOST_DEVICE std::int32_t below(std::int32_t count, std::uint64_t counter) const {
    return static_cast<std::int32_t>(
        multiply_high(number(counter), static_cast<std::uint64_t>(count)));
  }
};

ROBOCACHE_HOST_DEVICE StepDraws draws_of(std::uint64_t key, std::int32_t step) {
  return {key, static_cast<std::uint64_t>(step) * kDrawsPerStep};
}

/// e^x for |x| < 700: 2^n times the Taylor series of the rest, which is at most ln(2) / 2.
ROBOCACHE_HOST_DEVICE double exponential(double x) {
  const double log2 = 0.693147180559945309417;
  const double turns = x / log2;
  const auto n = static_cast<std::int64_t>(turns < 0 ? turns - 0.5 : turns + 0.5);
  const double rest = x - static_cast<double>(n) * log2;
  double sum = 1;
  for (int k = 16; k > 0; --k) sum = 1 + rest * sum / k;
  return sum * bit_cast<double>(static_cast<std::uint64_t>(n + 1023) << 52);
}

struct Turn {
  double cosine, sine;
};

/// Cosine and sine of any angle in radians.
ROBOCACHE_HOST_DEVICE Turn turn_by(double angle) {
  const double quarter = 1.57079632679489661923;
  const double quarters = angle / quarter;
  const auto n = static_cast<std::int64_t>(quarters < 0 ? quarters - 0.5 : quarters + 0.5);
  const double rest = angle - static_cast<double>(n) * quarter;
  const double c = cosine_series(rest * rest);
  const double s = sine(rest);
  switch (n & 3) {
    case 0:
      return {c, s};
    case 1:
      return {-s, c};
    case 2:
      return {-c, -s};
    default:
      return {s, -c};
  }
}

/// A map of positions: (m0 x + m1 y + m2, m3 x + m4 y + m5).
struct AffineMap {
  double m[6];
};

/// The map that applies `inner` first.
ROBOCACHE_HOST_DEVICE AffineMap composed(const AffineMap& outer, const AffineMap& inner) {
  const double* a = outer.m;
  const double* b = inner.m;
  return {{a[0] * b[0] + a[1] * b[3], a[0] * b[1] + a[1] * b[4], a[0] * b[2] + a[1] * b[5] + a[2],
           a[3] * b[0] + a[4] * b[3], a[3] * b[1] + a[4] * b[4], a[3] * b[2] + a[4] * b[5] + a[5]}};
}

/// A number of 0 or more, rounded to the nearest integer, ties to even.
ROBOCACHE_HOST_DEVICE std::int32_t rounded(double x) {
  return static_cast<std::int32_t>((x + 0x1p52) - 0x1p52);
}

ROBOCACHE_HOST_DEVICE double magnitude(double x) { return x < 0 ? -x : x; }

/// Adds a crop of a share of both sides, which begins anywhere. Where a pixel of the output then is
/// as large as one of the source, the crop begins at a whole one of them, so that pixels are
/// copied.
ROBOCACHE_HOST_DEVICE void add_crop(const AugmentStep& step, const StepDraws& draws,
                                    const AugmentGeometry& geometry, AffineMap& map) {
  double* const m = map.m;
  const double share = draws.range(step, 0);
  const double room_x = (1 - share) * geometry.width;
  const double room_y = (1 - share) * geometry.height;
  const double scale_x = magnitude(m[0]);
  const double scale_y = magnitude(m[4]);
  if (step.low[0] == step.high[0] && m[1] == 0 && m[3] == 0 &&
      magnitude(scale_x * share - 1) < 1e-6 && magnitude(scale_y * share - 1) < 1e-6) {
    const auto places_x = static_cast<std::int32_t>(room_x * scale_x + 1e-3) + 1;
    const auto places_y = static_cast<std::int32_t>(room_y * scale_y + 1e-3) + 1;
    m[0] = m[0] < 0 ? -1 : 1;
    m[4] = m[4] < 0 ? -1 : 1;
    m[2] += m[0] * draws.below(places_x, 1);
    m[5] += m[4] * draws.below(places_y, 2);
    return;
  }
  const double x = draws.within(0, room_x, 1);
  const double y = draws.within(0, room_y, 2);
  map = composed(map, {{share, 0, x, 0, share, y}});
}

/// Adds a crop of a share of the area, of some aspect ratio. Sides longer than the image's are cut
/// off.
ROBOCACHE_HOST_DEVICE void add_resized_crop(const AugmentStep& step, const StepDraws& draws,
                                            const AugmentGeometry& geometry, AffineMap& map) {
  const double width = geometry.width;
  const double height = geometry.height;
  const double area = draws.range(step, 0) * width * height;
  const double ratio = exponential(draws.range(step, 1));
  const double wanted_width = square_root(area * ratio);
  const double wanted_height = square_root(area / ratio);
  const double crop_width = wanted_width < width ? wanted_width : width;
  const double crop_height = wanted_height < height ? wanted_height : height;
  const double x = draws.within(0, width - crop_width, 2);
  const double y = draws.within(0, height - crop_height, 3);
  map = composed(map, {{crop_width / width, 0, x, 0, crop_height / height, y}});
}

/// Adds a linear map about the center, after a translation.
ROBOCACHE_HOST_DEVICE void add_about_center(double xx, double xy, double yx, double yy,
                                            double translate_x, double translate_y,
                                            const AugmentGeometry& geometry, AffineMap& map) {
  const double center_x = 0.5 * geometry.width;
  const double center_y = 0.5 * geometry.height;
  const double x = -center_x - translate_x;
  const double y = -center_y - translate_y;
  map = composed(map, {{xx, xy, xx * x + xy * y + center_x, yx, yy, yx * x + yy * y + center_y}});
}

ROBOCACHE_HOST_DEVICE void add_rotation(const AugmentStep& step, const StepDraws& draws,
                                        const AugmentGeometry& geometry, AffineMap& map) {
  const Turn turn = turn_by(draws.range(step, 0));
  add_about_center(turn.cosine, -turn.sine, turn.sine, turn.cosine, 0, 0, geometry, map);
}

/// Adds the inverse of torchvision's affine matrix, T C R S C^-1: a shear and scale S about the
/// center C, a rotation R and a translation T.
ROBOCACHE_HOST_DEVICE void add_affine(const AugmentStep& step, const StepDraws& draws,
                                      const AugmentGeometry& geometry, AffineMap& map) {
  const double angle = draws.range(step, 0);
  const double scale = draws.range(step, 3);
  const Turn shear_x = turn_by(draws.range(step, 4));
  const double shear_y = draws.range(step, 5);
  const Turn turn = turn_by(angle);
  const Turn sheared = turn_by(angle - shear_y);
  const double cosine_y = turn_by(shear_y).cosine;
  const double tangent_x = shear_x.sine / shear_x.cosine;
  const double a = sheared.cosine / cosine_y;
  const double b = -(sheared.cosine * tangent_x / cosine_y) - turn.sine;
  const double c = sheared.sine / cosine_y;
  const double d = turn.cosine - sheared.sine * tangent_x / cosine_y;
  add_about_center(d / scale, -b / scale, -c / scale, a / scale,
                   draws.range(step, 1) * geometry.width, draws.range(step, 2) * geometry.height,
                   geometry, map);
}

/// Appends a color step to those of the frame.
ROBOCACHE_HOST_DEVICE void add_color(ColorStep color, double factor, ImageParameters& out) {
  for (int i = 0; i < kMaxColorSteps; ++i) {
    if (out.colors[i] != ColorStep::kNone) continue;
    out.colors[i] = color;
    out.factors[i] = static_cast<float>(factor);
    return;
  }
}

/// Appends the steps of a jitter in random order.
ROBOCACHE_HOST_DEVICE void add_jitter(const AugmentStep& step, const StepDraws& draws,
                                      ImageParameters& out) {
  std::int32_t order[4] = {0, 1, 2, 3};
  for (std::int32_t i = 3; i > 0; --i) {
    const std::int32_t j = draws.below(i + 1, std::uint64_t{4} + static_cast<std::uint32_t>(i));
    const std::int32_t moved = order[i];
    order[i] = order[j];
    order[j] = moved;
  }
  const ColorStep colors[4] = {ColorStep::kBrightness, ColorStep::kContrast, ColorStep::kSaturation,
                               ColorStep::kHue};
  for (int i = 0; i < 4; ++i) {
    const std::int32_t color = order[i];
    if ((step.mask >> color & 1) != 0) add_color(colors[color], draws.range(step, color), out);
  }
}

/// Draws a rectangle that fits; none if `kEraseAttempts` do not.
ROBOCACHE_HOST_DEVICE void set_erase(const AugmentStep& step, const StepDraws& draws,
                                     const AugmentGeometry& geometry, ImageParameters& out) {
  const double area = static_cast<double>(geometry.height) * geometry.width;
  for (std::uint64_t attempt = 0; attempt < kEraseAttempts; ++attempt) {
    const std::uint64_t counter = 2 * attempt;
    const double erased = area * draws.within(static_cast<double>(step.low[0]),
                                              static_cast<double>(step.high[0]), counter);
    const double ratio = exponential(draws.within(static_cast<double>(step.low[1]),
                                                  static_cast<double>(step.high[1]), counter + 1));
    const std::int32_t height = rounded(square_root(erased * ratio));
    const std::int32_t width = rounded(square_root(erased / ratio));
    if (height >= geometry.height || width >= geometry.width) continue;
    out.erase[0] = draws.below(geometry.height - height + 1, 2 * kEraseAttempts);
    out.erase[1] = draws.below(geometry.width - width + 1, 2 * kEraseAttempts + 1);
    out.erase[2] = height;
    out.erase[3] = width;
    for (int channel = 0; channel < 3; ++channel) out.erase_value[channel] = step.low[2 + channel];
    return;
  }
}

/// Writes the indices of the steps of a subset that are applied, and returns their number.
ROBOCACHE_HOST_DEVICE std::int32_t draw_subset(const AugmentPlan& plan, std::int32_t subset,
                                               const StepDraws& draws, std::int32_t* order) {
  const AugmentStep& step = plan.steps[subset];
  std::uint32_t taken = 0;
  for (std::int32_t n = 0; n < step.count; ++n) {
    double left = 0;
    for (std::int32_t i = 0; i < step.size; ++i) {
      if ((taken >> i & 1) == 0) left += static_cast<double>(plan.steps[subset + 1 + i].weight);
    }
    double rest = draws.within(0, left, static_cast<std::uint64_t>(n));
    std::int32_t choice = 0;
    for (std::int32_t i = 0; i < step.size; ++i) {
      if ((taken >> i & 1) != 0) continue;
      choice = i;
      const auto weight = static_cast<double>(plan.steps[subset + 1 + i].weight);
      if (rest < weight) break;
      rest -= weight;
    }
    taken |= std::uint32_t{1} << choice;
    order[n] = subset + 1 + choice;
  }
  if (step.random_order != 0) return step.count;
  std::int32_t written = 0;
  for (std::int32_t i = 0; i < step.size; ++i) {
    if ((taken >> i & 1) != 0) order[written++] = subset + 1 + i;
  }
  return written;
}

/// Whether the frame's camera is dropped. One camera of a sample, which all its cameras draw alike,
/// is not.
ROBOCACHE_HOST_DEVICE bool draws_dropout(const AugmentPlan& plan, std::int32_t step,
                                         std::uint64_t sample, std::uint64_t camera) {
  const std::int32_t kept = StepDraws{sample, 0}.below(plan.cameras, 0);
  const double u = unit_interval(draws_of(camera, step).number(0));
  return kept != plan.camera_index && u < static_cast<double>(plan.steps[step].probability);
}

ROBOCACHE_HOST_DEVICE void apply_step(const AugmentStep& step, const StepDraws& draws,
                                      const AugmentGeometry& geometry, AffineMap& map,
                                      ImageParameters& out) {
  if (unit_interval(draws.number(kApplyDraw)) >= static_cast<double>(step.probability)) return;
  switch (step.kind) {
    case AugmentKind::kCrop:
      return add_crop(step, draws, geometry, map);
    case AugmentKind::kResizedCrop:
      return add_resized_crop(step, draws, geometry, map);
    case AugmentKind::kFlip:
      map = composed(map, {{-1, 0, static_cast<double>(geometry.width), 0, 1, 0}});
      return;
    case AugmentKind::kRotation:
      return add_rotation(step, draws, geometry, map);
    case AugmentKind::kAffine:
      return add_affine(step, draws, geometry, map);
    case AugmentKind::kJitter:
      return add_jitter(step, draws, out);
    case AugmentKind::kShift:
      return add_color(ColorStep::kShift, draws.range(step, 0), out);
    case AugmentKind::kGamma:
      return add_color(ColorStep::kGamma, exponential(draws.range(step, 0)), out);
    case AugmentKind::kGrayscale:
      return add_color(ColorStep::kGrayscale, 1, out);
    case AugmentKind::kSharpness:
      out.sharpness = static_cast<float>(draws.range(step, 0));
      return;
    case AugmentKind::kNoise:
      out.noise = static_cast<float>(draws.range(step, 0));
      return;
    case AugmentKind::kErase:
      return set_erase(step, draws, geometry, out);
    case AugmentKind::kNone:
    case AugmentKind::kDropout:
    case AugmentKind::kSubset:
      return;
  }
}

/// The parameters of a frame without augmentation.
ROBOCACHE_HOST_DEVICE void set_unaugmented(const AugmentGeometry& geometry, ImageParameters& out) {
  for (int i = 0; i < 6; ++i) out.map[i] = static_cast<float>(geometry.map[i]);
  for (int i = 0; i < 4; ++i) {
    out.bounds[i] = geometry.bounds[i];
    out.erase[i] = 0;
  }
  for (int i = 0; i < kMaxColorSteps; ++i) {
    out.colors[i] = ColorStep::kNone;
    out.factors[i] = 0;
    out.means[i] = 0;
  }
  out.sharpness = 1;
  out.noise = 0;
  out.noise_key = 0;
  for (int i = 0; i < 3; ++i) out.erase_value[i] = 0;
  out.is_black = 0;
}

/// Draws the parameters of frame `step_of_window` of a sample's window.
ROBOCACHE_HOST_DEVICE void draw_image_parameters(const AugmentPlan& plan, std::int64_t epoch,
                                                 std::int64_t dataset, std::int64_t episode,
                                                 std::int64_t frame, std::int64_t step_of_window,
                                                 ImageParameters& out) {
  set_unaugmented(plan.geometry, out);
  const std::uint64_t sample = sample_key(plan.seed, epoch, dataset, episode, frame);
  const std::uint64_t camera = extended_key(sample, plan.camera);
  const std::uint64_t own = extended_key(camera, static_cast<std::uint64_t>(step_of_window));
  const std::uint64_t key = plan.per_frame != 0 ? own : camera;
  out.noise_key = own;

  // The steps in the order in which they are applied.
  std::int32_t order[kMaxAugmentSteps];
  std::int32_t count = 0;
  for (std::int32_t i = 0; i < plan.step_count; ++i) {
    const AugmentStep& step = plan.steps[i];
    if (step.kind == AugmentKind::kSubset) {
      count += draw_subset(plan, i, draws_of(key, i), order + count);
      i += step.size;
    } else if (step.kind == AugmentKind::kDropout) {
      out.is_black = draws_dropout(plan, i, sample, camera) ? 1 : 0;
    } else {
      order[count++] = i;
    }
  }
  AffineMap map;
  for (int i = 0; i < 6; ++i) map.m[i] = plan.geometry.map[i];
  for (std::int32_t n = 0; n < count; ++n) {
    const std::int32_t i = order[n];
    apply_step(plan.steps[i], draws_of(key, i), plan.geometry, map, out);
  }
  for (int i = 0; i < 6; ++i) out.map[i] = static_cast<float>(map.m[i]);
}

}  // namespace robocache::ROBOCACHE_TARGET
