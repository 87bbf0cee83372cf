// Where an operation runs: on the CPU, spread over the caller's threads, or on a CUDA stream.
#pragma once

#include <cstddef>
#include <cstdint>

#include "robocache/export.h"
#include "robocache/tensor_view.h"

struct CUstream_st;  // what cudaStream_t points to; the CUDA headers are not needed here

namespace robocache {

/// Work on the part [begin, end) of a range.
using ParallelBody = void (*)(void* body_data, std::int64_t begin, std::int64_t end);

/// Calls `body(body_data, ...)` on disjoint parts that cover [0, count), each of at least `grain`
/// but for the last, on any threads, and returns when all are done. `body` does not throw.
using ParallelFor = void (*)(void* pool, std::int64_t count, std::int64_t grain, ParallelBody body,
                             void* body_data);

/// A ParallelFor for programs that have no thread pool of their own: as many std::threads as the
/// machine has cores, started and joined within the call, and none for a single grain. `pool` is
/// not used.
ROBOCACHE_API void parallel_for_threads(void* pool, std::int64_t count, std::int64_t grain,
                                        ParallelBody body, void* body_data);

/// Made by one of the functions below, and passed as the last argument of an operation.
///
/// Operations keep no state: any threads may call them at once. Whatever of the arguments lies in
/// host memory (views, options, streams, and the elements of CPU tensors) has been read when a call
/// returns; device memory that views point to must live until the CUDA stream has passed the call.
struct ExecutionContext {
  DeviceType device = DeviceType::kCpu;
  ParallelFor parallel_for = parallel_for_threads;  // CPU
  void* pool = nullptr;                             // CPU: handed to parallel_for
  CUstream_st* stream = nullptr;                    // CUDA; the stream's device must be current
};

/// On the CPU, on `parallel_for`'s threads.
inline ExecutionContext on_cpu(ParallelFor parallel_for = parallel_for_threads,
                               void* pool = nullptr) {
  ExecutionContext context;
  context.parallel_for = parallel_for;
  context.pool = pool;
  return context;
}

/// On a CUDA stream (a cudaStream_t; null is the default stream) of the current device. The call
/// returns once the work is enqueued, unless it says that it waits.
inline ExecutionContext on_cuda(CUstream_st* stream) {
  ExecutionContext context;
  context.device = DeviceType::kCuda;
  context.stream = stream;
  return context;
}

/// Scratch memory that the caller lends to an operation for one call, in the context's memory. How
/// many bytes are needed, the operation's `..._workspace_bytes` says; where these are 0, none need
/// be given.
struct Workspace {
  void* data = nullptr;  // aligned to 256 bytes on CUDA, to 8 on the CPU
  std::size_t bytes = 0;
};

}  // namespace robocache
