// The CUDA decoder: two kernels.
//
//     scan, index, tables --samples_kernel--> samples --color_kernel--> pixels
//
// samples_kernel: a thread runs a task of a frame (task.h), with its block's coefficients in shared
// memory; they never leave it. color_kernel: a thread makes a strip of eight columns and rows.
// The samples stay in L2 for batches of common size.
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "core/cuda_error.h"
#include "core/early_launch.cuh"
#include "jpeg/backends.h"
#include "jpeg/color_out.cuh"
#include "jpeg/task.h"

namespace robocache {
namespace cuda {
namespace {

// A block has tasks of one frame, and its tables in shared memory. Registers are limited so that
// five blocks run on an SM, which also has the shared memory for them.
constexpr int kTaskThreads = 128;
constexpr int kTaskBlocksPerSm = 5;
constexpr int kWarp = 32;
constexpr int kCoefficientBytes = kWarp * 128;  // of a warp: a block per lane

/// A frame's arrays, if its record is valid.
__device__ JpegStatus locate_frame(const JpegCall& call, std::int64_t n, TaskFrame& frame) {
  const JpegFrames& frames = call.frames;
  const std::int64_t row = frames.rows == nullptr ? n : frames.rows[n];
  if (row >= frames.frame_count) return JpegStatus::kBadFrame;
  const JpegFrame record = frames.frames[row];
  const bool fits = record.width == call.plan.width && record.height == call.plan.height &&
                    record.sampling == call.layout.sampling && record.every == call.plan.every;
  if (!fits) return JpegStatus::kLayoutMismatch;
  const auto within = [](std::uint64_t begin, std::int64_t size, std::int64_t whole) {
    return size <= whole && begin <= static_cast<std::uint64_t>(whole - size);
  };
  // As jpeg_scan_words: the bits and at least two words of zeros.
  const std::int64_t words = (static_cast<std::int64_t>(record.scan_bits) / 32 + 6) / 4 * 4;
  const bool is_inside =
      within(record.scan, words, frames.scan_words) &&
      within(record.index, jpeg_entry_element(call.plan.entries - 1) + 1, frames.index_size) &&
      within(record.tables, kJpegTablesBegin, frames.table_words) && record.tables % 4 == 0;
  if (!is_inside) return JpegStatus::kBadFrame;
  frame.tables = frames.tables + record.tables;
  const std::uint32_t table_words = frame.tables[0];
  const bool has_tables =
      table_words >= kJpegTablesBegin && table_words % 4 == 0 &&
      table_words <= static_cast<std::uint32_t>(frames.largest_tables) &&
      within(record.tables, table_words, frames.table_words);
  if (!has_tables) return JpegStatus::kBadFrame;
  frame.words = frames.scans + record.scan;
  frame.last_word = static_cast<std::uint32_t>(words) - 1;
  frame.bits = record.scan_bits;
  frame.index = frames.indices + record.index;
  frame.restart_interval = record.restart_interval;
  frame.samples = call.samples + n * call.plan.sample_bytes();
  return JpegStatus::kOk;
}

/// Copies 16 bytes per step, with all threads of the block.
__device__ void copy_tables(std::uint32_t* to, const std::uint32_t* from) {
  const auto pieces = static_cast<int>(from[0] / 4);
  for (int i = static_cast<int>(threadIdx.x); i < pieces; i += kTaskThreads) {
    reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(from)[i];
  }
}

/// The plan of a kernel for 4:2:0 with an entry per MCU: what it knows is a constant to the
/// compiler.
template <bool kIs420>
__device__ JpegPlan specialize(JpegPlan plan) {
  if (kIs420) {
    plan.luma_h = plan.luma_v = plan.chroma_blocks = 2;
    plan.every = 1;
    plan.is_split = true;
  }
  return plan;
}

/// Sorts tasks by length, the longest first. A warp takes as long as its longest task, since its
/// lanes decode symbols in step; so tasks of similar length should be its lanes.
class TaskOrder {
 public:
  /// Sorts `count` tasks from `first` on, with all threads of the block. Tasks of equal length are
  /// in any order: no result depends on it.
  __device__ void sort(const JpegPlan& plan, const TaskFrame& frame, std::int32_t first,
                       std::int32_t count) {
    const int thread = static_cast<int>(threadIdx.x);
    for (int i = thread; i < kLengths; i += kTaskThreads) begins_[i] = 0;
    if (thread == 0) next_ = 0;
    __syncthreads();
    constexpr int kEach = kMaxBlockTasks / kTaskThreads;
    int lengths[kEach];
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const std::int32_t i = thread + k * kTaskThreads;
      if (i >= count) break;
      const std::uint32_t bits = bits_of_task(plan, frame, first + i);
      lengths[k] = kLengths - 1 - static_cast<int>(min(bits / kBitsPerLength, kLengths - 1u));
      atomicAdd(&begins_[lengths[k]], 1);
    }
    __syncthreads();
    if (thread < kWarp) sum_lengths(thread);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      const std::int32_t i = thread + k * kTaskThreads;
      if (i >= count) break;
      order_[atomicAdd(&begins_[lengths[k]], 1)] = static_cast<std::uint16_t>(i);
    }
    __syncthreads();
  }

  /// The position of the first of the next 32 tasks, for a warp.
  __device__ std::int32_t take() {
    int taken = 0;
    if (threadIdx.x % kWarp == 0) taken = atomicAdd(&next_, kWarp);
    return __shfl_sync(~0u, taken, 0);
  }

  __device__ std::int32_t task(std::int32_t position) const { return order_[position]; }

 private:
  static constexpr int kLengths = 128;
  static constexpr std::uint32_t kBitsPerLength = 16;

  /// Replaces counts by the positions at which they begin.
  __device__ void sum_lengths(int lane) {
    constexpr int kEach = kLengths / kWarp;
    int counts[kEach];
    int sum = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      counts[i] = sum;
      sum += begins_[lane * kEach + i];
    }
    int before = sum;
#pragma unroll
    for (int step = 1; step < kWarp; step *= 2) {
      const int other = __shfl_up_sync(~0u, before, step);
      if (lane >= step) before += other;
    }
    before -= sum;
#pragma unroll
    for (int i = 0; i < kEach; ++i) begins_[lane * kEach + i] = before + counts[i];
  }

  int begins_[kLengths];
  int next_;
  std::uint16_t order_[kMaxBlockTasks];
};

template <bool kIs420>
__global__ void __launch_bounds__(kTaskThreads, kTaskBlocksPerSm)
    samples_kernel(const __grid_constant__ JpegCall call) {
  extern __shared__ uint4 shared[];
  __shared__ TaskOrder order;
  wait_for_stream();
  const JpegPlan plan = specialize<kIs420>(call.plan);
  auto* const coefficients = reinterpret_cast<unsigned char*>(shared);
  auto* const tables =
      reinterpret_cast<std::uint32_t*>(coefficients + kTaskThreads / kWarp * kCoefficientBytes);
  const std::int64_t n = blockIdx.x / call.blocks_per_frame;
  const auto part = static_cast<std::int32_t>(blockIdx.x - n * call.blocks_per_frame);
  const std::int64_t row = call.frames.rows == nullptr ? n : call.frames.rows[n];
  if (row < 0) {  // no frame
    if (threadIdx.x == 0) call.block_status[blockIdx.x] = kNoFrame;
    return;
  }
  TaskFrame frame{};
  const JpegStatus status = locate_frame(call, n, frame);
  if (status != JpegStatus::kOk) {
    if (threadIdx.x == 0) call.block_status[blockIdx.x] = static_cast<std::uint8_t>(status);
    return;
  }
  copy_tables(tables, frame.tables);
  frame.tables = tables;
  for (int i = 0; i < 8; ++i) shared[i * kTaskThreads + threadIdx.x] = make_uint4(0, 0, 0, 0);
  const std::int32_t first = part * call.block_tasks;
  const std::int32_t count = min(call.block_tasks, plan.tasks() - first);
  order.sort(plan, frame, first, count);
  unsigned char* const block = coefficients + threadIdx.x / kWarp * kCoefficientBytes +
                               threadIdx.x % kWarp * kLanePitch;
  bool fits = true;
#pragma unroll 1
  for (std::int32_t begin = order.take(); begin < count; begin = order.take()) {
    const auto i = begin + static_cast<std::int32_t>(threadIdx.x % kWarp);
    if (i < count) fits = run_task(plan, frame, first + order.task(i), block) && fits;
    __syncwarp();
  }
  const bool all_fit = __syncthreads_and(fits) != 0;
  if (threadIdx.x == 0) {
    call.block_status[blockIdx.x] =
        static_cast<std::uint8_t>(all_fit ? JpegStatus::kOk : JpegStatus::kIndexMismatch);
  }
}

template <bool kIs420>
void launch_samples(const JpegCall& call, cudaStream_t stream) {
  const std::size_t shared = kTaskThreads / kWarp * kCoefficientBytes +
                             static_cast<std::size_t>(call.frames.largest_tables + 3) / 4 * 16;
  check_cuda(cudaFuncSetAttribute(samples_kernel<kIs420>,
                                  cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(shared)),
             "decode_jpeg_frames");
  const auto blocks = static_cast<unsigned>(call.count * call.blocks_per_frame);
  launch_early("decode_jpeg_frames", samples_kernel<kIs420>, blocks, kTaskThreads, shared, stream,
               call);
}

}  // namespace
}  // namespace cuda

void decode_jpeg_frames_on_cuda(const JpegCall& call, const JpegConversion& conversion,
                                CUstream_st* stream) {
  if (call.plan.is_split && call.layout.sampling == JpegSampling::k420) {
    cuda::launch_samples<true>(call, stream);
  } else {
    cuda::launch_samples<false>(call, stream);
  }
  cuda::launch_color(call, conversion, stream);
}

}  // namespace robocache
