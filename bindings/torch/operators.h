// The operators, as library.cpp registers them.
#pragma once

#include <torch/csrc/stable/tensor.h>

#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

namespace robocache::torch_binding {

using torch::stable::Tensor;

/// tensors: of each stream, values [B,S,D] or [S,D], times [B,S] or [S], and what else it has.
/// target_times: [B,T] or [T]. Gives values [B,T,sum of D]; then the mask and the age,
/// [B,T,streams] ([B,T] without IS_FUSION), each where `options` asks for it.
std::vector<Tensor> align(std::vector<Tensor> tensors, Tensor target_times,
                          std::vector<int64_t> integers, int64_t options);

/// The gradient of one stream's values. `tensors` are the stream's but for its values, which are
/// given where the gradient depends on them; `integers` are the stream's. grad: [B,T,D].
Tensor align_backward(Tensor grad, std::optional<Tensor> values, std::vector<Tensor> tensors,
                      Tensor target_times, std::vector<int64_t> integers, int64_t options,
                      std::vector<int64_t> values_shape);

/// points: [B,N,3] or [P,3]; features: [...,C]; offsets: [B+1]. geometry: voxel_size and origin,
/// six numbers. Gives the grid, [B,X,Y,Z] or [B,C,X,Y,Z]; voxelize_dropped also gives dropped, [B].
Tensor voxelize(Tensor points, std::optional<Tensor> features, std::optional<Tensor> offsets,
                std::vector<int64_t> grid_size, std::vector<double> geometry, int64_t options);

std::tuple<Tensor, Tensor> voxelize_dropped(Tensor points, std::optional<Tensor> features,
                                            std::optional<Tensor> offsets,
                                            std::vector<int64_t> grid_size,
                                            std::vector<double> geometry, int64_t options);

/// The gradient of the features. grad: shaped like the grid.
Tensor voxelize_backward(Tensor grad, Tensor points, std::optional<Tensor> features,
                         std::optional<Tensor> offsets, std::vector<int64_t> grid_size,
                         std::vector<double> geometry, int64_t options);

/// coordinates [V,3], counts [V], features [V,C] (C = 0 without), point_to_voxel [B,N] or [P],
/// offsets [B+1], dropped [B] or [].
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> voxelize_sparse(
    Tensor points, std::optional<Tensor> features, std::optional<Tensor> offsets,
    std::vector<double> geometry, int64_t options);

/// The gradient of the features. grad: [V,C]; point_to_voxel and counts are the forward's.
Tensor voxelize_sparse_backward(Tensor grad, std::optional<Tensor> features, Tensor point_to_voxel,
                                Tensor counts, int64_t options);

// Transforms: options are those of python/robocache/transform/ops.py.

/// x: [N, width of the source]. Gives [N, width of the target].
Tensor convert_rotation(Tensor x, int64_t options);
Tensor convert_rotation_backward(Tensor grad, Tensor x, int64_t options);

/// poses: [N,K,P]; anchor: [N,P]. Gives [N,K,P].
Tensor convert_pose(Tensor poses, Tensor anchor, int64_t options);
/// The gradients that `options` asks for: of the poses, of the anchor.
std::vector<Tensor> convert_pose_backward(Tensor grad, Tensor poses, Tensor anchor,
                                          int64_t options);

/// x: [N,K,D]; start: [N,D]; times: [N,K+1] or [K+1]. Gives [N,K,D].
Tensor convert_delta(Tensor x, Tensor start, std::optional<Tensor> times, double duration,
                     int64_t options);
/// The gradients of x and start.
std::tuple<Tensor, Tensor> convert_delta_backward(Tensor grad, std::optional<Tensor> times,
                                                  double duration, int64_t options);

}  // namespace robocache::torch_binding
