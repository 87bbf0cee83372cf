// A policy's batches: their keys, and the transforms of these, checked against them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "live/batch_keys.h"
#include "robocache/batch_transform.h"
#include "robocache/live.h"

namespace robocache {

/// What becomes of a mask.
enum class PadRule : std::uint8_t {
  kStays,
  kWithReference,  // padded also where the reference is
  kAfterPadded,    // likewise, and where a step before it is
  kWithNeighbor,   // also where the step before it is, or the reference for the first
};

/// A transform of one key.
struct KeyTransform {
  std::size_t key;
  BatchTransform transform;
  std::vector<std::int64_t> shape;     // of the row that it takes
  std::int64_t row_before, row_after;  // elements
  PadRule pad_rule = PadRule::kStays;

  /// The row that it is relative to, as it is when the transforms before are done.
  struct Reference {
    std::size_t key;
    std::int64_t step;
    std::int64_t row;  // elements
  };
  std::optional<Reference> reference;
};

/// What batches hold, and what is done to it.
struct LiveBatch {
  std::vector<BatchKey> keys;
  std::vector<KeyTransform> transforms;  // in order
};

/// `prefix`: what errors begin with.
///
/// Throws ValueError, as `batch_keys` does, and `<prefix>transforms[0].at: ...` for keys that there
/// are not, rows that do not fit, and what no robot could do: to go by a row that lies ahead, or is
/// not the anchor's.
LiveBatch plan_live_batch(const std::vector<LiveStream>& streams,
                          const std::vector<LiveGroup>& groups,
                          const std::vector<BatchTransform>& transforms,
                          const std::string& prefix = "");

}  // namespace robocache
