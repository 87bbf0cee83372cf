// Draws samples from several data sets by weight, evaluated per position, on every backend.
//
// The random numbers are splitmix64's (core/random.h): a counter's multiples of kGolden, mixed. The
// counter is the place in the epoch, so draws are independent of each other. An anchor is scaled
// from 64 bits by multiplication: in a part of n anchors, one anchor is drawn more often than
// another by at most one in 2^64 / n.
#pragma once

#include <cstdint>

#include "core/random.h"
#include "core/target.h"

namespace robocache {

/// The parts of a mixture and their cumulative weights.
struct Mixture {
  const std::int64_t* parts;       // [count+1]; null: no mixture
  const std::int64_t* thresholds;  // [count], the bits of uint64
  std::int64_t count;
};

/// The anchor of the sample at `place` of the epoch with key `key`. Out of range where the
/// mixture's tensors hold invalid values, which the plan does not validate on CUDA.
ROBOCACHE_HOST_DEVICE_INLINE std::int64_t draw_from_mixture(const Mixture& mixture,
                                                            std::uint64_t key, std::int64_t place) {
  const std::uint64_t counter = 2 * static_cast<std::uint64_t>(place);
  const std::uint64_t choice = mix64(key + (counter + 1) * kGolden);
  const std::uint64_t number = mix64(key + (counter + 2) * kGolden);
  std::int64_t part = 0;
#if defined(__CUDA_ARCH__)
#pragma unroll 1  // most launches have no mixture: keep the code that they fetch small
#endif
  for (std::int64_t i = 0; i + 1 < mixture.count; ++i) {
    part += static_cast<std::uint64_t>(mixture.thresholds[i]) <= choice ? 1 : 0;
  }
  const std::int64_t first = mixture.parts[part];
  const auto anchors = static_cast<std::uint64_t>(mixture.parts[part + 1] - first);
  return first + static_cast<std::int64_t>(multiply_high(number, anchors));
}

}  // namespace robocache
