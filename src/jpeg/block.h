// Blocks of 8x8 samples: entropy decoding, dequantization and the inverse DCT, with the bits of
// libjpeg-turbo's islow method: on host and device.
#pragma once

#include <cstdint>

#include "core/target.h"
#include "jpeg/bits.h"
#include "jpeg/tables.h"

namespace robocache::ROBOCACHE_TARGET {

/// A coefficient, in memory that is also read as Column.
using Coefficient [[gnu::may_alias]] = std::int16_t;

/// Decodes a block of zeros at `block` (see kColumnPitch). `prediction` is the DC prediction, which
/// the block's own DC value replaces. Returns the sum of the magnitudes of all coefficients.
template <typename Reader>
ROBOCACHE_HOST_DEVICE std::uint32_t decode_block(Reader& reader, const std::uint32_t* tables,
                                                 const HuffmanLookup& dc, const HuffmanLookup& ac,
                                                 const std::uint32_t* places,
                                                 std::int32_t& prediction, unsigned char* block) {
  std::uint32_t sum = 0;
  const auto put = [&](std::uint32_t place, std::int32_t value) {
    *reinterpret_cast<Coefficient*>(block + (place >> 16)) = static_cast<std::int16_t>(value);
#if defined(__CUDA_ARCH__)
    sum = __sad(value, 0, sum);
#else
    sum += static_cast<std::uint32_t>(value < 0 ? -value : value);
#endif
  };
  std::uint32_t peeked = reader.peek();
  std::uint32_t element = tables[dc.index(peeked)];
  // libjpeg-turbo keeps 32 bits, and 16 of them in a block.
  prediction = static_cast<std::int16_t>(prediction + value_of_symbol(peeked, element, 1));
  put(places[0], prediction * static_cast<std::int32_t>(places[0] & 0xffff));
  reader.skip(bits_of_symbol(element));
  std::uint32_t k = 0;
  do {
    peeked = reader.peek();
    element = tables[ac.index(peeked)];
    k += advance_of_symbol(element);
    // Symbols without a value write 0 to a coefficient that is 0.
    const std::uint32_t place = places[k];
    put(place, value_of_symbol(peeked, element, static_cast<std::int32_t>(place & 0xffff)));
    reader.skip(bits_of_symbol(element));
  } while (k < 63);
  return sum;
}

// The inverse DCT of jidctint.c: two passes of a one-dimensional transform, columns first, with
// constants of 13 bits. The first pass keeps 2 fractional bits.
inline constexpr int kConstantBits = 13;
inline constexpr int kFirstPassBits = 2;
inline constexpr int kFirstPassShift = kConstantBits - kFirstPassBits;
inline constexpr int kSecondPassShift = kConstantBits + kFirstPassBits + 3;

/// libjpeg-turbo computes with vectors of 16 bits: sums of two inputs wrap around, and results of
/// the first pass saturate. Neither happens while the magnitudes of a block's coefficients add up
/// to no more than this: a result of the first pass is at most 4 * sqrt(2) * cos(pi / 16) times the
/// sum of its column, and a sum of two such results must stay below 2^15.
inline constexpr std::uint32_t kLargestPlainSum = 5900;

/// One pass over 8 values; `rounding` is added in the scale of the results. In 64-bit numbers, sums
/// of two inputs wrap at 16 bits, and results at 32.
template <typename Number>
ROBOCACHE_HOST_DEVICE void transform_8(std::int32_t (&a)[8], std::int32_t rounding) {
  const auto wrap = [](Number x) {
    return sizeof(Number) == 8 ? static_cast<Number>(static_cast<std::int16_t>(x)) : x;
  };
  const Number a0 = a[0], a1 = a[1], a2 = a[2], a3 = a[3];
  const Number a4 = a[4], a5 = a[5], a6 = a[6], a7 = a[7];
  const Number z1 = (a2 + a6) * 4433;
  const Number t2 = z1 - a6 * 15137;
  const Number t3 = z1 + a2 * 6270;
  const Number t0 = wrap(a0 + a4) * (1 << kConstantBits) + rounding;
  const Number t1 = wrap(a0 - a4) * (1 << kConstantBits) + rounding;
  const Number e0 = t0 + t3;
  const Number e3 = t0 - t3;
  const Number e1 = t1 + t2;
  const Number e2 = t1 - t2;
  const Number z3 = wrap(a7 + a3);
  const Number z4 = wrap(a5 + a1);
  const Number z5 = (z3 + z4) * 9633;
  const Number y3 = z5 - z3 * 16069;
  const Number y4 = z5 - z4 * 3196;
  const Number y1 = (a7 + a1) * 7373;
  const Number y2 = (a5 + a3) * 20995;
  const Number o0 = a7 * 2446 + y3 - y1;
  const Number o1 = a5 * 16819 + y4 - y2;
  const Number o2 = a3 * 25172 + y3 - y2;
  const Number o3 = a1 * 12299 + y4 - y1;
  a[0] = static_cast<std::int32_t>(e0 + o3);
  a[7] = static_cast<std::int32_t>(e0 - o3);
  a[1] = static_cast<std::int32_t>(e1 + o2);
  a[6] = static_cast<std::int32_t>(e1 - o2);
  a[2] = static_cast<std::int32_t>(e2 + o1);
  a[5] = static_cast<std::int32_t>(e2 - o1);
  a[3] = static_cast<std::int32_t>(e3 + o0);
  a[4] = static_cast<std::int32_t>(e3 - o0);
}

/// `a` and `b`, clamped to bytes, in bytes 1 and 0; the lower half of `c` in the upper half.
ROBOCACHE_HOST_DEVICE std::uint32_t pack_2(std::int32_t a, std::int32_t b, std::uint32_t c) {
#if defined(__CUDA_ARCH__)
  std::uint32_t packed;
  asm("cvt.pack.sat.u8.s32.b32 %0, %1, %2, %3;" : "=r"(packed) : "r"(a), "r"(b), "r"(c));
  return packed;
#else
  const auto clamp = [](std::int32_t x) {
    return static_cast<std::uint32_t>(x < 0 ? 0 : x > 255 ? 255 : x);
  };
  return clamp(b) | clamp(a) << 8 | c << 16;
#endif
}
ROBOCACHE_HOST_DEVICE std::uint32_t pack_4(std::int32_t a, std::int32_t b, std::int32_t c,
                                           std::int32_t d) {
  return pack_2(b, a, pack_2(d, c, 0));
}

/// Transforms one row of the second pass to 8 samples, the first lowest.
template <typename Number>
ROBOCACHE_HOST_DEVICE std::uint64_t samples_of_row(std::int32_t (&row)[8]) {
  transform_8<Number>(row, (1 << (kSecondPassShift - 1)) + (128 << kSecondPassShift));
  ROBOCACHE_UNROLL
  for (int x = 0; x < 8; ++x) row[x] >>= kSecondPassShift;
  return pack_4(row[0], row[1], row[2], row[3]) |
         static_cast<std::uint64_t>(pack_4(row[4], row[5], row[6], row[7])) << 32;
}

/// 16 bytes of memory.
struct alignas(16) [[gnu::may_alias]] Column {
  std::uint32_t pairs[4];
};

ROBOCACHE_HOST_DEVICE void unpack_column(const Column& column, std::int32_t (&a)[8]) {
  ROBOCACHE_UNROLL
  for (int i = 0; i < 4; ++i) {
    const int row = 2 * i;
    a[row] = static_cast<std::int16_t>(column.pairs[i] & 0xffff);
    a[row + 1] = static_cast<std::int32_t>(column.pairs[i]) >> 16;
  }
}

ROBOCACHE_HOST_DEVICE int column_offset(int x) { return x * kColumnPitch; }

/// Transforms the block at `block`, and clears it. `put(y, first, second)` receives two rows, of
/// which y is the first.
template <typename Put>
ROBOCACHE_HOST_DEVICE void transform_block(unsigned char* block, const Put& put) {
  std::int32_t rows[8][8];
  ROBOCACHE_UNROLL
  for (int x = 0; x < 8; ++x) {
    auto* const column = reinterpret_cast<Column*>(block + column_offset(x));
    std::int32_t a[8];
    unpack_column(*column, a);
    *column = {};
    transform_8<std::int32_t>(a, 1 << (kFirstPassShift - 1));
    ROBOCACHE_UNROLL
    for (int y = 0; y < 8; ++y) rows[y][x] = a[y] >> kFirstPassShift;
  }
  ROBOCACHE_UNROLL
  for (int y = 0; y < 8; y += 2) {
    const std::uint64_t first = samples_of_row<std::int32_t>(rows[y]);
    put(y, first, samples_of_row<std::int32_t>(rows[y + 1]));
  }
}

/// As transform_block, for coefficients of any size: with the wrapping and saturation of the
/// vectors of 16 bits. The block is transformed in place, for few registers: blocks that need this
/// are rare.
template <typename Put>
ROBOCACHE_HOST_DEVICE_CALLED void transform_large_block(unsigned char* block, Put put) {
  const auto at = [&](int x, int y) {
    return reinterpret_cast<Coefficient*>(block + column_offset(x)) + y;
  };
  bool is_flat = true;  // no coefficient in the rows from 1 on: these shift the DC row, which wraps
  for (int x = 0; x < 8; ++x) {
    for (int y = 1; y < 8; ++y) is_flat = is_flat && *at(x, y) == 0;
  }
  ROBOCACHE_NO_UNROLL
  for (int x = 0; x < 8; ++x) {
    std::int32_t a[8];
    for (int y = 0; y < 8; ++y) a[y] = *at(x, y);
    if (is_flat) {
      const auto wrapped = static_cast<std::int16_t>(a[0] * (1 << kFirstPassBits));
      for (int y = 0; y < 8; ++y) *at(x, y) = wrapped;
      continue;
    }
    transform_8<std::int64_t>(a, 1 << (kFirstPassShift - 1));
    for (int y = 0; y < 8; ++y) {
      const std::int32_t result = a[y] >> kFirstPassShift;
      *at(x, y) = static_cast<std::int16_t>(result < -32768  ? -32768
                                            : result > 32767 ? 32767
                                                             : result);
    }
  }
  std::uint64_t first = 0;
  ROBOCACHE_NO_UNROLL
  for (int y = 0; y < 8; ++y) {
    std::int32_t row[8];
    for (int x = 0; x < 8; ++x) {
      row[x] = *at(x, y);
      *at(x, y) = 0;
    }
    const std::uint64_t samples = samples_of_row<std::int64_t>(row);
    if (y % 2 == 0) {
      first = samples;
    } else {
      put(y - 1, first, samples);
    }
  }
}

}  // namespace robocache::ROBOCACHE_TARGET
