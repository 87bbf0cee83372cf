// Random rows and queries for a LiveAligner, from a seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "robocache/live.h"
#include "support/random.h"

namespace robocache::testing {

using Bytes = std::vector<unsigned char>;

/// A row that a sensor pushes.
struct LiveRow {
  std::int64_t stream = 0, robot = 0, time_ns = 0;
  bool is_valid = true;
  Bytes values;
};

/// A query, which follows the first `rows` rows.
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

/// Requirements for a random problem; all other properties are random.
struct LiveWanted {
  bool is_relative = false;  // the last stream, to the first; none otherwise
  bool is_image = false;     // of every stream
};

LiveProblem random_live_problem(std::uint64_t seed, const LiveWanted& wanted = {});

/// The number of elements of a row.
std::int64_t elements_of(const LiveStream& stream);
/// Whether alignment computes with the type; rows of other types are copied as bytes.
bool is_computed(DataType type);
/// Whether a run of the stream has this method.
bool has_method(const LiveStream& stream, Method method);

}  // namespace robocache::testing
