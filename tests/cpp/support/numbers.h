// The tests' own view of the five value types: what bits mean and how a number rounds to them, by
// tables and searches rather than by the bit arithmetic of src/core/number.h.
#pragma once

#include <cstdint>

#include "robocache/tensor_view.h"

namespace robocache::testing {

/// The value of a 16-bit floating-point number, from its bits: sign, exponent and fraction, as in
/// IEEE 754.
double value_of_half(std::uint16_t bits);
double value_of_bfloat16(std::uint16_t bits);

/// The nearest number of a type, ties to even. NaN becomes some NaN, or 0 for uint8.
std::uint16_t nearest_half(double x);
std::uint16_t nearest_bfloat16(double x);
std::uint8_t nearest_uint8(double x);

/// Element `index` of an array of any type but int64, which a double may not hold.
double load_number(const void* array, DataType type, std::int64_t index);

/// Rounds `x` to `type`, int64 included, and stores it.
void store_number(void* array, DataType type, std::int64_t index, double x);

/// `x` rounded to `type`. By way of float32 for the half types, as the library does.
double rounded(double x, DataType type);

/// Whether two numbers are equal, with the same sign of zero, or both NaN.
bool is_same_number(double x, double y);

}  // namespace robocache::testing
