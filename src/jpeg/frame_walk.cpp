#include "jpeg/frame_walk.h"

#include <algorithm>

namespace robocache {
namespace {

constexpr std::size_t kMaxScanBytes = (~std::uint32_t{0} - 2 * kMaxMcuBits) / 8;

std::uint32_t round_up_to_byte(std::uint32_t bits) { return (bits + 7) & ~7u; }

}  // namespace

JpegStatus FrameWalk::begin(const void* bytes, std::size_t size, const JpegHeader& header,
                            std::int32_t every, const WalkTables& tables) {
  if (header.scan_begin > size) return JpegStatus::kTruncatedHeader;
  if (size - header.scan_begin > kMaxScanBytes) return JpegStatus::kTooLarge;
  restart_interval_ = header.restart_interval;
  scan_.strip(static_cast<const std::uint8_t*>(bytes) + header.scan_begin, size - header.scan_begin,
              restart_interval_ > 0);
  plan_ = make_jpeg_plan({header.width, header.height, header.sampling, every});
  blocks_ = std::make_unique<const WalkBlocks>(tables, plan_);
  const std::size_t blocks = static_cast<std::size_t>(plan_.mcus()) * blocks_per_mcu();
  if (blocks + kWalkSlack > capacity_) {
    capacity_ = blocks + kWalkSlack;
    ends_.reset(new std::uint32_t[capacity_]);
  }
  walked_mcus_ = 0;
  next_segment_ = 0;
  return JpegStatus::kOk;
}

std::optional<WalkLane> FrameWalk::next_segment() {
  const std::int32_t left = plan_.mcus() - walked_mcus_;
  const std::size_t segment = next_segment_++;
  if (left == 0 || segment > scan_.segments().size() + 1) return std::nullopt;
  std::int32_t mcus =
      restart_interval_ > 0 ? std::min<std::int32_t>(restart_interval_, left) : left;
  std::uint32_t begin = 0;
  if (segment > scan_.segments().size()) {
    // The data end before this segment: its first MCU reads zeros, the others are gray.
    begin = scan_.bits();
    mcus = 1;
  } else if (segment > 0) {
    begin = scan_.segments()[segment - 1];
  }
  std::uint32_t* const ends =
      ends_.get() + static_cast<std::size_t>(walked_mcus_) * blocks_per_mcu();
  walked_mcus_ += mcus;
  return WalkLane(*blocks_, scan_.bytes(), begin, std::uint64_t{scan_.bits()} + kMaxMcuBits, ends,
                  static_cast<std::size_t>(mcus) * blocks_per_mcu());
}

/// The MCUs of a frame from the first to the last, of which entries are written.
class FrameWalk::Entries {
 public:
  explicit Entries(const FrameWalk& walk) : walk_(walk), available_(walk.scan_.bits()) {}

  JpegStatus write(std::uint64_t* out, std::uint32_t& scan_bits) {
    const JpegPlan& plan = walk_.plan_;
    std::int32_t until_restart = walk_.restart_interval_ > 0 ? walk_.restart_interval_ : -1;
    std::int32_t until_entry = 0;
    std::int32_t until_base = 0;
    std::uint32_t base = 0;
    const std::uint32_t* ends = walk_.ends_.get();
    for (std::int32_t mcu = 0; mcu < plan.mcus(); ++mcu, --until_restart, --until_entry) {
      if (until_restart == 0) {
        until_restart = walk_.restart_interval_;
        if (!restart()) return JpegStatus::kMarkers;
      }
      if (until_entry == 0) {
        until_entry = plan.every;
        if (until_base-- == 0) {
          until_base = kJpegEntriesPerBase - 1;
          base = origin_ + position_;
          *out++ = base;
        }
        *out++ = is_past_ ? kGrayJpegEntry : entry(base, ends);
        if (!fits_) return JpegStatus::kValues;
      }
      if (!is_past_) decode(ends);
      ends += walk_.blocks_per_mcu();
      if (leaves_segment_ || (is_past_ && must_resynchronize())) return JpegStatus::kMarkers;
    }
    if (!is_past_) available_ = round_up_to_byte(origin_ + position_);
    scan_bits = available_;
    return is_truncated_ ? JpegStatus::kDamaged : JpegStatus::kOk;
  }

 private:
  /// Whether what ended the data before the image is not simply an end: libjpeg-turbo searches for
  /// a restart marker.
  bool must_resynchronize() const {
    const int ended_by = walk_.scan_.ended_by();
    if (ended_by == kFilledZero) return true;
    return walk_.restart_interval_ > 0 && ended_by != kEndOfFile && ended_by != kEndOfImage;
  }

  /// Begins a segment; false unless the preceding one ended where its marker is.
  bool restart() {
    const auto& segments = walk_.scan_.segments();
    std::fill_n(dc_, 3, 0);
    if (next_segment_ < segments.size()) {
      const std::uint32_t begin = segments[next_segment_++];
      if (is_past_ || round_up_to_byte(position_) != begin) return false;
      position_ = begin;
      return true;
    }
    // The data end before this segment. Superfluous bytes are skipped.
    is_truncated_ = true;
    if (is_past_) return true;
    available_ = std::min(available_, round_up_to_byte(position_));
    position_ = walk_.scan_.bits();  // zeros
    origin_ = available_ - walk_.scan_.bits();
    return !must_resynchronize();
  }

  /// The entry of the MCU at `position_`, whose blocks end at `ends`; clears `fits_` if its fields
  /// cannot represent it.
  std::uint64_t entry(std::uint32_t base, const std::uint32_t* ends) {
    const JpegPlan& plan = walk_.plan_;
    const int bits = plan.is_split ? kJpegPositionBits : kJpegStartBits;
    const std::uint64_t delta = origin_ + position_ - base;
    const std::uint64_t chroma = plan.is_split ? ends[plan.luma_blocks() - 1] - position_ : 0;
    fits_ = delta < (1u << bits) - 1 && chroma < (1u << kJpegChromaBits) - 1;
    std::uint64_t packed = delta | chroma << bits;
    int shift = kJpegStartBits;
    for (const std::int32_t dc : dc_) {
      constexpr std::int32_t kLimit = 1 << (kJpegDcBits - 1);
      fits_ = fits_ && dc >= -kLimit && dc < kLimit;
      packed |= (static_cast<std::uint64_t>(dc) & ((1u << kJpegDcBits) - 1)) << shift;
      shift += kJpegDcBits;
    }
    return packed;
  }

  /// Adds the DC values of an MCU, and moves to its end.
  void decode(const std::uint32_t* ends) {
    const JpegPlan& plan = walk_.plan_;
    std::int32_t luma = dc_[0];
    for (int b = 0; b < plan.luma_blocks(); ++b) luma = add_dc(luma, *ends++, 0);
    dc_[0] = luma;
    for (int c = 1; c <= plan.chroma_blocks; ++c) dc_[c] = add_dc(dc_[c], *ends++, c);
    const auto& segments = walk_.scan_.segments();
    if (origin_ + position_ > available_) is_past_ = is_truncated_ = true;
    leaves_segment_ =
        next_segment_ < segments.size() && origin_ + position_ > segments[next_segment_];
  }

  std::int32_t add_dc(std::int32_t prediction, std::uint32_t end, int component) {
    const std::int32_t difference =
        walk_.blocks_->tables.dc_difference(walk_.scan_.bytes(), position_, component);
    position_ = end;
    return static_cast<std::int16_t>(prediction + difference);
  }

  const FrameWalk& walk_;
  std::uint32_t position_ = 0;  // in the plain scan, where the next MCU begins
  std::uint32_t origin_ = 0;    // the position of its bit 0
  std::uint32_t available_;     // bits of data
  bool is_past_ = false;        // an MCU has read more bits than there are
  bool is_truncated_ = false;
  bool leaves_segment_ = false;  // an MCU reaches into the next segment
  bool fits_ = true;
  std::size_t next_segment_ = 0;
  std::int32_t dc_[3] = {};
};

JpegStatus FrameWalk::finish(std::uint64_t* entries, std::uint32_t& scan_bits) const {
  return Entries(*this).write(entries, scan_bits);
}

}  // namespace robocache
