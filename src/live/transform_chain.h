// A policy's transforms at control time: done to the windows of a query, and taken back from what a
// policy answers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "live/live_batch.h"
#include "live/memory.h"
#include "live/output_layout.h"
#include "live/row_transform.h"
#include "robocache/live.h"

namespace robocache {

/// A window that transforms change is made in memory of this, one robot's at a time; from there it
/// goes through them, row after row, to its place in the output. Rows that some are relative to are
/// kept until the next query: an answer is relative to them too.
///
/// Allocates nothing after construction.
class TransformChain {
 public:
  /// `streams`, `batch` and `layout` outlive this.
  TransformChain(const std::vector<LiveStream>& streams, const LiveBatch& batch,
                 const OutputLayout& layout, std::int64_t robots);

  /// Where a stream's window is to be made; null: in the output.
  std::byte* window_of(std::size_t stream) const;

  /// Brings a robot's windows, which have just been made, to its place in an output.
  void apply(std::int64_t robot, std::byte* out);

  /// Whether any transform is of a key.
  bool changes(std::size_t key) const;
  /// The keys whose rows a key's values are relative to.
  const std::vector<std::size_t>& references_of(std::size_t key) const {
    return references_of_[key];
  }

  /// Begins to take back a robot's rows of a key that transforms change, which are of a type.
  void begin_undo(std::size_t key, std::int64_t robot, DataType type);
  /// The next row as aligned, valid until the next call. `x`: `shape` numbers.
  template <typename Number>
  const double* undo(std::size_t key, const Number* x) {
    const std::int64_t count = keys_[key].shape_elements();
    for (std::int64_t i = 0; i < count; ++i) row_[static_cast<std::size_t>(i)] = double{x[i]};
    return undo_row(key);
  }

 private:
  /// A transform with its place in the chain, and the rows that it is relative to.
  struct Link {
    const KeyTransform* plan;
    std::unique_ptr<RowTransform> rows;
    std::vector<double> references;  // [R,row]
  };
  /// A window on its way.
  struct Work {
    AlignedBytes made;              // [K,row] as aligned; null: no transform changes it
    std::vector<double> now, next;  // [K, the widest row]
  };

  std::int64_t steps_of(std::size_t key) const;
  bool is_made(std::size_t key) const { return works_[key].made != nullptr; }
  /// A window, or an answer, of a robot begins.
  void begin(Link& link, std::int64_t robot, DataType type) const;
  void keep_reference(Link& link, const KeyTransform::Reference& reference, std::int64_t robot,
                      const std::byte* out) const;
  void pad(const KeyTransform& transform, std::int64_t robot, std::byte* out) const;
  /// A key's mask of a robot, [K]; null of groups, which have none.
  bool* mask_of(std::size_t key, std::int64_t robot, std::byte* out) const;
  const double* undo_row(std::size_t key);

  const std::vector<LiveStream>& streams_;
  const std::vector<BatchKey>& keys_;
  const OutputLayout& layout_;
  std::vector<Link> links_;                              // in the order of the transforms
  std::vector<Work> works_;                              // [keys]
  std::vector<std::vector<std::size_t>> references_of_;  // [keys]
  std::vector<double> row_, other_row_;                  // of undo
};

}  // namespace robocache
