// The plan of a validated call, which backends execute: plain data that can be a CUDA kernel's
// parameter. `planner.cpp` makes plans; no later code validates shapes again.
#pragma once

#include <cstdint>

#include "core/target.h"
#include "robocache/align.h"

namespace robocache {

/// A time or a duration, in the type of the stream's times.
union TimeValue {
  std::int64_t i64;
  double f64;
  float f32;
};

/// Whether a value of type `time_type` is 0.
inline bool is_zero_time(TimeValue value, DataType time_type) {
  return time_type == DataType::kInt64     ? value.i64 == 0
         : time_type == DataType::kFloat32 ? value.f32 == 0
                                           : value.f64 == 0;
}

/// A run of a layout. A unit is the work of one thread: one channel, or one quaternion.
template <typename Index>
struct BasicPlannedRun {
  Index first_channel, first_unit;
  Method method;
};

/// The runs of one stream, at least one, in order.
template <typename Index>
struct BasicRunTable {
  const BasicPlannedRun<Index>* runs;
  int count;
  Index units;  // in a row

  ROBOCACHE_CONSTEXPR const BasicPlannedRun<Index>& operator[](int run) const { return runs[run]; }
  /// The channel after a run's last one; the row has `channels` channels.
  ROBOCACHE_CONSTEXPR Index end_channel(int run, Index channels) const {
    return run + 1 < count ? runs[run + 1].first_channel : channels;
  }
};

using PlannedRun = BasicPlannedRun<std::int64_t>;
using RunTable = BasicRunTable<std::int64_t>;

/// One stream, its targets and its part of the output. Strides are in elements, and 0 along a
/// dimension that is shared. Index holds every size and stride, but not their products.
template <typename Index_>
struct BasicStreamPlan {
  using Index = Index_;

  // The fields that the search reads come first: a GPU fetches parameters 64 bytes at a time.

  // Sizes. `rows` is the largest number of a batch row's source rows; lengths[b] reduces it.
  Index batch, rows, targets, channels;

  const void* lengths;  // [B]; may be null, like begins
  Index lengths_stride;
  const std::int64_t* begins;  // [B]
  Index begins_stride;
  const void* times;  // [B,S]
  Index times_batch_stride, times_row_stride;
  const void* target_times;  // [B,T]
  Index target_times_batch_stride, target_times_stride;

  TimeValue max_gap, tolerance;
  DataType time_type, value_type, out_type;
  bool lengths_are_int32, has_max_gap;
  Outside outside;
  Method method;           // where the stream has no layout
  std::uint8_t row_kinds;  // RowKind flags of all methods in use

  const void* values;  // [B,S,D]
  Index values_batch_stride, values_row_stride, values_channel_stride;
  const bool* valid;  // [B,S]; may be null, like all pointers below except `out`
  Index valid_batch_stride, valid_row_stride;
  const void* subtract;  // [D], in the compute type
  Index subtract_stride;
  const void* multiply;  // [D], in the compute type
  Index multiply_stride;

  void* out;  // [B,T,D] from this stream's first channel on; the channel stride is 1
  Index out_batch_stride, out_target_stride;
  bool* out_valid;  // [B,T]
  Index out_valid_batch_stride, out_valid_target_stride;
  void* out_age;  // [B,T], of the times' type
  Index out_age_batch_stride, out_age_target_stride;

  TimeValue half_mean_window, clock_offset;
};

using StreamPlan = BasicStreamPlan<std::int64_t>;

/// The product of a position and a stride, in elements.
ROBOCACHE_CONSTEXPR std::int64_t offset(std::int64_t position, std::int64_t stride) {
  return position * stride;
}

/// The product of two 32-bit numbers: a single instruction on the GPU, where the compiler emits
/// four for the product of the two numbers widened to 64 bits.
ROBOCACHE_HOST_DEVICE_INLINE std::int64_t offset(std::int32_t position, std::int32_t stride) {
#if defined(__CUDA_ARCH__)
  std::int64_t product;
  asm("mul.wide.s32 %0, %1, %2;" : "=l"(product) : "r"(position), "r"(stride));
  return product;
#else
  return static_cast<std::int64_t>(position) * stride;
#endif
}

/// Flags of the rows that methods read; a stream has the flags of all its runs.
enum RowKind : std::uint8_t {
  kReadsPair = 1,
  kReadsPrevious = 2,
  kReadsNearest = 4,
  kReadsWindow = 8,     // around the target: mean
  kReadsInterval = 16,  // since the previous target: sum
  kExtrapolates = 32,   // linear, which reads a pair outside the recording as well
};

ROBOCACHE_CONSTEXPR bool is_slerp(Method method) {
  return method == Method::kSlerpXyzw || method == Method::kSlerpWxyz;
}

/// Whether a channel of the method is a copy or a + w (b - a), as the fast paths compute it.
ROBOCACHE_CONSTEXPR bool copies_or_lerps(Method method) {
  return method == Method::kLinear || method == Method::kPrevious || method == Method::kNearest;
}

/// Whether the method adds up any number of rows.
ROBOCACHE_CONSTEXPR bool adds_rows(Method method) {
  return method == Method::kMean || method == Method::kSum;
}

ROBOCACHE_CONSTEXPR std::uint8_t row_kinds(Method method) {
  switch (method) {
    case Method::kLinear:
      return kReadsPair | kExtrapolates;
    case Method::kPrevious:
      return kReadsPrevious;
    case Method::kNearest:
      return kReadsNearest;
    case Method::kMean:
      return kReadsWindow;
    case Method::kSum:
      return kReadsInterval;
    default:
      return kReadsPair;
  }
}

/// Whether `compute_type` is float64, in a form that emits no symbol (see core/target.h).
ROBOCACHE_CONSTEXPR bool computes_in_double(DataType value_type, DataType out_type) {
  return value_type == DataType::kFloat64 || out_type == DataType::kFloat64;
}

}  // namespace robocache
