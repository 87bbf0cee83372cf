// The index of a frame (JpegIndex), and its plain scan.
#include <algorithm>
#include <cstring>
#include <memory>

#include "jpeg/plan.h"
#include "jpeg/scan_walker.h"
#include "robocache/jpeg.h"

namespace robocache {
namespace {

constexpr std::uint32_t kMaxScanBits = ~std::uint32_t{0} - 4096;
constexpr int kEndOfImage = 0xd9;
constexpr int kEndOfFile = 0;
// Fill bytes before a stuffed zero are data to libjpeg-turbo. However, after trying otherwise it
// leaves wrong coefficients in the block.
constexpr int kFilledZero = -1;

/// A pass over a scan that removes stuffing and restart markers.
class Stripper {
 public:
  Stripper(const std::uint8_t* bytes, std::size_t size, bool has_restarts)
      : at_(bytes), end_(bytes + size), has_restarts_(has_restarts) {}

  /// Copies bytes to `out` until the end of the data, or until `capacity` bytes. `mark(position)`
  /// is called where a restart marker in its place begins a new segment.
  template <typename Mark>
  std::size_t copy(std::uint8_t* out, std::size_t capacity, const Mark& mark) {
    std::size_t count = 0;
    while (at_ < end_ && count < capacity) {
      const std::size_t most = std::min<std::size_t>(end_ - at_, capacity - count);
      const void* const found = std::memchr(at_, 0xff, most);
      const std::size_t run =
          found == nullptr ? most : static_cast<const std::uint8_t*>(found) - at_;
      std::memcpy(out + count, at_, run);
      at_ += run;
      count += run;
      if (found == nullptr) continue;
      const std::uint8_t* next = at_;
      while (next < end_ && *next == 0xff) ++next;  // fill bytes before a marker
      if (next == end_) break;
      if (*next == 0 && next != at_ + 1) {
        ended_by_ = kFilledZero;
        break;
      }
      if (*next == 0) {
        out[count++] = 0xff;
      } else if (has_restarts_ && *next == 0xd0 + expected_) {
        expected_ = (expected_ + 1) % 8;
        mark(count);
      } else {
        ended_by_ = *next;
        break;
      }
      at_ = next + 1;
    }
    return count;
  }

  /// The marker that ended the data; kEndOfFile.
  int ended_by() const { return ended_by_; }

 private:
  const std::uint8_t* at_;
  const std::uint8_t* end_;
  bool has_restarts_;
  int expected_ = 0;
  int ended_by_ = kEndOfFile;
};

/// Reverses the bytes of words that bytes were copied to, so that the first bit is the highest.
void order_words(std::uint32_t* words, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) words[i] = __builtin_bswap32(words[i]);
}

/// The plain scan of a frame, with kWalkPadding zeros after it.
struct PlainScan {
  std::unique_ptr<std::uint8_t[]> bytes;
  std::vector<std::uint32_t> segments;  // the first bit of each segment but the first
  std::uint32_t bits = 0;
  int ended_by = kEndOfFile;
};

bool strip_scan(const std::uint8_t* bytes, std::size_t size, bool has_restarts, PlainScan& scan) {
  if (size > kMaxScanBits / 8) return false;
  scan.bytes.reset(new std::uint8_t[size + kWalkPadding]);
  Stripper stripper(bytes, size, has_restarts);
  const std::size_t count = stripper.copy(scan.bytes.get(), size, [&](std::size_t at) {
    scan.segments.push_back(static_cast<std::uint32_t>(at) * 8);
  });
  std::memset(scan.bytes.get() + count, 0, kWalkPadding);
  scan.bits = static_cast<std::uint32_t>(count) * 8;
  scan.ended_by = stripper.ended_by();
  return true;
}

std::uint32_t round_up_to_byte(std::uint32_t bits) { return (bits + 7) & ~7u; }

/// Decodes a scan from its first MCU to its last, and collects entries.
class Walk {
 public:
  Walk(const JpegHeader& header, const JpegPlan& plan, const WalkTables& tables,
       const PlainScan& scan, JpegIndex& index)
      : plan_(plan),
        restart_interval_(header.restart_interval),
        tables_(tables),
        scan_(scan),
        index_(index),
        reader_(scan.bytes.get()),
        available_(scan.bits) {}

  JpegStatus run() {
    index_.entries.clear();
    index_.entries.reserve(static_cast<std::size_t>(jpeg_entry_element(plan_.entries - 1)) + 1);
    for (std::int32_t mcu = 0; mcu < plan_.mcus(); ++mcu) {
      if (restart_interval_ > 0 && mcu > 0 && mcu % restart_interval_ == 0 && !restart()) {
        return JpegStatus::kMarkers;
      }
      if (mcu % plan_.every == 0) begin_entry(mcu / plan_.every);
      if (!is_past_) decode_mcu();
      if (mcu % plan_.every == 0 && !end_entry()) return JpegStatus::kValues;
      if (leaves_segment_ || (is_past_ && must_resynchronize())) return JpegStatus::kMarkers;
    }
    if (!is_past_) available_ = round_up_to_byte(position());
    index_.scan_bits = available_;
    index_.every = plan_.every;
    return is_truncated_ ? JpegStatus::kDamaged : JpegStatus::kOk;
  }

 private:
  /// Whether what ended the data before the image is not simply an end: libjpeg-turbo searches for
  /// a restart marker.
  bool must_resynchronize() const {
    if (scan_.ended_by == kFilledZero) return true;
    return restart_interval_ > 0 && scan_.ended_by != kEndOfFile && scan_.ended_by != kEndOfImage;
  }

  /// Begins a segment; false unless the preceding one ended where its marker is.
  bool restart() {
    std::fill_n(dc_values_, 3, 0);
    if (next_segment_ < scan_.segments.size()) {
      const std::uint32_t begin = scan_.segments[next_segment_++];
      if (is_past_ || round_up_to_byte(reader_.position()) != begin) return false;
      reader_.seek(begin);
      return true;
    }
    // The data end before this segment. Superfluous bytes are skipped.
    is_truncated_ = true;
    if (is_past_) return true;
    available_ = std::min(available_, round_up_to_byte(reader_.position()));
    reader_.seek(scan_.bits);  // zeros
    origin_ = available_ - scan_.bits;
    return !must_resynchronize();
  }

  std::uint32_t position() const { return origin_ + reader_.position(); }

  void begin_entry(std::int32_t entry) {
    if (entry % kJpegEntriesPerBase == 0) {
      base_ = position();
      index_.entries.push_back(base_);
    }
    start_ = position();
    start_past_ = is_past_;
    std::copy_n(dc_values_, 3, start_dc_);
    chroma_start_ = start_;
  }

  void decode_mcu() {
    WalkReader reader = reader_;  // in registers
    std::int32_t luma = dc_values_[0];
    for (int b = 0; b < plan_.luma_blocks(); ++b) tables_.skip_block(reader, 0, luma);
    dc_values_[0] = luma;
    chroma_start_ = plan_.is_split ? origin_ + reader.position() : start_;
    for (int c = 1; c <= plan_.chroma_blocks; ++c) tables_.skip_block(reader, c, dc_values_[c]);
    reader_ = reader;
    if (position() > available_) is_past_ = is_truncated_ = true;
    leaves_segment_ =
        next_segment_ < scan_.segments.size() && position() > scan_.segments[next_segment_];
  }

  /// Appends the entry; false if its fields do not hold it.
  bool end_entry() {
    if (start_past_) {
      index_.entries.push_back(kGrayJpegEntry);
      return true;
    }
    const std::uint64_t delta = start_ - base_;
    const std::uint64_t chroma = chroma_start_ - start_;
    const int bits = plan_.is_split ? kJpegPositionBits : kJpegStartBits;
    bool fits = delta < (1u << bits) - 1 && chroma < (1u << kJpegChromaBits) - 1;
    std::uint64_t packed = delta | chroma << bits;
    int shift = kJpegStartBits;
    for (const std::int32_t dc : start_dc_) {
      constexpr std::int32_t kLimit = 1 << (kJpegDcBits - 1);
      fits = fits && dc >= -kLimit && dc < kLimit;
      packed |= (static_cast<std::uint64_t>(dc) & ((1u << kJpegDcBits) - 1)) << shift;
      shift += kJpegDcBits;
    }
    index_.entries.push_back(packed);
    return fits;
  }

  const JpegPlan& plan_;
  std::int32_t restart_interval_;
  const WalkTables& tables_;
  const PlainScan& scan_;
  JpegIndex& index_;
  WalkReader reader_;
  std::uint32_t origin_ = 0;  // the position of the reader's bit 0
  std::uint32_t available_;   // bits of data
  bool is_past_ = false;      // an MCU has read more bits than there are
  bool is_truncated_ = false;
  bool leaves_segment_ = false;  // an MCU reaches into the next segment
  std::size_t next_segment_ = 0;
  std::int32_t dc_values_[3] = {};
  std::uint32_t base_ = 0, start_ = 0, chroma_start_ = 0;
  bool start_past_ = false;
  std::int32_t start_dc_[3] = {};
};

}  // namespace

std::int64_t jpeg_index_size(std::int32_t width, std::int32_t height, JpegSampling sampling,
                             std::int32_t every) {
  const JpegPlan plan = make_jpeg_plan({width, height, sampling, every});
  return jpeg_entry_element(plan.entries - 1) + 1;
}

JpegStatus index_jpeg(const void* bytes, std::size_t size, const JpegHeader& header,
                      std::int32_t every, JpegIndex& index) {
  // The frames of a recording have equal Huffman tables, as a rule.
  thread_local const auto tables = std::make_unique<WalkTables>();
  const JpegStatus status = tables->prepare(header);
  if (status != JpegStatus::kOk) return status;
  if (header.scan_begin > size) return JpegStatus::kTruncatedHeader;
  PlainScan scan;
  if (!strip_scan(static_cast<const std::uint8_t*>(bytes) + header.scan_begin,
                  size - header.scan_begin, header.restart_interval > 0, scan)) {
    return JpegStatus::kTooLarge;
  }
  const JpegPlan plan = make_jpeg_plan({header.width, header.height, header.sampling, every});
  return Walk(header, plan, *tables, scan, index).run();
}

JpegStatus verify_jpeg_index(const void* bytes, std::size_t size, std::int32_t every,
                             const std::uint64_t* entries, std::int64_t entry_count,
                             std::uint32_t scan_bits) {
  JpegHeader header;
  JpegIndex index;
  JpegStatus status = parse_jpeg(bytes, size, header);
  if (status == JpegStatus::kOk) status = index_jpeg(bytes, size, header, every, index);
  if (status != JpegStatus::kOk && status != JpegStatus::kDamaged) return status;
  const bool is_equal = index.scan_bits == scan_bits &&
                        static_cast<std::int64_t>(index.entries.size()) == entry_count &&
                        std::equal(index.entries.begin(), index.entries.end(), entries);
  return is_equal ? status : JpegStatus::kIndexMismatch;
}

std::int64_t extract_jpeg_scan(const void* bytes, std::size_t size, const JpegHeader& header,
                               std::uint32_t scan_bits, std::uint32_t* words) {
  if (header.scan_begin > size) return -1;
  Stripper stripper(static_cast<const std::uint8_t*>(bytes) + header.scan_begin,
                    size - header.scan_begin, header.restart_interval > 0);
  const std::size_t capacity = scan_bits / 8;
  auto* const out = reinterpret_cast<std::uint8_t*>(words);
  const std::size_t count = stripper.copy(out, capacity, [](std::size_t) {});
  const auto whole = static_cast<std::size_t>(jpeg_scan_words(scan_bits));
  std::fill(out + count, out + whole * 4, static_cast<std::uint8_t>(0));
  order_words(words, capacity / 4 + 1);
  return static_cast<std::int64_t>(count) * 8;
}

}  // namespace robocache
