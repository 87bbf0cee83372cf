#include "robocache/execution.h"

#include <algorithm>
#include <thread>
#include <vector>

namespace robocache {

void parallel_for_threads(void* /*pool*/, std::int64_t count, std::int64_t grain, ParallelBody body,
                          void* body_data) {
  if (count <= 0) return;
  const std::int64_t cores = std::max<std::int64_t>(1, std::thread::hardware_concurrency());
  const std::int64_t parts =
      std::clamp<std::int64_t>(count / std::max<std::int64_t>(1, grain), 1, cores);
  const auto run_part = [=](std::int64_t part) {
    // Avoids count * part, which may overflow 64 bits.
    const std::int64_t size = count / parts;
    const std::int64_t extra = count % parts;
    const std::int64_t begin = part * size + std::min(part, extra);
    body(body_data, begin, begin + size + (part < extra ? 1 : 0));
  };
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(parts - 1));
  std::int64_t started = 1;
  try {
    for (; started < parts; ++started) threads.emplace_back(run_part, started);
  } catch (...) {
    // The system cannot start another thread: the calling thread does the remaining parts.
  }
  for (std::int64_t part = started; part < parts; ++part) run_part(part);
  run_part(0);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace robocache
