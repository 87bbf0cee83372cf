// What `align_cpu_kernels.cpp` and `align_backward_cpu_kernels.cpp` define, once for every
// instruction set.
#pragma once

#include <cstdint>

#include "align/backends.h"
#include "align/plan.h"

namespace robocache {

// Ranges are of targets, flattened over the batch, or of source rows, flattened likewise.

/// One instruction set's kernels.
struct AlignCpuKernels {
  /// The first row whose time is not at or after its predecessor's, or NaN; -1 if there is none.
  std::int64_t (*first_unordered)(const StreamPlan& plan, std::int64_t b);
  void (*align)(const StreamPlan& plan, const RunTable& runs, std::int64_t begin, std::int64_t end);
};

/// Those of the backward pass.
struct AlignBackwardCpuKernels {
  /// `windows` is null where the stream has no means or sums.
  void (*record)(const BackwardPlan& plan, TargetRecord* records, WindowRecord* windows,
                 std::int64_t begin, std::int64_t end);
  void (*gather)(const BackwardPlan& plan, const RunTable& runs, const SortedTargets& sorted,
                 std::int64_t begin, std::int64_t end);
};

namespace baseline {
const AlignCpuKernels& align_cpu_kernels();
const AlignBackwardCpuKernels& align_backward_cpu_kernels();
}  // namespace baseline
namespace avx2 {
const AlignCpuKernels& align_cpu_kernels();
const AlignBackwardCpuKernels& align_backward_cpu_kernels();
}  // namespace avx2
namespace avx512 {
const AlignCpuKernels& align_cpu_kernels();
const AlignBackwardCpuKernels& align_backward_cpu_kernels();
}  // namespace avx512

}  // namespace robocache
