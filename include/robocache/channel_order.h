// The order in which a driver's messages have the channels of a stream.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "robocache/export.h"

namespace robocache {

/// Where each channel of a stream is in a driver's messages: drivers may send joints in another
/// order than they were recorded in. `LiveAligner::channel_order` looks the names up, once.
class ROBOCACHE_API ChannelOrder {
 public:
  /// The stream's number.
  std::int64_t stream() const noexcept { return stream_; }
  /// The names of a message's elements.
  const std::vector<std::string>& names() const noexcept { return names_; }
  /// [D]: the index in a message of each of the stream's channels.
  const std::vector<std::int64_t>& indices() const noexcept { return indices_; }

 private:
  friend class LiveAligner;
  ChannelOrder(std::int64_t stream, std::vector<std::string> names,
               std::vector<std::int64_t> indices)
      : stream_(stream), names_(std::move(names)), indices_(std::move(indices)) {}

  std::int64_t stream_;
  std::vector<std::string> names_;
  std::vector<std::int64_t> indices_;
};

}  // namespace robocache
