// Binary search on the GPU.
#pragma once

#include <cstdint>

namespace robocache::cuda {

/// The number of elements below `limit` among `count` ascending numbers.
template <typename Number>
__device__ __forceinline__ std::int64_t lower_bound(const Number* numbers, std::int64_t count,
                                                    Number limit) {
  std::int64_t low = 0;
  std::int64_t high = count;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (numbers[middle] < limit) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace robocache::cuda
