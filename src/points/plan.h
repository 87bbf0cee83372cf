// A validated sampling in the form that the backends run on: plain data, copied into a CUDA
// kernel's parameters as is.
#pragma once

#include <cstdint>

#include "core/target.h"
#include "voxel/plan.h"

namespace robocache {

struct SamplePlan {
  CloudPlan cloud;
  std::int64_t start;
  std::int64_t samples;   // of each cloud
  std::int64_t* indices;  // [clouds, samples]
};

/// The points of one cloud, numbered over all clouds.
struct CloudRange {
  std::int64_t first, count;
};

/// The points of cloud b; within bounds for any offsets.
ROBOCACHE_HOST_DEVICE_INLINE CloudRange range_of(const CloudPlan& cloud, std::int64_t b) {
  if (cloud.offsets == nullptr) return {b * cloud.per_cloud, cloud.per_cloud};
  std::int64_t first = cloud.offset(b);
  std::int64_t end = cloud.offset(b + 1);
  first = first < 0 ? 0 : first > cloud.count ? cloud.count : first;
  end = end < first ? first : end > cloud.count ? cloud.count : end;
  return {first, end - first};
}

/// The number by which indices of a cloud's points exceed their numbers within the cloud.
ROBOCACHE_HOST_DEVICE_INLINE std::int64_t index_base(const CloudPlan& cloud,
                                                     const CloudRange& range) {
  return cloud.offsets == nullptr ? 0 : range.first;
}

/// Whether distances are computed in float64 rather than float32.
ROBOCACHE_CONSTEXPR bool computes_in_double(const CloudPlan& cloud) {
  return cloud.points.type == DataType::kFloat64;
}

}  // namespace robocache
