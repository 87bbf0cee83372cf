// The reference of LiveAligner: the loader's windows on a recording of the rows that had arrived.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "live/problem.h"
#include "robocache/live.h"

namespace robocache::testing {

/// The expected answers of a LiveAligner, computed by the loader's `gather` on plain lists of rows.
class LiveReference {
 public:
  LiveReference(const std::vector<LiveStream>& streams, const LiveOptions& options);

  void push(const LiveRow& row);
  /// The expected output for a time of each robot, all its bytes; bytes between the arrays are
  /// kGap.
  Bytes query(const LiveAligner& aligner, const std::vector<std::int64_t>& now_ns);

  const LiveStats& stats(std::int64_t stream, std::int64_t robot) const;
  /// The status of a stream in the last query.
  LiveStatus status(std::int64_t stream, std::int64_t robot) const;

  static constexpr unsigned char kGap = 0xA5;

 private:
  struct Held {
    std::vector<LiveRow> pending, rows;
    std::int64_t last_arrived = INT64_MIN;
    bool has_given_up = false;
    bool has_missed = false;         // since the last row that was put into its place
    std::vector<std::int64_t> lost;  // rows are complete from these times on
    std::vector<bool> are_distant;   // of each row that came, from the query that took it
    LiveStats stats;
    LiveStatus status = LiveStatus::kNoQuery;
  };

  void take(std::int64_t stream, std::int64_t robot, std::int64_t now_ns);
  bool is_short(std::int64_t stream, std::int64_t robot, std::int64_t now_ns);
  bool is_off_rate(std::int64_t stream, std::int64_t robot, std::int64_t now_ns);
  void process(const LiveAligner& aligner, const LiveStream& stream, std::int64_t robot,
               const Bytes& frames, Bytes& out) const;
  LiveStatus judge(std::int64_t stream, std::int64_t robot, std::int64_t now_ns);
  std::vector<LiveRow> seen(std::size_t stream, std::int64_t robot, std::int64_t now_ns);
  Held& held(std::int64_t stream, std::int64_t robot);

  std::vector<LiveStream> streams_;
  LiveOptions options_;
  std::vector<Held> held_;  // [streams,R]
};

/// The answer of an aligner to a query, empty where its status says that nothing is written; bytes
/// between the arrays are kGap.
Bytes answer(LiveAligner& aligner, const LiveNow& now);

/// Which array of an output differs, and where; "" if none does.
std::string difference_of(const LiveAligner& aligner, const Bytes& got, const Bytes& expected);

/// Which count differs; "" if none does.
std::string difference_of(const LiveStats& got, const LiveStats& expected);

}  // namespace robocache::testing
