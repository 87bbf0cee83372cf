// The table of CPU kernels that `process_cpu_kernels.cpp` defines once per instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/target.h"
#include "image/plan.h"

namespace robocache {

/// The sizes of the arrays with which a thread processes rows of a window's output, in elements of
/// 4 bytes.
struct ImageScratchSizes {
  static constexpr std::int32_t kRingRows = 16;

  std::int64_t row;         // of the output, all channels
  std::int64_t sums;        // a row of sums over columns
  std::int64_t weights;     // of the taps of all columns
  std::int64_t columns;     // of the output
  std::int64_t padded_row;  // of the source, with a word behind it

  ROBOCACHE_HOST_DEVICE_INLINE explicit ImageScratchSizes(const ImagePlan& plan)
      : row(std::int64_t{plan.out_width} * plan.channels),
        sums(std::int64_t{plan.out_width} * 4),
        weights(4 * std::int64_t{plan.out_width} + 4 * std::int64_t{plan.width}),
        columns(plan.out_width),
        padded_row(std::int64_t{plan.width} + 2) {}

  /// The bytes of a sampler's arrays and of four rows, a multiple of 64.
  ROBOCACHE_HOST_DEVICE_INLINE std::int64_t total_bytes() const {
    const std::int64_t sampler = (kRingRows + 1) * sums + weights + 3 * columns + padded_row;
    return (4 * (sampler + 4 * row) + 63) / 64 * 64;
  }
};

/// The size of a frame's recipe, which every instruction set lays out alike.
inline constexpr std::size_t kRecipeBytes = 256;

/// One instruction set's kernels.
struct ImageCpuKernels {
  /// Writes the recipes of the frames [begin, end); `recipes` is that of frame 0.
  void (*prepare)(const ImagePlan& plan, const ImageDrawPlan& draw, std::int64_t begin,
                  std::int64_t end, void* recipes);
  /// Writes the rows [begin, end) of frame n; `recipe` is that of the frame.
  void (*process)(const ImagePlan& plan, const void* recipe, std::int64_t n, std::int32_t begin,
                  std::int32_t end, void* scratch);
};

namespace baseline {
const ImageCpuKernels& image_cpu_kernels();
}  // namespace baseline
namespace avx2 {
const ImageCpuKernels& image_cpu_kernels();
}  // namespace avx2
namespace avx512 {
const ImageCpuKernels& image_cpu_kernels();
}  // namespace avx512

}  // namespace robocache
