// The CUDA backend: one launch that searches, combines and masks.
//
// A warp makes a tile of consecutive targets, in two steps, with no barrier beyond the warp:
//
//   1. locate   lane i searches for target i of the tile, and leaves its rows and weight in shared
//               memory; so each target is searched for once, and up to 32 searches run side by side
//   2. combine  the tile's output is cut into pieces, which all lanes share out:
//
//               target 0   | p0 | p1 | p2 | p3 |        lane  0  1  2  3
//               target 1   | p0 | p1 | p2 | p3 |              4  5  6  7
//               ...                                           ...
//
// Two kernels differ in what a piece is. `align_kernel` has one linear, previous or nearest run, and
// makes 16 bytes at a time; `align_runs_kernel` has any layout, and makes a channel or a quaternion.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "align/backends.h"
#include "align/combine.h"
#include "align/locate.h"
#include "align/search_cuda.h"
#include "core/cuda_error.h"
#include "core/number.h"

namespace robocache {
namespace cuda {
namespace {

constexpr std::uint32_t kWarp = 32;
// Nothing is shared beyond the warp, so a block is just large enough to fill an SM: 32 blocks of 64
// warp slots or fewer.
constexpr std::uint32_t kWarpsPerBlock = 4;
// Pieces that a lane makes in one go, their loads all in flight together.
constexpr std::uint32_t kPiecesPerLane = 4;
constexpr std::uint32_t kPiecesPerTile = kWarp * kPiecesPerLane;

/// How the output is shared out among warps: blockIdx.x counts tiles of targets, blockIdx.y stretches
/// of rows too wide for one tile.
struct Tiling {
  std::int64_t targets;  // over the batch
  std::int64_t tiles;
  std::int64_t pieces;  // in an output row
  std::uint32_t targets_per_tile;
  std::uint32_t pieces_per_row;  // of a tile
  std::uint32_t reciprocal;      // of pieces_per_row, times 2^20

  Tiling(const StreamPlan& plan, std::int64_t row_pieces)
      : targets(plan.batch * plan.targets), pieces(row_pieces) {
    pieces_per_row = static_cast<std::uint32_t>(
        std::clamp<std::int64_t>(row_pieces, 1, kPiecesPerTile));
    targets_per_tile = std::min(kWarp, kPiecesPerTile / pieces_per_row);
    tiles = (targets + targets_per_tile - 1) / targets_per_tile;
    reciprocal = ((1u << 20) + pieces_per_row - 1) / pieces_per_row;
  }

  dim3 grid() const {
    const std::int64_t stretches = (pieces + pieces_per_row - 1) / pieces_per_row;
    return {static_cast<unsigned>((tiles + kWarpsPerBlock - 1) / kWarpsPerBlock),
            static_cast<unsigned>(std::clamp<std::int64_t>(stretches, 1, 65535)), 1};
  }

  /// piece / pieces_per_row, exact for the pieces of a tile.
  __device__ std::uint32_t row_of_piece(std::uint32_t piece) const {
    return piece * reciprocal >> 20;
  }
};

/// A target as step 1 leaves it for step 2. Offsets are in elements.
template <typename Compute>
struct TileTarget {
  std::int64_t values;  // of the location's first row
  std::int64_t out;
  Location<Compute> location;  // lo is 0
};

/// Step 1 for one target. `quaternions_exist(values_offset, location)` has a say in its mask.
template <typename Compute, typename Exist>
__device__ TileTarget<Compute> locate_target(const StreamPlan& plan, std::int64_t target,
                                             const Exist& quaternions_exist) {
  const std::int64_t b = target / plan.targets;
  const std::int64_t t = target - b * plan.targets;
  const Episode episode = episode_of(plan, b);
  TileTarget<Compute> found;
  found.location = search<Compute>(plan, b, t, episode);
  found.values = b * plan.values_batch_stride +
                 (episode.first_row + found.location.lo) * plan.values_row_stride;
  found.out = b * plan.out_batch_stride + t * plan.out_target_stride;
  found.location.lo = 0;
  if (plan.out_valid != nullptr && blockIdx.y == 0) {
    plan.out_valid[b * plan.out_valid_batch_stride + t * plan.out_valid_target_stride] =
        found.location.valid && quaternions_exist(found.values, found.location);
  }
  return found;
}

/// (x - subtract) * multiply, each where given.
template <typename Compute>
__device__ Compute scale(const StreamPlan& plan, Compute x, std::int64_t channel) {
  if (plan.subtract != nullptr) {
    x = x - __ldg(static_cast<const Compute*>(plan.subtract) + channel * plan.subtract_stride);
  }
  if (plan.multiply != nullptr) {
    x = x * __ldg(static_cast<const Compute*>(plan.multiply) + channel * plan.multiply_stride);
  }
  return x;
}

/// A warp's tile: its targets, located, in shared memory.
template <typename Compute>
struct Tile {
  const TileTarget<Compute>* targets;
  std::uint32_t count;
};

template <typename Compute, typename Exist>
__device__ Tile<Compute> locate_tile(const StreamPlan& plan, const Tiling& tiling,
                                     const Exist& quaternions_exist) {
  __shared__ TileTarget<Compute> shared[kWarpsPerBlock][kWarp];
  const std::uint32_t lane = threadIdx.x % kWarp;
  const std::uint32_t warp = threadIdx.x / kWarp;
  const std::int64_t first =
      (static_cast<std::int64_t>(blockIdx.x) * kWarpsPerBlock + warp) * tiling.targets_per_tile;
  const std::int64_t left = tiling.targets - first;
  const std::uint32_t count =
      left <= 0 ? 0
                : static_cast<std::uint32_t>(
                      min(left, static_cast<std::int64_t>(tiling.targets_per_tile)));
  if (lane < count) {
    shared[warp][lane] = locate_target<Compute>(plan, first + lane, quaternions_exist);
  }
  __syncwarp();
  return {shared[warp], count};
}

// Vectors of kWidth elements, moved in one instruction.

template <int kBytes>
struct Word;
template <>
struct Word<16> {
  using type = uint4;
};
template <>
struct Word<8> {
  using type = uint2;
};
template <>
struct Word<4> {
  using type = unsigned int;
};
template <>
struct Word<2> {
  using type = unsigned short;
};
template <>
struct Word<1> {
  using type = unsigned char;
};

template <typename T, int kWidth>
struct Vector {
  using Bits = typename Word<sizeof(T) * kWidth>::type;
  union {
    Bits bits;
    T elements[kWidth];
  };
  __device__ Vector() {}
};

template <typename T, int kWidth>
__device__ Vector<T, kWidth> load_vector(const T* from) {
  Vector<T, kWidth> vector;
  vector.bits = __ldg(reinterpret_cast<const typename Vector<T, kWidth>::Bits*>(from));
  return vector;
}

/// Output is written once and not read here: it should not push the source rows out of the cache.
template <typename T, int kWidth>
__device__ void store_vector(T* to, const Vector<T, kWidth>& vector) {
  __stcs(reinterpret_cast<typename Vector<T, kWidth>::Bits*>(to), vector.bits);
}

template <typename Value, typename Out>
struct ComputeOf {
  using type = float;
};
template <typename Out>
struct ComputeOf<double, Out> {
  using type = double;
};
template <typename Value>
struct ComputeOf<Value, double> {
  using type = double;
};
template <>
struct ComputeOf<double, double> {
  using type = double;
};

/// One run of linear, previous or nearest. kWidth is 1, with any strides, or the number of elements
/// in 16 bytes of the wider type, with aligned rows whose channels are neighbours.
template <typename Value, typename Out, int kWidth>
__global__ void __launch_bounds__(kWarp* kWarpsPerBlock)
    align_kernel(const __grid_constant__ StreamPlan plan, const __grid_constant__ Tiling tiling) {
  using Compute = typename ComputeOf<Value, Out>::type;
  const auto no_quaternions = [](std::int64_t, const Location<Compute>&) { return true; };
  const Tile<Compute> tile = locate_tile<Compute>(plan, tiling, no_quaternions);
  const std::uint32_t lane = threadIdx.x % kWarp;
  const Value* __restrict__ values = static_cast<const Value*>(plan.values);
  Out* __restrict__ out = static_cast<Out*>(plan.out);
  const std::int64_t channel_stride = kWidth == 1 ? plan.values_channel_stride : 1;

  for (std::int64_t first_piece = std::int64_t{blockIdx.y} * tiling.pieces_per_row;
       first_piece < tiling.pieces;
       first_piece += std::int64_t{gridDim.y} * tiling.pieces_per_row) {
    const std::int64_t row_pieces =
        min(std::int64_t{tiling.pieces_per_row}, tiling.pieces - first_piece);
    Vector<Value, kWidth> a[kPiecesPerLane];
    Vector<Value, kWidth> b[kPiecesPerLane];
    std::uint32_t row[kPiecesPerLane];
    std::int64_t channel[kPiecesPerLane];
#pragma unroll
    for (std::uint32_t i = 0; i < kPiecesPerLane; ++i) {
      const std::uint32_t piece = i * kWarp + lane;
      row[i] = tiling.row_of_piece(piece);
      const std::uint32_t piece_in_row = piece - row[i] * tiling.pieces_per_row;
      if (row[i] >= tile.count || piece_in_row >= row_pieces) {
        row[i] = kWarp;  // nothing to do
        continue;
      }
      channel[i] = (first_piece + piece_in_row) * kWidth;
      const TileTarget<Compute>& target = tile.targets[row[i]];
      const MethodRows picked = rows_for(plan.method, target.location);
      const Value* from = values + target.values + picked.a * plan.values_row_stride +
                          channel[i] * channel_stride;
      const bool is_literal = target.location.source <= Source::kNan;
      if (is_literal) continue;
      a[i] = load_vector<Value, kWidth>(from);
      if (picked.is_pair) b[i] = load_vector<Value, kWidth>(from + plan.values_row_stride);
    }
#pragma unroll
    for (std::uint32_t i = 0; i < kPiecesPerLane; ++i) {
      if (row[i] == kWarp) continue;
      const TileTarget<Compute>& target = tile.targets[row[i]];
      const Location<Compute>& location = target.location;
      const bool is_pair = rows_for(plan.method, location).is_pair;
      Vector<Out, kWidth> made;
#pragma unroll
      for (int e = 0; e < kWidth; ++e) {
        const Compute from_a = widen(a[i].elements[e]);
        Compute x = is_pair ? lerp(from_a, Compute(widen(b[i].elements[e])), location.weight) : from_a;
        x = scale(plan, x, channel[i] + e);
        made.elements[e] = Round<Out>::from(x);
      }
      if (location.source <= Source::kNan) {
        const Out literal = location.source == Source::kNan ? not_a_number<Out>()
                                                            : Round<Out>::from(Compute(0));
#pragma unroll
        for (int e = 0; e < kWidth; ++e) made.elements[e] = literal;
      }
      store_vector(out + target.out + channel[i], made);
    }
  }
}

/// Any layout. A piece is a unit: one channel, or one quaternion.
template <typename Compute>
__global__ void __launch_bounds__(kWarp* kWarpsPerBlock)
    align_runs_kernel(const __grid_constant__ StreamPlan plan, const __grid_constant__ RunTable runs,
                      const __grid_constant__ Tiling tiling) {
  const std::int64_t stride = plan.values_channel_stride;
  const auto load_channel = [&](std::int64_t offset) {
    return load_as<Compute>(plan.value_type, plan.values, offset);
  };
  const auto load_quaternion = [&](std::int64_t offset) {
    return Quaternion<Compute>{{load_channel(offset), load_channel(offset + stride),
                                load_channel(offset + 2 * stride),
                                load_channel(offset + 3 * stride)}};
  };
  const auto quaternions_exist = [&](std::int64_t values, const Location<Compute>& location) {
    const MethodRows picked = rows_for(Method::kSlerpXyzw, location);
    for (int run = 0; run < runs.count; ++run) {
      if (!is_slerp(runs.method[run])) continue;
      const std::int64_t a =
          values + picked.a * plan.values_row_stride + runs.first_channel[run] * stride;
      if (is_zero(load_quaternion(a))) return false;
      if (picked.is_pair && is_zero(load_quaternion(a + plan.values_row_stride))) return false;
    }
    return true;
  };
  const Tile<Compute> tile = locate_tile<Compute>(plan, tiling, quaternions_exist);

  const std::uint32_t lane = threadIdx.x % kWarp;
  for (std::int64_t first_piece = std::int64_t{blockIdx.y} * tiling.pieces_per_row;
       first_piece < tiling.pieces;
       first_piece += std::int64_t{gridDim.y} * tiling.pieces_per_row) {
    for (std::uint32_t piece = lane; piece < tile.count * tiling.pieces_per_row; piece += kWarp) {
      const std::uint32_t row = tiling.row_of_piece(piece);
      const std::int64_t unit = first_piece + (piece - row * tiling.pieces_per_row);
      if (unit >= tiling.pieces) continue;
      const int run = run_of_unit(runs, unit);
      const Method method = runs.method[run];
      const std::int64_t channel =
          runs.first_channel[run] + (is_slerp(method) ? 0 : unit - runs.first_unit[run]);
      const TileTarget<Compute>& target = tile.targets[row];
      const Location<Compute>& location = target.location;
      const std::int64_t to = target.out + channel;
      if (location.source <= Source::kNan) {
        const Compute literal =
            location.source == Source::kNan ? not_a_number<Compute>() : Compute(0);
        const int channels = is_slerp(method) ? 4 : 1;
        for (int c = 0; c < channels; ++c) store_as(plan.out_type, plan.out, to + c, literal);
        continue;
      }
      const MethodRows picked = rows_for(method, location);
      const std::int64_t a = target.values + picked.a * plan.values_row_stride + channel * stride;
      const std::int64_t b = picked.is_pair ? a + plan.values_row_stride : a;
      if (is_slerp(method)) {
        const Quaternion<Compute> from = load_quaternion(a);
        const Quaternion<Compute> q =
            picked.is_pair ? slerp(from, load_quaternion(b), location.weight) : normalize(from);
        for (int c = 0; c < 4; ++c) {
          store_as(plan.out_type, plan.out, to + c, scale(plan, q.q[c], channel + c));
        }
      } else {
        const Compute x = combine_channel(method, load_channel(a), load_channel(b), location.weight,
                                          picked.is_pair);
        store_as(plan.out_type, plan.out, to, scale(plan, x, channel));
      }
    }
  }
}

bool is_multiple(std::int64_t number, std::int64_t of) { return number % of == 0; }

bool is_aligned(const void* pointer, std::int64_t bytes) {
  return is_multiple(static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(pointer)), bytes);
}

/// Whether every row can be read and written as vectors of `width` elements.
bool fits_vectors(const StreamPlan& plan, std::int64_t width) {
  return plan.values_channel_stride == 1 && is_multiple(plan.channels, width) &&
         is_multiple(plan.values_row_stride, width) && is_multiple(plan.values_batch_stride, width) &&
         is_multiple(plan.out_target_stride, width) && is_multiple(plan.out_batch_stride, width) &&
         is_aligned(plan.values, width * size_of(plan.value_type)) &&
         is_aligned(plan.out, width * size_of(plan.out_type));
}

template <typename... Arguments>
void launch(void (*kernel)(Arguments...), const Tiling& tiling, cudaStream_t stream,
            const Arguments&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = tiling.grid();
  config.blockDim = kWarp * kWarpsPerBlock;
  config.stream = stream;
  check_cuda(cudaLaunchKernelEx(&config, kernel, arguments...), "resampling kernel");
}

template <typename Value, typename Out>
void launch_align(const StreamPlan& plan, cudaStream_t stream) {
  constexpr int kWidth = 16 / (sizeof(Value) > sizeof(Out) ? sizeof(Value) : sizeof(Out));
  if (fits_vectors(plan, kWidth)) {
    const Tiling tiling(plan, plan.channels / kWidth);
    launch(align_kernel<Value, Out, kWidth>, tiling, stream, plan, tiling);
  } else {
    const Tiling tiling(plan, plan.channels);
    launch(align_kernel<Value, Out, 1>, tiling, stream, plan, tiling);
  }
}

template <typename Value>
void launch_align_from(const StreamPlan& plan, cudaStream_t stream) {
  switch (plan.out_type) {
    case DataType::kFloat16:
      return launch_align<Value, Float16>(plan, stream);
    case DataType::kBFloat16:
      return launch_align<Value, BFloat16>(plan, stream);
    case DataType::kFloat32:
      return launch_align<Value, float>(plan, stream);
    case DataType::kFloat64:
      return launch_align<Value, double>(plan, stream);
    default:
      return launch_align<Value, std::uint8_t>(plan, stream);
  }
}

void launch_align_runs(const StreamPlan& plan, const RunTable& runs, cudaStream_t stream) {
  const Tiling tiling(plan, runs.units);
  if (computes_in_double(plan)) {
    launch(align_runs_kernel<double>, tiling, stream, plan, runs, tiling);
  } else {
    launch(align_runs_kernel<float>, tiling, stream, plan, runs, tiling);
  }
}

}  // namespace
}  // namespace cuda

bool has_cuda_kernels() {
  cudaFuncAttributes attributes;
  const bool found =
      cudaFuncGetAttributes(&attributes, cuda::align_runs_kernel<float>) == cudaSuccess;
  if (!found) cudaGetLastError();
  return found;
}

void align_on_cuda(const StreamPlan& plan, const RunTable& runs, CUstream_st* stream) {
  const bool is_plain = runs.count == 1 && !is_slerp(plan.method) && plan.method != Method::kAngle;
  if (!is_plain) return cuda::launch_align_runs(plan, runs, stream);
  switch (plan.value_type) {
    case DataType::kFloat16:
      return cuda::launch_align_from<cuda::Float16>(plan, stream);
    case DataType::kBFloat16:
      return cuda::launch_align_from<cuda::BFloat16>(plan, stream);
    case DataType::kFloat32:
      return cuda::launch_align_from<float>(plan, stream);
    case DataType::kFloat64:
      return cuda::launch_align_from<double>(plan, stream);
    default:
      return cuda::launch_align_from<std::uint8_t>(plan, stream);
  }
}

}  // namespace robocache
