#include "support/numbers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace robocache::testing {
namespace {

/// An IEEE-like type of 16 bits with so many bits of fraction.
double value_of(std::uint16_t bits, int fraction_bits) {
  const int exponent_bits = 15 - fraction_bits;
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const int exponent = (bits & 0x7fff) >> fraction_bits;
  const int largest_exponent = (1 << exponent_bits) - 1;
  const int bias = largest_exponent / 2;
  double magnitude;
  if (exponent == largest_exponent) {
    magnitude = fraction == 0 ? std::numeric_limits<double>::infinity()
                              : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(fraction, 1 - bias - fraction_bits);
  } else {
    magnitude = std::ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
  }
  return std::copysign(magnitude, (bits & 0x8000) != 0 ? -1.0 : 1.0);
}

/// All magnitudes of such a type, ascending, each at the index that is its bits. Infinity stands as
/// the number that would come next, which is what rounding takes it for.
std::vector<double> magnitudes_of(int fraction_bits) {
  const int infinity = 0x7fff & ~((1 << fraction_bits) - 1);
  std::vector<double> magnitudes;
  magnitudes.reserve(static_cast<std::size_t>(infinity) + 1);
  for (int bits = 0; bits < infinity; ++bits) {
    magnitudes.push_back(value_of(static_cast<std::uint16_t>(bits), fraction_bits));
  }
  const double last = magnitudes.back();
  magnitudes.push_back(last + (last - magnitudes[magnitudes.size() - 2]));
  return magnitudes;
}

std::uint16_t nearest(double x, const std::vector<double>& magnitudes) {
  if (std::isnan(x)) return 0x7fff;
  const double magnitude = std::fabs(x);
  const auto not_below = std::lower_bound(magnitudes.begin(), magnitudes.end(), magnitude);
  std::size_t bits = static_cast<std::size_t>(not_below - magnitudes.begin());
  if (bits == magnitudes.size()) {
    --bits;  // infinity
  } else if (*not_below != magnitude) {
    const double to_lower = magnitude - magnitudes[bits - 1];
    const double to_upper = magnitudes[bits] - magnitude;
    const bool lower_is_even = bits % 2 == 1;
    if (to_lower < to_upper || (to_lower == to_upper && lower_is_even)) --bits;
  }
  return static_cast<std::uint16_t>(bits | (std::signbit(x) ? 0x8000u : 0u));
}

}  // namespace

double value_of_half(std::uint16_t bits) { return value_of(bits, 10); }
double value_of_bfloat16(std::uint16_t bits) { return value_of(bits, 7); }

std::uint16_t nearest_half(double x) {
  static const std::vector<double> magnitudes = magnitudes_of(10);
  return nearest(x, magnitudes);
}

std::uint16_t nearest_bfloat16(double x) {
  static const std::vector<double> magnitudes = magnitudes_of(7);
  return nearest(x, magnitudes);
}

std::uint8_t nearest_uint8(double x) {
  if (!(x > 0)) return 0;
  return static_cast<std::uint8_t>(std::nearbyint(std::min(x, 255.0)));
}

double load_number(const void* array, DataType type, std::int64_t index) {
  switch (type) {
    case DataType::kFloat16:
      return value_of_half(static_cast<const std::uint16_t*>(array)[index]);
    case DataType::kBFloat16:
      return value_of_bfloat16(static_cast<const std::uint16_t*>(array)[index]);
    case DataType::kFloat32:
      return static_cast<const float*>(array)[index];
    case DataType::kFloat64:
      return static_cast<const double*>(array)[index];
    case DataType::kInt32:
      return static_cast<const std::int32_t*>(array)[index];
    case DataType::kInt64:
      return static_cast<double>(static_cast<const std::int64_t*>(array)[index]);
    case DataType::kUInt16:
      return static_cast<const std::uint16_t*>(array)[index];
    default:
      return static_cast<const std::uint8_t*>(array)[index];
  }
}

void store_number(void* array, DataType type, std::int64_t index, double x) {
  switch (type) {
    case DataType::kFloat16:
      static_cast<std::uint16_t*>(array)[index] = nearest_half(static_cast<float>(x));
      break;
    case DataType::kBFloat16:
      static_cast<std::uint16_t*>(array)[index] = nearest_bfloat16(static_cast<float>(x));
      break;
    case DataType::kFloat32:
      static_cast<float*>(array)[index] = static_cast<float>(x);
      break;
    case DataType::kFloat64:
      static_cast<double*>(array)[index] = x;
      break;
    case DataType::kInt32:
      static_cast<std::int32_t*>(array)[index] = static_cast<std::int32_t>(x);
      break;
    case DataType::kInt64:
      static_cast<std::int64_t*>(array)[index] = static_cast<std::int64_t>(x);
      break;
    case DataType::kUInt16:
      static_cast<std::uint16_t*>(array)[index] =
          x > 0 ? static_cast<std::uint16_t>(std::nearbyint(std::min(x, 65535.0))) : 0;
      break;
    default:
      static_cast<std::uint8_t*>(array)[index] = nearest_uint8(x);
  }
}

double rounded(double x, DataType type) {
  alignas(8) char element[8];
  store_number(element, type, 0, x);
  return load_number(element, type, 0);
}

bool is_same_number(double x, double y) {
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
  return x == y && std::signbit(x) == std::signbit(y);
}

}  // namespace robocache::testing
