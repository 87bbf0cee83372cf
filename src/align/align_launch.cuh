// Declarations that the files of the CUDA backend share.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "align/backends.h"
#include "align/plan.h"

namespace robocache::cuda {

/// A stream's runs as a kernel parameter.
struct RunsParameter {
  PlannedRun runs[kMaxRuns];
  int count;
  std::int64_t units;

  explicit RunsParameter(const RunTable& table) : count(table.count), units(table.units) {
    std::copy_n(table.runs, table.count, runs);
  }

  __device__ RunTable table() const { return {runs, count, units}; }
};

/// Aligns one stream of any sizes and strides; defined in align_wide_cuda.cu.
void launch_wide(const StreamPlan& plan, const RunTable& runs, cudaStream_t stream);

}  // namespace robocache::cuda
