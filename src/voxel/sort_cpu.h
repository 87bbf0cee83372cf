// Sorting points by cell or voxel, on the CPU.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/parallel.h"
#include "core/workspace.h"
#include "robocache/execution.h"
#include "voxel/voxelize_cpu_kernels.h"

namespace robocache {

/// The workspace of a pass of a counting sort, and its result. The points are split into parts;
/// each part counts its digits, a prefix sum of the counts gives the places of each part's digits,
/// and each part moves its points there:
///
///              digit 0            digit 1
///           part 0  part 1     part 0  part 1    ...
///   places  0       3          5       9
///
/// Points of equal digits keep their order whichever thread moves them, so the result is the same
/// for any number of threads.
class CountingPass {
 public:
  static constexpr std::int64_t kMaxParts = 32;

  /// Lays out a pass over digits below `digits`.
  CountingPass(std::int64_t count, std::int64_t digits, WorkspaceCutter& cutter)
      : count_(count),
        digits_(digits),
        // Enough parts for the threads of a large machine, each large enough to pay for its
        // counters.
        parts_(std::clamp<std::int64_t>(count / std::max<std::int64_t>(kMinPartPoints, 8 * digits),
                                        1, kMaxParts)),
        starts_(cutter.cut<std::int64_t>(digits + 1)),
        places_(cutter.cut<std::int64_t>(parts_ * digits)) {}

  /// Calls `move(i, place)` for each point i with its place, which digit_of(i) determines. Each
  /// part copies the two functions, so that the compiler can assume that stores do not change them.
  template <typename DigitOf, typename Move>
  void run(const ExecutionContext& context, const DigitOf& digit_of, const Move& move) const {
    for_each_part(context, [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
      const DigitOf own_digit_of = digit_of;
      std::int64_t* const tally = places_ + part * digits_;
      std::fill_n(tally, digits_, 0);
      for (std::int64_t i = begin; i < end; ++i) ++tally[own_digit_of(i)];
    });
    find_places();
    for_each_part(context, [&](std::int64_t part, std::int64_t begin, std::int64_t end) {
      const DigitOf own_digit_of = digit_of;
      const Move own_move = move;
      std::int64_t* const places = places_ + part * digits_;
      for (std::int64_t digit = 0; digit < digits_; ++digit) places[digit] += starts_[digit];
      for (std::int64_t i = begin; i < end; ++i) own_move(i, places[own_digit_of(i)]++);
    });
  }

  /// After a run: the first place of each digit, then the end of the last.
  const std::int64_t* starts() const { return starts_; }

  /// Calls `body(part, begin, end)` for each part of the points.
  template <typename Body>
  void for_each_part(const ExecutionContext& context, const Body& body) const {
    parallel_for(context, parts_, 1, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t part = first; part < last; ++part) {
        body(part, begin_of(part), begin_of(part + 1));
      }
    });
  }
  std::int64_t parts() const { return parts_; }

 private:
  static constexpr std::int64_t kMinPartPoints = 16384;

  std::int64_t begin_of(std::int64_t part) const {
    return count_ / parts_ * part + std::min(part, count_ % parts_);
  }

  /// Converts counts to places within each digit, and computes the start of each digit.
  void find_places() const;

  std::int64_t count_, digits_, parts_;
  std::int64_t* starts_;  // [digits + 1]
  std::int64_t* places_;  // [parts, digits]
};

/// The workspace of a sort and its results, in one block of memory.
struct SortWorkspace {
  std::int64_t count;  // points
  /// [count]: the caller writes the key of each point, and the sort the key of each voxel.
  std::uint64_t* keys;
  void *records, *spare;  // used by the sort only, as is `pass`
  std::uint32_t* points;  // [count]
  std::int64_t* starts;   // [count + 1]
  std::int64_t* pass;
  std::size_t bytes;  // of these arrays, and of those cut before them

  SortWorkspace(std::int64_t count, WorkspaceCutter cutter);
  SortWorkspace(std::int64_t count, void* workspace)
      : SortWorkspace(count, WorkspaceCutter(workspace, DeviceType::kCpu)) {}

  /// The result of a sort.
  SortedPoints sorted() const { return {count, points, starts, keys}; }
};

/// Sorts points, at most `kMaxCountedPoints`, stably by `work.keys`; keys are at most `limit`, the
/// key of points in no voxel. Writes the voxel of each point, -1 for none, unless `point_to_voxel`
/// is null. Returns the number of voxels.
std::int64_t sort_into_voxels(const SortWorkspace& work, std::uint64_t limit,
                              std::int64_t* point_to_voxel, const ExecutionContext& context);

}  // namespace robocache
