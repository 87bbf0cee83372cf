// A counting sort, digit by digit from the lowest. The points are cut into parts; each part counts
// its digits, the counts become the places where each part's digits go, and each part moves its
// points there:
//
//              digit 0            digit 1
//           part 0  part 1     part 0  part 1    ...
//   places  0       3          5       9
//
// Points of equal digits stay in order whatever thread moves them, so the result is the same on any
// number of threads.
#include "voxel/sort_cpu.h"

#include <algorithm>

#include "core/parallel.h"

namespace robocache {
namespace {

// 2048 places fit the nearest cache beside what they point to.
constexpr int kMaxDigitBits = 11;
constexpr std::int64_t kMaxDigits = std::int64_t{1} << kMaxDigitBits;
// Enough parts for the threads of a large machine; a part is worth its counting.
constexpr std::int64_t kMaxParts = 32;
constexpr std::int64_t kMinPartPoints = 16384;

/// The points [0, count) cut into equal parts.
struct Parts {
  std::int64_t count, parts;

  explicit Parts(std::int64_t count)
      : count(count), parts(std::clamp<std::int64_t>(count / kMinPartPoints, 1, kMaxParts)) {}

  std::int64_t begin(std::int64_t part) const {
    return count / parts * part + std::min(part, count % parts);
  }

  /// Calls `body(part, begin, end)` for each.
  template <typename Body>
  void for_each(const ExecutionContext& context, const Body& body) const {
    parallel_for(context, parts, 1, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t part = first; part < last; ++part) body(part, begin(part), begin(part + 1));
    });
  }
};

void sort_by_digit(const KeyedPoint* from, KeyedPoint* to, const Parts& parts, int shift, int bits,
                   std::int64_t* tallies, const ExecutionContext& context) {
  const std::int64_t digits = std::int64_t{1} << bits;
  const auto digit_of = [=](const KeyedPoint& point) {
    return static_cast<std::int64_t>(point.key >> shift) & (digits - 1);
  };
  parts.for_each(context, [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
    std::int64_t* const tally = tallies + part * digits;
    std::fill_n(tally, digits, 0);
    for (std::int64_t i = begin; i < end; ++i) ++tally[digit_of(from[i])];
  });
  std::int64_t place = 0;
  for (std::int64_t digit = 0; digit < digits; ++digit) {
    for (std::int64_t part = 0; part < parts.parts; ++part) {
      const std::int64_t points = tallies[part * digits + digit];
      tallies[part * digits + digit] = place;
      place += points;
    }
  }
  parts.for_each(context, [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
    std::int64_t* const places = tallies + part * digits;
    for (std::int64_t i = begin; i < end; ++i) to[places[digit_of(from[i])]++] = from[i];
  });
}

/// The first points of voxels, numbered part after part.
std::int64_t find_starts(const KeyedPoint* points, const Parts& parts, std::uint64_t limit,
                         std::int64_t* starts, std::int64_t* tallies,
                         const ExecutionContext& context) {
  const auto begins_voxel = [=](std::int64_t i) {
    return points[i].key < limit && (i == 0 || points[i - 1].key != points[i].key);
  };
  parts.for_each(context, [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
    std::int64_t voxels = 0;
    for (std::int64_t i = begin; i < end; ++i) voxels += begins_voxel(i) ? 1 : 0;
    tallies[part] = voxels;
  });
  std::int64_t voxels = 0;
  for (std::int64_t part = 0; part < parts.parts; ++part) {
    const std::int64_t own = tallies[part];
    tallies[part] = voxels;
    voxels += own;
  }
  parts.for_each(context, [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
    std::int64_t voxel = tallies[part];
    for (std::int64_t i = begin; i < end; ++i) {
      if (begins_voxel(i)) starts[voxel++] = i;
    }
  });
  const KeyedPoint in_none{limit, 0};
  starts[voxels] =
      std::lower_bound(points, points + parts.count, in_none,
                       [](const KeyedPoint& a, const KeyedPoint& b) { return a.key < b.key; }) -
      points;
  return voxels;
}

}  // namespace

SortWorkspace::SortWorkspace(std::int64_t count, WorkspaceCutter cutter)
    : count(count),
      points(cutter.cut<KeyedPoint>(count)),
      spare(cutter.cut<KeyedPoint>(count)),
      starts(cutter.cut<std::int64_t>(count + 1)),
      tallies(cutter.cut<std::int64_t>(Parts(count).parts * kMaxDigits)),
      bytes(cutter.bytes()) {}

std::int64_t sort_into_voxels(const SortWorkspace& work, std::uint64_t limit, SortedPoints& sorted,
                              const ExecutionContext& context) {
  const Parts parts(work.count);
  KeyedPoint* from = work.points;
  KeyedPoint* to = work.spare;
  // Digits of equal width, as few as will do.
  const int bits = bits_of(limit);
  const int passes = (bits + kMaxDigitBits - 1) / kMaxDigitBits;
  const int digit_bits = (bits + passes - 1) / passes;
  for (int shift = 0; shift < bits; shift += digit_bits) {
    sort_by_digit(from, to, parts, shift, digit_bits, work.tallies, context);
    std::swap(from, to);
  }
  sorted = {work.count, from, work.starts};
  return find_starts(from, parts, limit, work.starts, work.tallies, context);
}

}  // namespace robocache
