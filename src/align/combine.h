// The second half of alignment: combines rows by a weight, and propagates the gradient of a value
// to its rows. All of it is in the compute type.
#pragma once

#include "align/plan.h"
#include "align/trigonometry.h"
#include "core/number.h"
#include "core/target.h"

namespace robocache::ROBOCACHE_TARGET {

template <typename Compute>
ROBOCACHE_HOST_DEVICE Compute lerp(Compute a, Compute b, Compute w) {
  return a + w * (b - a);
}

/// The value of one channel of a run that is not slerp. `b` is read for pairs only.
template <typename Compute>
ROBOCACHE_HOST_DEVICE Compute combine_channel(Method method, Compute a, Compute b, Compute w,
                                              bool is_pair) {
  if (method == Method::kAngle) {
    return wrap_angle(is_pair ? a + w * wrap_angle(b - a) : a);
  }
  return is_pair ? lerp(a, b, w) : a;
}

template <typename Compute>
struct Quaternion {
  Compute q[4];
};

/// Loads four elements from `index` on, `stride` apart.
template <typename Compute>
ROBOCACHE_HOST_DEVICE Quaternion<Compute> load_quaternion(DataType type, const void* values,
                                                          std::int64_t index, std::int64_t stride) {
  Quaternion<Compute> loaded;
  for (int i = 0; i < 4; ++i) loaded.q[i] = load_as<Compute>(type, values, index + i * stride);
  return loaded;
}

template <typename Compute>
ROBOCACHE_HOST_DEVICE Compute dot(const Quaternion<Compute>& a, const Quaternion<Compute>& b) {
  return ((a.q[0] * b.q[0] + a.q[1] * b.q[1]) + a.q[2] * b.q[2]) + a.q[3] * b.q[3];
}

template <typename Compute>
ROBOCACHE_HOST_DEVICE bool is_zero(const Quaternion<Compute>& a) {
  return dot(a, a) == Compute(0);
}

template <typename Compute>
ROBOCACHE_HOST_DEVICE Quaternion<Compute> divide(const Quaternion<Compute>& a, Compute by) {
  return {{a.q[0] / by, a.q[1] / by, a.q[2] / by, a.q[3] / by}};
}

/// a x + b y.
template <typename Compute>
ROBOCACHE_HOST_DEVICE Quaternion<Compute> weigh(Compute a, const Quaternion<Compute>& x, Compute b,
                                                const Quaternion<Compute>& y) {
  Quaternion<Compute> sum;
  for (int i = 0; i < 4; ++i) sum.q[i] = a * x.q[i] + b * y.q[i];
  return sum;
}

/// The great-circle arc between two nonzero quaternions, which slerp and its gradient share.
template <typename Compute>
struct Arc {
  Quaternion<Compute> a, b;    // unit quaternions; b has the sign with a . b >= 0
  Compute length_a, length_b;  // lengths of the inputs; length_b is negative where b was negated
  Compute theta;               // the angle between them, in [0, pi/2]
  Compute weight_a, weight_b;
};

template <typename Compute>
ROBOCACHE_HOST_DEVICE Arc<Compute> make_arc(const Quaternion<Compute>& a,
                                            const Quaternion<Compute>& b, Compute w) {
  Arc<Compute> arc;
  arc.length_a = square_root(dot(a, a));
  arc.length_b = square_root(dot(b, b));
  if (dot(a, b) < Compute(0)) arc.length_b = -arc.length_b;
  arc.a = divide(a, arc.length_a);
  arc.b = divide(b, arc.length_b);
  // Half the chord is the sine of half the angle: exact for small angles, where the dot product is
  // not.
  const Quaternion<Compute> chord = weigh(Compute(1), arc.b, Compute(-1), arc.a);
  const Compute half_chord = Compute(0.5) * square_root(dot(chord, chord));
  arc.theta = Compute(2) * arcsine(half_chord);
  const Compute sine_theta = sine(arc.theta);
  const bool is_point = sine_theta == Compute(0);  // the weights' limit is w itself
  arc.weight_a = is_point ? Compute(1) - w : sine((Compute(1) - w) * arc.theta) / sine_theta;
  arc.weight_b = is_point ? w : sine(w * arc.theta) / sine_theta;
  return arc;
}

/// Spherical linear interpolation, `w` of the way from `a` to `b` or, where that is shorter, to -b.
/// The inputs need not be unit quaternions; the output is one, or zero if either input is zero.
/// Source: Shoemake, "Animating rotation with quaternion curves", SIGGRAPH 1985.
template <typename Compute>
ROBOCACHE_HOST_DEVICE Quaternion<Compute> slerp(const Quaternion<Compute>& a,
                                                const Quaternion<Compute>& b, Compute w) {
  if (is_zero(a) || is_zero(b)) return {};
  const Arc<Compute> arc = make_arc(a, b, w);
  const Quaternion<Compute> point = weigh(arc.weight_a, arc.a, arc.weight_b, arc.b);
  return divide(point, square_root(dot(point, point)));
}

/// The direction of `a`; zero if `a` is.
template <typename Compute>
ROBOCACHE_HOST_DEVICE Quaternion<Compute> normalize(const Quaternion<Compute>& a) {
  return is_zero(a) ? Quaternion<Compute>{} : divide(a, square_root(dot(a, a)));
}

/// The gradient with respect to `a` of a loss whose gradient with respect to a / length is
/// `gradient`: its component orthogonal to `unit`, divided by the length.
template <typename Compute>
ROBOCACHE_HOST_DEVICE Quaternion<Compute> normalize_backward(const Quaternion<Compute>& unit,
                                                             Compute length,
                                                             const Quaternion<Compute>& gradient) {
  return divide(weigh(Compute(1), gradient, -dot(unit, gradient), unit), length);
}

/// The gradient of `normalize`; zero if `a` is.
template <typename Compute>
ROBOCACHE_HOST_DEVICE Quaternion<Compute> normalize_backward(const Quaternion<Compute>& a,
                                                             const Quaternion<Compute>& gradient) {
  if (is_zero(a)) return {};
  const Compute length = square_root(dot(a, a));
  return normalize_backward(divide(a, length), length, gradient);
}

/// (1 / sin t) d/dt (sin(u t) / sin t): minus the derivative of a slerp weight with respect to the
/// cosine of the angle.
template <typename Compute>
ROBOCACHE_HOST_DEVICE Compute weight_slope(Compute u, Compute theta) {
  // Near 0 the quotient loses digits to cancellation; its series does not.
  const Compute series_below = sizeof(Compute) == 8 ? Compute(3e-3) : Compute(0.15);
  if (theta < series_below) {
    const Compute square = theta * theta;
    return u * (Compute(1) - u * u) *
           (Compute(1) / Compute(3) + square * (Compute(4) - u * u) / Compute(30));
  }
  const Compute s = sine(theta);
  const Compute numerator = u * cosine(u * theta) * s - sine(u * theta) * cosine(theta);
  return numerator / (s * s * s);
}

/// The gradient of `slerp` with respect to `a` (`of_a`) or to `b`; zero if either is.
template <typename Compute>
ROBOCACHE_HOST_DEVICE Quaternion<Compute> slerp_backward(const Quaternion<Compute>& a,
                                                         const Quaternion<Compute>& b, Compute w,
                                                         const Quaternion<Compute>& gradient,
                                                         bool of_a) {
  if (is_zero(a) || is_zero(b)) return {};
  const Arc<Compute> arc = make_arc(a, b, w);
  const Quaternion<Compute> point = weigh(arc.weight_a, arc.a, arc.weight_b, arc.b);
  const Compute length = square_root(dot(point, point));
  const Quaternion<Compute> to_point = normalize_backward(divide(point, length), length, gradient);
  // The weights depend on the rows too, through cos(theta) = a . b, which falls as theta grows.
  const Compute to_cosine = -(dot(to_point, arc.a) * weight_slope(Compute(1) - w, arc.theta) +
                              dot(to_point, arc.b) * weight_slope(w, arc.theta));
  if (of_a) {
    return normalize_backward(arc.a, arc.length_a, weigh(arc.weight_a, to_point, to_cosine, arc.b));
  }
  return normalize_backward(arc.b, arc.length_b, weigh(arc.weight_b, to_point, to_cosine, arc.a));
}

}  // namespace robocache::ROBOCACHE_TARGET
