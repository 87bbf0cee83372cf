// Transforms as torch operators: converts the arguments to views, which the library checks, and
// allocates the outputs. Forms of rotation travel as the numbers of robocache::RotationForm.
#include "robocache/transform.h"

#include <torch/csrc/stable/tensor.h>

#include <initializer_list>
#include <string>

#include "errors.h"
#include "operators.h"
#include "tensors.h"

namespace robocache::torch_binding {
namespace {

Tensor make(const Device& device, std::initializer_list<std::int64_t> size, DataType type) {
  return device.empty(size.begin(), static_cast<int>(size.size()), type);
}

/// The view of a tensor whose rank must be right before its sizes can be read.
ConstTensorView view_of_rank(const char* name, const Tensor& tensor, int rank) {
  const ConstTensorView view = view_of(name, tensor);
  if (view.rank != rank) {
    throw ValueError(std::string(name) + ": expected " + std::to_string(rank) +
                     " dimensions, got " + std::to_string(view.rank));
  }
  return view;
}

DeltaTiming timing_of(const Device& device, const std::optional<Tensor>& times, double duration,
                      const char* first_name) {
  device.expect("times", times, first_name);
  DeltaTiming timing;
  timing.duration = duration;
  timing.times = view_of("times", times);
  return timing;
}

}  // namespace

Tensor convert_rotation(Tensor x, int64_t source_form, int64_t target_form) {
  return translate_errors([&] {
    const Device device(x);
    const ConstTensorView view = view_of_rank("x", x, 2);
    const auto source = static_cast<RotationForm>(source_form);
    const auto target = static_cast<RotationForm>(target_form);
    Tensor out = make(device, {view.shape[0], width_of(target)}, view.dtype);
    robocache::convert_rotation(view, source, target, mutable_view_of(out), device.context());
    return out;
  });
}

Tensor convert_rotation_backward(Tensor grad, Tensor x, int64_t source_form, int64_t target_form) {
  return translate_errors([&] {
    const Device device(grad);
    device.expect("x", x, "grad");
    const ConstTensorView view = view_of_rank("x", x, 2);
    Tensor grad_x = make(device, {view.shape[0], view.shape[1]}, view.dtype);
    robocache::convert_rotation_backward(
        view, static_cast<RotationForm>(source_form), static_cast<RotationForm>(target_form),
        view_of("grad", grad), mutable_view_of(grad_x), device.context());
    return grad_x;
  });
}

Tensor convert_pose(Tensor poses, Tensor anchor, int64_t form, bool inverse) {
  return translate_errors([&] {
    const Device device(poses);
    device.expect("anchor", anchor, "poses");
    const ConstTensorView view = view_of_rank("poses", poses, 3);
    Tensor out = make(device, {view.shape[0], view.shape[1], view.shape[2]}, view.dtype);
    robocache::convert_pose(view, view_of("anchor", anchor), static_cast<RotationForm>(form),
                            static_cast<PoseDirection>(inverse), mutable_view_of(out),
                            device.context());
    return out;
  });
}

std::vector<Tensor> convert_pose_backward(Tensor grad, Tensor poses, Tensor anchor, int64_t form,
                                          bool inverse, bool needs_grad_poses,
                                          bool needs_grad_anchor) {
  return translate_errors([&] {
    const Device device(grad);
    device.expect("poses", poses, "grad");
    device.expect("anchor", anchor, "grad");
    const ConstTensorView view = view_of_rank("poses", poses, 3);
    std::vector<Tensor> gradients;
    TensorView grad_poses;
    TensorView grad_anchor;
    if (needs_grad_poses) {
      gradients.push_back(make(device, {view.shape[0], view.shape[1], view.shape[2]}, view.dtype));
      grad_poses = mutable_view_of(gradients.back());
    }
    if (needs_grad_anchor) {
      gradients.push_back(make(device, {view.shape[0], view.shape[2]}, view.dtype));
      grad_anchor = mutable_view_of(gradients.back());
    }
    robocache::convert_pose_backward(view, view_of("anchor", anchor),
                                     static_cast<RotationForm>(form),
                                     static_cast<PoseDirection>(inverse), view_of("grad", grad),
                                     grad_poses, grad_anchor, device.context());
    return gradients;
  });
}

Tensor convert_delta(Tensor x, Tensor start, std::optional<Tensor> times, double duration,
                     bool inverse) {
  return translate_errors([&] {
    const Device device(x);
    device.expect("start", start, "x");
    const ConstTensorView view = view_of_rank("x", x, 3);
    Tensor out = make(device, {view.shape[0], view.shape[1], view.shape[2]}, view.dtype);
    robocache::convert_delta(view, view_of("start", start), static_cast<DeltaDirection>(inverse),
                             timing_of(device, times, duration, "x"), mutable_view_of(out),
                             device.context());
    return out;
  });
}

std::tuple<Tensor, Tensor> convert_delta_backward(Tensor grad, std::optional<Tensor> times,
                                                  double duration, bool inverse) {
  return translate_errors([&] {
    const Device device(grad);
    const ConstTensorView view = view_of_rank("grad", grad, 3);
    Tensor grad_x = make(device, {view.shape[0], view.shape[1], view.shape[2]}, view.dtype);
    Tensor grad_start = make(device, {view.shape[0], view.shape[2]}, view.dtype);
    robocache::convert_delta_backward(
        view, static_cast<DeltaDirection>(inverse), timing_of(device, times, duration, "grad"),
        mutable_view_of(grad_x), mutable_view_of(grad_start), device.context());
    return std::make_tuple(grad_x, grad_start);
  });
}

}  // namespace robocache::torch_binding
