// Where an operation runs: on the CPU, in the caller's threads, or on a CUDA stream.
#pragma once

#include <cstddef>
#include <cstdint>

#include "robocache/export.h"
#include "robocache/tensor_view.h"

struct CUstream_st;  // cudaStream_t is a pointer to it; declared here to need no CUDA header

namespace robocache {

/// A function that works on the part [begin, end) of a range.
using ParallelBody = void (*)(void* body_data, std::int64_t begin, std::int64_t end);

/// A function that calls `body(body_data, ...)` on disjoint parts that cover [0, count), each of at
/// least `grain` items except the last, on any threads, and returns when all calls have returned.
/// `body` does not throw.
using ParallelFor = void (*)(void* pool, std::int64_t count, std::int64_t grain, ParallelBody body,
                             void* body_data);

/// A ParallelFor for programs without a thread pool. It starts at most one std::thread per core and
/// joins them within the call; work of a single grain stays in the calling thread. `pool` is not
/// used.
ROBOCACHE_API void parallel_for_threads(void* pool, std::int64_t count, std::int64_t grain,
                                        ParallelBody body, void* body_data);

/// The device of an operation, and its threads or CUDA stream: the last argument of every
/// operation. `on_cpu` and `on_cuda` make one.
///
/// Operations keep no state, so threads may call them concurrently. When a call returns, it has
/// read all arguments in host memory: views, options, streams and the elements of CPU tensors.
/// Device memory that views point to must stay allocated until the CUDA stream has passed the call.
struct ExecutionContext {
  DeviceType device = DeviceType::kCpu;
  ParallelFor parallel_for = parallel_for_threads;  // CPU
  void* pool = nullptr;                             // CPU: passed to parallel_for
  CUstream_st* stream = nullptr;                    // CUDA; the stream's device must be current
};

/// A context that runs on the CPU, in the threads of `parallel_for`.
inline ExecutionContext on_cpu(ParallelFor parallel_for = parallel_for_threads,
                               void* pool = nullptr) {
  ExecutionContext context;
  context.parallel_for = parallel_for;
  context.pool = pool;
  return context;
}

/// A context that runs on a CUDA stream (a cudaStream_t; null is the default stream) of the current
/// device. An operation returns once its work is enqueued, unless its documentation says that it
/// waits.
inline ExecutionContext on_cuda(CUstream_st* stream) {
  ExecutionContext context;
  context.device = DeviceType::kCuda;
  context.stream = stream;
  return context;
}

/// Scratch memory that the caller provides for one call of an operation, on the context's device.
/// The operation's `..._workspace_bytes` function returns the required size; where it is 0, `data`
/// may be null.
struct Workspace {
  void* data = nullptr;  // aligned to 256 bytes on CUDA, to 8 on the CPU
  std::size_t bytes = 0;
};

}  // namespace robocache
