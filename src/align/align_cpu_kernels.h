// Declarations of the CPU kernels, which `align_cpu_kernels.cpp` and
// `align_backward_cpu_kernels.cpp` define once for every instruction set.
#pragma once

#include <cstdint>

#include "align/backends.h"
#include "align/plan.h"

namespace robocache {

// A range [begin, end) counts targets, or source rows, over the whole batch.

/// The kernels of the forward pass for one instruction set.
struct AlignCpuKernels {
  /// The first row whose time is NaN or before its predecessor's; -1 if all times ascend.
  std::int64_t (*first_unordered)(const StreamPlan& plan, std::int64_t b);
  void (*align)(const StreamPlan& plan, const RunTable& runs, std::int64_t begin, std::int64_t end);
};

/// The kernels of the backward pass for one instruction set.
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
