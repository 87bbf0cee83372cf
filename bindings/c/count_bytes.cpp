// How often each value occurs in rows of bytes: the statistics of images, of which writing a store
// would do little else. Part of the C API that python/robocache/store/library.py declares.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "c_api.h"

namespace {

constexpr std::int64_t kValues = 256;
// Equal neighbors would wait for each other's increment in one table.
constexpr std::int64_t kLanes = 4;
// Rows that 32-bit counts have room for.
constexpr std::int64_t kBlockRows = std::int64_t{1} << 30;

/// Rows of C bytes, few enough for tables of their own in the nearest cache.
template <int kChannels>
void count_few(const std::uint8_t* rows, std::int64_t count, std::int64_t* histogram) {
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t block = std::min(count - done, kBlockRows);
    std::uint32_t tables[kLanes][kChannels][kValues] = {};
    const std::int64_t whole = block / kLanes * kLanes;
    for (std::int64_t row = 0; row < whole; row += kLanes) {
      for (int lane = 0; lane < kLanes; ++lane) {
        for (int c = 0; c < kChannels; ++c) {
          ++tables[lane][c][rows[(row + lane) * kChannels + c]];
        }
      }
    }
    for (std::int64_t i = whole * kChannels; i < block * kChannels; ++i) {
      ++tables[0][i % kChannels][rows[i]];
    }
    for (const auto& lane : tables) {
      for (int c = 0; c < kChannels; ++c) {
        for (std::int64_t value = 0; value < kValues; ++value) {
          histogram[c * kValues + value] += lane[c][value];
        }
      }
    }
    rows += block * kChannels;
    done += block;
  }
}

}  // namespace

extern "C" {

/// Adds `count` rows of `channels` bytes to a histogram [channels, 256].
ROBOCACHE_C_API void robocache_store_count_bytes(const std::uint8_t* rows, std::int64_t count,
                                                 std::int64_t channels, std::int64_t* histogram) {
  switch (channels) {
    case 1:
      return count_few<1>(rows, count, histogram);
    case 2:
      return count_few<2>(rows, count, histogram);
    case 3:
      return count_few<3>(rows, count, histogram);
    case 4:
      return count_few<4>(rows, count, histogram);
    default:
      for (std::int64_t row = 0; row < count; ++row, rows += channels) {
        for (std::int64_t c = 0; c < channels; ++c) ++histogram[c * kValues + rows[c]];
      }
  }
}
}
