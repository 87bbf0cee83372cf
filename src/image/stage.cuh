// Rectangles of RGB frames in shared memory, a word for each pixel: its three bytes and one that is
// not defined. A pixel is then one load, and two dot products of bytes take the place of its
// conversion to floats.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "image/plan.h"

namespace robocache::cuda {

inline constexpr int kRgbThreads = 256;
// Threads that stage a row, four pixels each.
inline constexpr int kStageLanes = 16;

/// A rectangle of the source, whose left edge and width are multiples of 4.
struct StageBox {
  std::int32_t left, top, width, height;

  __device__ std::int32_t words() const { return width * height; }
};

/// The box of the columns [left, right) and the rows [top, bottom).
__device__ inline StageBox make_box(std::int32_t left, std::int32_t right, std::int32_t top,
                                    std::int32_t bottom) {
  const std::int32_t aligned = left & ~3;
  return {aligned, top, (right - aligned + 3) & ~3, bottom - top};
}

/// Four pixels as words, from any address. `end` is the end of the tensor: pixels behind it are not
/// read.
__device__ inline uint4 load_pixels(const std::uint8_t* from, const std::uint8_t* end) {
  const auto address = reinterpret_cast<std::uintptr_t>(from);
  if (end - from >= 16) {
    const auto* const words = reinterpret_cast<const std::uint32_t*>(address & ~std::uintptr_t{3});
    const auto shift = static_cast<std::uint32_t>(address & 3) * 8;
    const std::uint32_t w0 = __ldg(words);
    const std::uint32_t w1 = __ldg(words + 1);
    const std::uint32_t w2 = __ldg(words + 2);
    const std::uint32_t w3 = shift != 0 ? __ldg(words + 3) : 0;
    const std::uint32_t a = __funnelshift_r(w0, w1, shift);
    const std::uint32_t b = __funnelshift_r(w1, w2, shift);
    const std::uint32_t c = __funnelshift_r(w2, w3, shift);
    return make_uint4(a, __byte_perm(a, b, 0x0543), __byte_perm(b, c, 0x0432), c >> 8);
  }
  std::uint32_t pixels[4] = {};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if (end - from < 3 * (i + 1)) break;
    pixels[i] =
        from[3 * i] | std::uint32_t{from[3 * i + 1]} << 8 | std::uint32_t{from[3 * i + 2]} << 16;
  }
  return make_uint4(pixels[0], pixels[1], pixels[2], pixels[3]);
}

/// Stages a box of a frame, by all threads of the block, without a barrier.
__device__ inline void stage_pixels(const ImagePlan& plan, const std::uint8_t* frame,
                                    const StageBox& box, std::uint32_t* stage) {
  const auto* const end =
      static_cast<const std::uint8_t*>(plan.frames) + plan.count * plan.frame_elements();
  const std::int32_t row_bytes = plan.width * 3;
  const std::uint8_t* const corner = frame + (std::int64_t{box.top} * plan.width + box.left) * 3;
  const auto lane = static_cast<std::int32_t>(threadIdx.x % kStageLanes);
  for (auto i = static_cast<std::int32_t>(threadIdx.x / kStageLanes); i < box.height;
       i += kRgbThreads / kStageLanes) {
    const std::uint8_t* const row = corner + std::int64_t{i} * row_bytes;
    std::uint32_t* const to = stage + i * box.width;
    for (std::int32_t j = lane * 4; j < box.width; j += kStageLanes * 4) {
      *reinterpret_cast<uint4*>(to + j) = load_pixels(row + j * 3, end);
    }
  }
}

}  // namespace robocache::cuda
