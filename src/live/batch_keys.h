// The keys of a batch: streams, and groups of streams that are concatenated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "robocache/live.h"

namespace robocache {

/// The key of a stream in a batch.
const std::string& key_of(const LiveStream& stream);
/// The elements of a stream's row in a batch.
std::int64_t width_of(const LiveStream& stream);

struct BatchKey {
  std::string name;
  std::vector<std::size_t> streams;  // one, or the streams of a group in its order
  bool is_group;
  DataType type;                    // of the values
  std::vector<std::int64_t> row;    // the shape of an aligned row
  std::vector<std::int64_t> shape;  // the shape of a row after the transforms
  // The shape of an aligned row without padded elements and missing streams; [0]: all are missing.
  std::vector<std::int64_t> unpadded;

  /// Elements of an aligned row, and of a row after the transforms.
  std::int64_t row_elements() const;
  std::int64_t shape_elements() const;
  /// Whether the robot lacks all of its streams.
  bool is_missing() const { return unpadded.size() == 1 && unpadded[0] == 0; }
};

/// The keys of a batch, in the order of their first streams; each key's `shape` equals its `row`.
/// `prefix` begins every error message.
///
/// Throws ValueError for groups of streams that can't be concatenated, for widths and missing
/// streams that contradict their windows, and for duplicate names.
std::vector<BatchKey> batch_keys(const std::vector<LiveStream>& streams,
                                 const std::vector<LiveGroup>& groups, bool has_dataset_index,
                                 const std::string& prefix = "");

}  // namespace robocache
