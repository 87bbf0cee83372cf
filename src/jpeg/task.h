// The task of one thread: the MCUs of an index entry, or the luma or the chroma of its one MCU,
// from the plain scan to planes of samples: on host and device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/target.h"
#include "jpeg/block.h"
#include "jpeg/plan.h"
#include "jpeg/tables.h"

namespace robocache::ROBOCACHE_TARGET {

/// A frame as threads read it: its record is validated.
struct TaskFrame {
  ScanWords scan;              // the words that the tasks at hand need
  std::uint32_t bits;          // of the whole scan
  const std::uint64_t* index;  // its elements from `first_element` on
  std::int32_t first_element;
  const std::uint32_t* tables;
  std::uint32_t table_words;
  std::int32_t restart_interval;
  std::uint8_t* samples;  // the planes
};

ROBOCACHE_HOST_DEVICE JpegStart start_of(const TaskFrame& frame, std::int32_t entry,
                                         bool has_chroma) {
  return unpack_entry(frame.index[jpeg_base_element(entry) - frame.first_element],
                      frame.index[jpeg_entry_element(entry) - frame.first_element], has_chroma);
}

/// Where a task has ended.
struct TaskEnd {
  std::uint32_t bit;   // the position after the last block
  std::int32_t dc[3];  // predictions
};

/// A component's tables, and where the blocks of an MCU go.
struct TaskComponent {
  HuffmanLookup dc, ac;
  const std::uint32_t* places;
  std::uint8_t* to;       // the first block
  std::int32_t row_pair;  // bytes of a pair of rows of the plane
};

ROBOCACHE_HOST_DEVICE TaskComponent component_at(const JpegPlan& plan, const TaskFrame& frame,
                                                 std::int32_t mcu, int c) {
  const std::int32_t row = mcu / plan.mcu_columns;
  const std::int32_t column = mcu - row * plan.mcu_columns;
  const std::int32_t row_pair = 2 * (c == 0 ? plan.luma_pitch : plan.chroma_pitch);
  const std::int32_t at = c == 0 ? row * plan.luma_v * 4 * row_pair + column * plan.luma_h * 16
                                 : row * 4 * row_pair + column * 16;
  std::uint8_t* const plane =
      c == 0 ? frame.samples : frame.samples + plan.luma_bytes() + (c - 1) * plan.chroma_bytes();
  return {lookup_of(frame.tables, c, false), lookup_of(frame.tables, c, true),
          places_of(frame.tables, c), plane + at, row_pair};
}

/// Stores two rows of a block.
ROBOCACHE_HOST_DEVICE void store_rows(std::uint8_t* to, std::uint64_t first, std::uint64_t second) {
#if defined(__CUDA_ARCH__)
  *reinterpret_cast<ulonglong2*>(to) = make_ulonglong2(first, second);
#else
  __builtin_memcpy(to, &first, sizeof(first));
  __builtin_memcpy(to + sizeof(first), &second, sizeof(second));
#endif
}

/// Decodes a block of zeros at `block`, and writes its samples; `block` is zeros again.
template <typename Reader>
ROBOCACHE_HOST_DEVICE void run_block(Reader& reader, const TaskFrame& frame,
                                     const TaskComponent& component, std::int32_t& prediction,
                                     unsigned char* block, std::uint8_t* to) {
  const std::uint32_t sum = decode_block(reader, frame.tables, component.dc, component.ac,
                                         component.places, prediction, block);
  const std::int32_t row_pair = component.row_pair;
  const auto put = [to, row_pair](int y, std::uint64_t first, std::uint64_t second) {
    const std::int32_t offset = y / 2 * row_pair;
    store_rows(to + offset, first, second);
  };
  if (sum <= kLargestPlainSum) {
    transform_block(block, put);
  } else {
    transform_large_block(block, put);
  }
}

ROBOCACHE_HOST_DEVICE void write_gray_block(std::uint8_t* to, std::int32_t row_pair) {
  constexpr std::uint64_t kGray = 0x8080808080808080u;
  for (int y = 0; y < 8; y += 2, to += row_pair) store_rows(to, kGray, kGray);
}

/// Whether `next`, the start of the entry after a task, is what the task has reached. A task of
/// luma does not know where chroma ends, and compares its prediction only.
ROBOCACHE_HOST_DEVICE bool fits_next(const TaskFrame& frame, std::int32_t next_mcu, TaskEnd end,
                                     const JpegStart& next, bool has_luma, bool has_chroma,
                                     bool has_end) {
  if (frame.restart_interval > 0 && next_mcu % frame.restart_interval == 0) {
    end.bit = (end.bit + 7) & ~7u;
    end.dc[0] = end.dc[1] = end.dc[2] = 0;
  }
  if (next.is_gray) return !has_end || end.bit > frame.bits;
  bool fits = !has_end || (end.bit <= frame.bits && next.bit == end.bit);
  if (has_luma) fits = fits && next.dc[0] == end.dc[0];
  if (has_chroma) fits = fits && next.dc[1] == end.dc[1] && next.dc[2] == end.dc[2];
  return fits;
}

/// Runs task `i` of JpegPlan::tasks, with `block` zeros before and after: all MCUs of an entry, or
/// the luma or the chroma of its one MCU. Returns whether the frame fits its index here: whether a
/// sequential decoder that is where the entry says would next be where the next entry says.
ROBOCACHE_HOST_DEVICE bool run_task(const JpegPlan& plan, const TaskFrame& frame, std::int32_t i,
                                    unsigned char* block) {
  const bool is_chroma = plan.is_split && i >= plan.entries;
  const std::int32_t entry = is_chroma ? i - plan.entries : i;
  const JpegStart start = start_of(frame, entry, plan.is_split);
  const int luma_blocks = plan.luma_blocks();
  const int first_block = is_chroma ? luma_blocks : 0;
  const int last_block =
      plan.is_split && !is_chroma ? luma_blocks : luma_blocks + plan.chroma_blocks;
  const std::int32_t first = entry * plan.every;
  const std::int32_t after = first + plan.every;
  const std::int32_t last = after < plan.mcus() ? after : plan.mcus();
  bool fits = start.is_gray || start.bit <= frame.bits;
  if (first == 0) {
    fits = fits && start.bit == 0 && (start.dc[0] | start.dc[1] | start.dc[2]) == 0;
  }
  bool is_past = start.is_gray;
  BitReader reader(frame.scan, is_past ? 0 : is_chroma ? start.chroma_bit : start.bit);
  TaskEnd end = {0, {start.dc[0], start.dc[1], start.dc[2]}};
  ROBOCACHE_NO_UNROLL
  for (std::int32_t mcu = first; mcu < last; ++mcu) {
    if (mcu > first && frame.restart_interval > 0 && mcu % frame.restart_interval == 0) {
      reader.seek((reader.position() + 7) & ~7u);
      end.dc[0] = end.dc[1] = end.dc[2] = 0;
    }
    TaskComponent component{};
    ROBOCACHE_NO_UNROLL
    for (int b = first_block; b < last_block; ++b) {
      const int c = b < luma_blocks ? 0 : b - luma_blocks + 1;
      if (b == first_block || c > 0) component = component_at(plan, frame, mcu, c);
      std::uint8_t* to = component.to;
      if (c == 0 && b > 0) {  // beside the first block, or below
        const int below = plan.luma_h == 2 ? b >> 1 : b;
        const std::int32_t beside = plan.luma_h == 2 ? b & 1 : 0;
        const std::int32_t offset = below * 4 * component.row_pair + beside * 16;
        to += offset;
      }
      if (is_past) {
        write_gray_block(to, component.row_pair);
        continue;
      }
      std::int32_t prediction = c == 0 ? end.dc[0] : c == 1 ? end.dc[1] : end.dc[2];
      run_block(reader, frame, component, prediction, block, to);
      end.dc[0] = c == 0 ? prediction : end.dc[0];
      end.dc[1] = c == 1 ? prediction : end.dc[1];
      end.dc[2] = c == 2 ? prediction : end.dc[2];
    }
    is_past = is_past || reader.position() > frame.bits;
  }
  end.bit = reader.position();
  const bool is_luma = plan.is_split && !is_chroma;
  if (is_luma && !start.is_gray) fits = fits && end.bit == start.chroma_bit;
  if (last == plan.mcus()) return fits;
  const JpegStart next = start_of(frame, entry + 1, plan.is_split);
  if (start.is_gray) return fits && next.is_gray;
  return fits && fits_next(frame, last, end, next, !is_chroma, !is_luma && plan.chroma_blocks > 0,
                           !is_luma);
}

}  // namespace robocache::ROBOCACHE_TARGET
