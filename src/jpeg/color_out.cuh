// color_kernel: from planes of samples to the pixels that the caller asked for.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "core/early_launch.cuh"
#include "core/number.h"
#include "jpeg/backends.h"
#include "jpeg/color.h"

namespace robocache::cuda {

/// The status of a block of samples_kernel whose number is 0: the image is zeros, and valid.
inline constexpr std::uint8_t kNoFrame = 255;
/// The status of a block whose number belongs to none of the streams: nothing is written.
inline constexpr std::uint8_t kElsewhere = 254;

inline constexpr int kColorThreads = 128;

/// How a kernel writes groups.
enum class Writer {
  kStagedBytes,  // RGB bytes whose rows are whole pieces of 16 bytes
  kPlanes,       // float16 or bfloat16, channels first, by fma
  kWordPlanes,   // float32, channels first, by a table
  kElements,     // any element by a table, one at a time
};

struct ColorLaunch {
  JpegPlan plan;
  const std::uint8_t* samples;
  const std::uint8_t* block_status;
  const std::int32_t* stream_of;
  const JpegStream* streams;
  JpegCallOutput outputs[kMaxCallOutputs];
  std::int32_t output_count;
  std::int64_t* damaged;          // may be null
  std::int32_t blocks_per_frame;  // of samples_kernel
  std::int32_t color_blocks;      // of this kernel, per frame
  std::int32_t groups;            // per row
  std::int32_t items;             // strips of groups, per frame
  std::uint32_t per_line;         // 2^32 / (bytes of a row) + 1
  std::int32_t channels;
  std::int32_t element_bytes;
  std::int64_t image_bytes;
  bool channels_first;
  bool is_bfloat16;
};

/// The largest value of a warp, in all of its lanes.
__device__ inline std::uint32_t warp_max(std::uint32_t value) {
#if __CUDA_ARCH__ >= 800
  return __reduce_max_sync(~0u, value);
#else
#pragma unroll
  for (int step = 16; step > 0; step /= 2) value = max(value, __shfl_xor_sync(~0u, value, step));
  return value;
#endif
}

/// The highest status of a frame's blocks: kOk if all are.
__device__ inline std::uint8_t frame_status(const ColorLaunch& launch, std::int64_t frame) {
  const std::uint8_t* const blocks = launch.block_status + frame * launch.blocks_per_frame;
  const int lane = static_cast<int>(threadIdx.x % 32);
  std::uint32_t highest = 0;
  for (int i = lane; i < launch.blocks_per_frame; i += 32) {
    highest = max(highest, std::uint32_t{blocks[i]});
  }
  return static_cast<std::uint8_t>(warp_max(highest));
}

/// Byte `i` of words, as a float.
template <int kCount>
__device__ float byte_as_float(const std::uint32_t (&words)[kCount], int i) {
  // The low bits of 2^23 are units.
  const std::uint32_t bits =
      __byte_perm(words[i / 4], 0x4B000000, 0x7440u | static_cast<std::uint32_t>(i & 3));
  return __uint_as_float(bits) - 8388608.0f;
}

/// Writes the elements of one channel of a group by fma.
__device__ inline void write_plane(bool is_bfloat16, float scale, float bias,
                                   const std::uint32_t (&rgb)[6], int channel, std::uint16_t* to) {
  std::uint32_t pairs[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float x[2];
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      x[k] = __fmaf_rn(byte_as_float(rgb, 3 * (2 * i + k) + channel), scale, bias);
    }
    if (is_bfloat16) {
      const __nv_bfloat162 pair = __floats2bfloat162_rn(x[0], x[1]);
      pairs[i] = reinterpret_cast<const std::uint32_t&>(pair);
    } else {
      const __half2 pair = __floats2half2_rn(x[0], x[1]);
      pairs[i] = reinterpret_cast<const std::uint32_t&>(pair);
    }
  }
  __stcs(reinterpret_cast<uint4*>(to), make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]));
}

/// Where a thread writes: the image of its frame, and the first row of its strip.
struct WriterPlace {
  unsigned char* image;
  std::int32_t warp_item;  // of the first lane
  std::int32_t x, y;
  bool is_active;
};

/// The type of the elements of the table that a kernel keeps in shared memory.
template <Writer kWriter>
struct TableElement {
  using type = std::uint64_t;
};
template <>
struct TableElement<Writer::kWordPlanes> {
  using type = std::uint32_t;
};

/// Writes the groups of one thread, row after row from the first of its strip.
template <Writer kWriter>
class GroupWriter {
  using Element = typename TableElement<kWriter>::type;

 public:
  __device__ GroupWriter(const ColorLaunch& launch, const JpegConversion& conversion,
                         const WriterPlace& place, const Element* table, unsigned char* /*stage*/)
      : launch_(launch),
        table_(table),
        image_(place.image),
        x_(place.x),
        y_(place.y),
        is_active_(place.is_active) {
    plane_ = static_cast<std::int64_t>(launch.plan.width) * launch.plan.height;
    to_ = reinterpret_cast<std::uint16_t*>(image_) +
          static_cast<std::int64_t>(y_) * launch.plan.width + x_;
    if constexpr (kWriter == Writer::kPlanes) {
#pragma unroll
      for (int c = 0; c < 3; ++c) {
        scale_[c] = conversion.scale[c];
        bias_[c] = conversion.bias[c];
      }
    }
  }

  /// Writes the next row. All lanes of a warp call this together.
  __device__ void put(const std::uint32_t (&luma)[2], const std::uint32_t (&rgb)[6]) {
    if (is_active_ && y_ < launch_.plan.height) {
      if constexpr (kWriter == Writer::kPlanes) {
#pragma unroll
        for (int c = 0; c < 3; ++c) {
          write_plane(launch_.is_bfloat16, scale_[c], bias_[c], rgb, c, to_ + c * plane_);
        }
      } else if constexpr (kWriter == Writer::kWordPlanes) {
        put_words(rgb);
      } else {
        put_elements(luma, rgb);
      }
    }
    to_ += launch_.plan.width;
    ++y_;
  }

 private:
  __device__ void put_words(const std::uint32_t (&rgb)[6]) const {
    auto* const row = reinterpret_cast<std::uint32_t*>(image_) +
                      static_cast<std::int64_t>(y_) * launch_.plan.width + x_;
#pragma unroll
    for (int c = 0; c < 3; ++c) {
      std::uint32_t words[kGroup];
#pragma unroll
      for (int i = 0; i < kGroup; ++i) {
        const int byte = 3 * i + c;
        words[i] = table_[c * 256 + (rgb[byte / 4] >> 8 * (byte % 4) & 0xff)];
      }
      auto* const to = reinterpret_cast<uint4*>(row + c * plane_);
      to[0] = make_uint4(words[0], words[1], words[2], words[3]);
      to[1] = make_uint4(words[4], words[5], words[6], words[7]);
    }
  }

  __device__ void put_elements(const std::uint32_t (&luma)[2],
                               const std::uint32_t (&rgb)[6]) const {
    const JpegPlan& plan = launch_.plan;
    const std::int64_t pixel = static_cast<std::int64_t>(y_) * plan.width + x_;
    const int count = min(kGroup, plan.width - x_);
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
#pragma unroll
      for (int c = 0; c < 3; ++c) {
        if (i >= count || c >= launch_.channels) continue;
        const int byte = 3 * i + c;
        const std::uint32_t word =
            launch_.channels == 1 ? luma[i / 4] >> 8 * (i % 4) : rgb[byte / 4] >> 8 * (byte % 4);
        const std::int64_t at =
            launch_.channels_first ? c * plane_ + pixel + i : (pixel + i) * launch_.channels + c;
        const std::uint64_t bits = table_[c * 256 + (word & 0xff)];
        switch (launch_.element_bytes) {
          case 1:
            image_[at] = static_cast<std::uint8_t>(bits);
            break;
          case 2:
            reinterpret_cast<std::uint16_t*>(image_)[at] = static_cast<std::uint16_t>(bits);
            break;
          case 4:
            reinterpret_cast<std::uint32_t*>(image_)[at] = static_cast<std::uint32_t>(bits);
            break;
          default:
            reinterpret_cast<std::uint64_t*>(image_)[at] = bits;
        }
      }
    }
  }

  const ColorLaunch& launch_;
  const Element* table_;
  unsigned char* image_;
  std::int32_t x_, y_;
  bool is_active_;
  std::uint16_t* to_;  // kPlanes: of the next row
  std::int64_t plane_;
  float scale_[3], bias_[3];  // kPlanes
};

/// Collects 24 bytes per lane in shared memory, and writes them in pieces of 16 bytes to
/// consecutive addresses. The groups of a warp are consecutive in a row, and may continue in a row
/// of the next strip.
template <>
class GroupWriter<Writer::kStagedBytes> {
 public:
  __device__ GroupWriter(const ColorLaunch& launch, const JpegConversion& /*conversion*/,
                         const WriterPlace& place, const std::uint64_t* /*table*/,
                         unsigned char* stage)
      : line_bytes_(launch.plan.width * 3),
        stage_(stage + threadIdx.x % 32 * 24),
        piece_(stage + threadIdx.x % 32 * 16) {
    const std::int32_t strip = place.warp_item / launch.groups;
    const std::int32_t begin = (place.warp_item - strip * launch.groups) * 24;
    const std::int32_t end = (launch.items - place.warp_item) * 24;
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const auto offset = static_cast<std::int32_t>((threadIdx.x % 32 + 32 * k) * 16);
      const auto at = static_cast<std::uint32_t>(begin + offset);
      const auto lines = static_cast<std::int32_t>(__umulhi(at, launch.per_line));
      const std::int32_t y = (strip + lines) * kStripRows;
      const bool is_piece = offset < 32 * 24 && offset < end;
      rows_[k] = is_piece ? launch.plan.height - y : 0;
      to_[k] = place.image + std::int64_t{y} * line_bytes_ +
               (static_cast<std::int32_t>(at) - lines * line_bytes_);
    }
  }

  __device__ void put(const std::uint32_t (&)[2], const std::uint32_t (&rgb)[6]) {
    auto* const mine = reinterpret_cast<uint2*>(stage_);
    mine[0] = make_uint2(rgb[0], rgb[1]);
    mine[1] = make_uint2(rgb[2], rgb[3]);
    mine[2] = make_uint2(rgb[4], rgb[5]);
    __syncwarp();
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      if (row_ < rows_[k]) {
        __stcs(reinterpret_cast<uint4*>(to_[k]), *reinterpret_cast<const uint4*>(piece_ + k * 512));
      }
      to_[k] += line_bytes_;
    }
    ++row_;
    __syncwarp();
  }

 private:
  std::int32_t line_bytes_;
  unsigned char* stage_;        // where this lane puts its group
  const unsigned char* piece_;  // its first piece
  std::int32_t rows_[2];        // rows of its pieces' strips that are within the frame
  std::uint8_t* to_[2];         // where its pieces go
  std::int32_t row_ = 0;
};

/// Writes zeros as the image of a frame that is not decoded, with all blocks of the frame.
__device__ inline void clear_frame(const ColorLaunch& launch, unsigned char* image,
                                   std::int32_t block) {
  const std::int64_t step = static_cast<std::int64_t>(launch.color_blocks) * kColorThreads;
  for (std::int64_t i = block * kColorThreads + threadIdx.x; i < launch.image_bytes; i += step) {
    image[i] = 0;
  }
}

/// Reports the outcome for frame `n` of an output.
__device__ inline void report(const ColorLaunch& launch, const JpegCallOutput& output,
                              std::int64_t n, std::uint8_t status) {
  const bool is_damaged = status != 0 && status != kNoFrame;
  if (output.status != nullptr) output.status[n] = is_damaged ? status : 0;
  if (!is_damaged) return;
  if (output.is_pad != nullptr) output.is_pad[n] = true;
  if (launch.damaged != nullptr) {
    atomicAdd(reinterpret_cast<unsigned long long*>(launch.damaged), 1ull);
  }
}

// Staged bytes: registers are limited so that eight blocks, 1024 threads, run on an SM.
template <JpegSampling kSampling, Writer kWriter>
__global__ void __launch_bounds__(kColorThreads, kWriter == Writer::kStagedBytes ? 8 : 1)
    color_kernel(const __grid_constant__ ColorLaunch launch) {
  __shared__ uint4 stages[kColorThreads / 32][48];
  using Element = typename TableElement<kWriter>::type;
  constexpr bool kHasTable = kWriter == Writer::kElements || kWriter == Writer::kWordPlanes;
  __shared__ Element elements[kHasTable ? 3 * 256 : 1];
  wait_for_stream();
  // From the last frame to the first: the samples that were written last are in L2.
  const std::uint32_t place = gridDim.x - 1 - blockIdx.x;
  const std::int64_t frame = place / launch.color_blocks;
  const auto block = static_cast<std::int32_t>(place - frame * launch.color_blocks);
  const JpegPlan& plan = launch.plan;
  const auto warp_item = static_cast<std::int32_t>(block * kColorThreads + (threadIdx.x & ~31u));
  const std::int32_t item = warp_item + static_cast<std::int32_t>(threadIdx.x % 32);
  const std::int32_t clamped = min(item, launch.items - 1);
  const std::int32_t strip = clamped / launch.groups;
  const std::int32_t x = (clamped - strip * launch.groups) * kGroup;
  const std::int32_t y = strip * kStripRows;
  const SamplePlanes planes = planes_at(plan, launch.samples + frame * plan.plane_bytes());
  const StripLuma luma = load_luma(plan, planes, x, y);  // while the status is on its way
  const std::uint8_t status = frame_status(launch, frame);
  if (status == kElsewhere) return;
  const JpegCallOutput& output = output_of(launch.outputs, launch.output_count, frame);
  const std::int64_t n = frame - output.begin;
  if (block == 0 && threadIdx.x == 0) report(launch, output, n, status);
  unsigned char* const image = static_cast<unsigned char*>(output.values) + n * launch.image_bytes;
  if (status != 0) return clear_frame(launch, image, block);
  const JpegConversion& conversion = launch.streams[launch.stream_of[frame]].conversion;
  if constexpr (kHasTable) {
    for (int i = static_cast<int>(threadIdx.x); i < 3 * 256; i += kColorThreads) {
      elements[i] = static_cast<Element>((&conversion.table[0][0])[i]);
    }
    __syncthreads();
  }
  if (warp_item >= launch.items) return;
  GroupWriter<kWriter> writer(launch, conversion, {image, warp_item, x, y, item < launch.items},
                              elements, reinterpret_cast<unsigned char*>(stages[threadIdx.x / 32]));
  const auto put = [&](const std::uint32_t (&row)[2], const std::uint32_t (&rgb)[6]) {
    writer.put(row, rgb);
  };
  switch (kSampling) {
    case JpegSampling::k420:
      return color_strip<2, 2>(plan, planes, luma, x, y, put);
    case JpegSampling::k422:
      return color_strip<2, 1>(plan, planes, luma, x, y, put);
    case JpegSampling::k440:
      return color_strip<1, 2>(plan, planes, luma, x, y, put);
    case JpegSampling::k444:
      return color_strip<1, 1>(plan, planes, luma, x, y, put);
    case JpegSampling::kGray:
      return gray_strip(luma, put);
  }
}

template <Writer kWriter>
void launch_color_as(const JpegCall& call, JpegSampling sampling, const ColorLaunch& launch,
                     cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(call.count * launch.color_blocks);
  const auto start = [&](auto kernel) {
    launch_early("decode_jpeg_frames", kernel, blocks, kColorThreads, 0, stream, launch);
  };
  switch (sampling) {
    case JpegSampling::k420:
      return start(color_kernel<JpegSampling::k420, kWriter>);
    case JpegSampling::k422:
      return start(color_kernel<JpegSampling::k422, kWriter>);
    case JpegSampling::k440:
      return start(color_kernel<JpegSampling::k440, kWriter>);
    case JpegSampling::k444:
      return start(color_kernel<JpegSampling::k444, kWriter>);
    case JpegSampling::kGray:
      return start(color_kernel<JpegSampling::kGray, kWriter>);
  }
}

inline void launch_color(const JpegCall& call, cudaStream_t stream) {
  const JpegPixels& pixels = call.pixels;
  ColorLaunch launch{};
  launch.plan = call.plan;
  launch.samples = call.samples;
  launch.block_status = call.block_status;
  launch.stream_of = call.stream_of;
  launch.streams = call.streams;
  bool is_aligned = true;
  for (int i = 0; i < call.output_count; ++i) {
    launch.outputs[i] = call.outputs[i];
    is_aligned = is_aligned && reinterpret_cast<std::uintptr_t>(call.outputs[i].values) % 16 == 0;
  }
  launch.output_count = call.output_count;
  launch.damaged = call.damaged;
  launch.blocks_per_frame = call.blocks_per_frame;
  launch.groups = (call.plan.width + kGroup - 1) / kGroup;
  launch.items = (call.plan.height + kStripRows - 1) / kStripRows * launch.groups;
  launch.color_blocks = (launch.items + kColorThreads - 1) / kColorThreads;
  launch.per_line = 0xffffffffu / static_cast<std::uint32_t>(3 * call.plan.width) + 1;
  launch.channels = pixels.channels;
  launch.element_bytes = static_cast<std::int32_t>(size_of(pixels.dtype));
  launch.image_bytes = static_cast<std::int64_t>(call.plan.width) * call.plan.height *
                       pixels.channels * launch.element_bytes;
  launch.channels_first = pixels.channels_first;
  launch.is_bfloat16 = pixels.dtype == DataType::kBFloat16;
  // Where only luma is wanted, the kernel of gray frames reads it.
  const JpegSampling sampling = pixels.channels == 1 ? JpegSampling::kGray : call.layout.sampling;
  const bool is_rgb = pixels.channels == 3;
  if (is_rgb && is_aligned && pixels.is_identity && !pixels.channels_first &&
      call.plan.width % 16 == 0) {
    launch_color_as<Writer::kStagedBytes>(call, sampling, launch, stream);
  } else if (is_rgb && is_aligned && pixels.is_linear && pixels.channels_first &&
             call.plan.width % kGroup == 0) {
    launch_color_as<Writer::kPlanes>(call, sampling, launch, stream);
  } else if (is_rgb && is_aligned && launch.element_bytes == 4 && pixels.channels_first &&
             call.plan.width % kGroup == 0) {
    launch_color_as<Writer::kWordPlanes>(call, sampling, launch, stream);
  } else {
    launch_color_as<Writer::kElements>(call, sampling, launch, stream);
  }
}

}  // namespace robocache::cuda
