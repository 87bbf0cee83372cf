// Where a query writes what.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "robocache/live.h"

namespace robocache {

/// Arrays begin at multiples of this, in bytes.
inline constexpr std::int64_t kOutputAlignment = 64;

/// Where one stream's window of a robot is written.
struct WindowPlace {
  std::int64_t stream;       // its number among all
  std::int64_t values;       // bytes from the output's begin to the first robot's
  std::int64_t row_stride;   // elements from step to step
  std::int64_t is_pad, age;  // bytes, likewise
};

struct OutputLayout {
  std::vector<LiveArray> arrays;
  std::vector<WindowPlace> windows;  // of the live streams, in their order
  std::size_t bytes = 0;
};

/// Throws ValueError for groups of streams that can't stand side by side, and for keys that are
/// there twice. `streams` are checked ones.
OutputLayout lay_out(const std::vector<LiveStream>& streams, const LiveOptions& options);

}  // namespace robocache
