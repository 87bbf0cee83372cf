#include "live/key_inverses.h"

#include <optional>

namespace robocache {

KeyInverses::KeyInverses(const std::vector<LiveStream>& pushed,
                         const std::vector<LiveStream>& streams, const LiveBatch& batch,
                         TransformChain& chain, const LiveWindows& windows, std::int64_t robots)
    : streams_(streams), batch_(batch), chain_(chain), windows_(windows), robots_(robots) {
  for (const LiveStream& stream : pushed) inverses_.emplace_back(stream);
  std::vector<std::set<std::size_t>> of_keys;
  std::set<std::size_t> all;
  for (std::size_t key = 0; key < batch.keys.size(); ++key) {
    of_keys.push_back(find_references(key));
    all.insert(of_keys.back().begin(), of_keys.back().end());
  }
  references_.assign(all.begin(), all.end());
  for (const std::set<std::size_t>& found : of_keys) {
    std::vector<std::size_t>& of_key = references_of_.emplace_back();
    for (std::size_t i = 0; i < references_.size(); ++i) {
      if (found.count(references_[i]) > 0) of_key.push_back(i);
    }
  }
}

LiveStatus KeyInverses::undo(const KeptQueries& queries, const LiveTicket& ticket, std::int64_t key,
                             const float* values, std::int64_t rows, float* out) {
  return undo_rows(queries, ticket, key, values, rows, out);
}

LiveStatus KeyInverses::undo(const KeptQueries& queries, const LiveTicket& ticket, std::int64_t key,
                             const double* values, std::int64_t rows, double* out) {
  return undo_rows(queries, ticket, key, values, rows, out);
}

template <typename Number>
LiveStatus KeyInverses::undo_rows(const KeptQueries& queries, const LiveTicket& ticket,
                                  std::int64_t number, const Number* values, std::int64_t rows,
                                  Number* out) {
  if (number < 0 || number >= static_cast<std::int64_t>(batch_.keys.size())) {
    return LiveStatus::kUnknownKey;
  }
  const auto key = static_cast<std::size_t>(number);
  if (!is_invertible(key)) return LiveStatus::kNotInvertible;
  if (rows < 0) return LiveStatus::kWrongSize;
  if (rows > 0 && (values == nullptr || out == nullptr)) return LiveStatus::kBadPointer;
  // The values of a key that is not relative do not depend on a query.
  const bool is_relative = !references_of_[key].empty();
  if (is_relative && ticket.sequence == 0) return LiveStatus::kNoQuery;
  const std::int64_t slot = is_relative ? queries.find(ticket).value_or(-1) : 0;
  const LiveStatus status = slot < 0 ? LiveStatus::kUnknownTicket : status_of(queries, key, slot);
  if (status == LiveStatus::kUnknownTicket) return status;
  const std::vector<std::size_t>& members = batch_.keys[key].streams;
  const bool is_changed = chain_.changes(key);
  const std::int64_t given = batch_.keys[key].shape_elements();
  for (std::int64_t r = 0; r < robots_; ++r) {
    if (is_changed) chain_.begin_undo(key, slot, r, kDataTypeOf<Number>);
    const std::int64_t reference_row = slot * robots_ + r;
    for (std::int64_t row = 0; row < rows; ++row, values += given) {
      if (is_changed) {
        out = undo_streams(members, reference_row, chain_.undo(key, values), out);
      } else {
        out = undo_streams(members, reference_row, values, out);
      }
    }
  }
  return status;
}

/// Applies the streams' inverses to an aligned row, without padded elements and missing streams;
/// returns the output position of the next row.
template <typename Given, typename Number>
Number* KeyInverses::undo_streams(const std::vector<std::size_t>& members,
                                  std::int64_t reference_row, const Given* aligned,
                                  Number* out) const {
  for (const std::size_t stream : members) {
    if (!streams_[stream].is_missing) {
      inverses_[stream].apply(windows_.reference_of(static_cast<std::int64_t>(stream)),
                              reference_row, aligned, out);
      out += inverses_[stream].channels();
    }
    aligned += width_of(streams_[stream]);
  }
  return out;
}

bool KeyInverses::is_invertible(std::size_t key) const {
  if (batch_.keys[key].is_missing()) return false;
  for (const std::size_t stream : batch_.keys[key].streams) {
    if (!streams_[stream].is_missing && !inverses_[stream].exists()) return false;
  }
  return true;
}

/// The streams that a key's values are relative to.
std::set<std::size_t> KeyInverses::find_references(std::size_t key) const {
  std::set<std::size_t> found;
  for (const std::size_t stream : batch_.keys[key].streams) {
    const LiveWindows::Reference* const reference =
        windows_.reference_of(static_cast<std::int64_t>(stream));
    if (reference != nullptr) {
      found.insert(static_cast<std::size_t>(reference->stream - streams_.data()));
    }
  }
  for (const std::size_t of : chain_.references_of(key)) {
    for (const std::size_t stream : batch_.keys[of].streams) {
      // Missing streams of a group are zeros in training too.
      const bool counts = !streams_[stream].is_missing || batch_.keys[of].is_missing();
      if (counts) found.insert(stream);
    }
  }
  return found;
}

/// Whether a query had all values that a key is relative to, for every robot.
LiveStatus KeyInverses::status_of(const KeptQueries& queries, std::size_t key,
                                  std::int64_t slot) const {
  LiveStatus status = LiveStatus::kOk;
  if (references_of_[key].empty()) return status;
  for (std::int64_t r = 0; r < robots_; ++r) {
    if (!queries.has(slot, r)) return LiveStatus::kUnknownTicket;
    for (const std::size_t reference : references_of_[key]) {
      if (queries.is_empty(slot, r, reference)) status = LiveStatus::kNoRows;
    }
    if (status == LiveStatus::kOk && is_reference_padded(key, slot, r)) {
      status = LiveStatus::kPadded;
    }
  }
  return status;
}

bool KeyInverses::is_reference_padded(std::size_t key, std::int64_t slot,
                                      std::int64_t robot) const {
  for (const std::size_t stream : batch_.keys[key].streams) {
    const auto* const reference = windows_.reference_of(static_cast<std::int64_t>(stream));
    if (reference != nullptr && reference->is_pad.get()[slot * robots_ + robot] != std::byte{0}) {
      return true;
    }
  }
  return chain_.is_reference_padded(key, slot, robot);
}

}  // namespace robocache
