// From samples to pixels: libjpeg-turbo's smooth ("fancy") upsampling of chroma, and its
// conversion from YCbCr to RGB: on host and device.
//
// Eight neighboring pixels of a row, from a column x that 8 divides, are a group. Cb and Cr are
// computed together, as a pair: Cb in the lower half of a word, Cr in the upper.
#pragma once

#include <cstdint>

#include "core/target.h"
#include "jpeg/block.h"
#include "jpeg/plan.h"

namespace robocache::ROBOCACHE_TARGET {

inline constexpr int kGroup = 8;
inline constexpr std::uint32_t kPairOnes = 0x00010001;

/// Bytes of `a` (0 to 3) and `b` (4 to 7), which the nibbles of `selector` choose.
ROBOCACHE_HOST_DEVICE std::uint32_t choose_bytes(std::uint32_t a, std::uint32_t b,
                                                 std::uint32_t selector) {
#if defined(__CUDA_ARCH__)
  return __byte_perm(a, b, selector);
#else
  const std::uint64_t both = static_cast<std::uint64_t>(b) << 32 | a;
  std::uint32_t chosen = 0;
  for (int i = 0; i < 4; ++i) {
    chosen |= static_cast<std::uint32_t>(both >> (selector >> 4 * i & 7) * 8 & 0xff) << 8 * i;
  }
  return chosen;
#endif
}

ROBOCACHE_HOST_DEVICE std::uint32_t load_word(const std::uint8_t* address) {
  std::uint32_t word;
#if defined(__CUDA_ARCH__)
  word = *reinterpret_cast<const std::uint32_t*>(address);
#else
  __builtin_memcpy(&word, address, sizeof(word));
#endif
  return word;
}

/// Four pairs from four samples of each plane.
ROBOCACHE_HOST_DEVICE void spread_pairs(std::uint32_t cb, std::uint32_t cr, std::uint32_t* pairs) {
  const std::uint32_t low = choose_bytes(cb, cr, 0x5140);   // b0 r0 b1 r1
  const std::uint32_t high = choose_bytes(cb, cr, 0x7362);  // b2 r2 b3 r3
  pairs[0] = choose_bytes(low, 0, 0x4140);
  pairs[1] = choose_bytes(low, 0, 0x4342);
  pairs[2] = choose_bytes(high, 0, 0x4140);
  pairs[3] = choose_bytes(high, 0, 0x4342);
}

/// The chroma samples that a group of pixels needs, of one row. With kH = 2, of the columns from
/// x / 2 - 1 to x / 2 + 4, clamped to the frame; else of the group's own.
struct ChromaRow {
  std::uint32_t pairs[kGroup];
};

/// Where a group's chroma samples are in a row of Cb; those of Cr are a block later.
struct ChromaColumns {
  const std::uint8_t* own;
  std::int32_t left, right;  // of the neighbors, relative to `own`
  std::int32_t last;         // the frame's last column, relative to the group's first
};

template <int kH>
ROBOCACHE_HOST_DEVICE ChromaRow load_chroma(const ChromaColumns& columns, std::int32_t offset) {
  ChromaRow loaded;
  const std::uint8_t* const cb = columns.own + offset;
  const std::uint8_t* const cr = cb + kJpegBlockSize;
  if (kH == 1) {
    spread_pairs(load_word(cb), load_word(cr), loaded.pairs);
    spread_pairs(load_word(cb + 4), load_word(cr + 4), loaded.pairs + 4);
    return loaded;
  }
  spread_pairs(load_word(cb), load_word(cr), loaded.pairs + 1);
  const auto pair = [&](std::int32_t i) {
    return cb[i] | static_cast<std::uint32_t>(cr[i]) << 16;
  };
  loaded.pairs[0] = pair(columns.left);
  loaded.pairs[5] = pair(columns.right);
  if (columns.last < 3) {
    ROBOCACHE_UNROLL
    for (int i = 1; i < 5; ++i) {
      if (i > columns.last) loaded.pairs[i] = loaded.pairs[5];
    }
  }
  return loaded;
}

/// The chroma of a group's pixels: in byte 1 of a word Cb, in byte 3 Cr, each with 128 subtracted,
/// as signed bytes. Bytes 0 and 2 hold fractions.
struct GroupChroma {
  std::uint32_t pairs[kGroup];
};

/// Sums of samples are scaled to 16 bits, so that their whole parts are bytes: weights add up to
/// 256. Adding 128 to a byte subtracts 128 from it as a signed one; a carry from Cb falls into the
/// fraction of Cr, whose last bits are 0.
inline constexpr std::uint32_t kCenter = kPairOnes * 0x8000;

/// The chroma of a group from its nearest row of samples, and from the second nearest one, which
/// is above the nearest or below it.
template <int kH, int kV>
ROBOCACHE_HOST_DEVICE GroupChroma upsample(const JpegPlan& plan, const ChromaRow& near,
                                           const ChromaRow& far, bool is_below) {
  GroupChroma made;
  if (kH == 2 && plan.chroma_width <= 2) {  // libjpeg-turbo repeats samples of narrow frames
    ROBOCACHE_UNROLL
    for (int i = 0; i < kGroup; ++i) made.pairs[i] = near.pairs[i / 2 + 1] * 256 + kCenter;
    return made;
  }
  if (kH == 1) {
    const std::uint32_t bias = kPairOnes * (is_below ? 2 : 1) * 64 + kCenter;
    ROBOCACHE_UNROLL
    for (int i = 0; i < kGroup; ++i) {
      made.pairs[i] = kV == 1 ? near.pairs[i] * 256 + kCenter
                              : near.pairs[i] * 192 + (far.pairs[i] * 64 + bias);
    }
    return made;
  }
  // Of the weights 3 and 1, in units of a quarter or, of two dimensions, a sixteenth.
  constexpr std::uint32_t kUnit = kV == 1 ? 64 : 16;
  constexpr std::uint32_t kLeft = kPairOnes * (kV == 1 ? 1 : 8) * kUnit + kCenter;
  constexpr std::uint32_t kRight = kPairOnes * (kV == 1 ? 2 : 7) * kUnit + kCenter;
  std::uint32_t sums[6];
  ROBOCACHE_UNROLL
  for (int i = 0; i < 6; ++i) {
    sums[i] = kV == 1 ? near.pairs[i] * kUnit
                      : near.pairs[i] * (3 * kUnit) + far.pairs[i] * kUnit;
  }
  ROBOCACHE_UNROLL
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t sum = sums[i + 1] * 3;
    made.pairs[2 * i] = sum + sums[i] + kLeft;
    made.pairs[2 * i + 1] = sum + sums[i + 2] + kRight;
  }
  return made;
}

/// Sign-extends byte kByte.
template <int kByte>
ROBOCACHE_HOST_DEVICE std::int32_t signed_byte(std::uint32_t word) {
#if defined(__CUDA_ARCH__)
  std::int32_t extended;
  asm("prmt.b32 %0, %1, 0, %2;" : "=r"(extended) : "r"(word), "n"(0x8880 + 0x1111 * kByte));
  return extended;
#else
  return static_cast<std::int8_t>(word >> 8 * kByte & 0xff);
#endif
}

/// The bytes of a group of RGB pixels, in six words. `luma`: the group's eight samples.
ROBOCACHE_HOST_DEVICE void to_rgb(const std::uint32_t (&luma)[2], const GroupChroma& chroma,
                                  std::uint32_t (&rgb)[6]) {
  constexpr std::uint32_t kHalf = 0x8000;
  std::int32_t bytes[3 * kGroup];
  ROBOCACHE_UNROLL
  for (int i = 0; i < kGroup; ++i) {
    // The sample as a number of 16 fractional bits, and a half: bytes 0x00, 0x80, the sample, 0x00.
    const auto y = static_cast<std::int32_t>(
        choose_bytes(luma[i / 4], kHalf, 0x4054u | static_cast<std::uint32_t>(i & 3) << 8));
    const std::int32_t cb = signed_byte<1>(chroma.pairs[i]);
    const std::int32_t cr = signed_byte<3>(chroma.pairs[i]);
    bytes[3 * i] = (y + cr * 91881) >> 16;
    bytes[3 * i + 1] = (y - cb * 22554 - cr * 46802) >> 16;
    bytes[3 * i + 2] = (y + cb * 116130) >> 16;
  }
  ROBOCACHE_UNROLL
  for (int i = 0; i < 6; ++i) {
    rgb[i] = pack_4(bytes[4 * i], bytes[4 * i + 1], bytes[4 * i + 2], bytes[4 * i + 3]);
  }
}

/// The rows of a strip: those of a block.
inline constexpr int kStripRows = 8;

/// The luma samples of the strip at (x, y).
template <int kH, int kV>
ROBOCACHE_HOST_DEVICE const std::uint8_t* luma_of_strip(const JpegPlan& plan,
                                                        const std::uint8_t* samples,
                                                        std::int32_t x, std::int32_t y) {
  const std::int32_t column = x / 8;
  const std::int32_t row = y / 8;
  const std::int32_t mcu = row / kV * plan.mcu_columns + column / kH;
  return samples + mcu * plan.mcu_bytes() + (row % kV * kH + column % kH) * kJpegBlockSize;
}

struct LumaRow {
  std::uint32_t words[2];
};

ROBOCACHE_HOST_DEVICE LumaRow load_luma(const std::uint8_t* block, int row) {
  LumaRow loaded;
#if defined(__CUDA_ARCH__)
  const auto both = reinterpret_cast<const uint2*>(block)[row];
  loaded.words[0] = both.x;
  loaded.words[1] = both.y;
#else
  __builtin_memcpy(&loaded, block + 8 * row, sizeof(loaded));
#endif
  return loaded;
}

/// Makes the eight groups at (x, y), whose coordinates 8 divides. `put(luma, rgb)` receives, row by
/// row, two words of luma and six of RGB, also for rows and columns past the frame.
template <int kH, int kV, typename Put>
ROBOCACHE_HOST_DEVICE void color_strip(const JpegPlan& plan, const std::uint8_t* samples,
                                       std::int32_t x, std::int32_t y, const Put& put) {
  const std::int32_t mcu_bytes = plan.mcu_bytes();
  const std::int32_t mcu_column = x / (8 * kH);
  const std::int32_t mcu_row = y / (8 * kV);
  const std::int32_t half = kH == 2 ? x / 8 % 2 : 0;
  const std::int32_t first_row = kV == 2 ? y / 8 % 2 * 4 : 0;  // of the chroma blocks
  ChromaColumns columns;
  columns.own = samples + (mcu_row * plan.mcu_columns + mcu_column) * mcu_bytes +
                kH * kV * kJpegBlockSize + half * 4;
  columns.left = columns.right = columns.last = 0;
  if (kH == 2) {
    const std::int32_t last = plan.chroma_width - 1 - x / 2;
    columns.left = half == 1 ? -1 : x > 0 ? 7 - mcu_bytes : 0;
    columns.right = last < 4 ? last : half == 0 ? 4 : mcu_bytes - 4;
    columns.last = last;
  }
  ChromaRow above{};
  ChromaRow here{};
  ChromaRow below{};
  if (kV == 2) {
    const std::int32_t band = plan.mcu_columns * mcu_bytes;
    here = load_chroma<kH>(columns, first_row * 8);
    above = y == 0 ? here
                   : load_chroma<kH>(columns, first_row == 4 ? 3 * 8 : 7 * 8 - band);
  }
  const std::uint8_t* const luma_block = luma_of_strip<kH, kV>(plan, samples, x, y);
  ROBOCACHE_UNROLL
  for (int i = 0; i < kStripRows / kV; ++i) {
    if (kV == 2) {
      const bool is_next_band = i == 3 && first_row == 4;
      below = here;
      if (y / 2 + i + 1 < plan.chroma_height) {
        below = load_chroma<kH>(columns, is_next_band ? plan.mcu_columns * mcu_bytes
                                                      : (first_row + i + 1) * 8);
      }
    } else {
      here = load_chroma<kH>(columns, i * 8);
    }
    ROBOCACHE_UNROLL
    for (int v = 0; v < kV; ++v) {
      const GroupChroma chroma = upsample<kH, kV>(plan, here, v == 0 ? above : below, v == 1);
      const LumaRow luma = load_luma(luma_block, i * kV + v);
      std::uint32_t rgb[6];
      to_rgb(luma.words, chroma, rgb);
      put(luma.words, rgb);
    }
    above = here;
    here = below;
  }
}

/// As color_strip, for gray frames and where only luma is wanted.
template <typename Put>
ROBOCACHE_HOST_DEVICE void gray_strip(const JpegPlan& plan, const std::uint8_t* samples,
                                      std::int32_t x, std::int32_t y, const Put& put) {
  const std::uint8_t* const block =
      plan.luma_h == 2
          ? (plan.luma_v == 2 ? luma_of_strip<2, 2>(plan, samples, x, y)
                              : luma_of_strip<2, 1>(plan, samples, x, y))
          : (plan.luma_v == 2 ? luma_of_strip<1, 2>(plan, samples, x, y)
                              : luma_of_strip<1, 1>(plan, samples, x, y));
  ROBOCACHE_UNROLL
  for (int i = 0; i < kStripRows; ++i) {
    const LumaRow luma = load_luma(block, i);
    std::uint32_t rgb[6];
    ROBOCACHE_UNROLL
    for (int half = 0; half < 2; ++half) {
      rgb[3 * half] = choose_bytes(luma.words[half], 0, 0x1000);
      rgb[3 * half + 1] = choose_bytes(luma.words[half], 0, 0x2211);
      rgb[3 * half + 2] = choose_bytes(luma.words[half], 0, 0x3332);
    }
    put(luma.words, rgb);
  }
}

}  // namespace robocache::ROBOCACHE_TARGET
