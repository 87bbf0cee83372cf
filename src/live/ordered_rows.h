// Rows whose elements arrive in the order of a driver's messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "live/memory.h"
#include "robocache/live.h"

namespace robocache {

/// The index in a message with these names of each of a stream's channels, [D].
///
/// Throws ValueError, which names the channel, if a name is missing or there twice; also if the
/// stream has no names of channels, or one twice.
std::vector<std::int64_t> find_channels(const LiveStream& stream,
                                        const std::vector<std::string>& names);

/// Memory for one row of each robot's streams that have names of channels: the thread that pushes
/// puts a row in order there.
class OrderedRows {
 public:
  OrderedRows(const std::vector<LiveStream>& streams, std::int64_t robots);

  /// Copies elements to a row, `indices` [D] of them in the stream's order; rounds float32 and
  /// float64 to the stream's floating type. Null if elements of `type` do not make such a row.
  const std::byte* order(std::int64_t stream, std::int64_t robot, const void* values, DataType type,
                         const std::vector<std::int64_t>& indices) const;

 private:
  struct Stream {
    DataType dtype;
    std::size_t stride;  // bytes from a robot's row to the next
    AlignedBytes rows;   // [R]
  };
  std::vector<Stream> streams_;
};

}  // namespace robocache
