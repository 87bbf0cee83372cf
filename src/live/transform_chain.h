// A policy's transforms at control time: applied to the windows of a query, and inverted for the
// policy's output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "live/live_batch.h"
#include "live/memory.h"
#include "live/output_layout.h"
#include "live/row_transform.h"
#include "live/selection.h"
#include "robocache/live.h"

namespace robocache {

/// Applies transforms to windows, and inverts them for actions. A window that transforms change is
/// computed in memory of this object, one robot at a time; each row then passes through the
/// transforms to its place in the output. The reference rows of the last queries are kept, since a
/// policy's output is relative to them too. `slot` is a query's index in `KeptQueries`.
///
/// Allocates nothing after construction.
class TransformChain {
 public:
  /// `streams`, `batch` and `layout` must outlive this object.
  TransformChain(const std::vector<LiveStream>& streams, const LiveBatch& batch,
                 const OutputLayout& layout, const LiveOptions& options);

  /// The address for a stream's window; null: in the output.
  std::byte* window_of(std::size_t stream) const;

  /// Transforms a robot's windows of the selected keys, which have just been computed, into an
  /// output.
  void apply(const Selection& selection, std::int64_t slot, std::int64_t robot, std::byte* out);

  /// Whether a key has any transform.
  bool changes(std::size_t key) const;
  /// The keys whose rows a key's values are relative to.
  const std::vector<std::size_t>& references_of(std::size_t key) const {
    return references_of_[key];
  }
  /// Whether one of these rows was padded in a query.
  bool is_reference_padded(std::size_t key, std::int64_t slot, std::int64_t robot) const;

  /// Begins to invert a robot's rows, of the given type, of a key that transforms change.
  void begin_undo(std::size_t key, std::int64_t slot, std::int64_t robot, DataType type);
  /// Inverts the next row; the result, an aligned row, is valid until the next call. `x`: `shape`
  /// numbers.
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
    std::vector<double> references;                 // [queries,R,row]
    std::vector<std::uint8_t> is_reference_padded;  // [queries,R]
  };
  /// Memory for a window between transforms.
  struct Work {
    AlignedBytes made;              // [K,row] as aligned; null: no transform changes it
    std::vector<double> now, next;  // [K, the widest row]
  };

  std::int64_t steps_of(std::size_t key) const;
  bool is_made(std::size_t key) const { return works_[key].made != nullptr; }
  /// Begins a robot's window, or its inverse. `row`: of the references, for the query and the
  /// robot.
  void begin(Link& link, std::int64_t row, DataType type) const;
  void keep_reference(Link& link, const KeyTransform::Reference& reference, std::int64_t row,
                      std::int64_t robot, std::byte* out) const;
  void pad(const Link& link, std::int64_t row, std::int64_t robot, std::byte* out) const;
  /// A robot's mask of a key, [K]; null for groups, which have no mask.
  bool* mask_of(std::size_t key, std::int64_t robot, std::byte* out) const;
  const double* undo_row(std::size_t key);

  const std::vector<LiveStream>& streams_;
  const std::vector<BatchKey>& keys_;
  const OutputLayout& layout_;
  std::int64_t robots_;
  std::vector<Link> links_;                              // in the order of the transforms
  std::vector<Work> works_;                              // [keys]
  std::vector<std::vector<std::size_t>> references_of_;  // [keys]
  std::vector<double> row_, other_row_;                  // used by `undo`
};

}  // namespace robocache
