// `ExecutionContext::parallel_for` over any callable.
#pragma once

#include <cstdint>

#include "robocache/execution.h"

namespace robocache {

/// Calls `body(begin, end)` on parts of [0, count), each of at least `grain` items except the last.
template <typename Body>
void parallel_for(const ExecutionContext& context, std::int64_t count, std::int64_t grain,
                  const Body& body) {
  if (count <= 0) return;  // a caller's parallel_for might not accept an empty range
  context.parallel_for(
      context.pool, count, grain,
      [](void* data, std::int64_t begin, std::int64_t end) {
        (*static_cast<const Body*>(data))(begin, end);
      },
      const_cast<Body*>(&body));
}

/// The number of items that are worth waking a thread for: 64 KiB of output, at least one item.
inline std::int64_t grain_of(std::int64_t bytes_each) {
  constexpr std::int64_t kBytes = 64 << 10;
  return bytes_each < kBytes ? kBytes / (bytes_each > 0 ? bytes_each : 1) : 1;
}

}  // namespace robocache
