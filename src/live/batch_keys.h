// The keys of a batch: streams, and groups of streams that are concatenated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "robocache/live.h"

namespace robocache {

struct BatchKey {
  std::string name;
  std::vector<std::size_t> streams;  // one, or the streams of a group in its order
  bool is_group;
  DataType type;                    // of the values
  std::vector<std::int64_t> row;    // the shape of an aligned row
  std::vector<std::int64_t> shape;  // the shape of a row after the transforms

  /// Elements of an aligned row, and of a row after the transforms.
  std::int64_t row_elements() const;
  std::int64_t shape_elements() const;
};

/// The keys of a batch, in the order of their first streams; each key's `shape` equals its `row`.
/// `prefix` begins every error message.
///
/// Throws ValueError for groups of streams that can't be concatenated, and for duplicate names.
std::vector<BatchKey> batch_keys(const std::vector<LiveStream>& streams,
                                 const std::vector<LiveGroup>& groups,
                                 const std::string& prefix = "");

}  // namespace robocache
