// A policy's batches: their keys, and the transforms, validated against the keys.
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

/// How a transform changes a key's mask.
enum class PadRule : std::uint8_t {
  kStays,
  kWithReference,  // pads a step also where the reference is padded
  kAfterPadded,    // likewise, and where an earlier step is padded
  kWithNeighbor,   // also where the step before it is padded; for the first step, the reference
};

/// A transform of one key.
struct KeyTransform {
  std::size_t key;
  BatchTransform transform;
  std::vector<std::int64_t> shape;     // of the input row
  std::int64_t row_before, row_after;  // elements
  PadRule pad_rule = PadRule::kStays;

  /// The row that it is relative to, after the preceding transforms.
  struct Reference {
    std::size_t key;
    std::int64_t step;
    std::int64_t row;  // elements
  };
  std::optional<Reference> reference;
};

/// The arrays of a batch and the transforms that compute them.
struct LiveBatch {
  std::vector<BatchKey> keys;
  std::vector<KeyTransform> transforms;  // in order
};

/// Plans the batches of a policy. `prefix` begins every error message.
///
/// Throws ValueError, as `batch_keys` does, and `<prefix>transforms[0].at: ...` for unknown keys,
/// for rows that do not fit, and for transforms that no robot can compute: relative to a row in the
/// future, or to a row that is not the anchor's.
LiveBatch plan_live_batch(const std::vector<LiveStream>& streams,
                          const std::vector<LiveGroup>& groups,
                          const std::vector<BatchTransform>& transforms, bool has_dataset_index,
                          const std::string& prefix = "");

}  // namespace robocache
