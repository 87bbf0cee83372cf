// The last queries, whose references `undo` adds to a policy's output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "robocache/live.h"

namespace robocache {

/// A ring of the last queries: their tickets, and which references had no rows. A query's index in
/// the ring, its slot, is also the place of its reference values in `LiveWindows` and
/// `TransformChain`. Allocates nothing after construction.
class KeptQueries {
 public:
  /// `count`: of queries. `references`: the number of streams that keys are relative to.
  KeptQueries(std::int64_t count, std::int64_t robots, std::size_t references);

  /// Starts a query, in place of the oldest one.
  void begin();
  /// Records a robot's time in the current query.
  void add(std::int64_t robot, std::int64_t now_ns);
  /// Records that a reference had no row that a robot's windows of the current query could see.
  void set_empty(std::int64_t robot, std::size_t reference) {
    is_empty_[at(slot_, robot) * references_ + reference] = 1;
  }

  /// The slot of the current query, which is the last one until the next begins.
  std::int64_t slot() const { return slot_; }
  /// The ticket of the current query.
  LiveTicket ticket() const { return {sequences_[static_cast<std::size_t>(slot_)], times_[0]}; }
  /// The slot of a ticket's query; nullopt if it is not among the last ones.
  std::optional<std::int64_t> find(const LiveTicket& ticket) const;

  /// Whether a query has a robot, and has not been forgotten for it.
  bool has(std::int64_t slot, std::int64_t robot) const { return has_[at(slot, robot)] != 0; }
  bool is_empty(std::int64_t slot, std::int64_t robot, std::size_t reference) const {
    return is_empty_[at(slot, robot) * references_ + reference] != 0;
  }
  /// The time of a robot's last query; 0 without one.
  std::int64_t now_ns(std::int64_t robot) const {
    return has(slot_, robot) ? times_[static_cast<std::size_t>(robot)] : 0;
  }

  /// Forgets all queries of a robot.
  void forget(std::int64_t robot);

 private:
  std::size_t at(std::int64_t slot, std::int64_t robot) const {
    return static_cast<std::size_t>(slot * robots_ + robot);
  }

  std::int64_t robots_;
  std::size_t references_;
  std::int64_t slot_ = 0;
  std::vector<std::int64_t> sequences_;  // [count]; 0: no query yet
  std::vector<std::int64_t> times_;      // [R]: of the current query
  std::vector<std::uint8_t> has_;        // [count,R]
  std::vector<std::uint8_t> is_empty_;   // [count,R,references]
};

}  // namespace robocache
