// Per-channel statistics of cached rows, which a writer accumulates for each stream.
#pragma once

#include <cstdint>

namespace robocache::store {

/// Adds `count` rows of `channels` bytes to a histogram [channels, 256].
void count_bytes(const std::uint8_t* rows, std::int64_t count, std::int64_t channels,
                 std::int64_t* histogram);

/// Statistics of the finite elements of each of C channels: [C] each.
struct Moments {
  std::int64_t* count;
  double* mean;
  double* squares;  // the sum of squared differences from the mean
  double* lowest;   // infinity if no element is finite
  double* highest;  // -infinity if no element is finite
};

/// Computes the moments of `count` rows of `channels` elements, 1 or more. The sums are the same on
/// every machine.
template <typename T>
void compute_moments(const T* rows, std::int64_t count, std::int64_t channels,
                     const Moments& moments);

extern template void compute_moments(const float* rows, std::int64_t count, std::int64_t channels,
                                     const Moments& moments);
extern template void compute_moments(const double* rows, std::int64_t count, std::int64_t channels,
                                     const Moments& moments);

}  // namespace robocache::store
