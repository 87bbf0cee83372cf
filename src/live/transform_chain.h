// A policy's transforms at control time: done to the windows of a query, and taken back from what a
// policy answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "live/live_batch.h"
#include "live/memory.h"
#include "live/output_layout.h"
#include "robocache/live.h"

namespace robocache {

/// A window that transforms change is made in memory of this, one robot's at a time; from there it
/// goes through them, row after row, to its place in the output. Rows that some are relative to are
/// kept until the next query: an answer is relative to them too.
///
/// Allocates nothing after construction.
class TransformChain {
 public:
  /// `streams`, `plan` and `layout` outlive this.
  TransformChain(const std::vector<LiveStream>& streams, const LiveBatch& plan,
                 const OutputLayout& layout, std::int64_t robots);

  /// Where a stream's window is to be made; null: in the output.
  std::byte* window_of(std::size_t stream) const;

  /// Brings a robot's windows, which have just been made, to its place in an output.
  void apply(std::int64_t robot, std::byte* out);

  /// Whether the values of a key are relative to others.
  bool has_anchor(std::size_t key) const;
  /// Whether those had a row of a robot, at its last query.
  bool has_rows(std::size_t key, std::int64_t robot) const;

  /// Begins to take back a robot's rows of a key, which are of a type.
  void begin_undo(std::size_t key, std::int64_t robot, DataType type);
  /// The next row, as it was when it was aligned; it is good until the next call. `x`: `shape` numbers.
  template <typename Number>
  const double* undo(std::size_t key, const Number* x) {
    double* row = row_.data();
    for (std::int64_t i = 0; i < keys_[key].shape_elements(); ++i)
      row[i] = static_cast<double>(x[i]);
    return undo_row(key);
  }

 private:
  /// A window on its way.
  struct Work {
    AlignedBytes made;              // [K,row] as aligned; null: no transform changes it
    std::vector<double> now, next;  // [K, the widest row]
  };
  /// The row that a transform is relative to.
  struct AnchorRows {
    std::vector<double> values;          // [R,row]
    std::vector<std::uint8_t> has_rows;  // [R]
  };

  std::int64_t steps_of(std::size_t key) const;
  bool is_made(std::size_t key) const { return works_[key].made != nullptr; }
  const double* undo_row(std::size_t key);
  void begin(std::size_t number, std::int64_t robot, DataType type);
  void keep_anchor(std::size_t number, std::int64_t robot, const std::byte* out);
  void pad(const KeyTransform& transform, std::int64_t robot, std::byte* out) const;
  /// A key's mask of a robot, [K]; null of groups, which have none.
  bool* mask_of(std::size_t key, std::int64_t robot, std::byte* out) const;

  const std::vector<LiveStream>& streams_;
  const std::vector<BatchKey>& keys_;
  const std::vector<KeyTransform>& transforms_;
  const OutputLayout& layout_;
  std::vector<Work> works_;              // [keys]
  std::vector<AnchorRows> anchors_;      // [transforms]
  std::vector<double> row_, other_row_;  // of undo
};

}  // namespace robocache
