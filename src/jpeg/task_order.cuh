// The order in which a block of samples_kernel runs its tasks.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "jpeg/backends.h"
#include "jpeg/task.h"

namespace robocache::cuda {

/// Sorts the tasks of a block's entries: luma before chroma, and long ones before short ones. So
/// the lanes of a warp have about equally many symbols, and what takes long starts first. Task i of
/// a block is the luma (or all) of its entry i, task `entries` + i the chroma.
///
/// It is a sort by counting, of classes of lengths: `count` by all threads, `__syncthreads`, and
/// `place` by all threads.
template <int kThreads>
class TaskOrder {
  static constexpr std::uint32_t kClasses = 64;
  static constexpr int kRounds = (2 * kMaxBlockEntries + kThreads - 1) / kThreads;

 public:
  __device__ void clear() {
    for (auto i = static_cast<int>(threadIdx.x); i < kClasses; i += kThreads) counts_[i] = 0;
  }

  struct Ranks {
    std::uint32_t classes[kRounds];  // of the thread's tasks
    std::uint32_t ranks[kRounds];    // within the class
  };

  __device__ Ranks count(const JpegPlan& plan, const TaskFrame& frame, std::int32_t first,
                         std::int32_t entries) {
    Ranks made;
#pragma unroll
    for (int round = 0; round < kRounds; ++round) {
      const std::int32_t i = round * kThreads + static_cast<std::int32_t>(threadIdx.x);
      made.classes[round] = kClasses;
      if (i >= (plan.is_split ? 2 * entries : entries)) continue;
      const bool is_chroma = i >= entries;
      const std::int32_t entry = first + (is_chroma ? i - entries : i);
      const std::uint32_t bits = bits_of_task(plan, frame, entry, is_chroma);
      const std::uint32_t shorter = min(bits >> (is_chroma ? 4 : 5), kClasses / 2 - 1);
      made.classes[round] = (is_chroma ? kClasses : kClasses / 2) - 1 - shorter;
      made.ranks[round] = atomicAdd(&counts_[made.classes[round]], 1u);
    }
    return made;
  }

  __device__ void place(const Ranks& ranks) {
    const std::uint32_t lane = threadIdx.x % 32;
    const std::uint32_t even = counts_[2 * lane];
    const std::uint32_t mine = even + counts_[2 * lane + 1];
    std::uint32_t sum = mine;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
      const std::uint32_t other = __shfl_up_sync(~0u, sum, step);
      sum += lane >= static_cast<std::uint32_t>(step) ? other : 0;
    }
#pragma unroll
    for (int round = 0; round < kRounds; ++round) {
      const std::uint32_t task_class = ranks.classes[round];
      const auto owner = static_cast<int>(task_class / 2 % 32);
      const std::uint32_t before = __shfl_sync(~0u, sum - mine, owner);
      const std::uint32_t evens = __shfl_sync(~0u, even, owner);
      if (task_class >= kClasses) continue;
      tasks_[before + (task_class % 2 == 0 ? 0 : evens) + ranks.ranks[round]] =
          static_cast<std::uint16_t>(round * kThreads + static_cast<int>(threadIdx.x));
    }
  }

  __device__ std::int32_t task(std::int32_t i) const { return tasks_[i]; }

 private:
  /// The bits of the scan that a task reads, if the index is right.
  static __device__ std::uint32_t bits_of_task(const JpegPlan& plan, const TaskFrame& frame,
                                               std::int32_t entry, bool is_chroma) {
    const JpegStart start = start_of(frame, entry, plan.is_split);
    if (plan.is_split && !is_chroma) return start.chroma_bit - start.bit;
    const std::int32_t next = entry + 1;
    const std::uint32_t end =
        next < plan.entries ? start_of(frame, next, plan.is_split).bit : frame.bits;
    return end - (is_chroma ? start.chroma_bit : start.bit);
  }

  std::uint32_t counts_[kClasses];  // tasks of each class
  std::uint16_t tasks_[2 * kMaxBlockEntries];
};

}  // namespace robocache::cuda
