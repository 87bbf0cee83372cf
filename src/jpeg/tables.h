// The layout of a frame's tables in memory, which kernels copy to shared memory.
//
//     word 0            the size in words
//     words 1 to 3      of each component: the first word of its places
//     words 4 to 21     of each component: HuffmanLookup of DC, of AC; bases count from word 0
//     from word 24      places and lookup elements
//
// A place is the destination of coefficient k: the quantization step in the lower half; in the
// upper half, the offset of its bytes in a block that is stored by columns, kColumnPitch bytes
// apart. A damaged block may advance k up to 126: libjpeg-turbo writes what lies past the end to
// the last coefficient.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/target.h"
#include "jpeg/bits.h"

namespace robocache {

inline constexpr int kJpegPlaces = 128;
inline constexpr int kJpegPlacesAt = 1;
inline constexpr int kJpegLookupsAt = 4;
inline constexpr int kJpegLookupWords = 3;
inline constexpr int kJpegTablesBegin = 24;

/// The distance between columns of a block's coefficients, in bytes: those of the 32 lanes of a
/// warp are interleaved, 16 bytes each.
inline constexpr int kColumnPitch = 512;
inline constexpr int kLanePitch = 16;

/// The first component whose table equals that of `component`.
template <typename Table>
int first_equal(const Table (&tables)[3], int component) {
  int first = 0;
  while (std::memcmp(&tables[first], &tables[component], sizeof(Table)) != 0) ++first;
  return first;
}

}  // namespace robocache

namespace robocache::ROBOCACHE_TARGET {

ROBOCACHE_HOST_DEVICE HuffmanLookup lookup_of(const std::uint32_t* tables, int component,
                                              bool is_ac) {
  const int at = kJpegLookupsAt + (2 * component + (is_ac ? 1 : 0)) * kJpegLookupWords;
  const std::uint32_t* const words = tables + at;
  return {words[0], words[1], words[2]};
}

ROBOCACHE_HOST_DEVICE const std::uint32_t* places_of(const std::uint32_t* tables, int component) {
  return tables + tables[kJpegPlacesAt + component];
}

}  // namespace robocache::ROBOCACHE_TARGET
