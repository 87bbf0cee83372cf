// The CUDA backend: one launch that searches, combines and masks all streams. tiling.cuh draws how
// the work is divided among blocks; lerp_tile.cuh and layout_tile.cuh compute a tile of a stream.
// align_wide_cuda.cu aligns streams with very large sizes or strides.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "align/align_launch.cuh"
#include "align/narrow_plan.h"
#include "align/tile_dispatch.cuh"
#include "core/early_launch.cuh"

namespace robocache {
namespace cuda {
namespace {

/// The parameters of a kernel, which are in constant memory and take at most 32,764 bytes. Small
/// launches have small parameters, since every launch copies them.
template <int kStreams_, int kRuns_>
struct Launch {
  static constexpr int kStreams = kStreams_;
  static constexpr int kRuns = kRuns_;

  // In the order in which a kernel reads them: a GPU fetches parameters 64 bytes at a time.
  std::int32_t stream_count;
  std::int32_t blocks_per_sweep;
  Divisor by_sweep;
  std::int32_t targets;  // over the batch
  Divisor by_targets;    // of a batch row
  Tiling tilings[kStreams];
  Columns columns[kStreams];
  NarrowPlan plans[kStreams];
  std::int16_t first_run[kStreams];
  std::int16_t run_count[kStreams];
  NarrowRun runs[kRuns];
};

using SingleLaunch = Launch<1, 1>;
using SmallLaunch = Launch<6, 24>;
using LargeLaunch = Launch<kMaxStreams, kMaxRunsInAll>;
static_assert(sizeof(SmallLaunch) <= 4096 && sizeof(LargeLaunch) <= 32764);

/// Computes a tile of a stream that needs only copying and interpolating: step 1 of tiling.cuh,
/// then step 2, which is `combine(plan, columns, made, count)`.
template <typename Compute, bool kIsBare, typename Launch, typename Combine>
__device__ void make_plain_tile(const Launch& launch, int stream, const Tile& tile, void* shared,
                                const Combine& combine) {
  auto* const made = static_cast<PlainTarget<Compute>*>(shared);
  const NarrowPlan& plan = launch.plans[stream];
  const Tiling& tiling = launch.tilings[stream];
  const int thread = static_cast<int>(threadIdx.x);
  const int count = tiling.targets_per_tile;
  if (thread < count) {
    made[thread] = locate_plain<Compute, kIsBare>(plan, launch.by_targets, launch.targets,
                                                  tile.target(tiling, thread), tile.stretch == 0);
  }
  __syncthreads();
  combine(plan, launch.columns[stream], made, count);
}

/// Computes a tile of a stream of any layout.
template <typename Compute, typename Launch>
__device__ void make_runs_tile(const Launch& launch, int stream, const Tile& tile, void* shared) {
  using Target = RunsTarget<Compute, std::int32_t>;
  auto* const made = static_cast<Target*>(shared);
  const NarrowPlan& plan = launch.plans[stream];
  const Tiling& tiling = launch.tilings[stream];
  const Columns& columns = launch.columns[stream];
  const BasicRunTable<std::int32_t> runs{launch.runs + launch.first_run[stream],
                                         launch.run_count[stream], columns.pieces};
  const int thread = static_cast<int>(threadIdx.x);
  const int count = tiling.targets_per_tile;
  if (thread < count) {
    const int target = tile.target(tiling, thread);
    if (target < launch.targets) {
      const std::int32_t b = launch.by_targets.quotient(target);
      made[thread] =
          locate_runs<Compute>(plan, runs, b, target - b * plan.targets,
                               offset(target, plan.out_target_stride), tile.stretch == 0);
    } else {
      made[thread].out = -1;
    }
  }
  __syncthreads();
  combine_runs(plan, runs, columns, tile.stretch, made, count);
}

/// Aligns one stream of one linear, previous or nearest run, without a clock offset or ages: the
/// most frequent launch, compiled for its types.
template <typename Value, typename Out, int kWidth>
__global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    plain_kernel(const __grid_constant__ SingleLaunch launch) {
  using Compute = typename ComputeOf<Value, Out>::type;
  __shared__ PlainTarget<Compute> made[kThreads];
  make_tile_of_block(launch, static_cast<int>(blockIdx.x), [&](int, const Tile& tile) {
    make_plain_tile<Compute, true>(launch, 0, tile, made,
                                   [&](const NarrowPlan& plan, const Columns& columns,
                                       const PlainTarget<Compute>* targets, int count) {
                                     combine_plain<Value, Out, kWidth>(plan, columns, tile.stretch,
                                                                       targets, count);
                                   });
  });
}

/// Aligns several streams of one linear, previous or nearest run each, all of the output's type,
/// which is the usual case for a policy's observations.
template <typename Value, typename Launch>
__global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    plain_streams_kernel(const __grid_constant__ Launch launch) {
  using Compute = typename ComputeOf<Value, Value>::type;
  extern __shared__ uint4 shared[];
  make_tile_of_block(launch, static_cast<int>(blockIdx.x), [&](int stream, const Tile& tile) {
    make_plain_tile<Compute, false>(launch, stream, tile, shared,
                                    [&](const NarrowPlan& plan, const Columns& columns,
                                        const PlainTarget<Compute>* made, int count) {
                                      combine_either_way<Value, Value>(plan, columns, tile.stretch,
                                                                       made, count);
                                    });
  });
}

/// Aligns any streams.
template <typename Out, typename Launch>
__global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    align_kernel(const __grid_constant__ Launch launch) {
  extern __shared__ uint4 shared[];
  make_tile_of_block(launch, static_cast<int>(blockIdx.x), [&](int stream, const Tile& tile) {
    const bool is_double =
        sizeof(Out) == 8 || launch.plans[stream].value_type == DataType::kFloat64;
    const auto make_plain = [&](auto compute) {
      using Compute = decltype(compute);
      make_plain_tile<Compute, false>(launch, stream, tile, shared,
                                      [&](const NarrowPlan& plan, const Columns& columns,
                                          const PlainTarget<Compute>* made, int count) {
                                        combine_stream<Compute, Out>(plan, columns, tile.stretch,
                                                                     made, count);
                                      });
    };
    if (launch.columns[stream].access == Access::kRuns) {
      if (is_double) {
        make_runs_tile<double>(launch, stream, tile, shared);
      } else {
        make_runs_tile<float>(launch, stream, tile, shared);
      }
    } else if (is_double) {
      make_plain(double{});
    } else {
      make_plain(float{});
    }
  });
}

/// A stream of a launch.
struct NarrowStream {
  NarrowPlan plan;
  Columns columns;
  RunTable runs;
};

/// The bytes of shared memory that a block of a stream needs.
std::size_t shared_bytes(const Tiling& tiling, const NarrowStream& stream) {
  const bool is_double = computes_in_double(stream.plan.value_type, stream.plan.out_type);
  std::size_t each = is_double ? sizeof(PlainTarget<double>) : sizeof(PlainTarget<float>);
  if (stream.columns.access == Access::kRuns) {
    each = is_double ? sizeof(RunsTarget<double, std::int32_t>)
                     : sizeof(RunsTarget<float, std::int32_t>);
  }
  return each * static_cast<std::size_t>(tiling.targets_per_tile);
}

template <typename Launch>
void launch_streams(const std::vector<NarrowStream>& streams, void (*kernel)(Launch),
                    cudaStream_t stream) {
  Launch launch;
  const NarrowPlan& any = streams.front().plan;
  launch.targets = any.batch * any.targets;
  launch.by_targets = Divisor(static_cast<std::uint32_t>(any.targets));
  launch.stream_count = static_cast<std::int32_t>(streams.size());
  int runs = 0;
  std::int32_t sweeps = 1;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    launch.plans[i] = streams[i].plan;
    launch.columns[i] = streams[i].columns;
    launch.tilings[i] = Tiling(streams[i].columns.pieces, launch.targets);
    sweeps = std::max(sweeps, launch.tilings[i].sweeps(launch.targets));
    launch.first_run[i] = static_cast<std::int16_t>(runs);
    launch.run_count[i] = static_cast<std::int16_t>(streams[i].runs.count);
    for (int run = 0; run < streams[i].runs.count; ++run) {
      const PlannedRun& from = streams[i].runs[run];
      launch.runs[runs++] = {static_cast<std::int32_t>(from.first_channel),
                             static_cast<std::int32_t>(from.first_unit), from.method};
    }
  }
  launch.blocks_per_sweep = 0;
  std::size_t shared = 0;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    Tiling& tiling = launch.tilings[i];
    tiling.cut(launch.targets, sweeps);
    tiling.first_block = launch.blocks_per_sweep;
    launch.blocks_per_sweep += tiling.blocks_per_sweep();
    shared = std::max(shared, shared_bytes(tiling, streams[i]));
  }
  launch.by_sweep = Divisor(static_cast<std::uint32_t>(launch.blocks_per_sweep));
  launch_early("alignment", kernel, static_cast<unsigned>(sweeps * launch.blocks_per_sweep),
               kThreads, shared, stream, launch);
}

/// The kernel for a launch of one stream that is compiled for its types.
template <typename Value, typename Out>
auto plain_kernel_of(Access access) {
  constexpr int kWidth = 16 / (sizeof(Value) > sizeof(Out) ? sizeof(Value) : sizeof(Out));
  return access == Access::kVector ? plain_kernel<Value, Out, kWidth> : plain_kernel<Value, Out, 1>;
}

template <typename Out>
void (*single_kernel(const NarrowStream& stream))(SingleLaunch) {
  const bool is_bare = stream.plan.out_age == nullptr &&
                       is_zero_time(stream.plan.clock_offset, stream.plan.time_type);
  if (stream.columns.access == Access::kRuns || !is_bare) return align_kernel<Out, SingleLaunch>;
  switch (stream.plan.value_type) {
    case DataType::kFloat16:
      return plain_kernel_of<Float16, Out>(stream.columns.access);
    case DataType::kBFloat16:
      return plain_kernel_of<BFloat16, Out>(stream.columns.access);
    case DataType::kFloat32:
      return plain_kernel_of<float, Out>(stream.columns.access);
    case DataType::kFloat64:
      return plain_kernel_of<double, Out>(stream.columns.access);
    default:
      return plain_kernel_of<std::uint8_t, Out>(stream.columns.access);
  }
}

template <typename Out, typename Launch>
void (*streams_kernel(const std::vector<NarrowStream>& streams))(Launch) {
  const bool are_plain = std::all_of(streams.begin(), streams.end(), [](const NarrowStream& each) {
    return each.columns.access != Access::kRuns && each.plan.value_type == each.plan.out_type;
  });
  return are_plain ? plain_streams_kernel<Out, Launch> : align_kernel<Out, Launch>;
}

template <typename Out>
void launch_any(const std::vector<NarrowStream>& streams, cudaStream_t stream) {
  int runs = 0;
  for (const NarrowStream& each : streams) runs += each.runs.count;
  if (streams.size() <= SingleLaunch::kStreams && runs <= SingleLaunch::kRuns) {
    launch_streams<SingleLaunch>(streams, single_kernel<Out>(streams.front()), stream);
  } else if (streams.size() <= SmallLaunch::kStreams && runs <= SmallLaunch::kRuns) {
    launch_streams<SmallLaunch>(streams, streams_kernel<Out, SmallLaunch>(streams), stream);
  } else {
    launch_streams<LargeLaunch>(streams, streams_kernel<Out, LargeLaunch>(streams), stream);
  }
}

void launch_narrow(const std::vector<NarrowStream>& streams, cudaStream_t stream) {
  switch (streams.front().plan.out_type) {
    case DataType::kFloat16:
      return launch_any<Float16>(streams, stream);
    case DataType::kBFloat16:
      return launch_any<BFloat16>(streams, stream);
    case DataType::kFloat32:
      return launch_any<float>(streams, stream);
    case DataType::kFloat64:
      return launch_any<double>(streams, stream);
    default:
      return launch_any<std::uint8_t>(streams, stream);
  }
}

}  // namespace
}  // namespace cuda

void align_on_cuda(const CallPlan& call, CUstream_st* stream) {
  std::vector<cuda::NarrowStream> streams;
  streams.reserve(call.count());
  for (std::size_t i = 0; i < call.count(); ++i) {
    const StreamPlan& plan = call.plan(i);
    if (plan.channels == 0 && plan.out_valid == nullptr && plan.out_age == nullptr) continue;
    cuda::NarrowStream narrow;
    if (narrow_plan(plan, narrow.plan)) {
      narrow.runs = call.runs(i);
      narrow.columns = cuda::columns_of(narrow.plan, narrow.runs);
      streams.push_back(narrow);
    } else {
      cuda::launch_wide(plan, call.runs(i), stream);
    }
  }
  if (!streams.empty()) cuda::launch_narrow(streams, stream);
}

bool has_cuda_kernels() {
  cudaFuncAttributes attributes;
  const auto kernel = cuda::align_kernel<float, cuda::SingleLaunch>;
  const bool found = cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess;
  if (!found) cudaGetLastError();
  return found;
}

}  // namespace robocache
