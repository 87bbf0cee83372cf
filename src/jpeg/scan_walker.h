// Walking over the blocks of plain scans on the CPU: where each block ends, no coefficients.
//
// One lookup skips all symbols that lie whole within the next 12 bits. Each depends on the one
// before by a load and a shift, for which a CPU waits; so two frames are walked over at once. No
// step has a branch at the end of a block, which a CPU would mispredict once per block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "jpeg/plan.h"
#include "jpeg/tables.h"
#include "robocache/jpeg.h"

namespace robocache {

/// The most blocks of an MCU, which those of 4:2:0 have, and its most bits: 64 symbols of 32 bits
/// in each block.
inline constexpr int kMaxMcuBlocks = 6;
inline constexpr std::uint32_t kMaxMcuBits = 64 * 32 * kMaxMcuBlocks;

/// The zeros after a plain scan that walkers may read, in bytes: those of the MCU that reaches
/// beyond its end, and of the steps until a lane notices it.
inline constexpr std::size_t kWalkPadding = 2048;
static_assert(kWalkPadding > kMaxMcuBits / 8 + 32);

/// The elements after those of a walk's blocks that a lane may overwrite.
inline constexpr std::size_t kWalkSlack = 4;

/// The next 57 bits or more of a plain scan, the first one highest.
inline std::uint64_t bits_at(const std::uint8_t* bytes, std::uint64_t bit) {
  std::uint64_t word;
  std::memcpy(&word, bytes + (bit >> 3), sizeof(word));
  return __builtin_bswap64(word) << (bit & 7);
}

/// The Huffman tables of a header as walkers read them.
class WalkTables {
 public:
  static constexpr int kIndexBits = 12;

  // An element of a lookup table describes all symbols whose codes and values lie within its index:
  // in bits 0 to 5 the number of their bits, in bits 6 to 12 the coefficients that they advance. It
  // is negative where they end a block. An element that leads from below kLast to kLast or beyond
  // may have symbols of two blocks: `WalkLane::slow_step` examines it. So it does kNoElement, which
  // leads there from every coefficient, where a code is longer than the index.
  static constexpr std::uint32_t kBitsMask = 63;
  static constexpr int kAdvanceShift = 6;
  static constexpr std::int64_t kAdvanceMask = 127 << kAdvanceShift;
  static constexpr std::int64_t kLast = 63 << kAdvanceShift;
  static constexpr std::int16_t kNoElement = kLast;
  static constexpr std::int16_t kBlockEnd = INT16_MIN;

  /// The bits of an element at most: a refill has those of three.
  static constexpr std::uint32_t kMostElementBits = 19;

  /// Whether the tables are those of a header.
  bool holds(const JpegHeader& header) const;

  /// Makes the tables of a header.
  JpegStatus prepare(const JpegHeader& header);

  /// The table of a block's first element, whose first symbol is a DC value, and of the others.
  const std::int16_t* dc(int component) const { return elements(like_[component], false); }
  const std::int16_t* ac(int component) const { return elements(like_[component], true); }

  /// The difference that the DC symbol at a bit adds to the prediction.
  std::int32_t dc_difference(const std::uint8_t* bytes, std::uint64_t bit, int component) const {
    const std::uint64_t bits = bits_at(bytes, bit);
    const std::int32_t difference = differences_[like_[component]][bits >> (64 - kDcBits)];
    return difference != kLongDifference ? difference : long_difference(bits, component);
  }

  /// The bits and the advance of a symbol by itself; beyond kLast at the end of a block.
  std::int64_t symbol_at(std::uint64_t bits, int component, bool is_ac) const;

 private:
  static constexpr int kDcBits = 11;
  static constexpr std::int16_t kLongDifference = INT16_MIN;

  const std::int16_t* elements(int component, bool is_ac) const {
    return elements_ + ((2 * component + (is_ac ? 1 : 0)) << kIndexBits);
  }

  void make_elements(int component);
  void make_differences(int component);
  std::int32_t long_difference(std::uint64_t bits, int component) const;

  int components_ = 0;
  JpegHuffman dc_huffman_[3], ac_huffman_[3];
  JpegStatus status_ = JpegStatus::kOk;
  std::vector<std::uint32_t> words_;        // make_jpeg_tables
  std::uint8_t like_[3] = {};               // the first component with the same tables
  std::int16_t elements_[6 << kIndexBits];  // of each component: dc, ac
  std::int16_t differences_[3][1 << kDcBits];
};

/// A block of an MCU. After the last one follows the first one of the next MCU.
struct WalkBlock {
  const std::int16_t* ac;        // the table of all elements but the first
  std::int64_t next_dc_from_ac;  // from that table to the one of the next block's first element
  std::int64_t next;             // from this block to the next one
  std::int64_t component;
};

struct WalkBlocks {
  WalkBlocks(const WalkTables& tables, const JpegPlan& plan);
  WalkBlocks(const WalkBlocks&) = delete;
  WalkBlocks& operator=(const WalkBlocks&) = delete;

  const WalkTables& tables;
  WalkBlock blocks[kMaxMcuBlocks];
};

/// A walk over consecutive blocks, from the first one of an MCU.
class WalkLane {
 public:
  WalkLane() = default;

  /// Begins at a bit of a plain scan. `ends`, [count + kWalkSlack], receives the position where
  /// each block ends; those beyond `stop` may be left out.
  WalkLane(const WalkBlocks& blocks, const std::uint8_t* scan, std::uint64_t begin,
           std::uint64_t stop, std::uint32_t* ends, std::size_t count)
      : tables_(&blocks.tables),
        block_(blocks.blocks),
        table_(blocks.tables.dc(0)),
        scan_(scan),
        bit_(begin),
        stop_(stop),
        out_(ends),
        end_(ends + count) {}

  bool is_done() const { return out_ >= end_ || bit_ >= stop_; }

  /// Reads the bits of three steps.
  void refill() { buffer_ = bits_at(scan_, bit_); }

  /// Skips the symbols of an element. Returns false, and skips none, where `slow_step` must.
  bool step() {
    const std::int64_t element = table_[buffer_ >> (64 - WalkTables::kIndexBits)];
    const std::int64_t k = k_ + (element & WalkTables::kAdvanceMask);
    if (k >= WalkTables::kLast) [[unlikely]]
      return false;
    take(element, k);
    return true;
  }

  /// Skips the symbols of an element, or one symbol where they may be those of two blocks.
  void slow_step();

 private:
  /// Skips an element, to coefficient `k`. Without a branch: a CPU would mispredict it once per
  /// block. A position that is not the end of a block is overwritten by the next one.
  void take(std::int64_t element, std::int64_t k) {
    bit_ += element & WalkTables::kBitsMask;
    buffer_ <<= element & WalkTables::kBitsMask;
    *out_ = static_cast<std::uint32_t>(bit_);
    const std::int64_t ends = element >> 63;  // -1 at the end of a block, else 0
    out_ -= ends;
    table_ = block_->ac + (block_->next_dc_from_ac & ends);
    block_ += block_->next & ends;
    k_ = k & ~ends;
  }

  const WalkTables* tables_ = nullptr;
  const WalkBlock* block_ = nullptr;
  const std::int16_t* table_ = nullptr;  // of the next element
  const std::uint8_t* scan_ = nullptr;
  std::uint64_t bit_ = 0;
  std::uint64_t stop_ = 0;
  std::uint64_t buffer_ = 0;  // the next bits, highest first
  std::uint32_t* out_ = nullptr;
  std::uint32_t* end_ = nullptr;
  std::int64_t k_ = 0;  // the AC coefficients before the next symbol, times 1 << kAdvanceShift
};

/// Walks until the lane is done.
void walk(WalkLane& lane);

/// Walks until one of the lanes is done.
void walk_both(WalkLane& a, WalkLane& b);

}  // namespace robocache
