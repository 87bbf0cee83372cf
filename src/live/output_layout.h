// The arrays of a query's output and their positions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "live/batch_keys.h"
#include "robocache/live.h"

namespace robocache {

/// Alignment of the arrays, in bytes.
inline constexpr std::int64_t kOutputAlignment = 64;

/// The position of one stream's window in the output.
struct WindowPlace {
  std::int64_t stream;       // index among all streams
  std::int64_t values;       // bytes to the first robot's, unless a transform writes them
  std::int64_t row_stride;   // elements from step to step, as aligned
  std::int64_t is_pad, age;  // bytes to the first robot's
};

struct OutputLayout {
  std::vector<LiveArray> arrays;
  std::vector<WindowPlace> windows;  // of the live streams, in their order
  std::vector<std::int64_t> values;  // per key: offset of the first robot's, in bytes; -1: not live
  // Per stream: the offset of `<key>_dim_is_pad`, -1: none; and that of `dataset_index`, -1: none.
  std::vector<std::int64_t> dim_is_pad;
  std::int64_t dataset_index = -1;
  std::size_t bytes = 0;

  /// The position of a live stream's window.
  const WindowPlace& window_of(std::size_t stream) const;
};

/// Lays out the arrays of `keys`. `streams` are validated, and `keys` refer to them.
OutputLayout lay_out(const std::vector<LiveStream>& streams, const std::vector<BatchKey>& keys,
                     std::int64_t robots, bool has_dataset_index);

}  // namespace robocache
