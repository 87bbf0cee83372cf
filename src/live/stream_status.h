// How well a query's windows could be computed: the status of each stream.
#pragma once

#include <cstdint>
#include <vector>

#include "live/live_source.h"
#include "live/memory.h"
#include "robocache/live.h"

namespace robocache {

/// The statuses of all streams that take rows, of every robot's last query that took their rows.
class StreamStatuses {
 public:
  /// `streams` (validated) and `sources` must outlive this object.
  StreamStatuses(const std::vector<LiveStream>& streams, const LiveSources& sources,
                 std::int64_t robots);

  /// Determines the statuses of a robot's query at `now_ns`, after the rings of its `sources`,
  /// [streams], have been drained, and counts windows that lack rows. Returns the gravest status.
  LiveStatus update(std::int64_t robot, std::int64_t now_ns,
                    const std::vector<std::uint8_t>& sources);

  /// The status of a stream that takes rows. Any thread may call it.
  LiveStatus status(std::int64_t stream, std::int64_t robot) const {
    return static_cast<LiveStatus>(all_[place(stream, robot)].get());
  }

  /// Sets a robot's statuses to kNoQuery.
  void forget(std::int64_t robot);

 private:
  LiveStatus status_at(std::size_t stream, std::int64_t robot, std::int64_t now_ns) const;
  bool has_nominal_rate(std::size_t stream, std::int64_t robot, std::int64_t now_ns) const;
  bool lacks_rows(std::size_t stream, std::int64_t robot, std::int64_t now_ns) const;
  std::size_t place(std::int64_t stream, std::int64_t robot) const {
    return static_cast<std::size_t>(stream * robots_ + robot);
  }

  const std::vector<LiveStream>& streams_;
  const LiveSources& sources_;
  std::int64_t robots_;
  std::vector<std::int64_t> reaches_;  // [streams]: before now: ns, or rows; INT64_MAX: all rows
  std::vector<Counter> all_;           // [streams, R]
};

}  // namespace robocache
