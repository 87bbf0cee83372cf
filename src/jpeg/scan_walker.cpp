#include "jpeg/scan_walker.h"

#include <algorithm>

namespace robocache {

namespace target = ROBOCACHE_TARGET;

JpegStatus WalkTables::prepare(const JpegHeader& header) {
  const bool is_same = components_ == header.components &&
                       std::memcmp(dc_huffman_, header.dc, sizeof(dc_huffman_)) == 0 &&
                       std::memcmp(ac_huffman_, header.ac, sizeof(ac_huffman_)) == 0;
  if (is_same) return status_;
  components_ = 0;  // until the tables are made
  status_ = make_jpeg_tables(header, words_);
  std::copy_n(header.dc, 3, dc_huffman_);
  std::copy_n(header.ac, 3, ac_huffman_);
  for (int c = 0; c < header.components && status_ == JpegStatus::kOk; ++c) {
    dc_of_[c] = static_cast<std::uint8_t>(first_equal(dc_huffman_, c));
    ac_of_[c] = static_cast<std::uint8_t>(first_equal(ac_huffman_, c));
    if (dc_of_[c] == c) make_dc(c);
    if (ac_of_[c] == c) make_ac(c);
  }
  components_ = header.components;
  return status_;
}

void WalkTables::make_dc(int component) {
  const target::HuffmanLookup lookup = target::lookup_of(words_.data(), component, false);
  for (std::uint32_t i = 0; i < 1u << kDcBits; ++i) {
    const std::uint32_t peeked = i << (32 - kDcBits);
    const std::uint32_t element = words_[lookup.index(peeked)];
    const std::uint32_t bits = target::bits_of_symbol(element);
    const std::int32_t value = target::value_of_symbol(peeked, element, 1);
    dc_[component][i] =
        bits <= kDcBits ? value * (1 << kDcShift) | static_cast<std::int32_t>(bits) : 0;
  }
}

void WalkTables::make_ac(int component) {
  const target::HuffmanLookup lookup = target::lookup_of(words_.data(), component, true);
  constexpr std::uint32_t kIndexMask = (1u << kAcBits) - 1;
  // The symbol that begins with each index: its bits and its advance.
  std::uint16_t symbols[1 << kAcBits];
  for (std::uint32_t i = 0; i <= kIndexMask; ++i) {
    const std::uint32_t element = words_[lookup.index(i << (32 - kAcBits))];
    const std::uint32_t code_bits = element & 0xff;
    const std::uint32_t bits = target::bits_of_symbol(element);
    const std::uint32_t advance = target::advance_of_symbol(element);
    const bool is_known = code_bits <= kAcBits && bits <= kMostElementBits;
    const std::uint32_t known = bits | (advance == 64 ? kBlockEnd : advance) << kAdvanceShift;
    symbols[i] = static_cast<std::uint16_t>(is_known ? known : kNoElement);
  }
  for (std::uint32_t i = 0; i <= kIndexMask; ++i) {
    std::uint32_t made = symbols[i];
    while (made >> kAdvanceShift < 63) {
      const std::uint32_t bits = made & kBitsMask;
      if (bits >= kAcBits) break;
      const std::uint32_t next = symbols[i << bits & kIndexMask];
      const std::uint32_t advance = (made >> kAdvanceShift) + (next >> kAdvanceShift);
      const bool fits = next != kNoElement && bits + (next & kBitsMask) <= kAcBits &&
                        (next >> kAdvanceShift == kBlockEnd || advance <= 63);
      if (!fits) break;
      made += next;
    }
    ac_[component][i] = static_cast<std::uint16_t>(made);
  }
}

std::uint32_t WalkTables::skip_one(WalkReader& reader, int component) const {
  reader.refill();
  const target::HuffmanLookup lookup = target::lookup_of(words_.data(), component, true);
  const std::uint32_t element = words_[lookup.index(reader.peek<32>())];
  reader.take(target::bits_of_symbol(element));
  return target::advance_of_symbol(element);
}

void WalkTables::skip_long_dc(WalkReader& reader, int component, std::int32_t& prediction) const {
  const target::HuffmanLookup lookup = target::lookup_of(words_.data(), component, false);
  const std::uint32_t peeked = reader.peek<32>();
  const std::uint32_t element = words_[lookup.index(peeked)];
  prediction = static_cast<std::int16_t>(prediction + target::value_of_symbol(peeked, element, 1));
  reader.take(target::bits_of_symbol(element));
}

}  // namespace robocache
