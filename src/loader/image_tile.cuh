// Rows that have more pieces than a block has threads, on the GPU: bytes that are copied, and
// images that are written channels first. A tile is one target, of which a block makes a span of
// pieces: enough that locating the target costs little beside them, and few enough that blocks that
// wait for their targets run beside others that move data.
#pragma once

#include <cuda_pipeline_primitives.h>

#include <cstddef>
#include <cstdint>

#include "align/lerp_tile.cuh"
#include "align/tiling.cuh"
#include "align/vector.cuh"
#include "loader/copy.cuh"
#include "loader/image.h"
#include "loader/locate.cuh"

namespace robocache::cuda {

// The most pieces of an image per block, each of one or more pixels: enough that few blocks wait
// for their targets, and few enough that the shared memory of an H200's SM holds the pieces of 8
// blocks.
constexpr std::int32_t kMostPixelPieces = 9 * kThreads;
// An image of three colors is staged in shared memory, in pieces of four pixels, 12 bytes each.
// Four pieces fill whole words of 16 bytes.
constexpr std::int32_t kColorsOfRgb = 3;
constexpr std::int32_t kPieceBytesOfRgb = 4 * kColorsOfRgb;
constexpr std::int32_t kStagedUnit = 4;
constexpr std::size_t kStageBytes = kMostPixelPieces * kPieceBytesOfRgb;

/// Pixels per piece of an image where alignment permits vectors.
template <typename Out>
constexpr int kPixelsAtOnce = sizeof(Out) == 8 ? 2 : 4;

/// The address of a copied row of bytes, or kZeros.
__device__ inline CopiedRow copied_row_of(const NarrowPlan& plan,
                                          const PlainTarget<float>& target) {
  if (target.recipe() != Recipe::kRow) return kZeros;
  return reinterpret_cast<CopiedRow>(plan.values) + static_cast<CopiedRow>(target.a);
}

/// Converts a byte to the compute type.
__device__ inline float number_of(std::uint8_t byte, float) { return static_cast<float>(byte); }
__device__ inline double number_of(std::uint8_t byte, double) {
  // The low bits of 2^52 are units: this avoids a conversion instruction, whose throughput is low
  // on GPUs.
  return __hiloint2double(0x43300000, byte) - 0x1p52;
}

/// Writes kPixels pixels of every color, from one row or interpolated from two. The loads of all
/// colors are issued together.
template <typename Out, int kPixels, typename Compute>
__device__ void make_pixels(const NarrowWindow& window, const PlainTarget<Compute>& target,
                            const std::uint8_t* row, Out* out, int pixels, int pixel) {
  constexpr int kColors = static_cast<int>(kMaxColors);
  const NarrowPlan& plan = window.align;
  const int colors = window.colors;
  const bool is_pair = target.recipe() == Recipe::kPair;
  const std::uint8_t* const from = row + pixel * colors;
  std::uint8_t a[kColors][kPixels];
  std::uint8_t b[kColors][kPixels];
#pragma unroll
  for (int c = 0; c < kColors; ++c) {
    if (c >= colors) break;
#pragma unroll
    for (int p = 0; p < kPixels; ++p) {
      a[c][p] = __ldg(from + p * colors + c);
      if (is_pair) b[c][p] = __ldg(from + plan.values_row_stride + p * colors + c);
    }
  }
#pragma unroll
  for (int c = 0; c < kColors; ++c) {
    if (c >= colors) break;
    const ColorScale scale = scale_of_color(plan, c);
    Vector<Out, kPixels> made;
#pragma unroll
    for (int p = 0; p < kPixels; ++p) {
      if (is_pair) {
        const Compute x =
            lerp(static_cast<Compute>(a[c][p]), static_cast<Compute>(b[c][p]), target.weight);
        made.elements[p] = scale_color<Out>(scale, x);
      } else {
        made.elements[p] = scale_color<Out>(scale, number_of(a[c][p], double{}));
      }
    }
    store_vector(out + static_cast<std::int64_t>(c) * pixels + pixel, made);
  }
}

/// Cuts an image that is written channels first into pieces of pixels: several pixels per piece
/// where alignment permits.
inline Columns cut_image(const NarrowWindow& window) {
  const NarrowPlan& plan = window.align;
  const std::int32_t pixels = plan.channels / window.colors;
  const std::int32_t width =
      plan.out_type == DataType::kFloat64 ? kPixelsAtOnce<double> : kPixelsAtOnce<float>;
  const bool fits = pixels % width == 0 && plan.out_target_stride % width == 0 &&
                    is_aligned(plan.out, width * size_of(plan.out_type)) &&
                    plan.values_row_stride % width == 0 && is_aligned(plan.values, width);
  return fits ? Columns(pixels / width, Access::kVector) : Columns(pixels, Access::kScalar);
}

/// Whether a block may stage images, and so needs shared memory for them.
inline bool may_be_staged(const NarrowWindow& window, const Columns& columns) {
  return window.colors == kColorsOfRgb && columns.access == Access::kVector &&
         window.align.out_type != DataType::kFloat64;
}

/// Starts asynchronous copies of a row's bytes to shared memory, without waiting. Both ends of the
/// row are aligned to `Word`.
template <typename Word>
__device__ void stage_row(uint4* stage, const std::uint8_t* from, int bytes) {
  constexpr int kBytes = sizeof(Word);
  auto* const to = reinterpret_cast<std::uint8_t*>(stage);
  for (int i = static_cast<int>(threadIdx.x) * kBytes; i < bytes; i += kThreads * kBytes) {
    __pipeline_memcpy_async(to + i, from + i, kBytes);
  }
  __pipeline_commit();
}

/// Writes pieces [begin, end), at most kMostPixelPieces, of four pixels each, of an RGB image that
/// is copied from one row, with all threads of the block. The row is staged in shared memory: all
/// its loads are in flight together, without using registers. A piece is three words, r0 g0 b0 r1,
/// g1 b1 r2 g2, b2 r3 g3 b3; neighboring threads read them from different banks. Float output is
/// four times the size of the input, and larger than the L2 cache: its stores bypass the cache.
template <typename Out>
__device__ void make_staged(const NarrowPlan& plan, const std::uint8_t* row, Out* out, int pixels,
                            int begin, int end, uint4* stage) {
  constexpr int kBytesPerWord = sizeof(unsigned int);
  const std::uint8_t* const from = row + begin * kPieceBytesOfRgb;
  const int bytes = (end - begin) * kPieceBytesOfRgb;
  if (reinterpret_cast<std::uintptr_t>(from) % sizeof(uint4) == 0 && bytes % sizeof(uint4) == 0) {
    stage_row<uint4>(stage, from, bytes);
  } else {
    stage_row<unsigned int>(stage, from, bytes);
  }
  ColorScale scales[kColorsOfRgb];
#pragma unroll
  for (int c = 0; c < kColorsOfRgb; ++c) scales[c] = scale_of_color(plan, c);
  __pipeline_wait_prior(0);
  __syncthreads();
#pragma unroll 3
  for (int piece = begin + static_cast<int>(threadIdx.x); piece < end; piece += kThreads) {
    const auto* const staged =
        reinterpret_cast<const unsigned int*>(stage) + (piece - begin) * kColorsOfRgb;
    const unsigned int words[kColorsOfRgb] = {staged[0], staged[1], staged[2]};
#pragma unroll
    for (int c = 0; c < kColorsOfRgb; ++c) {
      Vector<Out, 4> made;
#pragma unroll
      for (int p = 0; p < 4; ++p) {
        const int byte = p * kColorsOfRgb + c;
        const auto x =
            static_cast<std::uint8_t>(words[byte / kBytesPerWord] >> byte % kBytesPerWord * 8);
        made.elements[p] = scale_color<Out>(scales[c], number_of(x, double{}));
      }
      stream_vector(out + c * pixels + piece * 4, made);
    }
  }
}

/// Writes pieces [begin, end), of kPixels pixels, of an image. `stage` has kStageBytes of shared
/// memory.
template <typename Out, int kPixels, typename Compute>
__device__ void make_image(const NarrowWindow& window, const PlainTarget<Compute>& target,
                           int begin, int end, uint4* stage) {
  const NarrowPlan& plan = window.align;
  const int pixels = plan.channels / window.colors;
  const auto* const row = static_cast<const std::uint8_t*>(plan.values) + target.a;
  Out* const out = static_cast<Out*>(plan.out) + offset(target.target(), plan.out_target_stride);
  const bool is_literal = target.recipe() == Recipe::kZero || target.recipe() == Recipe::kNan;
  if constexpr (kPixels == 4) {
    if (window.colors == kColorsOfRgb && target.recipe() == Recipe::kRow) {
      return make_staged(plan, row, out, pixels, begin, end, stage);
    }
  }
#pragma unroll 1
  for (int piece = begin + static_cast<int>(threadIdx.x); piece < end; piece += kThreads) {
    const int pixel = piece * kPixels;
    if (!is_literal) {
      make_pixels<Out, kPixels>(window, target, row, out, pixels, pixel);
      continue;
    }
    Vector<Out, kPixels> literal;
#pragma unroll
    for (int p = 0; p < kPixels; ++p) {
      literal.elements[p] =
          target.recipe() == Recipe::kNan ? not_a_number<Out>() : Round<Out>::from(Compute(0));
    }
    for (int c = 0; c < window.colors; ++c) {
      store_vector(out + static_cast<std::int64_t>(c) * pixels + pixel, literal);
    }
  }
}

template <typename Out, typename Compute>
__device__ void make_image_either_way(const NarrowWindow& window, Access access,
                                      const PlainTarget<Compute>& target, int begin, int end,
                                      uint4* stage) {
  if (access == Access::kVector) {
    make_image<Out, kPixelsAtOnce<Out>>(window, target, begin, end, stage);
  } else {
    make_image<Out, 1>(window, target, begin, end, stage);
  }
}

/// Step 2 of a tile of a wide row, by all threads: pieces [begin, end) of its one target.
__device__ inline void combine_wide(const NarrowWindow& window, Access access,
                                    const PlainTarget<float>& target, int begin, int end,
                                    uint4* stage) {
  if (target.recipe() == Recipe::kNothing) return;
  if (window.colors == 0) {
    const NarrowPlan& plan = window.align;
    return copy_aligned_run(
        copied_row_of(plan, target), begin, end,
        static_cast<std::uint8_t*>(plan.out) + offset(target.target(), plan.out_target_stride));
  }
  switch (window.align.out_type) {
    case DataType::kFloat16:
      return make_image_either_way<Float16>(window, access, target, begin, end, stage);
    case DataType::kBFloat16:
      return make_image_either_way<BFloat16>(window, access, target, begin, end, stage);
    case DataType::kFloat32:
      return make_image_either_way<float>(window, access, target, begin, end, stage);
    default:
      return make_image_either_way<std::uint8_t>(window, access, target, begin, end, stage);
  }
}
__device__ inline void combine_wide(const NarrowWindow& window, Access access,
                                    const PlainTarget<double>& target, int begin, int end,
                                    uint4* stage) {
  if (target.recipe() == Recipe::kNothing) return;
  make_image_either_way<double>(window, access, target, begin, end, stage);
}

/// Writes a block's span of a wide row.
template <typename Launch, typename Compute>
__device__ void combine_wide_tile(const Launch& launch, const WindowTile& tile,
                                  const PlainTarget<Compute>& target, uint4* stage) {
  const Columns& columns = launch.columns[tile.stream];
  const int span = launch.targets[tile.stream].span;
  const int begin = tile.stretch * span;
  combine_wide(launch.windows[tile.stream], columns.access, target, begin,
               min(begin + span, columns.pieces), stage);
}

/// Computes a tile of a wide row, after its sample is located.
template <typename Compute, typename Launch>
__device__ void make_wide_tile(const Launch& launch, const WindowTile& tile) {
  auto* const made = static_cast<PlainTarget<Compute>*>(tile.made);
  if (tile.has_target()) {
    *made = locate_plain_step<Compute>(launch.windows[tile.stream], tile.sample(), tile.target,
                                       tile.stretch == 0);
  }
  __syncthreads();
  if (tile.count > 0) {
    combine_wide_tile(launch, tile, *made, reinterpret_cast<uint4*>(made + 1));
  }
}

/// Computes a tile of a wide row that is a run.
template <typename Launch>
__device__ void make_wide_run(const Launch& launch, const SingleSample& sample,
                              const WindowTile& tile) {
  const NarrowPlan& plan = launch.windows[tile.stream].align;
  sample.write_mask(plan, tile);
  PlainTarget<float> target{sample.element(plan), 0, 0};
  target.tag =
      static_cast<std::uint32_t>(tile.first_target) << 3 | static_cast<std::uint32_t>(Recipe::kRow);
  combine_wide_tile(launch, tile, target, static_cast<uint4*>(tile.made));
}

}  // namespace robocache::cuda
