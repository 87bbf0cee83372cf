// Voxelizations with all that they need, made at random from a seed or by hand, and a plain
// reference for them: one point after another, sharing nothing with the library.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "align/problem.h"
#include "robocache/voxel.h"
#include "support/tensor.h"

namespace robocache::testing {

inline constexpr VoxelMode kVoxelModes[] = {VoxelMode::kOccupancy, VoxelMode::kCount,
                                            VoxelMode::kMean,      VoxelMode::kSum,
                                            VoxelMode::kMax,       VoxelMode::kMin};
inline constexpr VoxelMode kFeatureModes[] = {VoxelMode::kMean, VoxelMode::kSum, VoxelMode::kMax,
                                              VoxelMode::kMin};
inline constexpr DataType kFloatingTypes[] = {DataType::kFloat16, DataType::kBFloat16,
                                              DataType::kFloat32, DataType::kFloat64};

/// A dense voxelization, or a sparse one that takes its geometry and `mode` as `reduce`.
struct VoxelProblem {
  Tensor points, features, offsets;
  VoxelGrid grid;
  VoxelMode mode = VoxelMode::kOccupancy;
  DataType out_type = DataType::kFloat32;

  PointCloud cloud() const { return {points.view(), features.view(), offsets.view()}; }
  bool is_batched() const { return offsets.present() || points.shape().size() == 3; }
  std::int64_t batch() const;
  std::int64_t count() const { return points.size() / 3; }  // of all points
  std::int64_t channels() const;                            // 1 without features
  std::string text() const;

  /// Outputs of the right shapes, zeros.
  Tensor make_grid() const;
  Tensor make_dropped() const;
  Tensor make_point_to_voxel() const;
};

struct DenseResult {
  Tensor grid, dropped;
};

struct SparseResult {
  std::int64_t voxels = 0;
  Tensor coordinates, counts, features, point_to_voxel, offsets, dropped;
};

/// Requirements for a random problem; all other properties are random.
struct VoxelWanted {
  std::optional<DataType> point_type, feature_type, out_type;
  std::optional<VoxelMode> mode;
  bool is_sparse = false;          // any `reduce`, with features or without
  bool is_differentiable = false;  // a mode with features, none of them uint8
};

VoxelProblem random_voxel_problem(std::uint64_t seed, const VoxelWanted& wanted = {});

DenseResult reference_dense(const VoxelProblem& problem);
SparseResult reference_sparse(const VoxelProblem& problem);
/// `grad_output` is of the grid, or of the features of the voxels if `sparse` is given.
Tensor reference_gradient(const VoxelProblem& problem, const Tensor& grad_output,
                          const SparseResult* sparse);

/// Where two tensors differ, as numbers; empty if nowhere.
std::string difference_of(const char* what, const Tensor& expected, const Tensor& got);

}  // namespace robocache::testing
