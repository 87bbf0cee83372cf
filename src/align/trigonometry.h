// Sine, cosine and arcsine, computed with +, -, *, / and square roots only. Every IEEE machine
// rounds these operations alike, so that slerp and rotations have the same bits on the CPU and the
// GPU; the mathematics libraries of the two do not promise that.
//
// All functions are Taylor series about 0, summed by Horner's rule, on ranges where the omitted
// terms are below half a unit in the last place of 1.
#pragma once

#include "core/target.h"

namespace robocache::ROBOCACHE_TARGET {

ROBOCACHE_HOST_DEVICE float square_root(float x) {
#if defined(__CUDA_ARCH__)
  return __fsqrt_rn(x);
#else
  return __builtin_sqrtf(x);
#endif
}

ROBOCACHE_HOST_DEVICE double square_root(double x) {
#if defined(__CUDA_ARCH__)
  return __dsqrt_rn(x);
#else
  return __builtin_sqrt(x);
#endif
}

template <typename Compute>
struct SeriesTerms;
template <>
struct SeriesTerms<float> {
  static constexpr int kSine = 7, kCosine = 7, kArcsine = 8;
};
template <>
struct SeriesTerms<double> {
  static constexpr int kSine = 12, kCosine = 11, kArcsine = 19;
};

/// sin(x) / x for |x| <= pi/2, from `square` = x^2: the sum over k of (-1)^k x^(2k) / (2k+1)!.
template <typename Number>
ROBOCACHE_HOST_DEVICE Number sine_series(Number square) {
  Number sum = Number(1);
  for (int k = SeriesTerms<Number>::kSine - 1; k > 0; --k) {
    sum = Number(1) - square * sum * Number(1.0 / (2 * k * (2 * k + 1)));
  }
  return sum;
}

/// sin(x) for |x| <= pi/2.
template <typename Compute>
ROBOCACHE_HOST_DEVICE Compute sine(Compute x) {
  return x * sine_series(x * x);
}

/// cos(x) for |x| <= pi/2, from `square` = x^2: the sum over k of (-1)^k x^(2k) / (2k)!.
template <typename Number>
ROBOCACHE_HOST_DEVICE Number cosine_series(Number square) {
  Number sum = Number(1);
  for (int k = SeriesTerms<Number>::kCosine - 1; k > 0; --k) {
    sum = Number(1) - square * sum * Number(1.0 / (2 * k * (2 * k - 1)));
  }
  return sum;
}

/// asin(x) / x for |x| <= sin(pi/8), from `square` = x^2: the sum over k of c_k x^(2k), where
/// c_0 = 1 and c_k / c_(k-1) = (2k-1)^2 / (2k (2k+1)).
template <typename Number>
ROBOCACHE_HOST_DEVICE Number arcsine_series(Number square) {
  Number sum = Number(1);
  for (int k = SeriesTerms<Number>::kArcsine - 1; k > 0; --k) {
    const double ratio = double((2 * k - 1) * (2 * k - 1)) / double(2 * k * (2 * k + 1));
    sum = Number(1) + square * sum * Number(ratio);
  }
  return sum;
}

/// asin(x) for 0 <= x <= sin(pi/8).
template <typename Compute>
ROBOCACHE_HOST_DEVICE Compute arcsine_small(Compute x) {
  return x * arcsine_series(x * x);
}

/// asin(x) for 0 <= x <= sin(pi/4), by the half-angle formula.
template <typename Compute>
ROBOCACHE_HOST_DEVICE Compute arcsine(Compute x) {
  const Compute cosine = square_root(Compute(1) - x * x);
  const Compute half = x / square_root(Compute(2) * (Compute(1) + cosine));
  return Compute(2) * arcsine_small(half);
}

/// cos(x) for 0 <= x <= pi/2.
template <typename Compute>
ROBOCACHE_HOST_DEVICE Compute cosine(Compute x) {
  return sine(Compute(1.57079632679489661923) - x);
}

/// The angle in (-pi, pi] that differs from `x` by whole turns; pi and the turn are those of the
/// compute type.
template <typename Compute>
ROBOCACHE_HOST_DEVICE Compute wrap_angle(Compute x) {
  const Compute pi = Compute(3.14159265358979323846);
  const Compute turn = Compute(2) * pi;
  if (x > -pi && x <= pi) return x;
  Compute wrapped;
  if (x > -3 * pi && x <= 3 * pi) {
    wrapped = x > 0 ? x - turn : x + turn;
  } else {
    // For large angles the turn must be more precise than float32, and its multiples exact.
    const double exact_turn = 6.28318530717958647693;
#if defined(__CUDA_ARCH__)
    wrapped = static_cast<Compute>(remainder(static_cast<double>(x), exact_turn));
#else
    wrapped = static_cast<Compute>(__builtin_remainder(static_cast<double>(x), exact_turn));
#endif
  }
  return wrapped <= -pi || wrapped > pi ? pi : wrapped;
}

}  // namespace robocache::ROBOCACHE_TARGET
