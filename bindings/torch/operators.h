// The implementations of the operators, which library.cpp registers.
#pragma once

#include <torch/csrc/stable/tensor.h>

#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

namespace robocache::torch_binding {

using torch::stable::Tensor;

/// Aligns streams. tensors: for each stream, values [B,S,D] or [S,D], times [B,S] or [S], and its
/// optional tensors. target_times: [B,T] or [T]. streams, options: bit fields of align_fields.h.
/// Returns values [B,T,sum of D]; then the mask and the age, [B,T,streams] ([B,T] for
/// resample_trajectories), each if its bit in `options` is set.
std::vector<Tensor> align(std::vector<Tensor> tensors, Tensor target_times,
                          std::vector<int64_t> streams, int64_t options);

/// The gradient of one stream's values. tensors: the stream's except its values. values: null where
/// the gradient does not depend on them. integers: the stream's part of `streams`. outside and
/// values_dtype: the numbers of an Outside and a DataType. grad: [B,T,D].
Tensor align_backward(Tensor grad, std::optional<Tensor> values, std::vector<Tensor> tensors,
                      Tensor target_times, std::vector<int64_t> integers, int64_t outside,
                      int64_t values_dtype, std::vector<int64_t> values_shape);

/// Voxelizes clouds to a dense grid. points: [B,N,3] or [P,3]; features: [...,C]; offsets: [B+1].
/// geometry: voxel_size and origin, six numbers. mode: the number of a VoxelMode. out_dtype: the
/// number of a DataType. Returns the grid, [B,X,Y,Z] or [B,C,X,Y,Z]; voxelize_dropped also returns
/// dropped, [B].
Tensor voxelize(Tensor points, std::optional<Tensor> features, std::optional<Tensor> offsets,
                std::vector<int64_t> grid_size, std::vector<double> geometry, int64_t mode,
                int64_t out_dtype);

std::tuple<Tensor, Tensor> voxelize_dropped(Tensor points, std::optional<Tensor> features,
                                            std::optional<Tensor> offsets,
                                            std::vector<int64_t> grid_size,
                                            std::vector<double> geometry, int64_t mode,
                                            int64_t out_dtype);

/// The gradient of the features. grad: shaped like the grid. features: null where the gradient does
/// not depend on them.
Tensor voxelize_backward(Tensor grad, Tensor points, std::optional<Tensor> features,
                         std::optional<Tensor> offsets, std::vector<int64_t> grid_size,
                         std::vector<double> geometry, int64_t mode, int64_t features_dtype);

/// Voxelizes clouds to sparse voxels. Returns coordinates [V,3], counts [V], features [V,C] (C = 0
/// without), point_to_voxel [B,N] or [P], offsets [B+1], dropped [B] or [].
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> voxelize_sparse(
    Tensor points, std::optional<Tensor> features, std::optional<Tensor> offsets,
    std::vector<double> geometry, int64_t mode);

/// The gradient of the features. grad: [V,C]; point_to_voxel and counts are the forward pass's.
Tensor voxelize_sparse_backward(Tensor grad, std::optional<Tensor> features, Tensor point_to_voxel,
                                Tensor counts, int64_t mode, int64_t features_dtype);

/// Samples n points of each cloud, of which `start` is the first. points: [B,N,3] or [P,3];
/// offsets: [B+1]. Returns indices, [B,n] or [n].
Tensor sample_farthest(Tensor points, std::optional<Tensor> offsets, int64_t n, int64_t start);

/// Converts rotations. x: [N, width of the source]. Returns [N, width of the target]. Forms:
/// numbers of RotationForm.
Tensor convert_rotation(Tensor x, int64_t source_form, int64_t target_form);
Tensor convert_rotation_backward(Tensor grad, Tensor x, int64_t source_form, int64_t target_form);

/// Converts poses to relative ones. poses: [N,K,P]; anchor: [N,P]. Returns [N,K,P]. inverse:
/// relative poses to absolute ones.
Tensor convert_pose(Tensor poses, Tensor anchor, int64_t form, bool inverse);
/// The gradients of the poses and of the anchor, each if needed.
std::vector<Tensor> convert_pose_backward(Tensor grad, Tensor poses, Tensor anchor, int64_t form,
                                          bool inverse, bool needs_grad_poses,
                                          bool needs_grad_anchor);

/// Converts deltas to values. x: [N,K,D]; start: [N,D]; times: [N,K+1] or [K+1]. Returns [N,K,D].
/// inverse: values to deltas.
Tensor convert_delta(Tensor x, Tensor start, std::optional<Tensor> times, double duration,
                     bool inverse);
/// The gradients of x and start.
std::tuple<Tensor, Tensor> convert_delta_backward(Tensor grad, std::optional<Tensor> times,
                                                  double duration, bool inverse);

}  // namespace robocache::torch_binding
