// rgb_kernel: frames of three bytes a pixel, resized or turned.
//
// A block makes a tile of kTileWidth by kTileHeight output pixels. A warp makes two rows at a time,
// of which each thread has two neighboring pixels:
//
//     row 0   0 0 1 1 2 2 ... 15 15      (the lane of each pixel)
//     row 1   16 16 17 17 ... 31 31
//
// Turned frames: the source pixels of the whole tile are staged in shared memory (stage.cuh), and a
// sample is two dot products of two bytes for each channel and row. Frames that are turned and
// reduced: in steps of at most kStepRows rows, source pixels are staged and filtered. Straight
// frames: in such steps, source pixels are staged, summed along columns with weights that the block
// has computed once, and then along rows.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "core/early_launch.cuh"
#include "image/pair_out.cuh"
#include "image/pixel_kernel.cuh"
#include "image/prepare.cuh"
#include "image/stage.cuh"

namespace robocache::cuda {

inline constexpr std::int32_t kTileWidth = 32;
inline constexpr std::int32_t kTileHeight = 64;
inline constexpr std::int32_t kStepRows = 16;  // two for each warp

// Shared memory of straight frames: pixels, sums of rows [kSumRows][3][kTileWidth], weights of
// columns in pairs, and weights of rows. Four blocks with all of it fit a multiprocessor.
inline constexpr std::int32_t kColumnPairs = static_cast<std::int32_t>(kMaxFixedWidth) + 1;
inline constexpr std::int32_t kStageWords = 5120;
// Words behind the pixels of a step that are read, and multiplied by 0.
inline constexpr std::int32_t kSpareWords = 2 * kColumnPairs;
inline constexpr std::int32_t kSumRows = 56;

struct StraightMemory {
  std::uint32_t pixels[kStageWords];
  float sums[kSumRows][3][kTileWidth];
};

// A turned tile spans at most 72 * 1.25 + 3 pixels on a side, and 8 more in width for alignment.
inline constexpr std::int32_t kTurnedWords = 9600;

union alignas(16) TileMemory {
  StraightMemory straight;
  std::uint32_t turned[kTurnedWords];
};

struct ColumnWeights {
  std::uint32_t pairs[kColumnPairs][kTileWidth];  // two weights of 16 bits
  std::int32_t first[kTileWidth];                 // the columns' first taps
  std::int32_t most_pairs;
};

struct RowWeights {
  float weights[kStepRows][kSumRows];
  TapRange taps[kStepRows];  // empty outside the bounds
};

struct RgbLaunch {
  ImagePlan plans[kMaxImageLaunch];
  Finisher finish[kMaxImageLaunch][2][3];     // of frames without and with changes of color
  std::int64_t first_frame[kMaxImageLaunch];  // of the launch, in the recipes
  LaunchParts blocks;
  const char* recipes;
};

/// A block's tile, and its frame.
struct Tile {
  const ImagePlan& plan;
  const FrameRecipe& recipe;
  std::int64_t n;
  const std::uint8_t* frame;
  std::int32_t u, v, end_u, end_v;
  bool is_erased;  // whether the erased rectangle has pixels of the tile

  /// The thread's first pixel in the rows of a step.
  __device__ std::int32_t thread_u() const {
    return u + static_cast<std::int32_t>(threadIdx.x % 16) * 2;
  }
  __device__ static std::int32_t thread_row() {
    return static_cast<std::int32_t>(threadIdx.x / 16);
  }
};

__device__ __noinline__ inline float noisy_value(const FrameRecipe& recipe, float x,
                                                 std::uint32_t index) {
  return noisy(recipe, x, index);
}

/// Changes the colors of pairs in the column u and kCount rows, adds noise and erases.
template <int kCount>
__device__ void change_pairs(const Tile& tile, std::int32_t u, const std::int32_t (&v)[kCount],
                             PixelPair (&pairs)[kCount]) {
  const FrameRecipe& recipe = tile.recipe;
  for (std::int32_t i = 0; i < recipe.steps; ++i) {
    const PreparedStep step = recipe.colors[i];
    with_kind(step.kind, [&](auto kind) {
#pragma unroll
      for (int k = 0; k < 2 * kCount; ++k) {
        float (&x)[3][2] = pairs[k / 2].values;
        const int j = k % 2;
        const Rgb made = changed<decltype(kind)::kValue>(step, {x[0][j], x[1][j], x[2][j]});
        x[0][j] = made.r;
        x[1][j] = made.g;
        x[2][j] = made.b;
      }
    });
  }
  if (recipe.noise > 0) {
#pragma unroll
    for (int i = 0; i < 6 * kCount; ++i) {
      const auto first = static_cast<std::uint32_t>(v[i / 6] * tile.plan.out_width + u) * 3;
      float& value = pairs[i / 6].values[i % 3][i % 6 / 3];
      value = noisy_value(recipe, value, first + static_cast<std::uint32_t>(i % 6));
    }
  }
  if (!tile.is_erased) return;
#pragma unroll
  for (int k = 0; k < 2 * kCount; ++k) {
    const std::int32_t row = v[k / 2];
    const std::int32_t column = u + k % 2;
    if (row < recipe.erase[0] || row >= recipe.erase[2]) continue;
    if (column < recipe.erase[1] || column >= recipe.erase[3]) continue;
#pragma unroll
    for (int c = 0; c < 3; ++c) pairs[k / 2].values[c][k % 2] = recipe.erase_value[c];
  }
}

/// `turned_tap` where neither end of the axis is near.
__device__ inline TurnedTap inner_tap(float x) {
  const float first = x + (kRoundingMagic - 1);
  const float fraction = x - 0.5f - (first - kRoundingMagic);
  return {rounded_bits(first), round_to_int(fraction * 255.0f)};
}

/// Whether `inner_tap` is `turned_tap` for all positions between two.
__device__ inline bool is_inner(const SampleAxis& axis, float from, float to) {
  return is_on(axis, from) && is_on(axis, to) && from - 0.5f >= static_cast<float>(axis.begin) &&
         to - 1.0f <= static_cast<float>(axis.end - 2);
}

/// The sums of a turned sample of a staged box.
__device__ inline void sample_staged(const std::uint32_t* stage, const StageBox& box, TurnedTap j,
                                     TurnedTap i, float scale, PixelPair& pair, int k) {
  const std::uint32_t* const pixels =
      stage + (i.first - box.top) * box.width + (j.first - box.left);
  const std::uint32_t p00 = pixels[0];
  const std::uint32_t p01 = pixels[1];
  const std::uint32_t p10 = pixels[box.width];
  const std::uint32_t p11 = pixels[box.width + 1];
  // Two weights in 16 bits each: 255 - j.weight and j.weight, times the row's.
  const std::uint32_t across = static_cast<std::uint32_t>(j.weight) * 65535u + 255u;
  const std::uint32_t below = across * static_cast<std::uint32_t>(i.weight);
  const std::uint32_t above = across * 255u - below;
  const std::uint32_t above_rg = __byte_perm(p00, p01, 0x5140);
  const std::uint32_t below_rg = __byte_perm(p10, p11, 0x5140);
  const std::uint32_t above_b = __byte_perm(p00, p01, 0x0062);
  const std::uint32_t below_b = __byte_perm(p10, p11, 0x0062);
  const std::uint32_t sums[3] = {
      __dp2a_lo(above, above_rg, __dp2a_lo(below, below_rg, 0u)),
      __dp2a_hi(above, above_rg, __dp2a_hi(below, below_rg, 0u)),
      __dp2a_lo(above, above_b, __dp2a_lo(below, below_b, 0u)),
  };
#pragma unroll
  for (int c = 0; c < 3; ++c) {
    pair.values[c][k] = static_cast<float>(static_cast<std::int32_t>(sums[c])) * scale;
  }
}

/// The least and the largest position along an axis of the rows [v, end_v) of a tile: positions are
/// monotonic along rows and columns, so that these are positions of corners.
__device__ inline float2 extremes(const Tile& tile, const float* row, std::int32_t v,
                                  std::int32_t end_v) {
  const float a = position(row, tile.u, v);
  const float b = position(row, tile.end_u - 1, v);
  const float c = position(row, tile.u, end_v - 1);
  const float d = position(row, tile.end_u - 1, end_v - 1);
  return make_float2(fminf(fminf(a, b), fminf(c, d)), fmaxf(fmaxf(a, b), fmaxf(c, d)));
}

/// Writes a tile of a turned frame.
template <typename Out>
__device__ void write_turned(const Tile& tile, const Finisher* finish,
                             const PairWriter<Out>& writer, std::uint32_t* stage) {
  const Sampling& sampling = tile.recipe.sampling;
  const float2 xs = extremes(tile, sampling.map, tile.v, tile.end_v);
  const float2 ys = extremes(tile, sampling.map + 3, tile.v, tile.end_v);
  const StageBox box =
      make_box(turned_tap(sampling.x, xs.x).first, turned_tap(sampling.x, xs.y).first + 2,
               turned_tap(sampling.y, ys.x).first, turned_tap(sampling.y, ys.y).first + 2);
  const bool inner = is_inner(sampling.x, xs.x, xs.y) && is_inner(sampling.y, ys.x, ys.y);
  stage_pixels(tile.plan, tile.frame, box, stage);
  __syncthreads();
  const std::int32_t u = tile.thread_u();
  if (u >= tile.end_u) return;
  // The second pixel of the last pair of an odd row is not written: it is the first again.
  const std::int32_t columns[2] = {u, min(u + 1, tile.end_u - 1)};
  const float scale = tile.recipe.scale;
#pragma unroll 1
  for (std::int32_t first = tile.v + Tile::thread_row(); first < tile.end_v;
       first += 2 * kStepRows) {
    const std::int32_t v[2] = {first, min(first + kStepRows, tile.end_v - 1)};
    PixelPair pairs[2] = {};
    const auto sample_all = [&](const auto& sample_at) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const float x = position(sampling.map, columns[k % 2], v[k / 2]);
        const float y = position(sampling.map + 3, columns[k % 2], v[k / 2]);
        sample_at(x, y, pairs[k / 2], k % 2);
      }
    };
    if (inner) {
      sample_all([&](float x, float y, PixelPair& pair, int k) {
        sample_staged(stage, box, inner_tap(x), inner_tap(y), scale, pair, k);
      });
    } else {
      sample_all([&](float x, float y, PixelPair& pair, int k) {
        if (!is_on(sampling.x, x) || !is_on(sampling.y, y)) return;
        sample_staged(stage, box, turned_tap(sampling.x, x), turned_tap(sampling.y, y), scale, pair,
                      k);
      });
    }
    change_pairs(tile, u, v, pairs);
    writer.write(finish, pairs[0], u, v[0]);
    if (first + kStepRows < tile.end_v) writer.write(finish, pairs[1], u, v[1]);
  }
}

/// Byte c of a word as a float: the low bits of 2^23 are units.
__device__ inline float byte_of(std::uint32_t word, int c) {
  return __uint_as_float(__byte_perm(word, 0x4B000000, 0x7440u | static_cast<std::uint32_t>(c))) -
         8388608.0f;
}

/// The samples of kWeighted at a position within the bounds, from a staged box.
__device__ inline void sample_weighted_staged(const Sampling& sampling, const std::uint32_t* stage,
                                              const StageBox& box, float x, float y, float scale,
                                              PixelPair& pair, int k) {
  const TapRange across = taps_at(sampling.x, x);
  const TapRange down = taps_at(sampling.y, y);
  float total[3] = {};
  float row_weights = 0;
  float column_weights = 0;
#pragma unroll 1
  for (std::int32_t i = down.begin; i < down.end; ++i) {
    const std::uint32_t* const pixels = stage + (i - box.top) * box.width - box.left;
    float row[3] = {};
    column_weights = 0;
#pragma unroll 2
    for (std::int32_t j = across.begin; j < across.end; ++j) {
      const float weight = tap_weight(sampling.x, x, j);
      column_weights = column_weights + weight;
      const std::uint32_t pixel = pixels[j];
#pragma unroll
      for (int c = 0; c < 3; ++c) row[c] = row[c] + byte_of(pixel, c) * weight;
    }
    const float weight = tap_weight(sampling.y, y, i);
    row_weights = row_weights + weight;
#pragma unroll
    for (int c = 0; c < 3; ++c) total[c] = total[c] + row[c] * weight;
  }
  const float by = column_weights * row_weights;
#pragma unroll
  for (int c = 0; c < 3; ++c) pair.values[c][k] = total[c] / by * scale;
}

/// The taps that positions between two have on an axis; none if all are outside.
__device__ inline TapRange taps_between(const SampleAxis& axis, float a, float b) {
  const float low = fmaxf(fminf(a, b), axis.low);
  const float high = fminf(fmaxf(a, b), axis.high);
  if (!(low <= high)) return {0, 0};
  return {taps_at(axis, low).begin, taps_at(axis, high).end};
}

/// The most rows of a step whose source pixels fit the stage; 0: none.
__device__ inline std::int32_t rows_of_weighted_step(const Sampling& sampling) {
  const float* const map = sampling.map;
  for (std::int32_t rows = kStepRows; rows > 0; rows /= 2) {
    const auto down = static_cast<float>(rows - 1);
    const float width = fabsf(map[0]) * kTileWidth + fabsf(map[1]) * down + 2 * sampling.x.width;
    const float height = fabsf(map[3]) * kTileWidth + fabsf(map[4]) * down + 2 * sampling.y.width;
    if ((width + 9) * (height + 3) < kTurnedWords) return rows;
  }
  return 0;
}

/// Writes a tile of a frame that is turned and reduced. Returns false, and writes nothing, if the
/// filter is too wide for shared memory.
template <typename Out>
__device__ bool write_weighted(const Tile& tile, const Finisher* finish,
                               const PairWriter<Out>& writer, std::uint32_t* stage) {
  const Sampling& sampling = tile.recipe.sampling;
  const std::int32_t most_rows = rows_of_weighted_step(sampling);
  if (most_rows == 0) return false;
  const std::int32_t u = tile.thread_u();
  const std::int32_t row = Tile::thread_row();
#pragma unroll 1
  for (std::int32_t v = tile.v; v < tile.end_v; v += most_rows) {
    const std::int32_t rows = min(most_rows, tile.end_v - v);
    const float2 xs = extremes(tile, sampling.map, v, v + rows);
    const float2 ys = extremes(tile, sampling.map + 3, v, v + rows);
    const TapRange across = taps_between(sampling.x, xs.x, xs.y);
    const TapRange down = taps_between(sampling.y, ys.x, ys.y);
    const StageBox box = make_box(across.begin, across.end, down.begin, down.end);
    stage_pixels(tile.plan, tile.frame, box, stage);
    __syncthreads();
    if (row < rows && u < tile.end_u) {
      PixelPair pairs[1] = {};
      PixelPair& pair = pairs[0];
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const float x = position(sampling.map, u + k, v + row);
        const float y = position(sampling.map + 3, u + k, v + row);
        if (u + k >= tile.end_u || !is_on(sampling.x, x) || !is_on(sampling.y, y)) continue;
        sample_weighted_staged(sampling, stage, box, x, y, tile.recipe.scale, pair, k);
      }
      change_pairs(tile, u, {v + row}, pairs);
      writer.write(finish, pair, u, v + row);
    }
    __syncthreads();  // before the next step overwrites the stage
  }
  return true;
}

/// Computes the weights of a tile's columns, by the first warp.
__device__ inline void find_columns(const Tile& tile, ColumnWeights& columns) {
  const SampleAxis& axis = tile.recipe.sampling.x;
  const auto lane = static_cast<std::int32_t>(threadIdx.x);
  const std::int32_t u = tile.u + lane;
  const float x = position(tile.recipe.sampling.map, u, tile.v);
  std::int32_t count = 0;
  columns.first[lane] = -1;
  if (u < tile.end_u && is_on(axis, x)) {
    const TapRange taps = taps_at(axis, x);
    columns.first[lane] = taps.begin;
    count = taps.end - taps.begin;
    std::uint32_t even = 0;
    for_each_fixed_weight(axis, x, taps, [&](std::int32_t j, std::int32_t weight) {
      const std::int32_t k = j - taps.begin;
      const auto bits = static_cast<std::uint32_t>(weight);
      if (k % 2 == 0) even = bits;
      columns.pairs[k / 2][lane] = k % 2 == 0 ? bits : even | bits << 16;
    });
  }
  const std::int32_t pairs = (count + 1) / 2;
  std::int32_t most = pairs;
#pragma unroll
  for (int step = 16; step > 0; step /= 2) most = max(most, __shfl_xor_sync(~0u, most, step));
  for (std::int32_t k = pairs; k < most; ++k) columns.pairs[k][lane] = 0;
  if (lane == 0) columns.most_pairs = most;
}

/// Computes the weights of the rows of a step, by the threads of the second warp.
__device__ inline void find_rows(const Tile& tile, std::int32_t v, std::int32_t rows,
                                 RowWeights& weights) {
  const SampleAxis& axis = tile.recipe.sampling.y;
  const auto lane = static_cast<std::int32_t>(threadIdx.x % 32);
  if (lane >= rows) return;
  const float y = position(tile.recipe.sampling.map + 3, tile.u, v + lane);
  weights.taps[lane] = {0, 0};
  if (!is_on(axis, y)) return;
  const TapRange taps = taps_at(axis, y);
  const float sum = sum_of_weights(axis, y, taps);
  for (std::int32_t i = taps.begin; i < taps.end; ++i) {
    weights.weights[lane][i - taps.begin] = fixed_row_weight(tap_weight(axis, y, i), sum);
  }
  weights.taps[lane] = taps;
}

/// The most rows of a step whose pixels and sums fit shared memory; 0: none.
__device__ inline std::int32_t rows_of_step(const SampleAxis& axis, float scale,
                                            std::int32_t width) {
  for (std::int32_t rows = kStepRows; rows > 0; rows /= 2) {
    const float reach = fabsf(scale) * static_cast<float>(rows - 1) + 2 * axis.width + 2;
    if (reach < kSumRows && reach * static_cast<float>(width) < kStageWords - kSpareWords)
      return rows;
  }
  return 0;
}

/// Writes a tile of a straight frame. Returns false, and writes nothing, if its filter is too wide
/// for shared memory.
template <typename Out>
__device__ bool write_straight(const Tile& tile, const Finisher* finish,
                               const PairWriter<Out>& writer, StraightMemory& memory,
                               ColumnWeights& columns, RowWeights& row_weights) {
  const Sampling& sampling = tile.recipe.sampling;
  const float* const map = sampling.map;
  const TapRange across =
      taps_between(sampling.x, position(map, tile.u, 0), position(map, tile.end_u - 1, 0));
  const std::int32_t width = make_box(across.begin, across.end, 0, 1).width;
  const std::int32_t most_rows = rows_of_step(sampling.y, map[4], width + 4);
  if (most_rows == 0) return false;
  if (threadIdx.x < 32) find_columns(tile, columns);
  const auto warp = static_cast<std::int32_t>(threadIdx.x / 32);
  const auto lane = static_cast<std::int32_t>(threadIdx.x % 32);
  const std::int32_t u = tile.thread_u();
  const std::int32_t row = Tile::thread_row();
#pragma unroll 1
  for (std::int32_t v = tile.v; v < tile.end_v; v += most_rows) {
    const std::int32_t rows = min(most_rows, tile.end_v - v);
    const TapRange down =
        taps_between(sampling.y, position(map + 3, 0, v), position(map + 3, 0, v + rows - 1));
    const StageBox box = make_box(across.begin, across.end, down.begin, down.end);
    if (warp == 1) find_rows(tile, v, rows, row_weights);
    stage_pixels(tile.plan, tile.frame, box, memory.pixels);
    __syncthreads();
    const std::int32_t first = columns.first[lane] - box.left;
    const std::int32_t pairs = columns.most_pairs;
    for (std::int32_t i = warp; i < box.height; i += kRgbThreads / 32) {
      std::uint32_t sums[3] = {};
      if (first >= 0) {
        const std::uint32_t* pixels = memory.pixels + i * box.width + first;
#pragma unroll 2
        for (std::int32_t k = 0; k < pairs; ++k) {
          const std::uint32_t weights = columns.pairs[k][lane];
          // Behind the box lie pixels of weight 0.
          const std::uint32_t p0 = pixels[2 * k];
          const std::uint32_t p1 = pixels[2 * k + 1];
          const std::uint32_t rg = __byte_perm(p0, p1, 0x5140);
          const std::uint32_t b = __byte_perm(p0, p1, 0x0062);
          sums[0] = __dp2a_lo(weights, rg, sums[0]);
          sums[1] = __dp2a_hi(weights, rg, sums[1]);
          sums[2] = __dp2a_lo(weights, b, sums[2]);
        }
      }
#pragma unroll
      for (int c = 0; c < 3; ++c) {
        memory.sums[i][c][lane] = static_cast<float>(static_cast<std::int32_t>(sums[c]));
      }
    }
    __syncthreads();
    if (row < rows && u < tile.end_u) {
      PixelPair pairs[1] = {};
      PixelPair& pair = pairs[0];
      const TapRange taps = row_weights.taps[row];
#pragma unroll 2
      for (std::int32_t i = taps.begin; i < taps.end; ++i) {
        const float weight = row_weights.weights[row][i - taps.begin];
#pragma unroll
        for (int c = 0; c < 3; ++c) {
          const float2 sums =
              *reinterpret_cast<const float2*>(&memory.sums[i - box.top][c][u - tile.u]);
          pair.values[c][0] = pair.values[c][0] + sums.x * weight;
          pair.values[c][1] = pair.values[c][1] + sums.y * weight;
        }
      }
#pragma unroll
      for (int c = 0; c < 3; ++c) {
#pragma unroll
        for (int k = 0; k < 2; ++k) pair.values[c][k] = pair.values[c][k] * tile.recipe.scale;
      }
      change_pairs(tile, u, {v + row}, pairs);
      writer.write(finish, pair, u, v + row);
    }
    __syncthreads();  // before the next step overwrites the memory
  }
  return true;
}

/// Writes a tile whose frame no other function takes.
__device__ __noinline__ inline void write_tile_pixels(const ImagePlan& plan,
                                                      const FrameRecipe& recipe, std::int64_t n,
                                                      std::int32_t u, std::int32_t v) {
  for (std::int32_t i = static_cast<std::int32_t>(threadIdx.x); i < kTileWidth * kTileHeight;
       i += kRgbThreads) {
    const std::int32_t column = u + i % kTileWidth;
    const std::int32_t row = v + i / kTileWidth;
    if (column < plan.out_width && row < plan.out_height) {
      write_pixel<std::uint8_t>(plan, recipe, n, column, row);
    }
  }
}

template <typename Out>
__global__ void __launch_bounds__(kRgbThreads, 4)
    rgb_kernel(const __grid_constant__ RgbLaunch launch) {
  __shared__ FrameRecipe recipe;
  __shared__ TileMemory memory;
  __shared__ ColumnWeights columns;
  __shared__ RowWeights row_weights;
  wait_for_stream();
  const int window = launch.blocks.find(blockIdx.x);
  const ImagePlan& plan = launch.plans[window];
  const auto across = static_cast<std::uint32_t>((plan.out_width + kTileWidth - 1) / kTileWidth);
  const auto down = static_cast<std::uint32_t>((plan.out_height + kTileHeight - 1) / kTileHeight);
  const auto block = static_cast<std::uint32_t>(blockIdx.x - launch.blocks.first[window]);
  const std::uint32_t n = block / (across * down);
  const std::uint32_t tile_of_frame = block - n * (across * down);
  const std::uint32_t tile_row = tile_of_frame / across;
  const auto v = static_cast<std::int32_t>(tile_row) * kTileHeight;
  const auto u = static_cast<std::int32_t>(tile_of_frame - tile_row * across) * kTileWidth;
  load_recipe(launch.recipes, launch.first_frame[window] + n, recipe);
  if (recipe.is_black == kSkippedFrame) return;
  const Tile tile{plan,
                  recipe,
                  n,
                  static_cast<const std::uint8_t*>(plan.frames) + n * plan.frame_elements(),
                  u,
                  v,
                  min(u + kTileWidth, plan.out_width),
                  min(v + kTileHeight, plan.out_height),
                  u < recipe.erase[3] && u + kTileWidth > recipe.erase[1] && v < recipe.erase[2] &&
                      v + kTileHeight > recipe.erase[0]};
  const Finisher* const finish = launch.finish[window][recipe.has_colors];
  const PairWriter<Out> writer(plan, n);
  const bool is_plain = recipe.is_black == 0 && !is_sharpened_frame(recipe, plan);
  if (is_plain && recipe.sampling.kind == SampleKind::kTurned) {
    return write_turned(tile, finish, writer, memory.turned);
  }
  if (is_plain && recipe.sampling.kind == SampleKind::kWeighted &&
      write_weighted(tile, finish, writer, memory.turned)) {
    return;
  }
  if (is_plain && recipe.sampling.kind == SampleKind::kFixed &&
      write_straight(tile, finish, writer, memory.straight, columns, row_weights)) {
    return;
  }
  write_tile_pixels(plan, recipe, n, u, v);
}

}  // namespace robocache::cuda
