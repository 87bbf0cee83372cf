// The CUDA backend for streams without a narrow plan (see narrow_plan.h), one launch each.
//
// A warp computes a tile of 32 consecutive targets: lane i locates target i, then the lanes divide
// the tile's units among them. A unit is a channel or a quaternion.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "align/align_launch.cuh"
#include "align/layout_tile.cuh"
#include "core/early_launch.cuh"

namespace robocache::cuda {
namespace {

constexpr int kWarp = 32;
constexpr int kWarpsPerBlock = 4;
// The most units of a row that one warp computes; blockIdx.y counts such stretches of wider rows.
constexpr std::int64_t kMaxRowUnits = 128;

template <typename Compute>
__global__ void __launch_bounds__(kWarp* kWarpsPerBlock)
    align_wide_kernel(const __grid_constant__ StreamPlan plan,
                      const __grid_constant__ RunsParameter given) {
  wait_for_stream();
  __shared__ RunsTarget<Compute, std::int64_t> shared[kWarpsPerBlock][kWarp];
  const RunTable runs = given.table();
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t first = (std::int64_t{blockIdx.x} * kWarpsPerBlock + warp) * kWarp;
  const std::int64_t left = plan.batch * plan.targets - first;
  if (left <= 0) return;
  const int count = static_cast<int>(min(left, std::int64_t{kWarp}));
  if (lane < count) {
    const std::int64_t b = (first + lane) / plan.targets;
    const std::int64_t t = (first + lane) - b * plan.targets;
    const std::int64_t out = b * plan.out_batch_stride + t * plan.out_target_stride;
    shared[warp][lane] = locate_runs<Compute>(plan, runs, b, t, out, blockIdx.y == 0);
  }
  __syncwarp();

  for (std::int64_t begin = blockIdx.y * kMaxRowUnits; begin < runs.units;
       begin += gridDim.y * kMaxRowUnits) {
    const int units = static_cast<int>(min(kMaxRowUnits, runs.units - begin));
    for (int i = lane; i < count * units; i += kWarp) {
      const std::int64_t unit = begin + i % units;
      make_unit(plan, runs[run_of_unit(runs, unit)], unit, shared[warp][i / units]);
    }
  }
}

}  // namespace

void launch_wide(const StreamPlan& plan, const RunTable& runs, cudaStream_t stream) {
  constexpr std::int64_t kTargetsPerBlock = kWarp * kWarpsPerBlock;
  const std::int64_t blocks = (plan.batch * plan.targets + kTargetsPerBlock - 1) / kTargetsPerBlock;
  const std::int64_t stretches = (runs.units + kMaxRowUnits - 1) / kMaxRowUnits;
  const dim3 grid(static_cast<unsigned>(blocks),
                  static_cast<unsigned>(std::clamp<std::int64_t>(stretches, 1, 65535)));
  const auto kernel = computes_in_double(plan.value_type, plan.out_type) ? align_wide_kernel<double>
                                                                         : align_wide_kernel<float>;
  launch_early("alignment of a wide stream", kernel, grid, kWarp * kWarpsPerBlock, 0, stream, plan,
               RunsParameter(runs));
}

}  // namespace robocache::cuda
