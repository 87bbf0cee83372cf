#include "live/kept_queries.h"

#include <algorithm>
#include <atomic>

namespace robocache {
namespace {

/// The sequence number of the last query of any aligner of the process: no aligner mistakes
/// another's ticket for one of its own.
std::atomic<std::int64_t> last_sequence{0};

}  // namespace

KeptQueries::KeptQueries(std::int64_t count, std::int64_t robots, std::size_t references)
    : robots_(robots),
      references_(references),
      sequences_(static_cast<std::size_t>(count)),
      times_(static_cast<std::size_t>(robots)),
      has_(static_cast<std::size_t>(count * robots)),
      is_empty_(has_.size() * references) {}

void KeptQueries::begin() {
  slot_ = (slot_ + 1) % static_cast<std::int64_t>(sequences_.size());
  sequences_[static_cast<std::size_t>(slot_)] =
      last_sequence.fetch_add(1, std::memory_order_relaxed) + 1;
  const auto robots = static_cast<std::size_t>(robots_);
  std::fill_n(has_.data() + at(slot_, 0), robots, std::uint8_t{0});
  std::fill_n(is_empty_.data() + at(slot_, 0) * references_, robots * references_, std::uint8_t{0});
}

void KeptQueries::add(std::int64_t robot, std::int64_t now_ns) {
  times_[static_cast<std::size_t>(robot)] = now_ns;
  has_[at(slot_, robot)] = 1;
}

std::optional<std::int64_t> KeptQueries::find(const LiveTicket& ticket) const {
  if (ticket.sequence <= 0) return std::nullopt;
  const auto found = std::find(sequences_.begin(), sequences_.end(), ticket.sequence);
  if (found == sequences_.end()) return std::nullopt;
  return found - sequences_.begin();
}

void KeptQueries::forget(std::int64_t robot) {
  const auto count = static_cast<std::int64_t>(sequences_.size());
  for (std::int64_t slot = 0; slot < count; ++slot) has_[at(slot, robot)] = 0;
}

}  // namespace robocache
