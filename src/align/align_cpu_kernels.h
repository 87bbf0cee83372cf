// What `align_cpu_kernels.cpp` defines, once for every instruction set.
#pragma once

#include <cstdint>

#include "align/backends.h"
#include "align/plan.h"

namespace robocache {

/// One instruction set's kernels. Ranges are of targets, flattened over the batch, or of source
/// rows, flattened likewise.
struct AlignCpuKernels {
  /// The first row whose time is not at or after its predecessor's, or NaN; -1 if there is none.
  std::int64_t (*first_unordered)(const StreamPlan& plan, std::int64_t b);
  void (*align)(const StreamPlan& plan, const RunTable& runs, std::int64_t begin, std::int64_t end);
  void (*record)(const BackwardPlan& plan, TargetRecord* records, std::int64_t begin,
                 std::int64_t end);
  /// `order` lists the targets by row, `starts[r]` is where row r's begin.
  void (*gather)(const BackwardPlan& plan, const RunTable& runs, const TargetRecord* records,
                 const std::int64_t* order, const std::int64_t* starts, std::int64_t begin,
                 std::int64_t end);
};

namespace baseline {
const AlignCpuKernels& align_cpu_kernels();
}
namespace avx2 {
const AlignCpuKernels& align_cpu_kernels();
}
namespace avx512 {
const AlignCpuKernels& align_cpu_kernels();
}

}  // namespace robocache
