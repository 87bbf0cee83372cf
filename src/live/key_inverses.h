// The inverse of a batch's keys, by which `LiveAligner::undo` makes actions of a policy's output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "live/kept_queries.h"
#include "live/live_batch.h"
#include "live/live_windows.h"
#include "live/transform_chain.h"
#include "live/undo.h"
#include "robocache/live.h"

namespace robocache {

/// Inverts the transforms of a key, then the scale and the reference of each of its streams.
class KeyInverses {
 public:
  /// `pushed` and `streams`: validated, without and with the rows that buffers hold. `streams`,
  /// `batch`, `chain` and `windows` must outlive this object.
  KeyInverses(const std::vector<LiveStream>& pushed, const std::vector<LiveStream>& streams,
              const LiveBatch& batch, TransformChain& chain, const LiveWindows& windows,
              std::int64_t robots);

  /// The streams that keys are relative to, whose rows `KeptQueries` records by their index here.
  const std::vector<std::size_t>& references() const { return references_; }

  /// Same as `LiveAligner::undo`, for the number of a key.
  LiveStatus undo(const KeptQueries& queries, const LiveTicket& ticket, std::int64_t key,
                  const float* values, std::int64_t rows, float* out);
  LiveStatus undo(const KeptQueries& queries, const LiveTicket& ticket, std::int64_t key,
                  const double* values, std::int64_t rows, double* out);

 private:
  template <typename Number>
  LiveStatus undo_rows(const KeptQueries& queries, const LiveTicket& ticket, std::int64_t number,
                       const Number* values, std::int64_t rows, Number* out);
  template <typename Given, typename Number>
  Number* undo_streams(const std::vector<std::size_t>& members, std::int64_t reference_row,
                       const Given* aligned, Number* out) const;
  bool is_invertible(std::size_t key) const;
  std::set<std::size_t> find_references(std::size_t key) const;
  LiveStatus status_of(const KeptQueries& queries, std::size_t key, std::int64_t slot) const;
  bool is_reference_padded(std::size_t key, std::int64_t slot, std::int64_t robot) const;

  const std::vector<LiveStream>& streams_;
  const LiveBatch& batch_;
  TransformChain& chain_;
  const LiveWindows& windows_;
  const std::int64_t robots_;
  std::vector<Inverse> inverses_;                        // per stream
  std::vector<std::size_t> references_;                  // streams
  std::vector<std::vector<std::size_t>> references_of_;  // per key: indices in `references_`
};

}  // namespace robocache
