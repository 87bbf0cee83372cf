// Pairs of RGB pixels that neighbor each other in a row: from their values to the output.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>

#include "image/recipe.h"

namespace robocache::cuda {

/// Two RGB pixels.
struct PixelPair {
  float values[3][2];
};

/// Two elements as one word.
template <typename Out>
struct PairOf;
template <>
struct PairOf<std::uint8_t> {
  using Word = unsigned short;
  __device__ static Word round(float a, float b) {
    return static_cast<Word>(Round<std::uint8_t>::from(a) | Round<std::uint8_t>::from(b) << 8);
  }
  __device__ static Word join(std::uint8_t a, std::uint8_t b) {
    return static_cast<Word>(a | b << 8);
  }
};
template <>
struct PairOf<BFloat16> {
  using Word = std::uint32_t;
  __device__ static Word round(float a, float b) {
    return bit_cast<Word>(__floats2bfloat162_rn(a, b));
  }
  __device__ static Word join(BFloat16 a, BFloat16 b) {
    return a.bits | static_cast<Word>(b.bits) << 16;
  }
};
template <>
struct PairOf<Float16> {
  using Word = std::uint32_t;
  __device__ static Word round(float a, float b) { return bit_cast<Word>(__floats2half2_rn(a, b)); }
  __device__ static Word join(Float16 a, Float16 b) {
    return a.bits | static_cast<Word>(b.bits) << 16;
  }
};
template <>
struct PairOf<float> {
  using Word = float2;
  __device__ static Word join(float a, float b) { return make_float2(a, b); }
};

/// (x * unit - subtract) * multiply in float64, rounded once, of one channel. For types of 8 and 16
/// bits, it is computed in float32 first, with a bound of the error on either side: where both
/// bounds round to the same number, float64 does too, since rounding is monotonic.
struct Finisher {
  double unit, subtract, multiply;
  float high, low;               // subtract / unit, as a sum
  float least;                   // smaller differences to it have too large an error
  float multiply_1, multiply_2;  // multiply * unit, with a share of 2^-21 less and more
};

inline Finisher make_finisher(double unit, double subtract, double multiply) {
  const double shift = subtract / unit;
  const auto high = static_cast<float>(shift);
  return {unit,
          subtract,
          multiply,
          high,
          static_cast<float>(shift - static_cast<double>(high)),
          std::fabs(high) * 0x1p-16f,
          static_cast<float>(multiply * unit * (1 - 0x1p-21)),
          static_cast<float>(multiply * unit * (1 + 0x1p-21))};
}

/// The elements of two pixels, a word for each channel.
template <typename Out>
__device__ void finish_pair(const Finisher* finish, const PixelPair& pair,
                            typename PairOf<Out>::Word (&words)[3]) {
  if constexpr (sizeof(Out) < 4) {
    bool is_sure = true;
#pragma unroll
    for (int c = 0; c < 3; ++c) {
      // The errors: 2^-24 of each difference, factor and product, and 2^-32 of the sum's tail.
      const Finisher& by = finish[c];
      const float a = (pair.values[c][0] - by.high) - by.low;
      const float b = (pair.values[c][1] - by.high) - by.low;
      words[c] = PairOf<Out>::round(a * by.multiply_1, b * by.multiply_1);
      const auto other = PairOf<Out>::round(a * by.multiply_2, b * by.multiply_2);
      is_sure = is_sure & (words[c] == other) & (fabsf(a) >= by.least) & (fabsf(b) >= by.least);
    }
    if (is_sure) return;
  }
#pragma unroll
  for (int c = 0; c < 3; ++c) {
    const Finisher& by = finish[c];
    words[c] =
        PairOf<Out>::join(finished<Out>(pair.values[c][0], by.unit, by.subtract, by.multiply),
                          finished<Out>(pair.values[c][1], by.unit, by.subtract, by.multiply));
  }
}

/// Where the pairs of a frame are written.
template <typename Out>
struct PairWriter {
  Out* image;
  std::int32_t width, height;
  bool channels_first;
  bool is_aligned;  // pairs are words, and no row has half a pair

  __device__ PairWriter(const ImagePlan& plan, std::int64_t n)
      : image(static_cast<Out*>(plan.out) + n * plan.pixels() * 3),
        width(plan.out_width),
        height(plan.out_height),
        channels_first(plan.channels_first) {
    is_aligned =
        width % 2 == 0 &&
        reinterpret_cast<std::uintptr_t>(plan.out) % sizeof(typename PairOf<Out>::Word) == 0;
  }

  /// Writes the pixels (u, v) and (u + 1, v), for an even u.
  __device__ void write(const Finisher* finish, const PixelPair& pair, std::int32_t u,
                        std::int32_t v) const {
    using Word = typename PairOf<Out>::Word;
    const std::int64_t pixels = std::int64_t{width} * height;
    const std::int64_t place = std::int64_t{v} * width + u;
    const auto& x = pair.values;
    if (is_aligned) {
      union {
        Word words[3];
        Out elements[6];
      } planes, row;
      finish_pair<Out>(finish, pair, planes.words);
      if (channels_first) {
        Out* to = image + place;
#pragma unroll
        for (int c = 0; c < 3; ++c) {
          __stcs(reinterpret_cast<Word*>(to), planes.words[c]);
          to += pixels;
        }
        return;
      }
#pragma unroll
      for (int i = 0; i < 6; ++i) row.elements[i] = planes.elements[i % 3 * 2 + i / 3];
#pragma unroll
      for (int i = 0; i < 3; ++i) {
        __stcs(reinterpret_cast<Word*>(image + place * 3) + i, row.words[i]);
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < 6; ++i) {
      const int c = i % 3;
      const int k = i / 3;
      if (u + k >= width) break;
      const std::int64_t at = channels_first ? c * pixels + place + k : (place + k) * 3 + c;
      image[at] = finished<Out>(x[c][k], finish[c].unit, finish[c].subtract, finish[c].multiply);
    }
  }
};

}  // namespace robocache::cuda
