// Random numbers as functions of a key and a counter, on every backend: splitmix64 (Steele, Lea and
// Flood, "Fast splittable pseudorandom number generators", 2014).
#pragma once

#include <cstdint>

#include "core/target.h"

namespace robocache {

/// 2^64 over the golden ratio, an odd number: its multiples differ in many bits.
inline constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15u;

/// The finalizer of splitmix64, with the constants of Stafford's variant 13.
ROBOCACHE_CONSTEXPR std::uint64_t mix64(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xBF58476D1CE4E5B9u;
  x ^= x >> 27;
  x *= 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

/// The upper 64 bits of the product. For a random `a` it is below `b`, each number about equally
/// often (Lemire, "Fast random integer generation in an interval", 2019): one is more frequent than
/// another by at most b in 2^64.
ROBOCACHE_HOST_DEVICE_INLINE std::uint64_t multiply_high(std::uint64_t a, std::uint64_t b) {
#if defined(__CUDA_ARCH__)
  return __umul64hi(a, b);
#else
  return static_cast<std::uint64_t>(static_cast<unsigned __int128>(a) * b >> 64);
#endif
}

}  // namespace robocache
