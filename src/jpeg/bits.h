// Reading a plain scan, and decoding its Huffman codes: on host and device.
#pragma once

#include <cstdint>

#include "core/target.h"

namespace robocache::ROBOCACHE_TARGET {

/// The upper word of `high:low`, shifted left by the low 5 bits of `shift`.
ROBOCACHE_HOST_DEVICE std::uint32_t shift_left(std::uint32_t high, std::uint32_t low,
                                               std::uint32_t shift) {
#if defined(__CUDA_ARCH__)
  return __funnelshift_l(low, high, shift);
#else
  const std::uint64_t both = static_cast<std::uint64_t>(high) << 32 | low;
  return static_cast<std::uint32_t>(both << (shift & 31) >> 32);
#endif
}

/// ~(a ^ b), in one instruction.
ROBOCACHE_HOST_DEVICE std::uint32_t exclusive_nor(std::uint32_t a, std::uint32_t b) {
#if defined(__CUDA_ARCH__)
  std::uint32_t result;
  asm("lop3.b32 %0, %1, %2, 0, 0xc3;" : "=r"(result) : "r"(a), "r"(b));
  return result;
#else
  return ~(a ^ b);
#endif
}

/// A range of the words of a plain scan. Reads outside give the last word: no position leads to an
/// access out of bounds.
struct ScanWords {
  const std::uint32_t* words;
  std::uint32_t first;  // the number of words[0] within the scan
  std::uint32_t last;   // the index of the last word
};

/// Reads bits of a plain scan.
class BitReader {
 public:
  ROBOCACHE_HOST_DEVICE BitReader(const ScanWords& scan, std::uint32_t bit) : scan_(scan) {
    seek(bit);
  }

  ROBOCACHE_HOST_DEVICE void seek(std::uint32_t bit) {
    bit_ = bit - scan_.first * 32;
    const std::uint32_t word = bit_ >> 5;
    first_ = load(word);
    second_ = load(word + 1);
    third_ = load(word + 2);
  }

  /// The next 32 bits.
  ROBOCACHE_HOST_DEVICE std::uint32_t peek() const { return shift_left(first_, second_, bit_); }

  /// The position of the next bit.
  ROBOCACHE_HOST_DEVICE std::uint32_t position() const { return bit_ + scan_.first * 32; }

  /// Skips at most 32 bits.
  ROBOCACHE_HOST_DEVICE void skip(std::uint32_t count) {
    const std::uint32_t bit = bit_ + count;
    const std::uint32_t past = (bit ^ bit_) & 32;
    bit_ = bit;
#if defined(__CUDA_ARCH__)
    // Without a branch: lanes of a warp reach new words at different times. The third word is
    // loaded long before it is needed, so that no lane waits for the load.
    first_ = past != 0 ? second_ : first_;
    second_ = past != 0 ? third_ : second_;
    const std::uint32_t next = (bit >> 5) + 2;
    const std::uint32_t* const address = scan_.words + (next < scan_.last ? next : scan_.last);
    asm volatile(
        "{ .reg .pred past;\n"
        "  setp.ne.u32 past, %2, 0;\n"
        "  @past ld.u32 %0, [%1]; }"
        : "+r"(third_)
        : "l"(address), "r"(past));
#else
    if (past == 0) return;
    first_ = second_;
    second_ = third_;
    third_ = load((bit >> 5) + 2);
#endif
  }

 private:
  ROBOCACHE_HOST_DEVICE std::uint32_t load(std::uint32_t word) const {
    return scan_.words[word < scan_.last ? word : scan_.last];
  }

  ScanWords scan_;
  std::uint32_t bit_;    // from words[0] of the range; it wraps below it
  std::uint32_t first_;  // the word of that bit, and the two after it
  std::uint32_t second_;
  std::uint32_t third_;
};

/// The lookup table of a Huffman table, within an array of elements.
///
/// Codes in canonical order ascend with their length. So the 16 bits that begin with a code tell by
/// one comparison whether it has at most 9 bits, and is looked up by 9, or is looked up by 16.
struct HuffmanLookup {
  std::uint32_t first_long;  // the least 16 bits that begin with a longer code
  std::uint32_t short_base, long_base;

  ROBOCACHE_HOST_DEVICE std::uint32_t index(std::uint32_t peeked) const {
    // Both agree at `first_long`. Below it the first is larger, above it the second.
    const auto by_9 = static_cast<std::int32_t>((peeked >> 23) + short_base);
    const auto by_16 = static_cast<std::int32_t>((peeked >> 16) + long_base);
    return static_cast<std::uint32_t>(by_9 > by_16 ? by_9 : by_16);
  }
};

// An element of a lookup table describes a symbol: the length of its code in byte 0, of its
// magnitude in byte 1, of both in byte 2, and in byte 3 how many coefficients it advances, 64 at
// the end of a block. libjpeg-turbo reads an unassigned code as 17 bits and as the symbol 0.
ROBOCACHE_HOST_DEVICE std::uint32_t bits_of_symbol(std::uint32_t element) {
#if defined(__CUDA_ARCH__)
  return __byte_perm(element, 0, 0x4442);
#else
  return element >> 16 & 0xff;
#endif
}
ROBOCACHE_HOST_DEVICE std::uint32_t advance_of_symbol(std::uint32_t element) {
  return element >> 24;
}

/// The value of a symbol times `factor`. Magnitudes below half their range are negative (ITU T.81,
/// F.2.2.1).
ROBOCACHE_HOST_DEVICE std::int32_t value_of_symbol(std::uint32_t peeked, std::uint32_t element,
                                                   std::int32_t factor) {
  const std::uint32_t magnitude = shift_left(peeked, 0, element);
  const bool is_negative = static_cast<std::int32_t>(magnitude) >= 0;
  const auto sign = static_cast<std::uint32_t>(static_cast<std::int32_t>(magnitude) >> 31);
  const std::uint32_t absolute = exclusive_nor(magnitude, sign);
  return static_cast<std::int32_t>(shift_left(0, absolute, element >> 8)) *
         (is_negative ? -factor : factor);
}

}  // namespace robocache::ROBOCACHE_TARGET
