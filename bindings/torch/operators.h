// The operators, as library.cpp registers them.
#pragma once

#include <torch/csrc/stable/tensor.h>

#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

namespace robocache::torch_binding {

using torch::stable::Tensor;

Tensor resample(Tensor values, Tensor source_times, Tensor target_times,
                std::optional<Tensor> source_lengths, std::optional<Tensor> source_valid,
                std::optional<Tensor> subtract, std::optional<Tensor> multiply,
                std::optional<std::vector<int64_t>> layout, int64_t options, int64_t max_gap_ns,
                int64_t tolerance_ns, double max_gap_s, double tolerance_s);

std::tuple<Tensor, Tensor> resample_valid(
    Tensor values, Tensor source_times, Tensor target_times, std::optional<Tensor> source_lengths,
    std::optional<Tensor> source_valid, std::optional<Tensor> subtract,
    std::optional<Tensor> multiply, std::optional<std::vector<int64_t>> layout, int64_t options,
    int64_t max_gap_ns, int64_t tolerance_ns, double max_gap_s, double tolerance_s);

Tensor resample_backward(Tensor grad, std::optional<Tensor> values, Tensor source_times,
                         Tensor target_times, std::optional<Tensor> source_lengths,
                         std::optional<Tensor> multiply, std::optional<std::vector<int64_t>> layout,
                         int64_t options, int64_t tolerance_ns, double tolerance_s,
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
