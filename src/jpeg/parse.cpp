// The header of a JPEG file (ITU T.81, annex B), from bytes that may be anything.
#include <algorithm>
#include <cstring>

#include "jpeg/standard_tables.h"
#include "jpeg/zigzag.h"
#include "robocache/jpeg.h"

namespace robocache {
namespace {

/// Bytes with bounds: reads past the end fail, and give 0.
class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}

  std::size_t left() const { return size_ - at_; }
  std::size_t position() const { return at_; }
  bool failed() const { return failed_; }

  std::uint32_t byte() {
    if (at_ >= size_) {
      failed_ = true;
      return 0;
    }
    return data_[at_++];
  }
  std::uint32_t pair() {
    const std::uint32_t high = byte();
    return high << 8 | byte();
  }
  /// A part of the next `count` bytes, which are skipped.
  Bytes take(std::size_t count) {
    if (count > left()) {
      failed_ = true;
      count = left();
    }
    const Bytes part(data_ + at_, count);
    at_ += count;
    return part;
  }
  const std::uint8_t* here() const { return data_ + at_; }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
  std::size_t at_ = 0;
  bool failed_ = false;
};

struct Component {
  std::uint32_t id = 0, h = 1, v = 1, quantization = 0;
};

struct Tables {
  bool has_quantization[4] = {}, has_wide_steps[4] = {};
  bool has_dc[4] = {true, true}, has_ac[4] = {true, true};
  JpegQuantization quantization[4];
  JpegHuffman dc[4] = {kStandardDc[0], kStandardDc[1]};
  JpegHuffman ac[4] = {kStandardAc[0], kStandardAc[1]};
};

bool parse_quantization(Bytes segment, Tables& tables) {
  while (segment.left() > 0) {
    const std::uint32_t head = segment.byte();
    const std::uint32_t slot = head & 15;
    const bool is_wide = head >> 4 != 0;
    if (slot > 3) return false;
    // libjpeg-turbo takes fewer steps than 64 for other sizes of blocks, which no encoder writes.
    for (const std::uint8_t place : kNaturalOrder) {
      tables.quantization[slot].steps[place] =
          static_cast<std::uint16_t>(is_wide ? segment.pair() : segment.byte());
      // No quantizer divides by 0. libjpeg-turbo multiplies by it, but examines the coefficients
      // before: damaged ones may then give another image.
      if (tables.quantization[slot].steps[place] == 0) return false;
    }
    if (segment.failed()) return false;
    tables.has_quantization[slot] = true;
    tables.has_wide_steps[slot] = is_wide;
  }
  return true;
}

/// Whether codes of these lengths exist, none of them all ones, as libjpeg-turbo demands.
bool is_prefix_code(const JpegHuffman& table) {
  std::uint32_t code = 0;
  for (std::uint32_t length = 1; length <= 16; ++length, code <<= 1) {
    const std::uint32_t count = table.counts[length - 1];
    code += count;
    if (count > 0 && code >= 1u << length) return false;
  }
  return true;
}

bool parse_huffman(Bytes segment, Tables& tables) {
  while (segment.left() > 0) {
    const std::uint32_t head = segment.byte();
    const std::uint32_t slot = head & 15;
    if (head > 0x13 || slot > 3) return false;
    JpegHuffman table;
    std::uint32_t total = 0;
    for (std::uint8_t& count : table.counts) {
      count = static_cast<std::uint8_t>(segment.byte());
      total += count;
    }
    if (total > 256) return false;
    const Bytes symbols = segment.take(total);
    if (segment.failed()) return false;
    std::memcpy(table.symbols, symbols.here(), total);
    if (!is_prefix_code(table)) return false;
    const bool is_ac = head >= 0x10;
    if (!is_ac && std::any_of(table.symbols, table.symbols + total,
                              [](std::uint8_t symbol) { return symbol > 15; })) {
      return false;
    }
    (is_ac ? tables.ac : tables.dc)[slot] = table;
    (is_ac ? tables.has_ac : tables.has_dc)[slot] = true;
  }
  return true;
}

/// The orientation in an APP1 segment of EXIF; 0 if it has none that is valid.
std::int32_t parse_orientation(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kHead = 6;
  if (size < kHead + 8 || std::memcmp(data, "Exif\0\0", kHead) != 0) return 0;
  data += kHead;
  size -= kHead;
  const bool is_little = data[0] == 'I';
  if (std::memcmp(data, is_little ? "II" : "MM", 2) != 0) return 0;
  const auto pair = [&](std::size_t at) -> std::uint32_t {
    return is_little ? data[at] | data[at + 1] << 8 : data[at] << 8 | data[at + 1];
  };
  const auto word = [&](std::size_t at) -> std::size_t {
    return is_little ? pair(at) | static_cast<std::size_t>(pair(at + 2)) << 16
                     : static_cast<std::size_t>(pair(at)) << 16 | pair(at + 2);
  };
  const std::size_t directory = word(4);
  if (pair(2) != 42 || directory > size - 2) return 0;
  constexpr std::size_t kFieldBytes = 12;
  constexpr std::uint32_t kOrientationTag = 0x112;
  constexpr std::uint32_t kShort = 3;  // the type that EXIF asks for; some writers use LONG
  constexpr std::uint32_t kLong = 4;
  const std::size_t count = pair(directory);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t field = directory + 2 + i * kFieldBytes;
    if (field + kFieldBytes > size) return 0;
    const std::uint32_t type = pair(field + 2);
    if (pair(field) != kOrientationTag || (type != kShort && type != kLong)) continue;
    const std::size_t value = type == kShort ? pair(field + 8) : word(field + 8);
    return value >= 1 && value <= 8 ? static_cast<std::int32_t>(value) : 0;
  }
  return 0;
}

class Parser {
 public:
  Parser(const void* bytes, std::size_t size, JpegHeader& header)
      : file_(static_cast<const std::uint8_t*>(bytes), size), header_(header) {}

  JpegStatus run() {
    header_ = {};
    if (file_.byte() != 0xff || file_.byte() != 0xd8) return JpegStatus::kNotJpeg;
    for (;;) {
      const std::uint32_t marker = next_marker();
      if (file_.failed()) return JpegStatus::kTruncatedHeader;
      if (marker == 0xd9) return JpegStatus::kInvalidHeader;  // the end, without an image
      if ((marker >= 0xd0 && marker <= 0xd7) || marker == 0x01) continue;  // without parameters
      const std::uint32_t length = file_.pair();
      if (file_.failed()) return JpegStatus::kTruncatedHeader;
      if (length < 2) return JpegStatus::kInvalidHeader;
      const Bytes segment = file_.take(length - 2);
      if (file_.failed()) return JpegStatus::kTruncatedHeader;
      const JpegStatus status = parse_segment(marker, segment);
      if (status != JpegStatus::kOk) return status;
      if (marker == 0xda) {
        header_.scan_begin = file_.position();
        return JpegStatus::kOk;
      }
    }
  }

 private:
  /// Skips to the next marker, as libjpeg-turbo does.
  std::uint32_t next_marker() {
    for (;;) {
      while (!file_.failed() && file_.byte() != 0xff) {
      }
      std::uint32_t marker = 0xff;
      while (!file_.failed() && marker == 0xff) marker = file_.byte();
      if (file_.failed() || marker != 0) return marker;
    }
  }

  JpegStatus parse_segment(std::uint32_t marker, Bytes segment) {
    switch (marker) {
      case 0xdb:
        return parse_quantization(segment, tables_) ? JpegStatus::kOk : JpegStatus::kInvalidHeader;
      case 0xc4:
        return parse_huffman(segment, tables_) ? JpegStatus::kOk : JpegStatus::kInvalidHeader;
      case 0xdd:
        header_.restart_interval = static_cast<std::uint16_t>(segment.pair());
        return segment.failed() || segment.left() > 0 ? JpegStatus::kInvalidHeader
                                                      : JpegStatus::kOk;
      case 0xe0:
        has_jfif_ =
            has_jfif_ || (segment.left() >= 14 && std::memcmp(segment.here(), "JFIF", 5) == 0);
        return JpegStatus::kOk;
      case 0xe1:
        if (const auto value = parse_orientation(segment.here(), segment.left()); value != 0) {
          header_.orientation = value;
        }
        return JpegStatus::kOk;
      case 0xee:
        if (segment.left() >= 12 && std::memcmp(segment.here(), "Adobe", 5) == 0) {
          has_adobe_ = true;
          adobe_transform_ = segment.here()[11];
        }
        return JpegStatus::kOk;
      case 0xda:
        return parse_scan(segment);
      case 0xcc:  // conditions of arithmetic coding
        return JpegStatus::kArithmetic;
      case 0xdc:  // the number of lines, which libjpeg-turbo skips
      case 0xfe:  // a comment
        return JpegStatus::kOk;
      default:
        if (marker >= 0xc0 && marker <= 0xcf) return parse_frame(marker, segment);
        return marker >= 0xe0 && marker <= 0xef ? JpegStatus::kOk : JpegStatus::kInvalidHeader;
    }
  }

  JpegStatus parse_frame(std::uint32_t marker, Bytes segment) {
    if (has_frame_) return JpegStatus::kInvalidHeader;
    has_frame_ = true;
    const std::uint32_t depth = segment.byte();
    header_.height = static_cast<std::int32_t>(segment.pair());
    header_.width = static_cast<std::int32_t>(segment.pair());
    const std::uint32_t count = segment.byte();
    if (segment.failed()) return JpegStatus::kInvalidHeader;
    header_.components = static_cast<std::int32_t>(count);
    switch (marker) {
      case 0xc0:
      case 0xc1:
        break;
      case 0xc2:
      case 0xc6:
        return JpegStatus::kProgressive;
      case 0xc3:
      case 0xc5:  // hierarchical
      case 0xc7:
      case 0xcb:
      case 0xcf:
        return JpegStatus::kLossless;
      default:
        return JpegStatus::kArithmetic;
    }
    if (depth != 8) return JpegStatus::kDepth;
    if (header_.width == 0 || header_.height == 0) return JpegStatus::kInvalidHeader;
    if (header_.width > kMaxJpegSide || header_.height > kMaxJpegSide) return JpegStatus::kTooLarge;
    if (count != 1 && count != 3) return JpegStatus::kComponents;
    if (segment.left() != std::size_t{3} * count) return JpegStatus::kInvalidHeader;
    for (std::uint32_t i = 0; i < count; ++i) {
      Component& component = components_[i];
      component.id = segment.byte();
      const std::uint32_t factors = segment.byte();
      component.h = factors >> 4;
      component.v = factors & 15;
      component.quantization = segment.byte();
      const bool is_valid = component.h >= 1 && component.h <= 4 && component.v >= 1 &&
                            component.v <= 4 && component.quantization <= 3;
      if (!is_valid) return JpegStatus::kInvalidHeader;
    }
    return count == 1 ? JpegStatus::kOk : parse_sampling();
  }

  JpegStatus parse_sampling() {
    if (components_[0].id == components_[1].id || components_[0].id == components_[2].id ||
        components_[1].id == components_[2].id) {
      return JpegStatus::kInvalidHeader;
    }
    const bool is_single = components_[1].h == 1 && components_[1].v == 1 &&
                           components_[2].h == 1 && components_[2].v == 1;
    const std::uint32_t h = components_[0].h;
    const std::uint32_t v = components_[0].v;
    if (!is_single || h > 2 || v > 2) return JpegStatus::kSampling;
    header_.sampling = h == 1 ? (v == 1 ? JpegSampling::k444 : JpegSampling::k440)
                              : (v == 1 ? JpegSampling::k422 : JpegSampling::k420);
    return JpegStatus::kOk;
  }

  /// Whether libjpeg-turbo takes three components for YCbCr.
  bool is_ycbcr() const {
    if (has_jfif_) return true;
    if (has_adobe_) return adobe_transform_ != 0;
    return components_[0].id != 'R' || components_[1].id != 'G' || components_[2].id != 'B';
  }

  JpegStatus parse_scan(Bytes segment) {
    if (!has_frame_) return JpegStatus::kInvalidHeader;
    const std::uint32_t count = segment.byte();
    if (segment.failed() || count < 1 || count > 4 || segment.left() != 2 * count + 3) {
      return JpegStatus::kInvalidHeader;
    }
    const auto components = static_cast<std::uint32_t>(header_.components);
    if (count != components) {
      return count < components ? JpegStatus::kMultipleScans : JpegStatus::kInvalidHeader;
    }
    if (components == 3 && !is_ycbcr()) return JpegStatus::kColorSpace;
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t id = segment.byte();
      const std::uint32_t slots = segment.byte();
      const std::uint32_t dc = slots >> 4;
      const std::uint32_t ac = slots & 15;
      const std::uint32_t quantization = components_[i].quantization;
      const bool is_valid = id == components_[i].id && dc <= 3 && ac <= 3 && tables_.has_dc[dc] &&
                            tables_.has_ac[ac] && tables_.has_quantization[quantization] &&
                            !tables_.has_wide_steps[quantization];
      if (!is_valid) return JpegStatus::kInvalidHeader;
      header_.quantization[i] = tables_.quantization[quantization];
      header_.dc[i] = tables_.dc[dc];
      header_.ac[i] = tables_.ac[ac];
    }
    return JpegStatus::kOk;
  }

  Bytes file_;
  JpegHeader& header_;
  Tables tables_;
  Component components_[3];
  bool has_frame_ = false, has_jfif_ = false, has_adobe_ = false;
  std::uint32_t adobe_transform_ = 0;
};

}  // namespace

JpegStatus parse_jpeg(const void* bytes, std::size_t size, JpegHeader& header) {
  return Parser(bytes, size, header).run();
}

const char* describe(JpegStatus status) {
  switch (status) {
    case JpegStatus::kOk:
      return "a baseline JPEG";
    case JpegStatus::kDamaged:
      return "a damaged JPEG that can be decoded in part";
    case JpegStatus::kNotJpeg:
      return "bytes that do not begin as a JPEG file";
    case JpegStatus::kTruncatedHeader:
      return "a JPEG that ends within its header";
    case JpegStatus::kInvalidHeader:
      return "a JPEG with an invalid header";
    case JpegStatus::kUndecodable:
      return "a JPEG that libjpeg-turbo cannot decode";
    case JpegStatus::kProgressive:
      return "a progressive JPEG";
    case JpegStatus::kArithmetic:
      return "a JPEG with arithmetic coding";
    case JpegStatus::kLossless:
      return "a lossless or hierarchical JPEG";
    case JpegStatus::kDepth:
      return "a JPEG whose samples do not have 8 bits";
    case JpegStatus::kComponents:
      return "a JPEG with neither 1 nor 3 components";
    case JpegStatus::kColorSpace:
      return "a JPEG whose components are not YCbCr";
    case JpegStatus::kSampling:
      return "a JPEG whose chroma sampling is not 4:4:4, 4:2:2, 4:4:0 or 4:2:0";
    case JpegStatus::kMultipleScans:
      return "a JPEG with several scans";
    case JpegStatus::kTooLarge:
      return "a JPEG wider or higher than 4096";
    case JpegStatus::kHuffmanTables:
      return "a JPEG whose Huffman tables leave many codes unassigned";
    case JpegStatus::kMarkers:
      return "a damaged JPEG with markers out of place";
    case JpegStatus::kValues:
      return "a damaged JPEG with values out of range";
    case JpegStatus::kIndexMismatch:
      return "a JPEG that does not fit its index";
    case JpegStatus::kLayoutMismatch:
      return "a JPEG of another size or sampling than its stream";
    case JpegStatus::kBadFrame:
      return "a frame outside the arrays of its batch";
  }
  return "an unknown status";
}

}  // namespace robocache
