// Sampling of points as torch operators: converts the arguments to views, which the library checks,
// and allocates the outputs.
#include "robocache/points.h"

#include <torch/csrc/stable/tensor.h>

#include <string>

#include "errors.h"
#include "operators.h"
#include "tensors.h"

namespace robocache::torch_binding {

Tensor sample_farthest(Tensor points, std::optional<Tensor> offsets, int64_t n, int64_t start) {
  return translate_errors([&] {
    const Device device(points);
    const ConstTensorView points_view = view_of("points", points);
    ConstTensorView offsets_view = view_of("offsets", offsets);
    offsets_view.device = points_view.device;  // shapes are checked first
    const ExecutionContext context = device.context();
    const std::size_t bytes = sample_farthest_workspace_bytes(points_view, offsets_view, context);
    device.expect("offsets", offsets, "points");
    if (n < 0) throw ValueError("n: expected 0 or more, got " + std::to_string(n));

    std::int64_t shape[2];
    int rank = 0;
    if (offsets) {
      shape[rank++] = offsets_view.shape[0] - 1;
    } else if (points_view.rank == 3) {
      shape[rank++] = points_view.shape[0];
    }
    shape[rank++] = n;
    const Tensor indices = device.empty(shape, rank, DataType::kInt64);
    const Scratch scratch(device, bytes);
    robocache::sample_farthest(points_view, offsets_view, start, mutable_view_of(indices),
                               scratch.workspace(), context);
    return indices;
  });
}

}  // namespace robocache::torch_binding
