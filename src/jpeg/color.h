// From planes of samples to pixels: libjpeg-turbo's smooth ("fancy") upsampling of chroma, and its
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

/// The planes of a frame, each row padded to whole MCUs.
struct SamplePlanes {
  const std::uint8_t* luma;
  const std::uint8_t* cb;
  const std::uint8_t* cr;
};

ROBOCACHE_HOST_DEVICE SamplePlanes planes_at(const JpegPlan& plan, const std::uint8_t* samples) {
  const std::uint8_t* const cb = samples + plan.luma_bytes();
  return {samples, cb, cb + plan.chroma_bytes()};
}

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
/// x / 2 - 1 to x / 2 + 4, clamped to the plane; else of the group's own.
struct ChromaRow {
  std::uint32_t pairs[kGroup];
};

template <int kH>
ROBOCACHE_HOST_DEVICE ChromaRow load_chroma(const JpegPlan& plan, const SamplePlanes& planes,
                                            std::int32_t row, std::int32_t x) {
  ChromaRow loaded;
  const std::int32_t column = x / kH;
  const std::int32_t at = row * plan.chroma_pitch + column;
  const std::uint8_t* const cb = planes.cb + at;
  const std::uint8_t* const cr = planes.cr + at;
  if (kH == 1) {
    spread_pairs(load_word(cb), load_word(cr), loaded.pairs);
    spread_pairs(load_word(cb + 4), load_word(cr + 4), loaded.pairs + 4);
    return loaded;
  }
  spread_pairs(load_word(cb), load_word(cr), loaded.pairs + 1);
  const auto pair = [&](std::int32_t i) { return cb[i] | static_cast<std::uint32_t>(cr[i]) << 16; };
  const std::int32_t last = plan.chroma_width - 1 - column;
  loaded.pairs[0] = pair(column > 0 ? -1 : 0);
  loaded.pairs[5] = pair(last < 4 ? last : 4);
  if (plan.chroma_width % 4 != 0 && last < 3) {
    ROBOCACHE_UNROLL
    for (int i = 1; i < 5; ++i) {
      if (i > last) loaded.pairs[i] = loaded.pairs[5];
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
  // The weights 3 and 1, in units of a quarter or, of two dimensions, a sixteenth.
  constexpr std::uint32_t kUnit = kV == 1 ? 64 : 16;
  constexpr std::uint32_t kLeft = kPairOnes * (kV == 1 ? 1 : 8) * kUnit + kCenter;
  constexpr std::uint32_t kRight = kPairOnes * (kV == 1 ? 2 : 7) * kUnit + kCenter;
  std::uint32_t sums[6];
  ROBOCACHE_UNROLL
  for (int i = 0; i < 6; ++i) {
    sums[i] = kV == 1 ? near.pairs[i] * kUnit : near.pairs[i] * (3 * kUnit) + far.pairs[i] * kUnit;
  }
  ROBOCACHE_UNROLL
  for (int i = 0; i < 4; ++i) {
    const std::uint32_t sum = sums[i + 1] * 3;
    const int pixel = 2 * i;
    made.pairs[pixel] = sum + sums[i] + kLeft;
    made.pairs[pixel + 1] = sum + sums[i + 2] + kRight;
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
    const int at = 3 * i;
    bytes[at] = (y + cr * 91881) >> 16;
    bytes[at + 1] = (y - cb * 22554 - cr * 46802) >> 16;
    bytes[at + 2] = (y + cb * 116130) >> 16;
  }
  ROBOCACHE_UNROLL
  for (int i = 0; i < 6; ++i) {
    const int at = 4 * i;
    rgb[i] = pack_4(bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]);
  }
}

/// Makes the groups of column `x` in `rows` rows from `y` on, a multiple of kV, within the padded
/// planes. `put(y, luma, rgb)` receives the two words of luma and the six of RGB.
template <int kH, int kV, typename Put>
ROBOCACHE_HOST_DEVICE void color_strip(const JpegPlan& plan, const SamplePlanes& planes,
                                       std::int32_t x, std::int32_t y, int rows, const Put& put) {
  const auto last = plan.chroma_height - 1;
  const auto load = [&](std::int32_t row) {
    const std::int32_t above = row < last ? row : last;
    return load_chroma<kH>(plan, planes, above > 0 ? above : 0, x);
  };
  ChromaRow above{};
  ChromaRow here{};
  ChromaRow below{};
  if (kV == 2) {
    above = load(y / 2 - 1);
    here = load(y / 2);
  }
  ROBOCACHE_UNROLL
  for (int i = 0; i < rows / kV; ++i, y += kV) {
    if (kV == 2) {
      below = load(y / 2 + 1);
    } else {
      here = load(y);
    }
    ROBOCACHE_UNROLL
    for (int v = 0; v < kV; ++v) {
      const GroupChroma chroma = upsample<kH, kV>(plan, here, v == 0 ? above : below, v == 1);
      const std::int32_t offset = (y + v) * plan.luma_pitch + x;
      const std::uint8_t* const at = planes.luma + offset;
      const std::uint32_t luma[2] = {load_word(at), load_word(at + 4)};
      std::uint32_t rgb[6];
      to_rgb(luma, chroma, rgb);
      put(y + v, luma, rgb);
    }
    above = here;
    here = below;
  }
}

/// As color_strip, for gray frames and where only luma is wanted.
template <typename Put>
ROBOCACHE_HOST_DEVICE void gray_strip(const JpegPlan& plan, const SamplePlanes& planes,
                                      std::int32_t x, std::int32_t y, int rows, const Put& put) {
  for (int i = 0; i < rows; ++i, ++y) {
    const std::int32_t offset = y * plan.luma_pitch + x;
    const std::uint8_t* const at = planes.luma + offset;
    const std::uint32_t luma[2] = {load_word(at), load_word(at + 4)};
    std::uint32_t rgb[6];
    ROBOCACHE_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int word = 3 * half;
      rgb[word] = choose_bytes(luma[half], 0, 0x1000);
      rgb[word + 1] = choose_bytes(luma[half], 0, 0x2211);
      rgb[word + 2] = choose_bytes(luma[half], 0, 0x3332);
    }
    put(y, luma, rgb);
  }
}

}  // namespace robocache::ROBOCACHE_TARGET
