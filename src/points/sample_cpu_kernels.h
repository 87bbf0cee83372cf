// The table of CPU kernels that `sample_cpu_kernels.cpp` defines once per instruction set.
#pragma once

#include <cstdint>

#include "voxel/plan.h"

namespace robocache {

/// A cloud as the CPU samples it: axis by axis, so that loops over points vectorize.
struct SampleCloud {
  static constexpr std::int64_t kBlock = 512;  // points whose farthest distance is recorded

  std::int64_t count;
  bool is_double;   // numbers are double, and their bits int64; else float and int32
  void* x[3];       // coordinates; 0 for points that are not finite
  void* distances;  // squared, to the nearest sample, as their bits, which order non-negative
                    // numbers alike; -1 for points that are not finite
  void* farthest;   // the largest distance of each block

  std::int64_t blocks() const { return (count + kBlock - 1) / kBlock; }
};

/// One instruction set's kernels. Each takes a cloud's blocks [begin, end).
struct SampleCpuKernels {
  /// Copies points, the first of which is `first` of `rows`, and sets distances to infinity.
  void (*load)(const RowPlan& rows, std::int64_t first, const SampleCloud& cloud,
               std::int64_t begin, std::int64_t end);
  /// Lowers distances to those from a sample.
  void (*update)(const SampleCloud& cloud, std::int64_t sample, std::int64_t begin,
                 std::int64_t end);
  /// The first point at the largest distance, of the whole cloud; -1 without finite points.
  std::int64_t (*find_farthest)(const SampleCloud& cloud);
};

namespace baseline {
const SampleCpuKernels& sample_cpu_kernels();
}
namespace avx2 {
const SampleCpuKernels& sample_cpu_kernels();
}
namespace avx512 {
const SampleCpuKernels& sample_cpu_kernels();
}

}  // namespace robocache
