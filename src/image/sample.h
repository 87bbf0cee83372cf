// How source pixels become an output pixel: on every backend, to the same bits.
//
// The center of output pixel (u, v) lies at the position (x, y) of the source, where
// x = map[0] * (u + 0.5) + (map[1] * (v + 0.5) + map[2]), and y likewise. Column j of the source
// has its center at j + 0.5, and its distance to x is d. Five kinds of sums:
//
//   kNearest   The pixel that contains (x, y).
//   kFixed     Bytes, where the map is parallel to the axes. Columns have the weights 1 - d / s,
//              where s is the length of the map's row, at least 1. They are divided by their sum
//              and rounded to multiples of 2^-14; the column that contains x gets what is then
//              missing to 1. The sum over columns is exact. Rows have the weights 1 - d / s,
//              divided by their sum, and are added from top to bottom.
//   kTurned    Bytes, where the map turns or shears, and enlarges or reduces little: s < 1.25.
//              Bilinear, of 2 by 2 pixels, with fractions that are rounded to multiples of 1 / 255.
//              The sum is an exact integer.
//   kWeighted  All else. Weights 1 - d / s; first the sum over the columns of each row, from left
//              to right, then the sum over rows, and a division by the sums of both weights.
//   kMasked    As kWeighted, over pixels that are finite and not 0, divided by the sum of their
//              products of weights; 0 where there are none.
#pragma once

#include <cstdint>

#include "align/trigonometry.h"
#include "core/number.h"
#include "core/target.h"
#include "robocache/image.h"

namespace robocache::ROBOCACHE_TARGET {

enum class SampleKind : std::int32_t { kNearest, kFixed, kTurned, kWeighted, kMasked };

/// The largest s of kFixed columns: wider filters would need more bits.
inline constexpr float kMaxFixedWidth = 16;
inline constexpr float kFixedOne = 16384;  // 2^14
/// Above this s, turned images are filtered.
inline constexpr float kMaxTurnedWidth = 1.25f;

/// One axis of the source: the pixels [begin, end) that exist, the filter's s and its inverse.
struct SampleAxis {
  float low, high;  // positions outside [low, high) are black
  std::int32_t begin, end;
  float width, inverse_width;
};

/// The geometry of a frame, as functions below use it.
struct Sampling {
  float map[6];
  SampleAxis x, y;
  SampleKind kind;
};

// Adding and subtracting 1.5 * 2^23 rounds to an integer, a tie to even; the sum's lower bits are
// the integer.
inline constexpr float kRoundingMagic = 12582912.0f;

ROBOCACHE_HOST_DEVICE std::int32_t rounded_bits(float magic_sum) {
  return bit_cast<std::int32_t>(magic_sum) - 0x4B400000;
}

/// The nearest integer, a tie to even, of |x| < 2^22.
ROBOCACHE_HOST_DEVICE std::int32_t round_to_int(float x) {
  return rounded_bits(x + kRoundingMagic);
}

ROBOCACHE_HOST_DEVICE std::int32_t ceil_to_int(float x) {
  const auto whole = static_cast<std::int32_t>(x);
  return static_cast<float>(whole) < x ? whole + 1 : whole;
}

ROBOCACHE_HOST_DEVICE std::int32_t floor_to_int(float x) {
  const auto whole = static_cast<std::int32_t>(x);
  return static_cast<float>(whole) > x ? whole - 1 : whole;
}

ROBOCACHE_HOST_DEVICE std::int32_t clamp_int(std::int32_t x, std::int32_t low, std::int32_t high) {
  return x < low ? low : x > high ? high : x;
}

/// The axis of `size` pixels, of which those exist whose centers are in [low, high): at least one.
ROBOCACHE_HOST_DEVICE SampleAxis make_axis(float low, float high, std::int32_t size, float a,
                                           float b) {
  const auto most = static_cast<float>(size);
  SampleAxis axis;
  axis.low = low > 0 ? (low < most ? low : most) : 0.0f;
  axis.high = high > 0 ? (high < most ? high : most) : 0.0f;
  axis.begin = clamp_int(ceil_to_int(axis.low - 0.5f), 0, size - 1);
  axis.end = clamp_int(ceil_to_int(axis.high - 0.5f), axis.begin + 1, size);
  const float length = square_root(a * a + b * b);
  axis.width = length > 1 ? (length < 65536 ? length : 65536.0f) : 1.0f;
  axis.inverse_width = 1.0f / axis.width;
  return axis;
}

ROBOCACHE_HOST_DEVICE Sampling make_sampling(const ImageParameters& parameters, ResizeFilter filter,
                                             bool is_bytes, std::int32_t height,
                                             std::int32_t width) {
  Sampling sampling;
  for (int i = 0; i < 6; ++i) sampling.map[i] = parameters.map[i];
  const float* const map = sampling.map;
  const float* const bounds = parameters.bounds;
  sampling.x = make_axis(bounds[0], bounds[2], width, map[0], map[1]);
  sampling.y = make_axis(bounds[1], bounds[3], height, map[3], map[4]);
  const bool is_straight = map[1] == 0 && map[3] == 0;
  const bool has_four =
      sampling.x.end - sampling.x.begin >= 2 && sampling.y.end - sampling.y.begin >= 2;
  sampling.kind = SampleKind::kWeighted;
  if (filter == ResizeFilter::kNearest) {
    sampling.kind = SampleKind::kNearest;
  } else if (filter == ResizeFilter::kMasked) {
    sampling.kind = SampleKind::kMasked;
  } else if (is_bytes && is_straight && sampling.x.width <= kMaxFixedWidth) {
    sampling.kind = SampleKind::kFixed;
  } else if (is_bytes && !is_straight && has_four && sampling.x.width < kMaxTurnedWidth &&
             sampling.y.width < kMaxTurnedWidth) {
    sampling.kind = SampleKind::kTurned;
  }
  return sampling;
}

/// The position of an output pixel along an axis; `row` is map or map + 3.
ROBOCACHE_HOST_DEVICE float position(const float* row, std::int32_t u, std::int32_t v) {
  return row[0] * (static_cast<float>(u) + 0.5f) +
         (row[1] * (static_cast<float>(v) + 0.5f) + row[2]);
}

ROBOCACHE_HOST_DEVICE bool is_on(const SampleAxis& axis, float position) {
  return position >= axis.low && position < axis.high;
}

/// The taps [begin, end) of a position on an axis: at least one.
struct TapRange {
  std::int32_t begin, end;
};

ROBOCACHE_HOST_DEVICE TapRange taps_at(const SampleAxis& axis, float x) {
  const std::int32_t nearest = clamp_int(static_cast<std::int32_t>(x), axis.begin, axis.end - 1);
  const std::int32_t begin = floor_to_int(x - axis.width - 0.5f) + 1;
  const std::int32_t end = ceil_to_int(x + axis.width - 0.5f);
  return {clamp_int(begin, axis.begin, nearest), clamp_int(end, nearest + 1, axis.end)};
}

/// The weight of a tap before division by the sum: at least 2^-20, so that no sum is 0.
ROBOCACHE_HOST_DEVICE float tap_weight(const SampleAxis& axis, float x, std::int32_t tap) {
  const float distance = (static_cast<float>(tap) + 0.5f) - x;
  const float weight = 1.0f - (distance < 0 ? -distance : distance) * axis.inverse_width;
  return weight > 0x1p-20f ? weight : 0x1p-20f;
}

ROBOCACHE_HOST_DEVICE float sum_of_weights(const SampleAxis& axis, float x, TapRange taps) {
  float sum = 0;
  for (std::int32_t j = taps.begin; j < taps.end; ++j) sum = sum + tap_weight(axis, x, j);
  return sum;
}

/// A column's weight as a multiple of 2^-14, before the missing part is added.
ROBOCACHE_HOST_DEVICE std::int32_t fixed_weight(float weight, float sum) {
  return round_to_int(weight / sum * kFixedOne);
}

/// Calls `put(j, weight)` with the integer weight of each column of kFixed.
template <typename Put>
ROBOCACHE_HOST_DEVICE void for_each_fixed_weight(const SampleAxis& axis, float x, TapRange taps,
                                                 const Put& put) {
  const float sum = sum_of_weights(axis, x, taps);
  auto missing = static_cast<std::int32_t>(kFixedOne);
  for (std::int32_t j = taps.begin; j < taps.end; ++j) {
    missing -= fixed_weight(tap_weight(axis, x, j), sum);
  }
  const std::int32_t nearest = clamp_int(static_cast<std::int32_t>(x), taps.begin, taps.end - 1);
  for (std::int32_t j = taps.begin; j < taps.end; ++j) {
    const std::int32_t weight = fixed_weight(tap_weight(axis, x, j), sum);
    put(j, j == nearest ? weight + missing : weight);
  }
}

/// The weight of a row of kFixed, for sums over columns in units of 2^-14.
ROBOCACHE_HOST_DEVICE float fixed_row_weight(float weight, float sum) {
  return weight / sum * (1 / kFixedOne);
}

/// The first of two taps of kTurned, and the weight of the second, 0 to 255. Where that is 0 or
/// 255, the other tap may lie outside the pixels that exist, but not outside the image.
struct TurnedTap {
  std::int32_t first;
  std::int32_t weight;
};

ROBOCACHE_HOST_DEVICE TurnedTap turned_tap(const SampleAxis& axis, float x) {
  const float low = static_cast<float>(axis.begin) + 0.5f;
  const float high = static_cast<float>(axis.end) - 0.5f;
  x = x > low ? x : low;
  x = x < high ? x : high;
  const std::int32_t rounded = rounded_bits(x + (kRoundingMagic - 1));  // of x - 1
  const std::int32_t first = rounded < axis.end - 2 ? rounded : axis.end - 2;
  return {first, round_to_int((x - 0.5f - static_cast<float>(first)) * 255.0f)};
}

/// The unit of the sums of kTurned.
inline constexpr float kTurnedOne = 65025;  // 255^2

/// The factor of `sample`'s sums: 1 for values 0 to 255, 1 / 255 for 0 to 1.
ROBOCACHE_HOST_DEVICE float sample_scale(SampleKind kind, bool is_unit) {
  if (kind == SampleKind::kTurned) {
    return is_unit ? float(1.0 / (65025.0 * 255.0)) : float(1.0 / 65025.0);
  }
  return is_unit ? float(1.0 / 255.0) : 1.0f;
}

ROBOCACHE_HOST_DEVICE float as_float(std::uint8_t x) { return static_cast<float>(x); }
ROBOCACHE_HOST_DEVICE float as_float(std::uint16_t x) { return static_cast<float>(x); }
ROBOCACHE_HOST_DEVICE float as_float(Float16 x) { return widen(x); }
ROBOCACHE_HOST_DEVICE float as_float(float x) { return x; }

/// Whether a pixel is a measurement.
ROBOCACHE_HOST_DEVICE bool is_measured(float x) { return x != 0 && x - x == 0; }

/// A frame of source pixels, [height, width, channels].
template <typename Source>
struct SourceFrame {
  const Source* pixels;
  std::int32_t height, width, channels;

  ROBOCACHE_HOST_DEVICE const Source* at(std::int32_t y, std::int32_t x) const {
    return pixels + (std::int64_t{y} * width + x) * channels;
  }
};

/// Sums of kCount channels from channel `c` on, at a position.
template <int kCount>
struct ChannelSums {
  float sums[kCount];

  template <typename Source>
  ROBOCACHE_HOST_DEVICE void set(const Source* pixel) {
    for (int c = 0; c < kCount; ++c) sums[c] = as_float(pixel[c]);
  }
  template <typename Source>
  ROBOCACHE_HOST_DEVICE void add(const Source* pixel, float weight) {
    for (int c = 0; c < kCount; ++c) sums[c] = sums[c] + as_float(pixel[c]) * weight;
  }
  ROBOCACHE_HOST_DEVICE void add(const ChannelSums& other, float weight) {
    for (int c = 0; c < kCount; ++c) sums[c] = sums[c] + other.sums[c] * weight;
  }
  ROBOCACHE_HOST_DEVICE void divide(float by) {
    for (int c = 0; c < kCount; ++c) sums[c] = sums[c] / by;
  }
};

template <int kCount, typename Source>
ROBOCACHE_HOST_DEVICE ChannelSums<kCount> sample_nearest(const Sampling& sampling,
                                                         const SourceFrame<Source>& frame, float x,
                                                         float y, std::int32_t c) {
  const SampleAxis& columns = sampling.x;
  const SampleAxis& rows = sampling.y;
  const std::int32_t j = clamp_int(static_cast<std::int32_t>(x), columns.begin, columns.end - 1);
  const std::int32_t i = clamp_int(static_cast<std::int32_t>(y), rows.begin, rows.end - 1);
  ChannelSums<kCount> total;
  total.set(frame.at(i, j) + c);
  return total;
}

template <int kCount, typename Source>
ROBOCACHE_HOST_DEVICE ChannelSums<kCount> sample_turned(const Sampling& sampling,
                                                        const SourceFrame<Source>& frame, float x,
                                                        float y, std::int32_t c) {
  const TurnedTap j = turned_tap(sampling.x, x);
  const TurnedTap i = turned_tap(sampling.y, y);
  const auto right = static_cast<float>(j.weight);
  const auto bottom = static_cast<float>(i.weight);
  ChannelSums<kCount> total{};
  for (int k = 0; k < 2; ++k) {
    const Source* const pixel = frame.at(i.first + k, j.first) + c;
    const float weight = k == 0 ? 255 - bottom : bottom;
    total.add(pixel, (255 - right) * weight);
    total.add(pixel + frame.channels, right * weight);
  }
  return total;
}

template <int kCount, typename Source>
ROBOCACHE_HOST_DEVICE ChannelSums<kCount> sample_fixed(const Sampling& sampling,
                                                       const SourceFrame<Source>& frame, float x,
                                                       float y, std::int32_t c) {
  const TapRange across = taps_at(sampling.x, x);
  const TapRange down = taps_at(sampling.y, y);
  const float sum = sum_of_weights(sampling.y, y, down);
  ChannelSums<kCount> total{};
  for (std::int32_t i = down.begin; i < down.end; ++i) {
    ChannelSums<kCount> row{};
    for_each_fixed_weight(sampling.x, x, across, [&](std::int32_t j, std::int32_t weight) {
      row.add(frame.at(i, j) + c, static_cast<float>(weight));
    });
    total.add(row, fixed_row_weight(tap_weight(sampling.y, y, i), sum));
  }
  return total;
}

template <int kCount, typename Source>
ROBOCACHE_HOST_DEVICE ChannelSums<kCount> sample_weighted(const Sampling& sampling,
                                                          const SourceFrame<Source>& frame, float x,
                                                          float y, std::int32_t c) {
  const TapRange across = taps_at(sampling.x, x);
  const TapRange down = taps_at(sampling.y, y);
  ChannelSums<kCount> total{};
  for (std::int32_t i = down.begin; i < down.end; ++i) {
    ChannelSums<kCount> row{};
    for (std::int32_t j = across.begin; j < across.end; ++j) {
      row.add(frame.at(i, j) + c, tap_weight(sampling.x, x, j));
    }
    total.add(row, tap_weight(sampling.y, y, i));
  }
  total.divide(sum_of_weights(sampling.x, x, across) * sum_of_weights(sampling.y, y, down));
  return total;
}

template <int kCount, typename Source>
ROBOCACHE_HOST_DEVICE ChannelSums<kCount> sample_masked(const Sampling& sampling,
                                                        const SourceFrame<Source>& frame, float x,
                                                        float y, std::int32_t c) {
  const TapRange across = taps_at(sampling.x, x);
  const TapRange down = taps_at(sampling.y, y);
  ChannelSums<kCount> total{};
  ChannelSums<kCount> measured{};  // the sums of weights
  for (std::int32_t i = down.begin; i < down.end; ++i) {
    ChannelSums<kCount> row{};
    ChannelSums<kCount> row_measured{};
    for (std::int32_t j = across.begin; j < across.end; ++j) {
      const Source* const pixel = frame.at(i, j) + c;
      const float weight = tap_weight(sampling.x, x, j);
      for (int k = 0; k < kCount; ++k) {
        const float value = as_float(pixel[k]);
        if (!is_measured(value)) continue;
        row.sums[k] = row.sums[k] + value * weight;
        row_measured.sums[k] = row_measured.sums[k] + weight;
      }
    }
    const float weight = tap_weight(sampling.y, y, i);
    total.add(row, weight);
    measured.add(row_measured, weight);
  }
  for (int k = 0; k < kCount; ++k) {
    total.sums[k] = measured.sums[k] > 0 ? total.sums[k] / measured.sums[k] : 0.0f;
  }
  return total;
}

/// The sums of kCount channels from channel `c` on, at the position (x, y), which lies within the
/// bounds; before scaling.
template <int kCount, typename Source>
ROBOCACHE_HOST_DEVICE_CALLED ChannelSums<kCount> sample(const Sampling& sampling,
                                                        const SourceFrame<Source>& frame, float x,
                                                        float y, std::int32_t c) {
  switch (sampling.kind) {
    case SampleKind::kNearest:
      return sample_nearest<kCount>(sampling, frame, x, y, c);
    case SampleKind::kFixed:
      return sample_fixed<kCount>(sampling, frame, x, y, c);
    case SampleKind::kTurned:
      return sample_turned<kCount>(sampling, frame, x, y, c);
    case SampleKind::kMasked:
      return sample_masked<kCount>(sampling, frame, x, y, c);
    case SampleKind::kWeighted:
      break;
  }
  return sample_weighted<kCount>(sampling, frame, x, y, c);
}

}  // namespace robocache::ROBOCACHE_TARGET
