// The task of one thread: the MCUs of an index entry, or the luma or the chroma of its one MCU, from
// the plain scan to planes of samples: on host and device.
#pragma once

#include <cstdint>

#include "core/target.h"
#include "jpeg/block.h"
#include "jpeg/plan.h"
#include "jpeg/tables.h"

namespace robocache::ROBOCACHE_TARGET {

/// A frame as threads read it: its record is validated.
struct TaskFrame {
  const std::uint32_t* words;  // the plain scan
  std::uint32_t last_word;
  std::uint32_t bits;
  const std::uint64_t* index;
  const std::uint32_t* tables;
  std::int32_t restart_interval;
  std::uint8_t* samples;  // the planes
};

ROBOCACHE_HOST_DEVICE JpegStart start_of(const TaskFrame& frame, std::int32_t entry,
                                         bool has_chroma) {
  return unpack_entry(frame.index[jpeg_base_element(entry)],
                      frame.index[jpeg_entry_element(entry)], has_chroma);
}

/// What is left to do after the last MCU of an entry: to compare with the next one.
struct TaskEnd {
  std::uint32_t bit;     // the position after the last block
  std::int32_t dc[3];    // predictions
};

/// Where the samples of block `b` of an MCU go.
ROBOCACHE_HOST_DEVICE std::uint8_t* block_samples(const JpegPlan& plan, const TaskFrame& frame,
                                                  std::int32_t mcu, int b, std::int32_t& pitch) {
  const std::int32_t row = mcu / plan.mcu_columns;
  const std::int32_t column = mcu - row * plan.mcu_columns;
  const int luma_blocks = plan.luma_blocks();
  if (b < luma_blocks) {
    pitch = plan.luma_pitch;
    const int v = plan.luma_h == 2 ? b >> 1 : b;
    const int h = plan.luma_h == 2 ? b & 1 : 0;
    return frame.samples + (row * plan.luma_v + v) * 8 * pitch + (column * plan.luma_h + h) * 8;
  }
  pitch = plan.chroma_pitch;
  return frame.samples + plan.luma_bytes() + (b - luma_blocks) * plan.chroma_bytes() +
         row * 8 * pitch + column * 8;
}

ROBOCACHE_HOST_DEVICE void store_samples(std::uint8_t* to, std::uint64_t samples) {
#if defined(__CUDA_ARCH__)
  *reinterpret_cast<std::uint64_t*>(to) = samples;
#else
  __builtin_memcpy(to, &samples, sizeof(samples));
#endif
}

/// Decodes a block of zeros at `block`, and writes its samples; `block` is zeros again.
template <typename Reader>
ROBOCACHE_HOST_DEVICE void run_block(Reader& reader, const TaskFrame& frame,
                                     const HuffmanLookup& dc, const HuffmanLookup& ac,
                                     const std::uint32_t* places, std::int32_t& prediction,
                                     unsigned char* block, std::uint8_t* to, std::int32_t pitch) {
  const std::uint32_t sum =
      decode_block(reader, frame.tables, dc, ac, places, prediction, block);
  const auto put = [&](int y, std::uint64_t samples) { store_samples(to + y * pitch, samples); };
  if (sum <= kLargestPlainSum) {
    transform_block(block, put);
  } else {
    transform_large_block(block, put);
  }
}

ROBOCACHE_HOST_DEVICE void write_gray_block(std::uint8_t* to, std::int32_t pitch) {
  for (int y = 0; y < 8; ++y) store_samples(to + y * pitch, 0x8080808080808080u);
}

/// Whether `start`, of an entry at a given MCU, is what a sequential decoder has reached there.
ROBOCACHE_HOST_DEVICE bool fits_next(const TaskFrame& frame, std::int32_t mcu, TaskEnd end,
                                     const JpegStart& start, bool check_luma, bool check_chroma) {
  if (frame.restart_interval > 0 && mcu % frame.restart_interval == 0) {
    end.bit = (end.bit + 7) & ~7u;
    end.dc[0] = end.dc[1] = end.dc[2] = 0;
  }
  if (start.is_gray) return end.bit > frame.bits;
  bool fits = end.bit <= frame.bits;
  if (check_luma) fits = fits && start.dc[0] == end.dc[0];
  if (check_chroma) fits = fits && start.dc[1] == end.dc[1] && start.dc[2] == end.dc[2];
  return fits && start.bit == end.bit;
}

/// The luma or the chroma of an MCU that has an entry. Returns whether the frame fits its index
/// here.
template <bool kIsChroma>
ROBOCACHE_HOST_DEVICE bool run_part(const JpegPlan& plan, const TaskFrame& frame, std::int32_t mcu,
                                    unsigned char* block) {
  const JpegStart start = start_of(frame, mcu, true);
  const int first = kIsChroma ? plan.luma_blocks() : 0;
  const int count = kIsChroma ? 2 : plan.luma_blocks();
  const bool is_last = mcu + 1 == plan.mcus();
  std::int32_t pitch;
  if (start.is_gray) {
    for (int b = 0; b < count; ++b) {
      std::uint8_t* const to = block_samples(plan, frame, mcu, first + b, pitch);
      write_gray_block(to, pitch);
    }
    return mcu > 0 && (is_last || start_of(frame, mcu + 1, true).is_gray);
  }
  bool fits = start.bit <= frame.bits;
  if (mcu == 0) fits = fits && start.bit == 0 && (start.dc[0] | start.dc[1] | start.dc[2]) == 0;
  BitReader reader(frame.words, frame.last_word, kIsChroma ? start.chroma_bit : start.bit);
  TaskEnd end = {0, {start.dc[0], start.dc[1], start.dc[2]}};
  if (kIsChroma) {
    for (int c = 1; c < 3; ++c) {
      std::uint8_t* const to = block_samples(plan, frame, mcu, first + c - 1, pitch);
      std::int32_t prediction = c == 1 ? end.dc[1] : end.dc[2];
      run_block(reader, frame, lookup_of(frame.tables, c, false), lookup_of(frame.tables, c, true),
                places_of(frame.tables, c), prediction, block, to, pitch);
      (c == 1 ? end.dc[1] : end.dc[2]) = prediction;
    }
  } else {
    const HuffmanLookup dc = lookup_of(frame.tables, 0, false);
    const HuffmanLookup ac = lookup_of(frame.tables, 0, true);
    const std::uint32_t* const places = places_of(frame.tables, 0);
    for (int b = 0; b < count; ++b) {
      std::uint8_t* const to = block_samples(plan, frame, mcu, b, pitch);
      run_block(reader, frame, dc, ac, places, end.dc[0], block, to, pitch);
    }
  }
  end.bit = reader.position();
  if (!kIsChroma) fits = fits && end.bit == start.chroma_bit;
  if (is_last) return fits;
  const JpegStart next = start_of(frame, mcu + 1, true);
  if (kIsChroma) return fits && fits_next(frame, mcu + 1, end, next, false, true);
  // Where chroma ends is not known here: only the prediction can be compared.
  const bool is_restart =
      frame.restart_interval > 0 && (mcu + 1) % frame.restart_interval == 0;
  return fits && (next.is_gray || next.dc[0] == (is_restart ? 0 : end.dc[0]));
}

/// All MCUs of an entry.
ROBOCACHE_HOST_DEVICE bool run_entry(const JpegPlan& plan, const TaskFrame& frame,
                                     std::int32_t entry, unsigned char* block) {
  const JpegStart start = start_of(frame, entry, false);
  const std::int32_t first = entry * plan.every;
  const std::int32_t mcus = plan.mcus();
  const std::int32_t last = first + plan.every < mcus ? first + plan.every : mcus;
  const int luma_blocks = plan.luma_blocks();
  bool fits = start.is_gray || start.bit <= frame.bits;
  if (first == 0) {
    fits = fits && !start.is_gray && start.bit == 0 &&
           (start.dc[0] | start.dc[1] | start.dc[2]) == 0;
  }
  BitReader reader(frame.words, frame.last_word, start.is_gray ? 0 : start.bit);
  TaskEnd end = {start.bit, {start.dc[0], start.dc[1], start.dc[2]}};
  bool is_past = start.is_gray;
  for (std::int32_t mcu = first; mcu < last; ++mcu) {
    if (mcu > first && frame.restart_interval > 0 && mcu % frame.restart_interval == 0) {
      reader.seek((reader.position() + 7) & ~7u);
      end.dc[0] = end.dc[1] = end.dc[2] = 0;
    }
    ROBOCACHE_NO_UNROLL
    for (int b = 0; b < luma_blocks + plan.chroma_blocks; ++b) {
      std::int32_t pitch;
      std::uint8_t* const to = block_samples(plan, frame, mcu, b, pitch);
      if (is_past) {
        write_gray_block(to, pitch);
        continue;
      }
      const int c = b < luma_blocks ? 0 : b - luma_blocks + 1;
      std::int32_t prediction = c == 0 ? end.dc[0] : c == 1 ? end.dc[1] : end.dc[2];
      run_block(reader, frame, lookup_of(frame.tables, c, false), lookup_of(frame.tables, c, true),
                places_of(frame.tables, c), prediction, block, to, pitch);
      (c == 0 ? end.dc[0] : c == 1 ? end.dc[1] : end.dc[2]) = prediction;
    }
    is_past = is_past || reader.position() > frame.bits;
  }
  if (last == mcus) return fits;
  const JpegStart next = start_of(frame, entry + 1, false);
  if (start.is_gray) return fits && next.is_gray;
  end.bit = reader.position();
  return fits && fits_next(frame, last, end, next, true, plan.chroma_blocks > 0);
}

/// Runs task `i` of JpegPlan::tasks, with `block` zeros before and after.
ROBOCACHE_HOST_DEVICE bool run_task(const JpegPlan& plan, const TaskFrame& frame, std::int32_t i,
                                    unsigned char* block) {
  if (!plan.is_split) return run_entry(plan, frame, i, block);
  return i < plan.entries ? run_part<false>(plan, frame, i, block)
                          : run_part<true>(plan, frame, i - plan.entries, block);
}

}  // namespace robocache::ROBOCACHE_TARGET
