// The tables of a frame as kernels read them (tables.h).
#include "jpeg/tables.h"

#include <algorithm>
#include <cstring>

#include "jpeg/zigzag.h"
#include "robocache/jpeg.h"

namespace robocache {
namespace {

constexpr std::uint32_t kAllCodes = 1u << 16;
constexpr std::uint32_t kShortBits = 9, kMediumBits = 13;
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

/// The range of codes that are looked up by `bits`, from `begin` on.
struct Range {
  std::uint32_t begin, end, bits;

  std::uint32_t size() const { return (end - begin) >> (16 - bits); }
};

/// The ranges of a table (HuffmanLookup): a longer code ends each but the last.
void divide_codes(const JpegHuffman& table, Range (&ranges)[3]) {
  std::uint32_t code = 0;
  std::uint32_t first_longer[2] = {kAllCodes, kAllCodes};  // than kShortBits, than kMediumBits
  for (std::uint32_t length = 1; length <= 16; ++length) {
    if (table.counts[length - 1] > 0) {
      if (length > kShortBits) first_longer[0] = std::min(first_longer[0], code);
      if (length > kMediumBits) first_longer[1] = std::min(first_longer[1], code);
    }
    code += static_cast<std::uint32_t>(table.counts[length - 1]) << (16 - length);
  }
  ranges[0] = {0, first_longer[0], kShortBits};
  ranges[1] = {first_longer[0], first_longer[1], kMediumBits};
  ranges[2] = {first_longer[1], kAllCodes, 16};
}

/// Appends the elements of a table. False if they are too many.
bool append_lookup(const JpegHuffman& table, bool is_ac, std::vector<std::uint32_t>& words,
                   std::uint32_t (&lookup)[kJpegLookupWords]) {
  Range ranges[3];
  divide_codes(table, ranges);
  const std::size_t begin = words.size();
  std::size_t size = 0;
  std::uint32_t bases[3];
  for (int i = 0; i < 3; ++i) {
    bases[i] = static_cast<std::uint32_t>(begin + size) -
               (ranges[i].begin >> (16 - ranges[i].bits));  // wraps around, and back
    size += ranges[i].size();
  }
  if (begin + size > static_cast<std::size_t>(kMaxJpegTableWords)) return false;
  words.resize(begin + size, element_of(kUnassignedBits, 0, is_ac ? kBlockEnd : 1));
  std::uint32_t code = 0;
  int symbol = 0;
  for (std::uint32_t length = 1; length <= 16; ++length) {
    for (int i = 0; i < table.counts[length - 1]; ++i, ++symbol) {
      const std::uint32_t end = code + (kAllCodes >> length);
      const std::uint32_t element = element_of_symbol(length, table.symbols[symbol], is_ac);
      const int range = code >= ranges[2].begin ? 2 : code >= ranges[1].begin ? 1 : 0;
      const std::uint32_t shift = 16 - ranges[range].bits;
      std::fill(words.begin() + static_cast<std::uint32_t>(bases[range] + (code >> shift)),
                words.begin() + static_cast<std::uint32_t>(bases[range] + (end >> shift)), element);
      code = end;
    }
  }
  const std::uint32_t made[kJpegLookupWords] = {ranges[1].begin, ranges[2].begin, bases[0],
                                                bases[1], bases[2]};
  std::copy(std::begin(made), std::end(made), lookup);
  return true;
}

/// The component whose equal table comes first.
template <typename Table>
int first_equal(const Table (&tables)[3], int component) {
  int first = 0;
  while (std::memcmp(&tables[first], &tables[component], sizeof(Table)) != 0) ++first;
  return first;
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
        words.push_back((place % 8 * kColumnPitch + place / 8 * 2) |
                        static_cast<std::uint32_t>(header.quantization[c].steps[place]) << 16);
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
