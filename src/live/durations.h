// Differences of times in ns that may exceed the range of int64.
#pragma once

#include <cstdint>

namespace robocache {

/// a - b, saturated to the range of int64; b is 0 or more.
inline std::int64_t earlier(std::int64_t a, std::int64_t b) {
  const auto difference =
      static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
  return difference <= a ? difference : INT64_MIN;
}

/// Whether `time_ns` is later than `than_ns` by more than `by_ns`, which is 0 or more.
inline bool is_past(std::int64_t time_ns, std::int64_t than_ns, std::int64_t by_ns) {
  return time_ns > than_ns &&
         static_cast<std::uint64_t>(time_ns) - static_cast<std::uint64_t>(than_ns) >
             static_cast<std::uint64_t>(by_ns);
}

}  // namespace robocache
