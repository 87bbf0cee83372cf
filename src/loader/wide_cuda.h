// Rows that are wider than a block has threads, on the GPU: bytes that are copied, and images whose
// colours are to come first. A tile is one target, of which a block makes a span of pieces: enough
// that finding the target costs little beside them, and few enough that blocks which wait for
// theirs run beside others that move data.
#pragma once

#include <cstdint>

#include "align/plain_cuda.h"
#include "align/tiling_cuda.h"
#include "align/vector_cuda.h"
#include "loader/copy_cuda.h"
#include "loader/image.h"
#include "loader/locate_cuda.h"

namespace robocache::cuda {

// Pieces of an image that a thread sends for at once, and those that a block makes.
constexpr int kPixelPiecesAtOnce = 5;
constexpr std::int32_t kMostPixelPieces = 2 * kPixelPiecesAtOnce * kThreads;

/// A row of bytes that is copied.
__device__ inline CopiedRow copied_row_of(const NarrowPlan& plan,
                                          const PlainTarget<float>& target) {
  if (target.recipe() != Recipe::kRow) return kZeros;
  return reinterpret_cast<CopiedRow>(plan.values) + static_cast<CopiedRow>(target.a);
}

/// The byte as a number of the compute type.
__device__ inline float number_of(std::uint8_t byte, float) { return static_cast<float>(byte); }
__device__ inline double number_of(std::uint8_t byte, double) {
  // The last bits of 2^52 are units: no conversion, of which a GPU makes few at once.
  return __hiloint2double(0x43300000, byte) - 0x1p52;
}

/// Writes kPixels pixels of every colour, from a row or a pair of them. Loads of all colours leave
/// together.
template <typename Out, int kPixels, typename Compute>
__device__ void make_pixels(const NarrowWindow& window, const PlainTarget<Compute>& target,
                            const std::uint8_t* row, Out* out, int pixels, int pixel) {
  constexpr int kColours = static_cast<int>(kMaxColours);
  const NarrowPlan& plan = window.align;
  const int colours = window.colours;
  const bool is_pair = target.recipe() == Recipe::kPair;
  const std::uint8_t* const from = row + pixel * colours;
  std::uint8_t a[kColours][kPixels];
  std::uint8_t b[kColours][kPixels];
#pragma unroll
  for (int c = 0; c < kColours; ++c) {
    if (c >= colours) break;
#pragma unroll
    for (int p = 0; p < kPixels; ++p) {
      a[c][p] = __ldg(from + p * colours + c);
      if (is_pair) b[c][p] = __ldg(from + plan.values_row_stride + p * colours + c);
    }
  }
#pragma unroll
  for (int c = 0; c < kColours; ++c) {
    if (c >= colours) break;
    const ColourScale scale = scale_of_colour(plan, c);
    Vector<Out, kPixels> made;
#pragma unroll
    for (int p = 0; p < kPixels; ++p) {
      if (is_pair) {
        const Compute x =
            lerp(static_cast<Compute>(a[c][p]), static_cast<Compute>(b[c][p]), target.weight);
        made.elements[p] = scale_colour<Out>(scale, x);
      } else {
        made.elements[p] = scale_colour<Out>(scale, number_of(a[c][p], double{}));
      }
    }
    store_vector(out + static_cast<std::int64_t>(c) * pixels + pixel, made);
  }
}

/// Makes pieces [begin, end), of four pixels, of an image of three colours that is one row: what
/// cameras give. Floats are four times what is read, and more than the cache holds: they pass it by. A piece is three words, whose bytes are r0 g0 b0 r1, g1 b1 r2 g2, b2 r3 g3 b3.
template <typename Out>
__device__ void make_rgb(const NarrowPlan& plan, const std::uint8_t* row, Out* out, int pixels,
                         int begin, int end) {
  constexpr int kColours = 3;
  ColourScale scales[kColours];
#pragma unroll
  for (int c = 0; c < kColours; ++c) scales[c] = scale_of_colour(plan, c);
#pragma unroll 1
  for (int top = begin + static_cast<int>(threadIdx.x); top < end;
       top += kPixelPiecesAtOnce * kThreads) {
    const auto* const from = reinterpret_cast<const unsigned int*>(row) + top * kColours;
    unsigned int words[kPixelPiecesAtOnce][kColours];
#pragma unroll
    for (int i = 0; i < kPixelPiecesAtOnce; ++i) {
      if (top + i * kThreads >= end) continue;
#pragma unroll
      for (int w = 0; w < kColours; ++w) words[i][w] = __ldg(from + i * kThreads * kColours + w);
    }
#pragma unroll
    for (int i = 0; i < kPixelPiecesAtOnce; ++i) {
      if (top + i * kThreads >= end) continue;
#pragma unroll
      for (int c = 0; c < kColours; ++c) {
        Vector<Out, 4> made;
#pragma unroll
        for (int p = 0; p < 4; ++p) {
          const int byte = p * kColours + c;
          const auto x = static_cast<std::uint8_t>(words[i][byte / 4] >> byte % 4 * 8);
          made.elements[p] = scale_colour<Out>(scales[c], number_of(x, double{}));
        }
        stream_vector(out + c * pixels + (top + i * kThreads) * 4, made);
      }
    }
  }
}

/// Makes pieces [begin, end), of kPixels pixels, of an image.
template <typename Out, int kPixels, typename Compute>
__device__ void make_image(const NarrowWindow& window, const PlainTarget<Compute>& target,
                           int begin, int end) {
  const NarrowPlan& plan = window.align;
  const int pixels = plan.channels / window.colours;
  const auto* const row = static_cast<const std::uint8_t*>(plan.values) + target.a;
  Out* const out = static_cast<Out*>(plan.out) + offset(target.target(), plan.out_target_stride);
  const bool is_literal = target.recipe() == Recipe::kZero || target.recipe() == Recipe::kNan;
  if constexpr (kPixels == 4) {
    if (window.colours == 3 && target.recipe() == Recipe::kRow) {
      return make_rgb(plan, row, out, pixels, begin, end);
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
    for (int c = 0; c < window.colours; ++c) {
      store_vector(out + static_cast<std::int64_t>(c) * pixels + pixel, literal);
    }
  }
}

/// Pixels of a piece of an image, where memory lets them be written together.
template <typename Out>
constexpr int kPixelsAtOnce = sizeof(Out) == 8 ? 2 : 4;

template <typename Out, typename Compute>
__device__ void make_image_either_way(const NarrowWindow& window, Access access,
                                      const PlainTarget<Compute>& target, int begin, int end) {
  if (access == Access::kVector) {
    make_image<Out, kPixelsAtOnce<Out>>(window, target, begin, end);
  } else {
    make_image<Out, 1>(window, target, begin, end);
  }
}

/// Step 2 of a tile of wide rows: pieces [begin, end) of its one target.
__device__ inline void combine_wide(const NarrowWindow& window, Access access,
                                    const PlainTarget<float>& target, int begin, int end) {
  if (target.recipe() == Recipe::kNothing) return;
  if (window.colours == 0) {
    const NarrowPlan& plan = window.align;
    return copy_aligned_run(
        copied_row_of(plan, target), begin, end,
        static_cast<std::uint8_t*>(plan.out) + offset(target.target(), plan.out_target_stride));
  }
  switch (window.align.out_type) {
    case DataType::kFloat16:
      return make_image_either_way<Float16>(window, access, target, begin, end);
    case DataType::kBFloat16:
      return make_image_either_way<BFloat16>(window, access, target, begin, end);
    case DataType::kFloat32:
      return make_image_either_way<float>(window, access, target, begin, end);
    default:
      return make_image_either_way<std::uint8_t>(window, access, target, begin, end);
  }
}
__device__ inline void combine_wide(const NarrowWindow& window, Access access,
                                    const PlainTarget<double>& target, int begin, int end) {
  if (target.recipe() == Recipe::kNothing) return;
  make_image_either_way<double>(window, access, target, begin, end);
}

}  // namespace robocache::cuda
