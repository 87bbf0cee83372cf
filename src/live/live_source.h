// Where a live stream's rows come from: a ring for each robot, and what has been taken out of them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "live/row_buffer.h"
#include "live/row_ring.h"

namespace robocache {

class LiveSource {
 public:
  LiveSource(std::int64_t buffer_rows, std::int64_t ring_rows, std::size_t row_bytes,
             std::int64_t robots)
      : buffer(buffer_rows, row_bytes, robots) {
    for (std::int64_t r = 0; r < robots; ++r) {
      rings_.push_back(std::make_unique<RowRing>(ring_rows, row_bytes));
    }
  }

  RowRing& ring(std::int64_t robot) { return *rings_[static_cast<std::size_t>(robot)]; }

  /// Takes what a robot's ring has, for a query at `now_ns`.
  void drain(std::int64_t robot, std::int64_t now_ns, std::int64_t max_future_ns) {
    const std::int64_t taken =
        ring(robot).take_all([&](const RowRing::Header& row, const std::byte* values) {
          if (row.time_ns > now_ns) {
            // The difference of the two may be past int64.
            const std::uint64_t early =
                static_cast<std::uint64_t>(row.time_ns) - static_cast<std::uint64_t>(now_ns);
            if (early > static_cast<std::uint64_t>(max_future_ns)) {
              return buffer.refuse_future(robot, row.time_ns);
            }
            buffer.counters(robot).early.add(1);
          }
          buffer.insert(robot, row.time_ns, row.is_valid, values);
        });
    buffer.counters(robot).taken.add(taken);
  }

  /// Takes what a robot's ring has and gives it up, with all that is held.
  void forget(std::int64_t robot) {
    const std::int64_t taken =
        ring(robot).take_all([](const RowRing::Header&, const std::byte*) {});
    buffer.counters(robot).taken.add(taken);
    buffer.counters(robot).forgotten.add(taken);
    buffer.forget(robot);
  }

  RowBuffer buffer;

 private:
  std::vector<std::unique_ptr<RowRing>> rings_;  // [R]
};

/// One for each stream; null for those that are not live.
using LiveSources = std::vector<std::unique_ptr<LiveSource>>;

}  // namespace robocache
