// The table of CPU kernels that `batch_cpu_kernels.cpp` defines once per instruction set.
#pragma once

#include <cstdint>

#include "loader/backends.h"

namespace robocache {

/// One instruction set's kernels.
struct BatchCpuKernels {
  /// The first sample of [begin, end) whose index is out of range; -1 if all are in range.
  std::int64_t (*first_missing)(const DrawPlan& plan, std::int64_t begin, std::int64_t end);
  /// Computes the samples [begin, end) of a batch.
  void (*make)(const BatchCall& call, std::int64_t begin, std::int64_t end);
};

namespace baseline {
const BatchCpuKernels& batch_cpu_kernels();
}  // namespace baseline
namespace avx2 {
const BatchCpuKernels& batch_cpu_kernels();
}  // namespace avx2
namespace avx512 {
const BatchCpuKernels& batch_cpu_kernels();
}  // namespace avx512

}  // namespace robocache
