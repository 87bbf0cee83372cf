// Dual numbers: a value, and its derivative with respect to one input (forward-mode automatic
// differentiation). A formula that is written for any type of number so computes its exact
// derivative too, by the rules of differentiation.
#pragma once

#include "align/trigonometry.h"
#include "core/target.h"

namespace robocache::ROBOCACHE_TARGET {

template <typename Compute>
struct Dual {
  Compute value, slope;

  Dual() = default;
  ROBOCACHE_HOST_DEVICE Dual(Compute of_value, Compute of_slope)
      : value(of_value), slope(of_slope) {}
  /// A constant.
  ROBOCACHE_HOST_DEVICE explicit Dual(double constant) : value(Compute(constant)), slope(0) {}
};

template <typename Compute>
ROBOCACHE_HOST_DEVICE Dual<Compute> operator-(Dual<Compute> a) {
  return {-a.value, -a.slope};
}
template <typename Compute>
ROBOCACHE_HOST_DEVICE Dual<Compute> operator+(Dual<Compute> a, Dual<Compute> b) {
  return {a.value + b.value, a.slope + b.slope};
}
template <typename Compute>
ROBOCACHE_HOST_DEVICE Dual<Compute> operator-(Dual<Compute> a, Dual<Compute> b) {
  return {a.value - b.value, a.slope - b.slope};
}
template <typename Compute>
ROBOCACHE_HOST_DEVICE Dual<Compute> operator*(Dual<Compute> a, Dual<Compute> b) {
  return {a.value * b.value, a.slope * b.value + a.value * b.slope};
}
template <typename Compute>
ROBOCACHE_HOST_DEVICE Dual<Compute> operator/(Dual<Compute> a, Dual<Compute> b) {
  const Compute quotient = a.value / b.value;
  return {quotient, (a.slope - quotient * b.slope) / b.value};
}

/// The square root of a number above 0.
template <typename Compute>
ROBOCACHE_HOST_DEVICE Dual<Compute> square_root(Dual<Compute> a) {
  const Compute root = square_root(a.value);
  return {root, a.slope / (Compute(2) * root)};
}

template <typename Compute>
struct SeriesTerms<Dual<Compute>> : SeriesTerms<Compute> {};

// Branches between formulas depend on the value alone, of either type of number.

ROBOCACHE_HOST_DEVICE float value_of(float x) { return x; }
ROBOCACHE_HOST_DEVICE double value_of(double x) { return x; }
template <typename Compute>
ROBOCACHE_HOST_DEVICE Compute value_of(Dual<Compute> x) {
  return x.value;
}

/// A number with another value and the derivative of `x`.
ROBOCACHE_HOST_DEVICE float moved_to(float value, float /*x*/) { return value; }
ROBOCACHE_HOST_DEVICE double moved_to(double value, double /*x*/) { return value; }
template <typename Compute>
ROBOCACHE_HOST_DEVICE Dual<Compute> moved_to(Compute value, Dual<Compute> x) {
  return {value, x.slope};
}

}  // namespace robocache::ROBOCACHE_TARGET
