// The plain scan of a frame: its entropy-coded data without stuffing and restart markers.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "jpeg/scan_walker.h"

namespace robocache {

inline constexpr int kEndOfImage = 0xd9;
inline constexpr int kEndOfFile = 0;
// Fill bytes before a stuffed zero are data to libjpeg-turbo. However, after trying otherwise it
// leaves wrong coefficients in the block.
inline constexpr int kFilledZero = -1;

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
    while (copy_to_marker(out, capacity, count)) {
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
  /// Copies the bytes before the next 0xFF; false if there is none before the end or `capacity`.
  bool copy_to_marker(std::uint8_t* out, std::size_t capacity, std::size_t& count) {
    constexpr std::size_t kWord = sizeof(std::uint64_t);
    while (static_cast<std::size_t>(end_ - at_) >= kWord && capacity - count >= kWord) {
      std::uint64_t word;
      std::memcpy(&word, at_, kWord);
      std::memcpy(out + count, &word, kWord);
      // The highest bit of each byte that is 0xFF, and perhaps of bytes after the first of them.
      const std::uint64_t found = word & 0x8080808080808080 & (~word - 0x0101010101010101);
      const std::size_t run = found == 0 ? kWord : std::countr_zero(found) / 8;
      at_ += run;
      count += run;
      if (found != 0) return true;
    }
    for (; at_ < end_ && count < capacity; ++at_) {
      if (*at_ == 0xff) return true;
      out[count++] = *at_;
    }
    return false;
  }

  const std::uint8_t* at_;
  const std::uint8_t* end_;
  bool has_restarts_;
  int expected_ = 0;
  int ended_by_ = kEndOfFile;
};

/// The plain scan of a frame, with kWalkPadding zeros after it.
class PlainScan {
 public:
  /// Replaces the scan; its memory is used again. `size` is below 2^29.
  void strip(const std::uint8_t* bytes, std::size_t size, bool has_restarts) {
    if (size + kWalkPadding > capacity_) {
      capacity_ = size + kWalkPadding;
      bytes_.reset(new std::uint8_t[capacity_]);
    }
    segments_.clear();
    Stripper stripper(bytes, size, has_restarts);
    const std::size_t count = stripper.copy(bytes_.get(), size, [&](std::size_t at) {
      segments_.push_back(static_cast<std::uint32_t>(at) * 8);
    });
    std::memset(bytes_.get() + count, 0, kWalkPadding);
    bits_ = static_cast<std::uint32_t>(count) * 8;
    ended_by_ = stripper.ended_by();
  }

  const std::uint8_t* bytes() const { return bytes_.get(); }
  std::uint32_t bits() const { return bits_; }

  /// The first bit of each segment but the first.
  const std::vector<std::uint32_t>& segments() const { return segments_; }

  /// The marker that ended the data.
  int ended_by() const { return ended_by_; }

 private:
  std::unique_ptr<std::uint8_t[]> bytes_;
  std::size_t capacity_ = 0;
  std::vector<std::uint32_t> segments_;
  std::uint32_t bits_ = 0;
  int ended_by_ = kEndOfFile;
};

}  // namespace robocache
