// The CUDA decoder: two kernels.
//
//     scan, index, tables --samples_kernel--> samples --color_kernel--> pixels
//
// samples_kernel: a thread runs tasks of a frame (task.h), one after the other. It decodes the
// coefficients of 8x8 samples in shared memory, and writes the samples. color_kernel
// (color_out.cuh): a thread converts a strip of eight columns and eight rows. The samples stay in
// L2 for batches of common size.
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "core/cuda_error.h"
#include "core/early_launch.cuh"
#include "jpeg/backends.h"
#include "jpeg/color_out.cuh"
#include "jpeg/task.h"
#include "jpeg/task_order.cuh"

namespace robocache {
namespace cuda {
namespace {

// A block of threads runs tasks of one frame, whose tables it copies to shared memory. Registers
// are limited so that five blocks run on an SM. With standard tables (15 KB) a block takes about
// 42 KB of shared memory; the 228 KB of an SM of compute capability 9.0 hold five.
constexpr int kTaskThreads = 128;
constexpr int kTaskBlocksPerSm = 5;
constexpr int kWarp = 32;
constexpr int kCoefficientBytes = kWarp * 128;  // of a warp: 8x8 coefficients per lane

/// The arrays of frame `row` of a stream, if its record is valid; `n` is its place in the call.
__device__ inline JpegStatus locate_frame(const JpegCall& call, const JpegFrames& frames,
                                          std::int64_t row, std::int64_t n, TaskFrame& frame) {
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
      within(record.scan, words, frames.scan_words) && record.scan % 4 == 0 &&
      within(record.index, jpeg_entry_element(call.plan.entries - 1) + 1, frames.index_size) &&
      within(record.tables, kJpegTablesBegin, frames.table_words) && record.tables % 4 == 0;
  if (!is_inside) return JpegStatus::kBadFrame;
  frame.tables = frames.tables + record.tables;
  frame.table_words = frame.tables[0];
  const bool has_tables =
      frame.table_words >= kJpegTablesBegin && frame.table_words % 4 == 0 &&
      frame.table_words <= static_cast<std::uint32_t>(call.layout.largest_tables) &&
      within(record.tables, frame.table_words, frames.table_words);
  if (!has_tables) return JpegStatus::kBadFrame;
  frame.scan = {frames.scans + record.scan, 0, static_cast<std::uint32_t>(words) - 1};
  frame.bits = record.scan_bits;
  frame.index = frames.indices + record.index;
  frame.restart_interval = record.restart_interval;
  frame.samples = call.samples + n * call.plan.plane_bytes();
  return JpegStatus::kOk;
}

/// Copies kBytes, 8 or 16, to shared memory; both addresses are aligned to kBytes. The copy is
/// complete after wait_for_copies.
template <int kBytes>
__device__ inline void copy_async(void* to, const void* from) {
#if __CUDA_ARCH__ >= 800
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;\n" ::"r"(address), "l"(from), "n"(kBytes)
               : "memory");
#else
  for (int i = 0; i < kBytes / 4; ++i) {
    static_cast<std::uint32_t*>(to)[i] = static_cast<const std::uint32_t*>(from)[i];
  }
#endif
}

__device__ inline void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;\n" ::: "memory");
#endif
}

/// Copies words in pieces of 16 bytes, rounded up, with all threads of the block.
__device__ inline void copy_pieces(std::uint32_t* to, const std::uint32_t* from, int words) {
  for (int i = static_cast<int>(threadIdx.x) * 4; i < words; i += kTaskThreads * 4) {
    copy_async<16>(to + i, from + i);
  }
}

/// The most words of a scan that a block keeps in shared memory, and elements of the index.
constexpr int kStagedWords = 2048;
constexpr int kStagedElements =
    static_cast<int>(jpeg_entry_element(kJpegEntriesPerBase + kMaxBlockEntries) + 1);

/// Copies the index of `entries` entries, and the entry after them, with all threads of the block.
__device__ inline void stage_index(const JpegPlan& plan, const TaskFrame& frame, std::int32_t first,
                                   std::int32_t entries, std::uint64_t* staged) {
  const std::int32_t last = min(first + entries, plan.entries - 1);
  const auto begin = static_cast<std::int32_t>(jpeg_base_element(first));
  const auto end = static_cast<std::int32_t>(jpeg_entry_element(last)) + 1;
  for (std::int32_t i = begin + static_cast<std::int32_t>(threadIdx.x); i < end;
       i += kTaskThreads) {
    copy_async<8>(staged + (i - begin), frame.index + i);
  }
}

/// Lets tasks read the index from where stage_index has copied it to.
__device__ inline void use_staged_index(TaskFrame& frame, std::int32_t first,
                                        const std::uint64_t* staged) {
  frame.index = staged;
  frame.first_element = static_cast<std::int32_t>(jpeg_base_element(first));
}

/// Copies the words that the tasks of `entries` entries read to shared memory, with all threads of
/// the block. A load from shared memory takes less time than a lane needs to use up a word; with
/// loads from global memory, each step of a warp would wait for one of its lanes. Words that exceed
/// kStagedWords, and those of an index that descends, are read from where they are.
///
/// Tasks that read outside the range fail: if every task ends where the next one starts, all of
/// them read between the first start and the last end.
__device__ inline void stage_scan(const JpegPlan& plan, TaskFrame& frame, std::int32_t first,
                                  std::int32_t entries, std::uint32_t* staged) {
  constexpr std::uint32_t kAhead = 3;  // a reader loads as many words at a position
  const JpegStart begin = start_of(frame, first, plan.is_split);
  if (begin.is_gray) return;
  std::uint32_t last = frame.scan.last;
  if (first + entries < plan.entries) {
    const JpegStart end = start_of(frame, first + entries, plan.is_split);
    if (!end.is_gray) last = min(last, end.bit / 32 + kAhead);
  }
  const std::uint32_t first_word = begin.bit / 32 & ~3u;
  if (last < first_word || last - first_word >= kStagedWords) return;
  copy_pieces(staged, frame.scan.words + first_word, static_cast<int>(last - first_word + 1));
  frame.scan = {staged, first_word, last - first_word};
}

/// The plan, with the properties of 4:2:0 with an entry per MCU as constants of the compiler.
template <bool kIs420>
__device__ JpegPlan specialize(JpegPlan plan) {
  if (kIs420) {
    plan.luma_h = plan.luma_v = plan.chroma_blocks = 2;
    plan.every = 1;
    plan.is_split = true;
  }
  return plan;
}

template <bool kIs420>
__global__ void __launch_bounds__(kTaskThreads, kTaskBlocksPerSm)
    samples_kernel(const __grid_constant__ JpegCall call) {
  extern __shared__ uint4 shared[];
  wait_for_stream();
  const JpegPlan plan = specialize<kIs420>(call.plan);
  auto* const coefficients = reinterpret_cast<unsigned char*>(shared);
  auto* const tables =
      reinterpret_cast<std::uint32_t*>(coefficients + kTaskThreads / kWarp * kCoefficientBytes);
  const std::int64_t n = blockIdx.x / call.blocks_per_frame;
  const auto part = static_cast<std::int32_t>(blockIdx.x - n * call.blocks_per_frame);
  const JpegCallOutput& output = output_of(call.outputs, call.output_count, n);
  const std::int64_t number = output.numbers[n - output.begin];
  const std::int32_t stream =
      number == 0 ? -1 : stream_of_number(call.streams, output, number, true);
  if (part == 0 && threadIdx.x == 0) call.stream_of[n] = stream;
  if (stream < 0) {
    if (threadIdx.x == 0) call.block_status[blockIdx.x] = number == 0 ? kNoFrame : kElsewhere;
    return;
  }
  const JpegStream& from = call.streams[stream];
  TaskFrame frame{};
  const JpegStatus status = locate_frame(call, from.frames, number - from.first_number, n, frame);
  if (status != JpegStatus::kOk) {
    if (threadIdx.x == 0) call.block_status[blockIdx.x] = static_cast<std::uint8_t>(status);
    return;
  }
  __shared__ TaskOrder<kTaskThreads> order;
  __shared__ std::uint64_t index[kStagedElements];
  __shared__ std::int32_t taken;  // tasks
  const std::int32_t first = part * call.block_entries;
  const std::int32_t entries = min(call.block_entries, plan.entries - first);
  if (threadIdx.x == 0) taken = 0;
  order.clear();
  stage_index(plan, frame, first, entries, index);
  stage_scan(plan, frame, first, entries, tables + (call.layout.largest_tables + 3) / 4 * 4);
  copy_pieces(tables, frame.tables, static_cast<int>(frame.table_words));
  frame.tables = tables;
  use_staged_index(frame, first, index);
  for (int i = 0; i < 8; ++i) shared[i * kTaskThreads + threadIdx.x] = make_uint4(0, 0, 0, 0);
  wait_for_copies();
  __syncthreads();
  const auto ranks = order.count(plan, frame, first, entries);
  __syncthreads();
  order.place(ranks);
  __syncthreads();
  unsigned char* const block =
      coefficients + threadIdx.x / kWarp * kCoefficientBytes + threadIdx.x % kWarp * kLanePitch;
  const std::int32_t tasks = plan.is_split ? 2 * entries : entries;
  const auto lane = static_cast<std::int32_t>(threadIdx.x % kWarp);
  bool fits = true;
#pragma unroll 1
  for (;;) {  // a warp takes the next tasks as soon as it is done with others
    std::int32_t begin = 0;
    if (lane == 0) begin = atomicAdd(&taken, kWarp);
    begin = __shfl_sync(~0u, begin, 0);
    if (begin >= tasks) break;
    if (begin + lane < tasks) {
      const std::int32_t task = order.task(begin + lane);
      const std::int32_t chroma = task - entries;
      fits =
          run_task(plan, frame, first + (chroma < 0 ? task : chroma + plan.entries), block) && fits;
    }
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
                             static_cast<std::size_t>(call.layout.largest_tables + 3) / 4 * 16 +
                             kStagedWords * sizeof(std::uint32_t);
  check_cuda(
      cudaFuncSetAttribute(samples_kernel<kIs420>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                           static_cast<int>(shared)),
      "decode_jpeg_frames");
  const auto blocks = static_cast<unsigned>(call.count * call.blocks_per_frame);
  launch_early("decode_jpeg_frames", samples_kernel<kIs420>, blocks, kTaskThreads, shared, stream,
               call);
}

}  // namespace
}  // namespace cuda

void decode_jpeg_frames_on_cuda(const JpegCall& call, CUstream_st* stream) {
  if (call.plan.is_split && call.layout.sampling == JpegSampling::k420) {
    cuda::launch_samples<true>(call, stream);
  } else {
    cuda::launch_samples<false>(call, stream);
  }
  cuda::launch_color(call, stream);
}

}  // namespace robocache
