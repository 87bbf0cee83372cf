// The geometry of a frame's MCUs, blocks, planes of samples and index entries.
#pragma once

#include <cstdint>

#include "core/target.h"
#include "robocache/jpeg.h"

namespace robocache {

/// The fields of index entries (JpegIndex). Without a start of chroma, its bits belong to the
/// position.
inline constexpr int kJpegEntriesPerBase = 32;
inline constexpr int kJpegPositionBits = 18;
inline constexpr int kJpegChromaBits = 13;
inline constexpr int kJpegStartBits = kJpegPositionBits + kJpegChromaBits;
inline constexpr int kJpegDcBits = 11;
inline constexpr std::uint64_t kGrayJpegEntry = ~std::uint64_t{0};

struct JpegPlan {
  std::int32_t width, height;
  std::int32_t luma_h, luma_v;  // blocks of luma in an MCU: 1 or 2 by 1 or 2
  std::int32_t chroma_blocks;   // 0 or 2
  std::int32_t mcu_columns, mcu_rows;
  std::int32_t luma_pitch, luma_rows;      // of the padded plane: whole MCUs
  std::int32_t chroma_pitch, chroma_rows;  // of each chroma plane
  std::int32_t chroma_width, chroma_height;
  std::int32_t every, entries;
  bool is_split;  // luma and chroma of an entry are separate tasks

  ROBOCACHE_CONSTEXPR std::int32_t mcus() const { return mcu_columns * mcu_rows; }
  ROBOCACHE_CONSTEXPR std::int32_t luma_blocks() const { return luma_h * luma_v; }
  ROBOCACHE_CONSTEXPR std::int32_t tasks() const { return is_split ? 2 * entries : entries; }
  ROBOCACHE_CONSTEXPR std::int64_t luma_bytes() const {
    return static_cast<std::int64_t>(luma_pitch) * luma_rows;
  }
  ROBOCACHE_CONSTEXPR std::int64_t chroma_bytes() const {
    return static_cast<std::int64_t>(chroma_pitch) * chroma_rows;
  }
  /// The planes of a frame; a multiple of 64.
  ROBOCACHE_CONSTEXPR std::int64_t plane_bytes() const { return luma_bytes() + 2 * chroma_bytes(); }
};

/// Requires sizes from 1 to kMaxJpegSide and `every` from 1 on.
inline JpegPlan make_jpeg_plan(const JpegLayout& layout) {
  JpegPlan plan{};
  plan.width = layout.width;
  plan.height = layout.height;
  const JpegSampling sampling = layout.sampling;
  plan.luma_h = sampling == JpegSampling::k422 || sampling == JpegSampling::k420 ? 2 : 1;
  plan.luma_v = sampling == JpegSampling::k440 || sampling == JpegSampling::k420 ? 2 : 1;
  plan.chroma_blocks = sampling == JpegSampling::kGray ? 0 : 2;
  const auto divide = [](std::int32_t size, std::int32_t by) { return (size + by - 1) / by; };
  plan.mcu_columns = divide(layout.width, 8 * plan.luma_h);
  plan.mcu_rows = divide(layout.height, 8 * plan.luma_v);
  plan.luma_pitch = plan.mcu_columns * 8 * plan.luma_h;
  plan.luma_rows = plan.mcu_rows * 8 * plan.luma_v;
  if (plan.chroma_blocks > 0) {
    plan.chroma_pitch = plan.mcu_columns * 8;
    plan.chroma_rows = plan.mcu_rows * 8;
    plan.chroma_width = divide(layout.width, plan.luma_h);
    plan.chroma_height = divide(layout.height, plan.luma_v);
  }
  plan.every = layout.every;
  plan.entries = divide(plan.mcus(), layout.every);
  plan.is_split = plan.chroma_blocks > 0 && layout.every == 1;
  return plan;
}

/// The element of an index that holds entry `i`; its base is element `i / 32 * 33`.
ROBOCACHE_CONSTEXPR std::int64_t jpeg_entry_element(std::int64_t i) {
  return i + i / kJpegEntriesPerBase + 1;
}
ROBOCACHE_CONSTEXPR std::int64_t jpeg_base_element(std::int64_t i) {
  return i / kJpegEntriesPerBase * (kJpegEntriesPerBase + 1);
}

}  // namespace robocache

namespace robocache::ROBOCACHE_TARGET {

/// An index entry, unpacked.
struct JpegStart {
  std::uint32_t bit;         // the position of the MCU
  std::uint32_t chroma_bit;  // of its chroma, if the entry has it
  std::int32_t dc[3];        // predictions
  bool is_gray;              // an MCU past the end of the scan
};

ROBOCACHE_HOST_DEVICE JpegStart unpack_entry(std::uint64_t base, std::uint64_t entry,
                                             bool has_chroma) {
  JpegStart start;
  const auto low = static_cast<std::uint32_t>(entry);
  const auto high = static_cast<std::uint32_t>(entry >> 32);
  const int bits = has_chroma ? kJpegPositionBits : kJpegStartBits;
  start.bit = static_cast<std::uint32_t>(base) + (low & ((1u << bits) - 1));
  start.chroma_bit = start.bit + (low >> bits & ((1u << kJpegChromaBits) - 1));
  start.dc[0] = static_cast<std::int32_t>((low >> 31 | high << 1) << 21) >> 21;
  start.dc[1] = static_cast<std::int32_t>(high << 11) >> 21;
  start.dc[2] = static_cast<std::int32_t>(high) >> 21;
  start.is_gray = entry == kGrayJpegEntry;
  return start;
}

}  // namespace robocache::ROBOCACHE_TARGET
