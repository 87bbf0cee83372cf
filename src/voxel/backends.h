// The backends behind `voxelize.cpp`: each receives validated plans only, with at least one cloud,
// and with at least one channel if there are features. A plan may have no points.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "robocache/execution.h"
#include "voxel/plan.h"

namespace robocache {

/// The most points that an operation can count or sort: their indices have 32 bits.
inline constexpr std::int64_t kMaxCountedPoints = std::numeric_limits<std::int32_t>::max();

/// A dense voxelization.
struct DensePlan {
  CloudPlan cloud;
  GridPlan grid;
  FeaturePlan features;  // mode and out_type in every mode, the rest with features
  void* out;
  std::int64_t* dropped;  // may be null
};

/// Whether points are counted in the workspace, as int32, because the output is floating-point.
inline bool counts_elsewhere(const DensePlan& plan) {
  return plan.features.mode == VoxelMode::kCount && (plan.features.out_type == DataType::kFloat32 ||
                                                     plan.features.out_type == DataType::kFloat64);
}

/// The first step of a sparse voxelization.
struct SparsePlan {
  CloudPlan cloud;
  VoxelGeometry geometry;
  std::int64_t* point_to_voxel;
  std::int64_t* offsets;
  std::int64_t* dropped;  // may be null
};

/// The second step of a sparse voxelization.
struct SparseWritePlan {
  CloudPlan cloud;
  VoxelGeometry geometry;
  FeaturePlan features;  // 0 channels without features
  std::int64_t voxels;
  std::int32_t* coordinates;
  std::int32_t* counts;
  void* features_out;
};

/// The backward pass of a dense voxelization, which recomputes the voxels of the points from
/// `cloud` and `grid`.
struct DenseGradientPlan {
  GradientPlan gradient;
  CloudPlan cloud;
  GridPlan grid;
};

/// The backward pass of a sparse voxelization, which reads the voxels of the points.
struct SparseGradientPlan {
  GradientPlan gradient;
  const std::int64_t* point_to_voxel;
  const std::int32_t* counts;
};

/// Throws ValueError if a sparse voxelization has a coordinate or a key that does not fit.
void check_bounds(const CloudPlan& cloud, const SparseBounds& bounds);

// Throws ValueError unless offsets ascend from 0 to the number of points.
void check_offsets_on_cpu(const CloudPlan& cloud);
std::size_t voxelize_workspace_bytes_on_cpu(const DensePlan& plan);
void voxelize_on_cpu(const DensePlan& plan, void* workspace, const ExecutionContext& context);
std::size_t voxelize_backward_workspace_bytes_on_cpu(const DenseGradientPlan& plan);
void voxelize_backward_on_cpu(const DenseGradientPlan& plan, void* workspace,
                              const ExecutionContext& context);
std::size_t voxelize_sparse_workspace_bytes_on_cpu(const CloudPlan& cloud);
std::int64_t voxelize_sparse_index_on_cpu(const SparsePlan& plan, void* workspace,
                                          const ExecutionContext& context);
void voxelize_sparse_write_on_cpu(const SparseWritePlan& plan, const void* workspace,
                                  const ExecutionContext& context);
std::size_t voxelize_sparse_backward_workspace_bytes_on_cpu(const GradientPlan& plan);
void voxelize_sparse_backward_on_cpu(const SparseGradientPlan& plan, void* workspace,
                                     const ExecutionContext& context);

// In a build without CUDA, none of these is called.

std::size_t voxelize_workspace_bytes_on_cuda(const DensePlan& plan);
void voxelize_on_cuda(const DensePlan& plan, void* workspace, CUstream_st* stream);
std::size_t voxelize_backward_workspace_bytes_on_cuda(const DenseGradientPlan& plan);
void voxelize_backward_on_cuda(const DenseGradientPlan& plan, void* workspace, CUstream_st* stream);
std::size_t voxelize_sparse_workspace_bytes_on_cuda(const CloudPlan& cloud);
std::int64_t voxelize_sparse_index_on_cuda(const SparsePlan& plan, void* workspace,
                                           CUstream_st* stream);
void voxelize_sparse_write_on_cuda(const SparseWritePlan& plan, const void* workspace,
                                   CUstream_st* stream);
std::size_t voxelize_sparse_backward_workspace_bytes_on_cuda(const GradientPlan& plan);
void voxelize_sparse_backward_on_cuda(const SparseGradientPlan& plan, void* workspace,
                                      CUstream_st* stream);

}  // namespace robocache
