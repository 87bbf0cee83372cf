// A validated call in the form that the backends run on: plain data, copied into a CUDA kernel's
// parameters as is. `checks.cpp` builds plans; no later code checks a shape again.
//
// Points are numbered over all clouds: point i of [B,N,3] is [i / N, i % N], and of [P,3] it is
// [i].
#pragma once

#include <cstdint>

#include "core/target.h"
#include "robocache/voxel.h"

namespace robocache {

/// i / divisor, for numbers that are not negative; in 32 bits if both fit, which is far faster on a
/// GPU.
template <typename Integer>
ROBOCACHE_HOST_DEVICE_INLINE Integer divide(Integer i, Integer divisor) {
  if (((i | divisor) >> 32) == 0) {
    return static_cast<std::uint32_t>(i) / static_cast<std::uint32_t>(divisor);
  }
  return i / divisor;
}

/// The layout of the rows of an array [B,N,width] or [P,width]. Strides are in elements.
struct RowPlan {
  const void* data;
  DataType type;
  std::int64_t per_batch;  // rows between two batch strides: all if clouds are contiguous
  std::int64_t batch_stride, row_stride, column_stride;

  /// The offset of row i's first element.
  ROBOCACHE_HOST_DEVICE_INLINE std::int64_t start(std::int64_t i) const {
    if (i < per_batch) return i * row_stride;
    const std::int64_t b = divide(i, per_batch);
    return b * batch_stride + (i - b * per_batch) * row_stride;
  }
};

/// The clouds of a call.
struct CloudPlan {
  std::int64_t batch;      // clouds
  std::int64_t per_cloud;  // points per cloud, without offsets
  std::int64_t count;      // points of all clouds
  RowPlan points;          // 3 columns
  const void* offsets;     // may be null
  std::int64_t offsets_stride;
  bool offsets_are_int32;

  ROBOCACHE_HOST_DEVICE_INLINE std::int64_t offset(std::int64_t b) const {
    const std::int64_t index = b * offsets_stride;
    return offsets_are_int32 ? static_cast<const std::int32_t*>(offsets)[index]
                             : static_cast<const std::int64_t*>(offsets)[index];
  }

  /// The cloud of point i: the last that begins at or before it. If offsets do not ascend from 0 to
  /// P, it may be -1; it is below `batch` in any case.
  ROBOCACHE_HOST_DEVICE_INLINE std::int64_t cloud_of(std::int64_t i) const {
    if (offsets == nullptr) return i < per_cloud ? 0 : divide(i, per_cloud);
    std::int64_t low = 0;  // invariant: offset(low) <= i < offset(high)
    std::int64_t high = batch;
    if (batch == 0 || i < offset(0) || i >= offset(batch)) return -1;
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      if (offset(middle) <= i) {
        low = middle;
      } else {
        high = middle;
      }
    }
    return low;
  }
};

/// A dense grid per cloud.
struct GridPlan {
  std::int64_t shape[3];
  std::int64_t cells;  // of one cloud
  VoxelGeometry geometry;
};

/// Whether a mode selects the value of one point per voxel and channel: the other points then get
/// no gradient.
ROBOCACHE_CONSTEXPR bool picks_one(VoxelMode mode) {
  return mode == VoxelMode::kMax || mode == VoxelMode::kMin;
}

/// Features of the points, and the mode that reduces them.
struct FeaturePlan {
  RowPlan rows;
  std::int64_t channels;
  VoxelMode mode;
  DataType out_type;
};

/// The layout of the output features: a voxel is a cell of [B,C,X,Y,Z], or a row of [V,C].
struct FeatureOutput {
  void* data;
  std::int64_t cells;  // of one cloud's grid; 0 for [V,C]
  std::int64_t channels;

  ROBOCACHE_HOST_DEVICE_INLINE std::int64_t start(std::int64_t voxel, std::uint64_t key) const {
    if (cells == 0) return voxel * channels;
    const std::int64_t cell = static_cast<std::int64_t>(key);
    const std::int64_t b = cell < cells ? 0 : cell / cells;
    return b * channels * cells + (cell - b * cells);
  }
  ROBOCACHE_HOST_DEVICE_INLINE std::int64_t channel_stride() const {
    return cells == 0 ? 1 : cells;
  }
};

ROBOCACHE_CONSTEXPR bool computes_in_double(const FeaturePlan& plan) {
  return plan.rows.type == DataType::kFloat64 || plan.out_type == DataType::kFloat64;
}

/// The inputs and outputs of a backward pass. A sparse voxelization is planned as a grid of V x 1 x
/// 1 cells for one cloud. `features.out_type` is the type of the incoming gradient.
struct GradientPlan {
  FeaturePlan features;
  std::int64_t points;
  std::int64_t batch;
  std::int64_t shape[3];
  std::int64_t cells;  // of all clouds
  const void* grad_output;
  std::int64_t batch_stride, channel_stride, strides[3];
  void* grad_features;  // contiguous, [points, channels]

  /// The offset in `grad_output` of channel 0 of a cell, numbered over all clouds.
  ROBOCACHE_HOST_DEVICE_INLINE std::int64_t start(std::int64_t cell) const {
    if (batch == 1 && shape[1] * shape[2] == 1) return cell * strides[0];
    const std::int64_t xy = cell / shape[2];
    const std::int64_t bx = xy / shape[1];
    const std::int64_t b = bx / shape[0];
    return b * batch_stride + (bx - b * shape[0]) * strides[0] + (xy - bx * shape[1]) * strides[1] +
           (cell - xy * shape[2]) * strides[2];
  }
};

/// The bounds of a sparse voxelization's points, which its first step computes.
struct SparseBounds {
  std::int64_t lowest[3], highest[3];  // cells; lowest > highest if there is no point
  std::int64_t first_beyond;  // the first point whose cell exceeds int32; INT64_MAX if all fit

  ROBOCACHE_HOST_DEVICE_INLINE static SparseBounds of_nothing() {
    return {{INT64_MAX, INT64_MAX, INT64_MAX}, {INT64_MIN, INT64_MIN, INT64_MIN}, INT64_MAX};
  }
};

/// Numbers the cells of the bounding box of all points, cloud after cloud, each in row-major order.
struct SparseBox {
  std::int64_t lowest[3];
  std::uint64_t extent[3];
  std::uint64_t cells;  // of the box
  std::uint64_t limit;  // cells of all clouds: the key of a point in no voxel

  /// Wraps around if the keys exceed 63 bits: `check_bounds` reports that.
  ROBOCACHE_HOST_DEVICE_INLINE static SparseBox around(const SparseBounds& bounds,
                                                       std::int64_t batch) {
    SparseBox box{};
    box.cells = 1;
    for (int axis = 0; axis < 3; ++axis) {
      const bool is_empty = bounds.lowest[axis] > bounds.highest[axis];
      box.lowest[axis] = is_empty ? 0 : bounds.lowest[axis];
      box.extent[axis] =
          is_empty ? 1 : static_cast<std::uint64_t>(bounds.highest[axis] - bounds.lowest[axis]) + 1;
      box.cells *= box.extent[axis];
    }
    box.limit = box.cells * static_cast<std::uint64_t>(batch);
    return box;
  }

  ROBOCACHE_HOST_DEVICE_INLINE std::uint64_t key(std::int64_t cloud, std::int32_t x, std::int32_t y,
                                                 std::int32_t z) const {
    auto key = static_cast<std::uint64_t>(cloud);
    key = key * extent[0] + static_cast<std::uint64_t>(x - lowest[0]);
    key = key * extent[1] + static_cast<std::uint64_t>(y - lowest[1]);
    return key * extent[2] + static_cast<std::uint64_t>(z - lowest[2]);
  }

  /// The cell of a key, of any cloud.
  void cell_of(std::uint64_t key, std::int32_t* cell) const {
    for (int axis = 2; axis >= 0; --axis) {
      const std::uint64_t rest = divide(key, extent[axis]);
      const std::uint64_t within = key - rest * extent[axis];
      cell[axis] = static_cast<std::int32_t>(lowest[axis] + static_cast<std::int64_t>(within));
      key = rest;
    }
  }
};

/// The bits of 1 in a type, which mark a cell as occupied.
constexpr std::uint64_t bits_of_one(DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return 0x3c00;
    case DataType::kBFloat16:
      return 0x3f80;
    case DataType::kFloat32:
      return 0x3f800000;
    case DataType::kFloat64:
      return 0x3ff0000000000000;
    default:
      return 1;
  }
}

/// The number of bits that represent 0 to `highest`; at least 1.
inline int bits_of(std::uint64_t highest) {
  int bits = 1;
  while (bits < 64 && (highest >> bits) != 0) ++bits;
  return bits;
}

}  // namespace robocache
