// What sensors send to a LiveAligner and when it is asked, made at random from a seed; and what it is
// to answer: what the loader makes of a recording of the rows that have come by then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "random.h"
#include "robocache/live.h"
#include "robocache/loader.h"

namespace robocache::testing {

using Bytes = std::vector<unsigned char>;

/// A row on its way.
struct LiveRow {
  std::int64_t stream = 0, robot = 0, time_ns = 0;
  bool is_valid = true;
  Bytes values;
};

/// Queries are made when so many rows have been pushed.
struct LiveQuery {
  std::size_t rows = 0;
  std::vector<std::int64_t> now_ns;  // [R]
};

struct LiveProblem {
  std::vector<LiveStream> streams;
  LiveOptions options;
  std::vector<LiveRow> rows;  // in the order in which they arrive
  std::vector<LiveQuery> queries;

  std::string text() const;
};

/// What a random problem must be; the rest is left to chance.
struct LiveWanted {
  bool is_relative = false;  // the last stream, to the first; none otherwise
  bool is_image = false;     // of every stream
};

LiveProblem random_live_problem(std::uint64_t seed, const LiveWanted& wanted = {});

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
