// The CUDA backend for everything that align_cuda.cu leaves: layouts of several runs, slerp, angle,
// and sizes or strides past 2^30.
//
// A warp makes a tile of 32 consecutive targets: lane i locates target i, and then all lanes share
// out the tile's units, each a channel or a quaternion. Types are looked at as elements are loaded
// and stored, so that this is one kernel for each compute type.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "align/align_cuda.h"
#include "align/combine.h"
#include "align/search_cuda.h"
#include "align/vector_cuda.h"
#include "core/cuda_error.h"
#include "core/number.h"

namespace robocache {
namespace cuda {
namespace {

constexpr int kWarpsPerBlock = 4;
// Units of a row that one warp makes; blockIdx.y counts these stretches of wider rows.
constexpr std::int64_t kMaxRowUnits = 128;

/// A target that a lane has located.
template <typename Compute>
struct TileTarget {
  Location<Compute> location;  // lo is 0: its row is the one at `values`
  std::int64_t values;         // offsets, in elements
  std::int64_t out;
};

template <typename Compute>
__device__ Quaternion<Compute> load_quaternion(const StreamPlan& plan, std::int64_t at) {
  Quaternion<Compute> loaded;
  for (int i = 0; i < 4; ++i) {
    loaded.q[i] =
        load_as<Compute>(plan.value_type, plan.values, at + i * plan.values_channel_stride);
  }
  return loaded;
}

/// False if a quaternion that the target is made from is zero.
template <typename Compute>
__device__ bool quaternions_exist(const StreamPlan& plan, const RunTable& runs,
                                  const TileTarget<Compute>& target) {
  const MethodRows picked = rows_for(Method::kSlerpXyzw, target.location);
  for (int run = 0; run < runs.count; ++run) {
    if (!is_slerp(runs.method[run])) continue;
    const std::int64_t a = target.values + picked.step * plan.values_row_stride +
                           runs.first_channel[run] * plan.values_channel_stride;
    if (is_zero(load_quaternion<Compute>(plan, a))) return false;
    if (picked.is_pair && is_zero(load_quaternion<Compute>(plan, a + plan.values_row_stride))) {
      return false;
    }
  }
  return true;
}

template <typename Compute>
__device__ TileTarget<Compute> locate_target(const StreamPlan& plan, const RunTable& runs,
                                             std::int64_t target) {
  const std::int64_t b = target / plan.targets;
  const std::int64_t t = target - b * plan.targets;
  const Episode<std::int64_t> episode = episode_of(plan, b);
  TileTarget<Compute> found;
  found.location = search<Compute>(plan, b, t, episode);
  found.values = b * plan.values_batch_stride +
                 (episode.first_row + found.location.lo) * plan.values_row_stride;
  found.location.lo = 0;
  found.out = b * plan.out_batch_stride + t * plan.out_target_stride;
  if (plan.out_valid != nullptr && blockIdx.y == 0) {
    plan.out_valid[b * plan.out_valid_batch_stride + t * plan.out_valid_target_stride] =
        found.location.valid && quaternions_exist(plan, runs, found);
  }
  return found;
}

/// Writes `kChannels` channels of a target.
template <typename Compute, int kChannels>
__device__ void write(const StreamPlan& plan, std::int64_t out, std::int64_t channel,
                      Compute (&x)[kChannels], Source source) {
  scale(plan, channel, x);
  for (int c = 0; c < kChannels; ++c) {
    if (source == Source::kZero) x[c] = Compute(0);
    if (source == Source::kNan) x[c] = not_a_number<Compute>();
    store_as(plan.out_type, plan.out, out + channel + c, x[c]);
  }
}

template <typename Compute>
__device__ void make_unit(const StreamPlan& plan, const RunTable& runs, std::int64_t unit,
                          const TileTarget<Compute>& target) {
  const int run = run_of_unit(runs, unit);
  const Method method = runs.method[run];
  const Location<Compute>& location = target.location;
  const bool is_literal = location.source == Source::kZero || location.source == Source::kNan;
  const MethodRows picked = rows_for(method, location);
  const std::int64_t row = target.values + picked.step * plan.values_row_stride;
  if (is_slerp(method)) {
    const std::int64_t channel = runs.first_channel[run];
    const std::int64_t a = row + channel * plan.values_channel_stride;
    Quaternion<Compute> made{};
    if (!is_literal) {
      const auto from = load_quaternion<Compute>(plan, a);
      made = picked.is_pair
                 ? slerp(from, load_quaternion<Compute>(plan, a + plan.values_row_stride),
                         location.weight)
                 : normalize(from);
    }
    write(plan, target.out, channel, made.q, location.source);
  } else {
    const std::int64_t channel = runs.first_channel[run] + (unit - runs.first_unit[run]);
    const std::int64_t a = row + channel * plan.values_channel_stride;
    Compute made[1] = {Compute(0)};
    if (!is_literal) {
      const Compute from = load_as<Compute>(plan.value_type, plan.values, a);
      const Compute to = picked.is_pair ? load_as<Compute>(plan.value_type, plan.values,
                                                           a + plan.values_row_stride)
                                        : from;
      made[0] = combine_channel(method, from, to, location.weight, picked.is_pair);
    }
    write(plan, target.out, channel, made, location.source);
  }
}

template <typename Compute>
__global__ void __launch_bounds__(kWarp* kWarpsPerBlock)
    align_runs_kernel(const __grid_constant__ StreamPlan plan,
                      const __grid_constant__ RunTable runs) {
  __shared__ TileTarget<Compute> shared[kWarpsPerBlock][kWarp];
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t first = (std::int64_t{blockIdx.x} * kWarpsPerBlock + warp) * kWarp;
  const std::int64_t left = plan.batch * plan.targets - first;
  if (left <= 0) return;
  const int count = static_cast<int>(min(left, std::int64_t{kWarp}));
  if (lane < count) shared[warp][lane] = locate_target<Compute>(plan, runs, first + lane);
  __syncwarp();

  for (std::int64_t begin = blockIdx.y * kMaxRowUnits; begin < runs.units;
       begin += gridDim.y * kMaxRowUnits) {
    const int units = static_cast<int>(min(kMaxRowUnits, runs.units - begin));
    for (int i = lane; i < count * units; i += kWarp) {
      make_unit(plan, runs, begin + i % units, shared[warp][i / units]);
    }
  }
}

}  // namespace

void launch_runs(const StreamPlan& plan, const RunTable& runs, cudaStream_t stream) {
  constexpr std::int64_t kTargetsPerBlock = kWarp * kWarpsPerBlock;
  const std::int64_t blocks = (plan.batch * plan.targets + kTargetsPerBlock - 1) / kTargetsPerBlock;
  const std::int64_t stretches = (runs.units + kMaxRowUnits - 1) / kMaxRowUnits;
  cudaLaunchConfig_t config{};
  config.gridDim = {static_cast<unsigned>(blocks),
                    static_cast<unsigned>(std::clamp<std::int64_t>(stretches, 1, 65535)), 1};
  config.blockDim = kWarp * kWarpsPerBlock;
  config.stream = stream;
  const auto kernel =
      computes_in_double(plan) ? align_runs_kernel<double> : align_runs_kernel<float>;
  check_cuda(cudaLaunchKernelEx(&config, kernel, plan, runs), "align_runs_kernel");
}

}  // namespace cuda

bool has_cuda_kernels() {
  cudaFuncAttributes attributes;
  const bool found =
      cudaFuncGetAttributes(&attributes, cuda::align_runs_kernel<float>) == cudaSuccess;
  if (!found) cudaGetLastError();
  return found;
}

}  // namespace robocache
