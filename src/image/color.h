// The steps that change the colors of pixels, on every backend, to the same bits. Values are 0 to 1
// and clamped to it after each step; formulas are those of torchvision's transforms for floats.
#pragma once

#include <cstdint>

#include "align/trigonometry.h"
#include "core/number.h"
#include "core/random.h"
#include "core/target.h"
#include "robocache/image.h"

namespace robocache::ROBOCACHE_TARGET {

struct Rgb {
  float r, g, b;
};

/// x clamped to 0 to 1; NaN is 0.
ROBOCACHE_HOST_DEVICE float clamp_to_one(float x) {
#if defined(__CUDA_ARCH__)
  return __saturatef(x);
#else
  const float above = x > 0 ? x : 0.0f;
  return above < 1 ? above : 1.0f;
#endif
}

ROBOCACHE_HOST_DEVICE float smaller(float x, float y) { return x < y ? x : y; }
ROBOCACHE_HOST_DEVICE float larger(float x, float y) { return x > y ? x : y; }

/// The weights of ITU-R BT.601, as torchvision rounds them.
ROBOCACHE_HOST_DEVICE float luma(Rgb x) { return 0.2989f * x.r + 0.587f * x.g + 0.114f * x.b; }

/// log2(x) of a normal x: the exponent, and the series of atanh for the rest, between the square
/// roots of 1/2 and 2. The omitted terms are below 2^-26.
ROBOCACHE_HOST_DEVICE float binary_logarithm(float x) {
  const auto bits = bit_cast<std::int32_t>(x);
  const std::int32_t exponent = (bits - 0x3F3504F3) >> 23;
  const float rest = bit_cast<float>(bits - exponent * (1 << 23));
  const float t = (rest - 1) / (rest + 1);
  const float square = t * t;
  float sum = 1.0f / 9;
  sum = sum * square + 1.0f / 7;
  sum = sum * square + 1.0f / 5;
  sum = sum * square + 1.0f / 3;
  sum = sum * square + 1;
  return static_cast<float>(exponent) + t * sum * 2.88539008177792681472f;  // 2 / ln(2)
}

/// 2^x for -126 <= x <= 127: a power of two, and the series of e^x for the rest.
ROBOCACHE_HOST_DEVICE float binary_power(float x) {
  const float whole = (x + 12582912.0f) - 12582912.0f;  // rounded: 1.5 * 2^23
  const float rest = (x - whole) * 0.693147180559945309417f;
  float sum = 1.0f / 5040;
  sum = sum * rest + 1.0f / 720;
  sum = sum * rest + 1.0f / 120;
  sum = sum * rest + 1.0f / 24;
  sum = sum * rest + 1.0f / 6;
  sum = sum * rest + 0.5f;
  sum = sum * rest + 1;
  sum = sum * rest + 1;
  const std::int32_t scale = (static_cast<std::int32_t>(whole) + 127) * (1 << 23);
  return sum * bit_cast<float>(scale);
}

/// x to the power of `exponent`, for x from 0 to 1; below 2^-126, 0.
ROBOCACHE_HOST_DEVICE float power(float x, float exponent) {
  const float y = binary_logarithm(x > 0x1p-126f ? x : 1.0f) * exponent;
  const float result = binary_power(larger(y, -126.0f));
  return x > 0x1p-126f && y > -126 ? clamp_to_one(result) : exponent > 0 ? 0.0f : 1.0f;
}

/// Turns the hue by `turn` of the circle. With the hue h in sixths of the circle, the maximum V and
/// the chroma c (maximum minus minimum), a channel is V - c * clamp(min(k, 4 - k), 0, 1), where
/// k = (n + h) mod 6 and n is 5, 3 and 1 for red, green and blue. h and k are multiplied by c here,
/// which avoids a division.
ROBOCACHE_HOST_DEVICE Rgb turn_hue(Rgb x, float turn) {
  const float most = larger(larger(x.r, x.g), x.b);
  const float least = smaller(smaller(x.r, x.g), x.b);
  const float c = most - least;
  const float circle = 6 * c;
  const float from_red = x.g - x.b;
  const float from_green = 2 * c + (x.b - x.r);
  const float from_blue = 4 * c + (x.r - x.g);
  float h = x.g == most ? from_green : from_blue;
  h = x.r == most ? from_red : h;
  h = h + turn * circle;
  h = h < 0 ? h + circle : h;
  h = h >= circle ? h - circle : h;
  const auto channel = [&](float n) {
    float k = h + n * c;
    k = k >= circle ? k - circle : k;
    return clamp_to_one(most - smaller(larger(smaller(k, 4 * c - k), 0.0f), c));
  };
  return {channel(5), channel(3), channel(1)};
}

/// A color step with its numbers: x * factor + offset for most.
struct PreparedStep {
  ColorStep kind;
  float factor;
  float offset;  // kContrast: mean * (1 - factor); kSaturation: 1 - factor
};

ROBOCACHE_HOST_DEVICE PreparedStep prepare_step(ColorStep kind, float factor, float mean) {
  PreparedStep step{kind, factor, 0};
  if (kind == ColorStep::kContrast) step.offset = mean * (1 - factor);
  if (kind == ColorStep::kSaturation) step.offset = 1 - factor;
  return step;
}

template <ColorStep kKind>
ROBOCACHE_HOST_DEVICE Rgb changed(const PreparedStep& step, Rgb x) {
  const float factor = step.factor;
  if constexpr (kKind == ColorStep::kHue) return turn_hue(x, factor);
  if constexpr (kKind == ColorStep::kGrayscale) {
    const float gray = luma(x);
    return {gray, gray, gray};
  }
  const auto each = [&](const auto& change) {
    return Rgb{clamp_to_one(change(x.r)), clamp_to_one(change(x.g)), clamp_to_one(change(x.b))};
  };
  if constexpr (kKind == ColorStep::kBrightness) {
    return each([&](float value) { return value * factor; });
  } else if constexpr (kKind == ColorStep::kShift) {
    return each([&](float value) { return value + factor; });
  } else if constexpr (kKind == ColorStep::kGamma) {
    return each([&](float value) { return power(value, factor); });
  } else if constexpr (kKind == ColorStep::kSaturation) {
    const float gray = luma(x) * step.offset;
    return each([&](float value) { return value * factor + gray; });
  } else {
    return each([&](float value) { return value * factor + step.offset; });  // kContrast
  }
}

/// Calls `body` with a compile-time ColorStep: `body(Kind<kBrightness>{})`.
template <ColorStep kKind>
struct Kind {
  static constexpr ColorStep kValue = kKind;
};

template <typename Body>
ROBOCACHE_HOST_DEVICE void with_kind(ColorStep kind, const Body& body) {
  switch (kind) {
    case ColorStep::kBrightness:
      return body(Kind<ColorStep::kBrightness>{});
    case ColorStep::kContrast:
      return body(Kind<ColorStep::kContrast>{});
    case ColorStep::kSaturation:
      return body(Kind<ColorStep::kSaturation>{});
    case ColorStep::kHue:
      return body(Kind<ColorStep::kHue>{});
    case ColorStep::kGamma:
      return body(Kind<ColorStep::kGamma>{});
    case ColorStep::kGrayscale:
      return body(Kind<ColorStep::kGrayscale>{});
    case ColorStep::kShift:
      return body(Kind<ColorStep::kShift>{});
    case ColorStep::kNone:
      return;
  }
}

/// A normal number from a key and the index of a value: 24 bits of a hash become a uniform number
/// in (-1, 1), and the inverse of its distribution a normal one. Source of the polynomials: Giles,
/// "Approximating the erfinv function", 2010 (single precision, for x * sqrt(2)).
ROBOCACHE_HOST_DEVICE float normal_number(std::uint64_t key, std::uint32_t index) {
  const std::uint64_t hash = mix64(key + (std::uint64_t{index} + 1) * kGolden);
  // An odd number of 2^-24: never -1, 0 or 1.
  const auto odd = static_cast<std::int32_t>(hash >> 40) * 2 + 1 - (1 << 24);
  const float x = static_cast<float>(odd) * 0x1p-24f;
  const float w = binary_logarithm((1 - x) * (1 + x)) * -0.693147180559945309417f;
  const float near = w - 2.5f;
  float p = 2.81022636e-08f;
  p = 3.43273939e-07f + p * near;
  p = -3.5233877e-06f + p * near;
  p = -4.39150654e-06f + p * near;
  p = 0.00021858087f + p * near;
  p = -0.00125372503f + p * near;
  p = -0.00417768164f + p * near;
  p = 0.246640727f + p * near;
  p = 1.50140941f + p * near;
  const float far = square_root(w) - 3;
  float q = -0.000200214257f;
  q = 0.000100950558f + q * far;
  q = 0.00134934322f + q * far;
  q = -0.00367342844f + q * far;
  q = 0.00573950773f + q * far;
  q = -0.0076224613f + q * far;
  q = 0.00943887047f + q * far;
  q = 1.00167406f + q * far;
  q = 2.83297682f + q * far;
  return (w < 5 ? p : q) * x * 1.41421356237309504880f;
}

}  // namespace robocache::ROBOCACHE_TARGET
