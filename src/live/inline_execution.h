// The execution context of the LiveAligner's operations, in a file of its own since pushes and
// queries share it: waking other threads would cost system calls.
#pragma once

#include <cstdint>

#include "robocache/execution.h"

namespace robocache {

/// A context that runs on the CPU, in the calling thread.
inline ExecutionContext in_this_thread() {
  return on_cpu([](void*, std::int64_t count, std::int64_t, ParallelBody body, void* body_data) {
    body(body_data, 0, count);
  });
}

}  // namespace robocache
