// `ExecutionContext::parallel_for` over any callable.
#pragma once

#include <cstdint>

#include "robocache/execution.h"

namespace robocache {

/// Calls `body(begin, end)` on parts of [0, count), each of at least `grain` but for the last.
template <typename Body>
void parallel_for(const ExecutionContext& context, std::int64_t count, std::int64_t grain,
                  const Body& body) {
  if (count <= 0) return;  // what a caller's own function does with an empty range is not known
  context.parallel_for(
      context.pool, count, grain,
      [](void* data, std::int64_t begin, std::int64_t end) {
        (*static_cast<const Body*>(data))(begin, end);
      },
      const_cast<Body*>(&body));
}

/// As many items as are worth waking a thread for, each so many bytes of output.
inline std::int64_t grain_of(std::int64_t bytes_each) {
  constexpr std::int64_t kBytes = 64 << 10;
  return bytes_each < kBytes ? kBytes / (bytes_each > 0 ? bytes_each : 1) : 1;
}

}  // namespace robocache
