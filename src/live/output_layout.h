// Where a query writes what.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "live/batch_keys.h"
#include "robocache/live.h"

namespace robocache {

/// Arrays begin at multiples of this, in bytes.
inline constexpr std::int64_t kOutputAlignment = 64;

/// Where one stream's window of a robot is written.
struct WindowPlace {
  std::int64_t stream;       // its number among all
  std::int64_t values;       // bytes from the output's begin to the first robot's, unless
                             // transforms take it up elsewhere
  std::int64_t row_stride;   // elements from step to step, as aligned
  std::int64_t is_pad, age;  // bytes, likewise
};

struct OutputLayout {
  std::vector<LiveArray> arrays;
  std::vector<WindowPlace> windows;  // of the live streams, in their order
  std::vector<std::int64_t> values;  // of each key, bytes to the first robot's; -1: it lies ahead
  std::size_t bytes = 0;

  /// Of a live stream.
  const WindowPlace& window_of(std::size_t stream) const;
};

/// `streams` are checked ones, of which `keys` are.
OutputLayout lay_out(const std::vector<LiveStream>& streams, const std::vector<BatchKey>& keys,
                     std::int64_t robots);

}  // namespace robocache
