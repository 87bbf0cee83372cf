// The five value types on host and device: widening to the compute type, and rounding back.
#pragma once

#include <cstdint>

#include "core/target.h"
#include "robocache/tensor_view.h"

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

namespace robocache::ROBOCACHE_TARGET {

struct Float16 {
  std::uint16_t bits;
};

struct BFloat16 {
  std::uint16_t bits;
};

template <typename To, typename From>
ROBOCACHE_HOST_DEVICE To bit_cast(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof(To));
  return to;
}

// Widening is exact.

ROBOCACHE_HOST_DEVICE float widen(float x) { return x; }
ROBOCACHE_HOST_DEVICE double widen(double x) { return x; }
ROBOCACHE_HOST_DEVICE float widen(std::uint8_t x) { return static_cast<float>(x); }

ROBOCACHE_HOST_DEVICE float widen(BFloat16 x) {
  return bit_cast<float>(static_cast<std::uint32_t>(x.bits) << 16);
}

ROBOCACHE_HOST_DEVICE float widen(Float16 x) {
#if defined(__CUDA_ARCH__)
  return __half2float(__ushort_as_half(x.bits));
#else
  // Shifts exponent and mantissa into place and adds the difference of the biases. A subnormal,
  // m * 2^-24, is computed with an exponent one higher, as (2^-14 + m * 2^-24) - 2^-14. So no
  // denormal float32 occurs, which the caller's thread may be set to flush to zero. Masks select
  // the result, since compilers turn a choice between floating-point results into a branch, which
  // keeps loops from vectorizing.
  const std::int32_t half = x.bits & 0x7fff;
  const std::uint32_t sign = static_cast<std::uint32_t>(x.bits & 0x8000u) << 16;
  const std::uint32_t rebias = half >= 0x7c00 ? 0x70000000u : 0x38000000u;  // infinity, NaN; or not
  const std::uint32_t normal = (static_cast<std::uint32_t>(half) << 13) + rebias;
  const std::uint32_t subnormal =
      bit_cast<std::uint32_t>(bit_cast<float>(normal + 0x00800000u) - 0x1p-14f);
  const auto is_subnormal = static_cast<std::uint32_t>((half - 0x400) >> 31);  // all bits, or none
  return bit_cast<float>((subnormal & is_subnormal) | (normal & ~is_subnormal) | sign);
#endif
}

// Rounding is to nearest, ties to even. float64 is rounded to the 16-bit types through float32.

template <typename Out>
struct Round;

template <>
struct Round<float> {
  ROBOCACHE_HOST_DEVICE static float from(float x) { return x; }
  ROBOCACHE_HOST_DEVICE static float from(double x) { return static_cast<float>(x); }
};

template <>
struct Round<double> {
  template <typename Compute>
  ROBOCACHE_HOST_DEVICE static double from(Compute x) {
    return static_cast<double>(x);
  }
};

template <>
struct Round<BFloat16> {
  ROBOCACHE_HOST_DEVICE static BFloat16 from(float x) {
#if defined(__CUDA_ARCH__)
    return {__bfloat16_as_ushort(__float2bfloat16_rn(x))};
#else
    const std::uint32_t bits = bit_cast<std::uint32_t>(x);
    const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return {static_cast<std::uint16_t>(x == x ? rounded : 0x7fffu)};
#endif
  }
  ROBOCACHE_HOST_DEVICE static BFloat16 from(double x) { return from(static_cast<float>(x)); }
};

template <>
struct Round<Float16> {
  ROBOCACHE_HOST_DEVICE static Float16 from(float x) {
#if defined(__CUDA_ARCH__)
    return {__half_as_ushort(__float2half_rn(x))};
#else
    const std::uint32_t bits = bit_cast<std::uint32_t>(x);
    const std::uint32_t sign = (bits >> 16) & 0x8000u;
    const std::uint32_t magnitude = bits & 0x7fffffffu;
    // Normal results: rebias the exponent and round off 13 bits; a carry out of the mantissa gives
    // the right result, also infinity.
    const std::uint32_t normal =
        (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    // Subnormal results: adding 0.5 makes the last place of the sum 2^-24, that of the subnormals.
    const std::uint32_t subnormal =
        bit_cast<std::uint32_t>(bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
    std::uint32_t rounded = magnitude < 0x38800000u ? subnormal : normal;
    rounded = magnitude >= 0x47800000u ? 0x7c00u : rounded;  // 65536 and more
    rounded = magnitude > 0x7f800000u ? 0x7fffu : rounded;   // NaN
    return {static_cast<std::uint16_t>(sign | rounded)};
#endif
  }
  ROBOCACHE_HOST_DEVICE static Float16 from(double x) { return from(static_cast<float>(x)); }
};

template <>
struct Round<std::uint8_t> {
  // Saturates; NaN is 0. Adding and subtracting 2^23 (2^52) rounds off the fraction to even.
  ROBOCACHE_HOST_DEVICE static std::uint8_t from(float x) {
    const float in_range = x > 0.0f ? (x < 255.0f ? x : 255.0f) : 0.0f;
    return static_cast<std::uint8_t>((in_range + 0x1p23f) - 0x1p23f);
  }
  ROBOCACHE_HOST_DEVICE static std::uint8_t from(double x) {
    const double in_range = x > 0.0 ? (x < 255.0 ? x : 255.0) : 0.0;
    return static_cast<std::uint8_t>((in_range + 0x1p52) - 0x1p52);
  }
};

// NaN in each type; 0 for integers, which have none.
template <typename Out>
ROBOCACHE_HOST_DEVICE Out not_a_number() {
  return Round<Out>::from(bit_cast<float>(0x7fc00000u));
}

// Access to elements of an array whose type is known at run time only, for code that is compiled
// once rather than for each type.

template <typename Compute>
ROBOCACHE_HOST_DEVICE Compute load_as(DataType type, const void* array, std::int64_t index) {
  switch (type) {
    case DataType::kFloat16:
      return Compute(widen(static_cast<const Float16*>(array)[index]));
    case DataType::kBFloat16:
      return Compute(widen(static_cast<const BFloat16*>(array)[index]));
    case DataType::kFloat32:
      return Compute(static_cast<const float*>(array)[index]);
    case DataType::kFloat64:
      return Compute(static_cast<const double*>(array)[index]);
    default:
      return Compute(static_cast<const std::uint8_t*>(array)[index]);
  }
}

template <typename Compute>
ROBOCACHE_HOST_DEVICE void store_as(DataType type, void* array, std::int64_t index, Compute x) {
  switch (type) {
    case DataType::kFloat16:
      static_cast<Float16*>(array)[index] = Round<Float16>::from(x);
      return;
    case DataType::kBFloat16:
      static_cast<BFloat16*>(array)[index] = Round<BFloat16>::from(x);
      return;
    case DataType::kFloat32:
      static_cast<float*>(array)[index] = Round<float>::from(x);
      return;
    case DataType::kFloat64:
      static_cast<double*>(array)[index] = Round<double>::from(x);
      return;
    default:
      static_cast<std::uint8_t*>(array)[index] = Round<std::uint8_t>::from(x);
  }
}

}  // namespace robocache::ROBOCACHE_TARGET
