// The tables of a frame as kernels read them (tables.h).
#include "jpeg/tables.h"

#include <algorithm>

#include "jpeg/zigzag.h"
#include "robocache/jpeg.h"

namespace robocache {
namespace {

constexpr std::uint32_t kAllCodes = 1u << 16;
constexpr std::uint32_t kShortBits = 9;
constexpr std::uint32_t kUnassignedBits = 17;
constexpr std::uint32_t kBlockEnd = 64;

std::uint32_t element_of(std::uint32_t code_bits, std::uint32_t magnitude_bits,
                         std::uint32_t advance) {
  return code_bits | magnitude_bits << 8 | (code_bits + magnitude_bits) << 16 | advance << 24;
}

std::uint32_t element_of_symbol(std::uint32_t length, std::uint32_t symbol, bool is_ac) {
  const std::uint32_t run = symbol >> 4;
  const std::uint32_t magnitude = symbol & 15;
  if (!is_ac) return element_of(length, magnitude, 1);
  const bool is_end = magnitude == 0 && run != 15;
  return element_of(length, magnitude, is_end ? kBlockEnd : run + 1);
}

/// The least 16 bits that begin with a code of more than kShortBits.
std::uint32_t first_long_code(const JpegHuffman& table) {
  std::uint32_t code = 0;
  std::uint32_t long_codes = 0;
  for (std::uint32_t length = 1; length <= 16; ++length) {
    const std::uint32_t count = table.counts[length - 1];
    if (length <= kShortBits) code += count << (16 - length);
    if (length > kShortBits) long_codes += count;
  }
  return long_codes > 0 ? code : kAllCodes;
}

/// Appends the elements of a table. False if they are too many.
bool append_lookup(const JpegHuffman& table, bool is_ac, std::vector<std::uint32_t>& words,
                   std::uint32_t (&lookup)[kJpegLookupWords]) {
  const std::uint32_t first_long = first_long_code(table);
  const auto short_base = static_cast<std::uint32_t>(words.size());
  const std::uint32_t long_begin = short_base + (first_long >> (16 - kShortBits));
  const std::uint32_t size = (first_long >> (16 - kShortBits)) + (kAllCodes - first_long);
  if (words.size() + size > static_cast<std::size_t>(kMaxJpegTableWords)) return false;
  words.resize(words.size() + size, element_of(kUnassignedBits, 0, is_ac ? kBlockEnd : 1));
  std::uint32_t code = 0;
  int symbol = 0;
  for (std::uint32_t length = 1; length <= 16; ++length) {
    const bool is_long = length > kShortBits;
    const std::uint32_t shift = is_long ? 0 : 16 - kShortBits;
    const std::uint32_t base = is_long ? long_begin - first_long : short_base;
    for (int i = 0; i < table.counts[length - 1]; ++i, ++symbol) {
      const std::uint32_t end = code + (kAllCodes >> length);
      const std::uint32_t element = element_of_symbol(length, table.symbols[symbol], is_ac);
      std::fill(words.begin() + static_cast<std::uint32_t>(base + (code >> shift)),
                words.begin() + static_cast<std::uint32_t>(base + (end >> shift)), element);
      code = end;
    }
  }
  lookup[0] = first_long;
  lookup[1] = short_base;
  lookup[2] = long_begin - first_long;  // may wrap around; adding a code wraps back
  return true;
}

}  // namespace

JpegStatus make_jpeg_tables(const JpegHeader& header, std::vector<std::uint32_t>& words) {
  words.assign(kJpegTablesBegin, 0);
  std::uint32_t places_at[3] = {};
  std::uint32_t lookups[3][2][kJpegLookupWords] = {};
  for (int c = 0; c < header.components; ++c) {
    const int same_steps = first_equal(header.quantization, c);
    if (same_steps == c) {
      places_at[c] = static_cast<std::uint32_t>(words.size());
      for (int k = 0; k < kJpegPlaces; ++k) {
        const std::uint32_t place = kNaturalOrder[std::min(k, kJpegBlockSize - 1)];
        words.push_back((place % 8 * kColumnPitch + place / 8 * 2) << 16 |
                        header.quantization[c].steps[place]);
      }
    } else {
      places_at[c] = places_at[same_steps];
    }
    for (const bool is_ac : {false, true}) {
      const auto& tables = is_ac ? header.ac : header.dc;
      const int same = first_equal(tables, c);
      if (same != c) {
        std::copy_n(lookups[same][is_ac], kJpegLookupWords, lookups[c][is_ac]);
      } else if (!append_lookup(tables[c], is_ac, words, lookups[c][is_ac])) {
        return JpegStatus::kHuffmanTables;
      }
    }
  }
  words.resize((words.size() + 3) / 4 * 4, 0);
  words[0] = static_cast<std::uint32_t>(words.size());
  std::copy_n(places_at, 3, words.begin() + kJpegPlacesAt);
  std::copy_n(&lookups[0][0][0], 6 * kJpegLookupWords, words.begin() + kJpegLookupsAt);
  return JpegStatus::kOk;
}

}  // namespace robocache
