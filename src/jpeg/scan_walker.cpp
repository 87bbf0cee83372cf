#include "jpeg/scan_walker.h"

#include <algorithm>

namespace robocache {
namespace {

namespace target = ROBOCACHE_TARGET;

constexpr std::uint32_t kSymbolEnd = 64;  // the advance of a symbol that ends a block

/// The symbol that begins with an index, as an element; kNoElement if its code is longer.
std::int16_t symbol_of_index(std::uint32_t word, bool is_ac) {
  const std::uint32_t code_bits = word & 0xff;
  const std::uint32_t bits = target::bits_of_symbol(word);
  const std::uint32_t advance = is_ac ? target::advance_of_symbol(word) : 0;
  const bool is_known = code_bits <= WalkTables::kIndexBits && bits <= WalkTables::kMostElementBits;
  if (!is_known) return WalkTables::kNoElement;
  if (advance == kSymbolEnd) return static_cast<std::int16_t>(bits | WalkTables::kBlockEnd);
  return static_cast<std::int16_t>(bits | advance << WalkTables::kAdvanceShift);
}

/// Adds to an element the AC symbols that follow it within its index.
std::int16_t extend(std::int16_t element, std::uint32_t index, const std::int16_t* symbols) {
  constexpr std::uint32_t kMostIndex = (1u << WalkTables::kIndexBits) - 1;
  while (element >= 0 && element != WalkTables::kNoElement) {
    const std::uint32_t bits = element & WalkTables::kBitsMask;
    if (bits >= WalkTables::kIndexBits) break;
    const std::int16_t next = symbols[index << bits & kMostIndex];
    const bool fits = next != WalkTables::kNoElement &&
                      bits + (next & WalkTables::kBitsMask) <= WalkTables::kIndexBits &&
                      (element & WalkTables::kAdvanceMask) + (next & WalkTables::kAdvanceMask) <=
                          WalkTables::kLast;
    if (!fits) break;
    element = static_cast<std::int16_t>(element + next);
  }
  return element;
}

}  // namespace

bool WalkTables::holds(const JpegHeader& header) const {
  return components_ == header.components &&
         std::memcmp(dc_huffman_, header.dc, sizeof(dc_huffman_)) == 0 &&
         std::memcmp(ac_huffman_, header.ac, sizeof(ac_huffman_)) == 0;
}

JpegStatus WalkTables::prepare(const JpegHeader& header) {
  if (holds(header)) return status_;
  components_ = 0;  // until the tables are made
  status_ = make_jpeg_tables(header, words_);
  std::copy_n(header.dc, 3, dc_huffman_);
  std::copy_n(header.ac, 3, ac_huffman_);
  for (int c = 0; c < header.components && status_ == JpegStatus::kOk; ++c) {
    int like = 0;
    while (std::memcmp(&dc_huffman_[like], &dc_huffman_[c], sizeof(JpegHuffman)) != 0 ||
           std::memcmp(&ac_huffman_[like], &ac_huffman_[c], sizeof(JpegHuffman)) != 0) {
      ++like;
    }
    like_[c] = static_cast<std::uint8_t>(like);
    if (like != c) continue;
    make_elements(c);
    make_differences(c);
  }
  components_ = header.components;
  return status_;
}

void WalkTables::make_elements(int component) {
  const target::HuffmanLookup dc = target::lookup_of(words_.data(), component, false);
  const target::HuffmanLookup ac = target::lookup_of(words_.data(), component, true);
  std::int16_t symbols[1 << kIndexBits];
  for (std::uint32_t i = 0; i < 1u << kIndexBits; ++i) {
    const std::uint32_t word = words_[ac.index(i << (32 - kIndexBits))];
    symbols[i] = symbol_of_index(word, true);
  }
  std::int16_t* const dc_elements = elements_ + (2 * component << kIndexBits);
  std::int16_t* const ac_elements = dc_elements + (1 << kIndexBits);
  for (std::uint32_t i = 0; i < 1u << kIndexBits; ++i) {
    const std::uint32_t word = words_[dc.index(i << (32 - kIndexBits))];
    dc_elements[i] = extend(symbol_of_index(word, false), i, symbols);
    ac_elements[i] = extend(symbols[i], i, symbols);
  }
}

void WalkTables::make_differences(int component) {
  const target::HuffmanLookup lookup = target::lookup_of(words_.data(), component, false);
  for (std::uint32_t i = 0; i < 1u << kDcBits; ++i) {
    const std::uint32_t peeked = i << (32 - kDcBits);
    const std::uint32_t word = words_[lookup.index(peeked)];
    const bool is_known = target::bits_of_symbol(word) <= kDcBits;
    differences_[component][i] =
        is_known ? static_cast<std::int16_t>(target::value_of_symbol(peeked, word, 1))
                 : kLongDifference;
  }
}

std::int32_t WalkTables::long_difference(std::uint64_t bits, int component) const {
  const auto peeked = static_cast<std::uint32_t>(bits >> 32);
  const target::HuffmanLookup lookup = target::lookup_of(words_.data(), component, false);
  return target::value_of_symbol(peeked, words_[lookup.index(peeked)], 1);
}

std::int64_t WalkTables::symbol_at(std::uint64_t bits, int component, bool is_ac) const {
  const target::HuffmanLookup lookup = target::lookup_of(words_.data(), component, is_ac);
  const std::uint32_t word = words_[lookup.index(static_cast<std::uint32_t>(bits >> 32))];
  const std::int64_t advance = is_ac ? target::advance_of_symbol(word) : 0;
  return target::bits_of_symbol(word) | advance << kAdvanceShift;
}

WalkBlocks::WalkBlocks(const WalkTables& walk_tables, const JpegPlan& plan) : tables(walk_tables) {
  const int count = plan.luma_blocks() + plan.chroma_blocks;
  const auto component_of = [&](int block) {
    return block < plan.luma_blocks() ? 0 : block - plan.luma_blocks() + 1;
  };
  for (int b = 0; b < count; ++b) {
    const int next = b + 1 < count ? b + 1 : 0;
    const std::int16_t* const ac = tables.ac(component_of(b));
    blocks[b] = {ac, tables.dc(component_of(next)) - ac, next - b, component_of(b)};
  }
}

void WalkLane::slow_step() {
  refill();
  if (step()) return;
  std::int64_t element = table_[buffer_ >> (64 - WalkTables::kIndexBits)];
  const std::int64_t k = k_ + (element & WalkTables::kAdvanceMask);
  if (k == WalkTables::kLast && element >= 0 && element != WalkTables::kNoElement) {
    take(element | WalkTables::kBlockEnd, k);  // of the block's last coefficient
    return;
  }
  const std::int64_t symbol =
      tables_->symbol_at(buffer_, static_cast<int>(block_->component), table_ == block_->ac);
  bit_ += symbol & WalkTables::kBitsMask;
  const std::int64_t next = k_ + (symbol & ~std::int64_t{WalkTables::kBitsMask});
  take(next >= WalkTables::kLast ? WalkTables::kBlockEnd : 0, next);
}

void walk(WalkLane& lane) {
  while (!lane.is_done()) {
    WalkLane local = lane;  // in registers
    do {
      local.refill();
    } while (local.step() && local.step() && local.step() && !local.is_done());
    lane = local;
    if (!lane.is_done()) lane.slow_step();
  }
}

void walk_both(WalkLane& a, WalkLane& b) {
  while (!a.is_done() && !b.is_done()) {
    WalkLane first = a;
    WalkLane second = b;
    do {
      first.refill();
      second.refill();
    } while (first.step() && second.step() && first.step() && second.step() && first.step() &&
             second.step() && !first.is_done() && !second.is_done());
    a = first;
    b = second;
    if (!a.is_done()) a.slow_step();
    if (!b.is_done()) b.slow_step();
  }
}

}  // namespace robocache
