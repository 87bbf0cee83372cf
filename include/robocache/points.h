// Sampling of point clouds. docs/points.md defines every option.
//
// Shapes: B clouds of N points each, or P points of all clouds; n samples of each cloud.
#pragma once

#include <cstddef>
#include <cstdint>

#include "robocache/execution.h"
#include "robocache/export.h"
#include "robocache/tensor_view.h"

namespace robocache {

/// Bytes of workspace, in the context's memory, that `sample_farthest` needs for these clouds.
/// Validates them as `sample_farthest` does. On CUDA, the size is that for the current device.
ROBOCACHE_API std::size_t sample_farthest_workspace_bytes(const ConstTensorView& points,
                                                          const ConstTensorView& offsets,
                                                          const ExecutionContext& context);

/// Samples n points of each cloud by farthest-point sampling: each sample is the point whose
/// distance to the nearest earlier sample of its cloud is the largest.
///
/// The squared distance is dx*dx + dy*dy + dz*dz, each operation rounded to float32, or to float64
/// for points of float64. Of points at equal distance, the one of the lowest index is the sample.
/// So every backend gives the same indices, in every run. NaN and infinite points are no samples.
/// Where all points of a cloud coincide with samples, the one of the lowest index is repeated.
///
/// `points`: [B,N,3]; or [P,3], one cloud, or with `offsets` several. float16, bfloat16, float32 or
/// float64; any strides.
/// `offsets`: absent, or [B+1], int64 or int32: cloud b has the points from offsets[b] up to
/// offsets[b+1]. Offsets start at 0, do not descend and end at P. The CPU backend validates them.
/// CUDA does not: it never reads or writes out of bounds.
/// `start`: the index of the first sample within its cloud, not negative; less than N without
/// offsets, unless it is 0. Where a cloud has no such point, or the point is NaN or infinite, the
/// first sample is the cloud's finite point of the lowest index.
/// `indices_out`: int64 [B,n] ([n] for one cloud), contiguous: indices within the cloud for
/// [B,N,3], and rows of `points` for [P,3]. -1 throughout for a cloud without finite points.
/// `workspace`: at least `sample_farthest_workspace_bytes`.
///
///     const float points[] = {0, 0, 0, 1, 0, 0, 5, 0, 0, 2, 0, 0};  // [P=4,3]
///     const ConstTensorView cloud = array(points, {4, 3});
///     const std::size_t bytes = sample_farthest_workspace_bytes(cloud, {}, on_cpu());
///     std::vector<double> scratch(bytes / 8 + 1);
///     std::int64_t indices[3];
///     sample_farthest(cloud, {}, 0, array(indices, {3}), {scratch.data(), scratch.size() * 8},
///                     on_cpu());
///     // indices: 0, 2, 3
///
/// On CUDA it only enqueues work. Throws ValueError or TypeError before it writes anything, and
/// DeviceError where a launch fails.
ROBOCACHE_API void sample_farthest(const ConstTensorView& points, const ConstTensorView& offsets,
                                   std::int64_t start, const TensorView& indices_out,
                                   const Workspace& workspace, const ExecutionContext& context);

}  // namespace robocache
