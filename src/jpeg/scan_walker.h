// Walking over the blocks of a plain scan on the CPU: positions and DC values, no coefficients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "jpeg/bits.h"
#include "jpeg/tables.h"
#include "robocache/jpeg.h"

namespace robocache {

/// The bytes of zeros after a plain scan that walkers may read: an MCU takes at most 64 symbols of
/// 32 bits in each of 6 blocks.
inline constexpr std::size_t kWalkPadding = 2048;

/// Reads bits of a plain scan in bytes, from a buffer of 64 bits.
class WalkReader {
 public:
  /// The bits that can be taken between two calls of `refill`.
  static constexpr int kRefilled = 56;

  explicit WalkReader(const std::uint8_t* bytes) : bytes_(bytes), next_(bytes) {}

  void seek(std::uint32_t bit) {
    next_ = bytes_ + bit / 8;
    count_ = 0;
    buffer_ = 0;
    refill();
    take(bit % 8);
  }

  std::uint32_t position() const {
    return static_cast<std::uint32_t>((next_ - bytes_) * 8 - count_);
  }

  void refill() {
    std::uint64_t word;
    std::memcpy(&word, next_, sizeof(word));
    buffer_ |= __builtin_bswap64(word) >> count_;
    next_ += (63 - count_) >> 3;
    count_ |= kRefilled;
  }

  template <int kBits>
  std::uint32_t peek() const {
    return static_cast<std::uint32_t>(buffer_ >> (64 - kBits));
  }

  void take(std::uint32_t bits) {
    buffer_ <<= bits;
    count_ -= static_cast<int>(bits);
  }

 private:
  const std::uint8_t* bytes_;
  const std::uint8_t* next_;  // the byte after those in the buffer
  std::uint64_t buffer_ = 0;  // the next bits, highest first
  int count_ = 0;             // the bits that count; those after them are the scan's, or zeros
};

/// The Huffman tables of a header as walkers read them. A lookup gives all AC symbols whose codes
/// and values lie within the next kAcBits bits, to the end of the block, or a whole DC value.
class WalkTables {
 public:
  /// Makes the tables, unless those at hand are of equal Huffman tables.
  JpegStatus prepare(const JpegHeader& header);

  /// Walks over a block: its DC value replaces `prediction`.
  void skip_block(WalkReader& reader, int component, std::int32_t& prediction) const {
    reader.refill();
    const std::int32_t dc = dc_[dc_of_[component]][reader.peek<kDcBits>()];
    if (dc != 0) {
      prediction = static_cast<std::int16_t>(prediction + (dc >> kDcShift));
      reader.take(static_cast<std::uint32_t>(dc) & kBitsMask);
    } else {
      skip_long_dc(reader, component, prediction);
    }
    // An element advances at most 63 coefficients, and kBlockEnd more at the end of the block. From
    // below coefficient 63, its symbols are one block's if that leads no further than coefficient
    // 63, or to the end from below it.
    const std::uint16_t* const ac = ac_[ac_of_[component]];
    std::uint32_t k = 0;
    for (;;) {
      reader.refill();
      for (int i = 0; i < WalkReader::kRefilled / kMostElementBits; ++i) {
        const std::uint32_t element = ac[reader.peek<kAcBits>()];
        const std::uint32_t next = k + (element >> kAdvanceShift);
        if (next >= 63) [[unlikely]] {
          if (next == 63 || next - kBlockEnd < 63) {
            reader.take(element & kBitsMask);
            return;
          }
          k += skip_one(reader, component);
          if (k >= 63) return;
          break;
        }
        k = next;
        reader.take(element & kBitsMask);
      }
    }
  }

 private:
  static constexpr int kDcBits = 11;
  static constexpr int kAcBits = 12;
  // An element of either: the bits in bits 0 to 5, 0 where skip_one or skip_long_dc must look.
  static constexpr std::uint32_t kBitsMask = 63;
  static constexpr int kDcShift = 6;
  static constexpr int kAdvanceShift = 8;
  static constexpr std::uint32_t kBlockEnd = 128;
  static constexpr std::uint32_t kNoElement = 255 << kAdvanceShift;
  static constexpr int kMostElementBits = 18;  // three of them between two refills

  void make_dc(int component);
  void make_ac(int component);
  std::uint32_t skip_one(WalkReader& reader, int component) const;
  void skip_long_dc(WalkReader& reader, int component, std::int32_t& prediction) const;

  int components_ = 0;
  JpegHuffman dc_huffman_[3], ac_huffman_[3];
  JpegStatus status_ = JpegStatus::kOk;
  std::vector<std::uint32_t> words_;  // make_jpeg_tables
  std::uint8_t dc_of_[3] = {}, ac_of_[3] = {};
  std::int32_t dc_[3][1 << kDcBits];
  std::uint16_t ac_[3][1 << kAcBits];
};

}  // namespace robocache
