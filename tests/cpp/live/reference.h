// What a LiveAligner is to answer: what the loader makes of a recording of the rows that have come
// by then.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "live/problem.h"
#include "robocache/live.h"

namespace robocache::testing {

/// What a LiveAligner is to answer, by plain lists of rows and the loader's `gather` on them.
class LiveReference {
 public:
  LiveReference(const std::vector<LiveStream>& streams, const LiveOptions& options);

  void push(const LiveRow& row);
  /// What stands in the output at a time of each robot, all bytes of it; those that belong to no
  /// array hold kGap.
  Bytes query(const LiveAligner& aligner, const std::vector<std::int64_t>& now_ns);

  const LiveStats& stats(std::int64_t stream, std::int64_t robot) const;

  static constexpr unsigned char kGap = 0xA5;

 private:
  struct Held {
    std::vector<LiveRow> pending, rows;
    std::int64_t last_arrived = INT64_MIN;
    bool has_given_up = false;
    LiveStats stats;
  };

  void take(std::int64_t stream, std::int64_t robot, std::int64_t now_ns);
  void count_short(std::int64_t stream, std::int64_t robot, std::int64_t now_ns);
  std::vector<LiveRow> seen(std::size_t stream, std::int64_t robot, std::int64_t now_ns);
  Held& held(std::int64_t stream, std::int64_t robot);

  std::vector<LiveStream> streams_;
  LiveOptions options_;
  std::vector<Held> held_;  // [streams,R]
};

/// What an aligner answers to a query, likewise.
Bytes answer(LiveAligner& aligner, const LiveNow& now);

/// Which array of an output differs, and where; "" if none does.
std::string difference_of(const LiveAligner& aligner, const Bytes& got, const Bytes& expected);

/// Which count differs; "" if none does.
std::string difference_of(const LiveStats& got, const LiveStats& expected);

}  // namespace robocache::testing
