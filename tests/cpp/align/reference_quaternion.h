// Rotations for the reference, worked in extended precision: forward and gradient share them.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "align/reference_rows.h"

namespace robocache::testing::reference {

using Quaternion = std::array<long double, 4>;

inline Quaternion mix(long double x, const Quaternion& a, long double y, const Quaternion& b) {
  Quaternion sum;
  for (int i = 0; i < 4; ++i) sum[i] = x * a[i] + y * b[i];
  return sum;
}

inline long double length(const Quaternion& q) {
  return std::sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
}

inline Quaternion unit(const Quaternion& q) { return mix(1 / length(q), q, 0, q); }

/// `w` of the way from `a` to `b` or, if `flip`, to -b; neither is zero.
inline Quaternion slerp(const Quaternion& a, const Quaternion& b, long double w, bool flip) {
  const Quaternion p = unit(a);
  const Quaternion q = mix(flip ? -1 : 1, unit(b), 0, b);
  // Twice the angle whose tangent is |q - p| / |q + p|: as exact for small angles as for large.
  const long double angle = 2 * std::atan2(length(mix(1, q, -1, p)), length(mix(1, q, 1, p)));
  if (angle == 0) return p;
  return unit(mix(std::sin((1 - w) * angle), p, std::sin(w * angle), q));
}

/// A row's four channels from `channel` on.
template <typename Compute>
std::array<Compute, 4> quaternion_at(const Stream& stream, std::int64_t b, std::int64_t row,
                                     std::int64_t channel) {
  std::array<Compute, 4> q;
  for (int i = 0; i < 4; ++i) {
    q[i] = static_cast<Compute>(number_at(stream.values, {b, row, channel + i}));
  }
  return q;
}

template <typename Compute>
Quaternion extended(const std::array<Compute, 4>& q) {
  return {q[0], q[1], q[2], q[3]};
}

template <typename Compute>
bool is_zero(const std::array<Compute, 4>& q) {
  return q[0] == 0 && q[1] == 0 && q[2] == 0 && q[3] == 0;
}

/// Whether the short way from a to b is to -b. Decided in the compute type, as rows at a right
/// angle would go either way otherwise.
template <typename Compute>
bool flips(const std::array<Compute, 4>& a, const std::array<Compute, 4>& b) {
  Compute dot = a[0] * b[0];
  for (int i = 1; i < 4; ++i) dot = dot + a[i] * b[i];
  return dot < 0;
}

}  // namespace robocache::testing::reference
