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
      within(record.scan, words, frames.scan_words) &&
      within(record.index, jpeg_entry_element(call.plan.entries - 1) + 1, frames.index_size) &&
      within(record.tables, kJpegTablesBegin, frames.table_words) && record.tables % 4 == 0;
  if (!is_inside) return JpegStatus::kBadFrame;
  frame.tables = frames.tables + record.tables;
  const std::uint32_t table_words = frame.tables[0];
  const bool has_tables = table_words >= kJpegTablesBegin && table_words % 4 == 0 &&
                          table_words <= static_cast<std::uint32_t>(call.layout.largest_tables) &&
                          within(record.tables, table_words, frames.table_words);
  if (!has_tables) return JpegStatus::kBadFrame;
  frame.scan = {frames.scans + record.scan, 0, static_cast<std::uint32_t>(words) - 1};
  frame.bits = record.scan_bits;
  frame.index = frames.indices + record.index;
  frame.restart_interval = record.restart_interval;
  frame.samples = call.samples + n * call.plan.plane_bytes();
  return JpegStatus::kOk;
}

/// Copies 16 bytes per step, with all threads of the block.
__device__ inline void copy_tables(std::uint32_t* to, const std::uint32_t* from) {
  const auto pieces = static_cast<int>(from[0] / 4);
  for (int i = static_cast<int>(threadIdx.x); i < pieces; i += kTaskThreads) {
    reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(from)[i];
  }
}

/// The most words of a scan that a block keeps in shared memory.
constexpr int kStagedWords = 2048;

/// Copies the words that the tasks of `entries` entries read to shared memory, with all threads of
/// the block. There a load takes less time than a lane needs to use up a word; from global memory,
/// each step of a warp would wait for a load of one of its lanes. Ranges that do not fit, or are
/// not ranges, stay where they are.
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
  const std::uint32_t first_word = begin.bit / 32;
  if (last < first_word || last - first_word >= kStagedWords) return;
  const std::uint32_t* const from = frame.scan.words + first_word;
  const auto words = static_cast<int>(last - first_word + 1);
  for (int i = static_cast<int>(threadIdx.x); i < words; i += kTaskThreads) staged[i] = from[i];
  frame.scan = {staged, first_word, last - first_word};
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
  const std::int32_t first = part * call.block_entries;
  const std::int32_t entries = min(call.block_entries, plan.entries - first);
  stage_scan(plan, frame, first, entries, tables + (call.layout.largest_tables + 3) / 4 * 4);
  copy_tables(tables, frame.tables);
  frame.tables = tables;
  for (int i = 0; i < 8; ++i) shared[i * kTaskThreads + threadIdx.x] = make_uint4(0, 0, 0, 0);
  __syncthreads();
  unsigned char* const block =
      coefficients + threadIdx.x / kWarp * kCoefficientBytes + threadIdx.x % kWarp * kLanePitch;
  // Luma of the block's entries, then their chroma, so that a warp is all luma or all chroma.
  const std::int32_t padded = (entries + kWarp - 1) / kWarp * kWarp;
  const std::int32_t end = plan.is_split ? 2 * padded : padded;
  bool fits = true;
#pragma unroll 1
  for (auto i = static_cast<std::int32_t>(threadIdx.x); i < end; i += kTaskThreads) {
    const bool is_chroma = i >= padded;
    const std::int32_t entry = is_chroma ? i - padded : i;
    if (entry < entries) {
      fits = run_task(plan, frame, first + entry + (is_chroma ? plan.entries : 0), block) && fits;
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
