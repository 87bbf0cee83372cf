// The operators, as library.cpp registers them.
#pragma once

#include <torch/csrc/stable/tensor.h>

#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

namespace robocache::torch_binding {

using torch::stable::Tensor;

/// Values; then the mask and the age, each where `options` asks for it.
std::vector<Tensor> align(std::vector<Tensor> tensors, Tensor target_times,
                          std::vector<int64_t> integers, int64_t options);

/// The gradient of one stream's values. `tensors` are the stream's but for its values, which are given
/// where the gradient depends on them; `integers` are the stream's.
Tensor align_backward(Tensor grad, std::optional<Tensor> values, std::vector<Tensor> tensors,
                      Tensor target_times, std::vector<int64_t> integers, int64_t options,
                      std::vector<int64_t> values_shape);

Tensor voxelize(Tensor points, std::optional<Tensor> features, std::optional<Tensor> offsets,
                std::vector<int64_t> grid_size, std::vector<double> geometry, int64_t options);

std::tuple<Tensor, Tensor> voxelize_dropped(Tensor points, std::optional<Tensor> features,
                                            std::optional<Tensor> offsets,
                                            std::vector<int64_t> grid_size,
                                            std::vector<double> geometry, int64_t options);

Tensor voxelize_backward(Tensor grad, Tensor points, std::optional<Tensor> features,
                         std::optional<Tensor> offsets, std::vector<int64_t> grid_size,
                         std::vector<double> geometry, int64_t options);

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> voxelize_sparse(
    Tensor points, std::optional<Tensor> features, std::optional<Tensor> offsets,
    std::vector<double> geometry, int64_t options);

Tensor voxelize_sparse_backward(Tensor grad, std::optional<Tensor> features, Tensor point_to_voxel,
                                Tensor counts, int64_t options);

}  // namespace robocache::torch_binding
