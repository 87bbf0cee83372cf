// The keys of a batch that a query computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "live/live_batch.h"
#include "live/output_layout.h"
#include "robocache/live.h"

namespace robocache {

struct Selection {
  std::vector<std::string> names;     // of the keys, in the order of the batch
  std::vector<std::uint8_t> keys;     // [keys]: whether the key is computed
  std::vector<std::uint8_t> streams;  // [streams]: whether the stream's window is computed
  std::vector<std::uint8_t> sources;  // [streams]: whether rows are taken out of its rings

  /// The parts of the output that are written.
  struct Range {
    std::size_t begin, bytes;
  };
  std::vector<Range> ranges;
};

/// Selects all keys that a query can compute.
Selection select_all(const std::vector<LiveStream>& streams, const LiveBatch& batch,
                     const OutputLayout& layout);

/// Selects keys by their names. Also selects the keys that transforms are relative to, so that
/// `undo` has the references of every query. Throws ValueError for no names, and for names of keys
/// that a query does not compute.
Selection select_keys(const std::vector<LiveStream>& streams, const LiveBatch& batch,
                      const OutputLayout& layout, const std::vector<std::string>& names);

}  // namespace robocache
