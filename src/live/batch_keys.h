// The keys of a batch: streams, and groups of them that stand side by side.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "robocache/live.h"

namespace robocache {

struct BatchKey {
  std::string name;
  std::vector<std::size_t> streams;  // one, or those of a group in its order
  bool is_group;
  DataType type;                    // of its values
  std::vector<std::int64_t> row;    // the shape of a row as it is aligned
  std::vector<std::int64_t> shape;  // and as transforms leave it

  /// Elements of a row.
  std::int64_t row_elements() const;
  std::int64_t shape_elements() const;
};

/// The keys, in the order of their first streams; `shape` is as `row`. `prefix`: what errors begin
/// with.
///
/// Throws ValueError for groups of streams that can't stand side by side, and for names that
/// batches would have twice.
std::vector<BatchKey> batch_keys(const std::vector<LiveStream>& streams,
                                 const std::vector<LiveGroup>& groups,
                                 const std::string& prefix = "");

}  // namespace robocache
