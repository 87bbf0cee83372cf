// What sensors send to a LiveAligner and when it is asked, made at random from a seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "robocache/live.h"
#include "support/random.h"

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

/// Of a row.
std::int64_t elements_of(const LiveStream& stream);
/// Whether values of this type are computed with; others are copied as bytes.
bool is_computed(DataType type);
/// Whether channels of a stream combine by it.
bool has_method(const LiveStream& stream, Method method);

}  // namespace robocache::testing
