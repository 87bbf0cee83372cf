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

/// The planes of a frame, padded to whole MCUs. Rows are stored in pairs: 8 samples of an even row,
/// 8 of the row below it, the next 8 of the even row, and so on. So a thread writes 16 bytes of a
/// block at a time, and the threads of a warp read consecutive addresses.
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

/// The offset of a sample in a plane whose pairs of rows have so many bytes.
ROBOCACHE_HOST_DEVICE std::int32_t sample_offset(std::int32_t row_pair, std::int32_t row,
                                                 std::int32_t column) {
  return (row >> 1) * row_pair + (column >> 3) * 16 + (row & 1) * 8 + (column & 7);
}

/// The chroma samples that a strip needs: eight rows and columns of pixels.
struct ChromaPlace {
  std::int32_t row_pair;     // bytes of a pair of rows
  std::int32_t first;        // the offset of the strip's first column
  std::int32_t left, right;  // the offsets of the samples beside it, from `first`
  std::int32_t row;          // of the strip's first row
  std::int32_t last_row;     // of the frame
  std::int32_t last_column;  // of the frame, counted from the strip's first

  /// The offset of row `i` of the strip, from -1 on, or of the nearest row that the frame has.
  ROBOCACHE_HOST_DEVICE std::int32_t row_offset(std::int32_t i) const {
    const std::int32_t wanted = row + i;
    const std::int32_t near = wanted < last_row ? wanted : last_row;
    return sample_offset(row_pair, near > 0 ? near : 0, 0) + first;
  }
};

template <int kH, int kV>
ROBOCACHE_HOST_DEVICE ChromaPlace place_chroma(const JpegPlan& plan, std::int32_t x,
                                               std::int32_t y) {
  const std::int32_t column = x / kH;
  ChromaPlace place;
  place.row_pair = 2 * plan.chroma_pitch;
  place.first = sample_offset(place.row_pair, 0, column);
  place.row = y / kV;
  place.last_row = plan.chroma_height - 1;
  place.last_column = plan.chroma_width - 1 - column;
  place.left = column == 0 ? 0 : (column & 7) == 0 ? 7 - 16 : -1;
  const std::int32_t after = (column & 7) == 0 ? 4 : 16 - 4;
  place.right = place.last_column < 4 ? place.last_column : after;
  return place;
}

/// The chroma of a row of a strip at the columns of its pixels, in pairs: with kH = 2, three times
/// the nearest sample and once the second nearest; else the sample.
struct ChromaRow {
  std::uint32_t pairs[kGroup];
};

template <int kH>
ROBOCACHE_HOST_DEVICE ChromaRow load_chroma(const ChromaPlace& place, const SamplePlanes& planes,
                                            std::int32_t i) {
  ChromaRow row;
  const std::int32_t offset = place.row_offset(i);
  const std::uint8_t* const cb = planes.cb + offset;
  const std::uint8_t* const cr = planes.cr + offset;
  if (kH == 1) {
    spread_pairs(load_word(cb), load_word(cr), row.pairs);
    spread_pairs(load_word(cb + 4), load_word(cr + 4), row.pairs + 4);
    return row;
  }
  std::uint32_t samples[6];  // with one at each side
  spread_pairs(load_word(cb), load_word(cr), samples + 1);
  const auto pair = [&](std::int32_t i) { return cb[i] | static_cast<std::uint32_t>(cr[i]) << 16; };
  samples[0] = pair(place.left);
  samples[5] = pair(place.right);
  if (place.last_column < 3) {
    ROBOCACHE_UNROLL
    for (int i = 1; i < 5; ++i) {
      if (i > place.last_column) samples[i] = samples[5];
    }
  }
  ROBOCACHE_UNROLL
  for (int i = 0; i < 4; ++i) {
    const int pixel = 2 * i;
    row.pairs[pixel] = samples[i + 1] * 3 + samples[i];
    row.pairs[pixel + 1] = samples[i + 1] * 3 + samples[i + 2];
  }
  return row;
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

/// The rounding of libjpeg-turbo: added to the sum of a pixel before its fraction is dropped, in
/// 256ths.
template <int kH, int kV>
ROBOCACHE_HOST_DEVICE constexpr std::uint32_t rounding_of(int pixel, bool is_below) {
  if (kH == 2 && kV == 2) return pixel % 2 == 0 ? 8 * 16 : 7 * 16;
  if (kH == 2) return pixel % 2 == 0 ? 1 * 64 : 2 * 64;
  if (kV == 2) return is_below ? 2 * 64 : 1 * 64;
  return 0;
}

/// The chroma of a group from its nearest row, and from the second nearest one, which is above the
/// nearest or below it.
template <int kH, int kV>
ROBOCACHE_HOST_DEVICE GroupChroma upsample(const ChromaRow& near, const ChromaRow& far,
                                           bool is_below) {
  constexpr std::uint32_t kUnit = 256 / ((kH == 2 ? 4 : 1) * (kV == 2 ? 4 : 1));
  GroupChroma made;
  ROBOCACHE_UNROLL
  for (int i = 0; i < kGroup; ++i) {
    const std::uint32_t bias = kPairOnes * rounding_of<kH, kV>(i, is_below) + kCenter;
    made.pairs[i] = kV == 1 ? near.pairs[i] * kUnit + bias
                            : far.pairs[i] * kUnit + (near.pairs[i] * (3 * kUnit) + bias);
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

/// The rows of a strip.
inline constexpr int kStripRows = 8;

/// The luma of a strip: a block.
struct StripLuma {
  std::uint32_t words[kStripRows][2];
};

ROBOCACHE_HOST_DEVICE StripLuma load_luma(const JpegPlan& plan, const SamplePlanes& planes,
                                          std::int32_t x, std::int32_t y) {
  const std::int32_t row_pair = 2 * plan.luma_pitch;
  const std::uint8_t* from = planes.luma + sample_offset(row_pair, y, x);
  StripLuma luma;
  ROBOCACHE_UNROLL
  for (int i = 0; i < kStripRows; i += 2, from += row_pair) {
#if defined(__CUDA_ARCH__)
    const uint4 rows = *reinterpret_cast<const uint4*>(from);
    luma.words[i][0] = rows.x;
    luma.words[i][1] = rows.y;
    luma.words[i + 1][0] = rows.z;
    luma.words[i + 1][1] = rows.w;
#else
    __builtin_memcpy(luma.words[i], from, sizeof(luma.words[i]));
    __builtin_memcpy(luma.words[i + 1], from + 8, sizeof(luma.words[i]));
#endif
  }
  return luma;
}

/// libjpeg-turbo repeats the samples of frames whose chroma has no more columns than this.
inline constexpr std::int32_t kNarrowChroma = 2;

/// The strip at row `y` of a narrow frame.
template <int kV, typename Put>
ROBOCACHE_HOST_DEVICE void color_narrow_strip(const JpegPlan& plan, const SamplePlanes& planes,
                                              std::int32_t y, const Put& put) {
  const ChromaPlace place = place_chroma<2, kV>(plan, 0, y);
  ROBOCACHE_NO_UNROLL
  for (int i = 0; i < kStripRows; ++i) {
    const std::int32_t at = place.row_offset(i / kV);
    std::uint32_t samples[4];
    spread_pairs(load_word(planes.cb + at), load_word(planes.cr + at), samples);
    GroupChroma chroma;
    ROBOCACHE_UNROLL
    for (int k = 0; k < kGroup; ++k) chroma.pairs[k] = samples[k / 2] * 256 + kCenter;
    const std::uint8_t* const from = planes.luma + sample_offset(2 * plan.luma_pitch, y + i, 0);
    const std::uint32_t luma[2] = {load_word(from), load_word(from + 4)};
    std::uint32_t rgb[6];
    to_rgb(luma, chroma, rgb);
    put(luma, rgb);
  }
}

/// Makes the strip at column `x` and row `y`, which 8 divides, within the padded planes. `luma` is
/// load_luma's. `put(luma, rgb)` receives each row: two words of luma and six of RGB.
template <int kH, int kV, typename Put>
ROBOCACHE_HOST_DEVICE void color_strip(const JpegPlan& plan, const SamplePlanes& planes,
                                       const StripLuma& luma, std::int32_t x, std::int32_t y,
                                       const Put& put) {
  if (kH == 2 && plan.chroma_width <= kNarrowChroma) {
    return color_narrow_strip<kV>(plan, planes, y, put);
  }
  const ChromaPlace place = place_chroma<kH, kV>(plan, x, y);
  ChromaRow above{};
  ChromaRow here{};
  ChromaRow below{};
  if (kV == 2) {
    above = load_chroma<kH>(place, planes, -1);
    here = load_chroma<kH>(place, planes, 0);
  }
  ROBOCACHE_UNROLL
  for (int i = 0; i < kStripRows / kV; ++i) {
    if (kV == 1) {
      here = load_chroma<kH>(place, planes, i);
    } else {
      below = load_chroma<kH>(place, planes, i + 1);
    }
    ROBOCACHE_UNROLL
    for (int v = 0; v < kV; ++v) {
      const GroupChroma chroma = upsample<kH, kV>(here, v == 0 ? above : below, v == 1);
      std::uint32_t rgb[6];
      to_rgb(luma.words[i * kV + v], chroma, rgb);
      put(luma.words[i * kV + v], rgb);
    }
    above = here;
    here = below;
  }
}

/// As color_strip, for gray frames and where only luma is wanted.
template <typename Put>
ROBOCACHE_HOST_DEVICE void gray_strip(const StripLuma& strip, const Put& put) {
  ROBOCACHE_UNROLL
  for (int i = 0; i < kStripRows; ++i) {
    const std::uint32_t (&luma)[2] = strip.words[i];
    std::uint32_t rgb[6];
    ROBOCACHE_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int word = 3 * half;
      rgb[word] = choose_bytes(luma[half], 0, 0x1000);
      rgb[word + 1] = choose_bytes(luma[half], 0, 0x2211);
      rgb[word + 2] = choose_bytes(luma[half], 0, 0x3332);
    }
    put(luma, rgb);
  }
}

}  // namespace robocache::ROBOCACHE_TARGET
