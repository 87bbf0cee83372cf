// Validates a transform, builds its plan, and dispatches it to a backend.
#include "robocache/transform.h"

#include <cmath>
#include <initializer_list>
#include <string>

#include "core/argument.h"
#include "robocache/build_info.h"
#include "transform/backends.h"

namespace robocache {

#if !defined(ROBOCACHE_HAS_CUDA)
// Never called: the checks throw first. With them, the dispatch below reads alike in every build.
void convert_rotation_on_cuda(const RotationPlan&, CUstream_st*) {}
void convert_rotation_backward_on_cuda(const RotationPlan&, CUstream_st*) {}
void convert_pose_on_cuda(const PosePlan&, CUstream_st*) {}
void convert_pose_backward_on_cuda(const PosePlan&, CUstream_st*) {}
void convert_delta_on_cuda(const DeltaPlan&, CUstream_st*) {}
void convert_delta_backward_on_cuda(const DeltaPlan&, CUstream_st*) {}
#endif

namespace {

void check_backend([[maybe_unused]] const ExecutionContext& context) {
#if !defined(ROBOCACHE_HAS_CUDA)
  if (context.device == DeviceType::kCuda) {
    throw DeviceError("context: expected the CPU, got CUDA in " + cuda_problem(0));
  }
#endif
}

/// One dimension of a shape: its name, and its size if that is known.
struct Dimension {
  const char* name;
  std::int64_t size = -1;
};

/// Checks that the array has the expected shape.
void expect_dimensions(const Argument& argument, std::initializer_list<Dimension> dimensions) {
  const ConstTensorView& view = argument.view;
  bool fits = view.rank == static_cast<int>(dimensions.size());
  for (int axis = 0; fits && axis < view.rank; ++axis) {
    const std::int64_t size = dimensions.begin()[axis].size;
    fits = size < 0 || view.shape[axis] == size;
  }
  argument.expect_shape(fits, [&] {
    std::string text = "[";
    for (const Dimension& each : dimensions) {
      text += (text.size() > 1 ? "," : "") + dimension(each.name, each.size);
    }
    return text + "]";
  });
}

void expect_type_like(const Argument& argument, const ConstTensorView& first,
                      const char* first_name) {
  argument.expect_type(argument.view.dtype == first.dtype,
                       (std::string(name_of(first.dtype)) + " like " + first_name).c_str());
}

void check_input(const Argument& argument, std::initializer_list<Dimension> dimensions,
                 DeviceType device) {
  argument.expect_type(is_floating_type(argument.view.dtype), kFloatingTypes);
  expect_dimensions(argument, dimensions);
  argument.expect_device(device);
}

/// Checks an output against the type of an input, and returns its address.
void* check_output(const char* name, const TensorView& out,
                   std::initializer_list<Dimension> dimensions, const ConstTensorView& first,
                   const char* first_name, DeviceType device) {
  const ConstTensorView view = out;
  const Argument argument{name, view};
  expect_type_like(argument, first, first_name);
  expect_dimensions(argument, dimensions);
  argument.expect_shape(is_contiguous(view), "contiguous elements");
  argument.expect_device(device);
  return out.data;
}

/// The layout of [N,K,width], or, if `has_steps` is false, of [N,width].
ArrayPlan array_of(const ConstTensorView& view, bool has_steps) {
  ArrayPlan array{};
  array.data = view.data;
  array.type = view.dtype;
  array.column_stride = stride_along(view, 1);
  array.step_stride = has_steps ? stride_along(view, 2) : 0;
  array.window_stride = stride_along(view, has_steps ? 3 : 2);
  return array;
}

void check_form(const char* name, RotationForm form) {
  if (width_of(form) == 0) {
    throw_value_error(name, "a RotationForm", std::to_string(static_cast<int>(form)));
  }
}

RotationPlan check_rotation(const ConstTensorView& x, RotationForm source, RotationForm target,
                            const ExecutionContext& context) {
  check_backend(context);
  check_form("source", source);
  check_form("target", target);
  check_input({"x", x}, {{"N"}, {"width", width_of(source)}}, context.device);
  RotationPlan plan{};
  plan.count = x.shape[0];
  plan.source = source;
  plan.target = target;
  plan.source_width = width_of(source);
  plan.target_width = width_of(target);
  plan.x = array_of(x, false);
  return plan;
}

PosePlan check_pose(const ConstTensorView& poses, const ConstTensorView& anchor, RotationForm form,
                    PoseDirection direction, const ExecutionContext& context) {
  check_backend(context);
  check_form("form", form);
  if (direction > PoseDirection::kToAbsolute) {
    throw_value_error("direction", "a PoseDirection", std::to_string(static_cast<int>(direction)));
  }
  const std::int64_t width = 3 + width_of(form);
  check_input({"poses", poses}, {{"N"}, {"K"}, {"P", width}}, context.device);
  const Argument reference{"anchor", anchor};
  expect_type_like(reference, poses, "poses");
  check_input(reference, {{"N", poses.shape[0]}, {"P", width}}, context.device);
  PosePlan plan{};
  plan.windows = poses.shape[0];
  plan.steps = poses.shape[1];
  plan.width = width;
  plan.form = form;
  plan.direction = direction;
  plan.poses = array_of(poses, true);
  plan.anchor = array_of(anchor, false);
  return plan;
}

ArrayPlan check_times(const ConstTensorView& view, std::int64_t windows, std::int64_t steps,
                      DeviceType device) {
  if (!view.present()) return {};
  const Argument times{"times", view};
  times.expect_type(view.dtype == DataType::kInt64 || view.dtype == DataType::kFloat32 ||
                        view.dtype == DataType::kFloat64,
                    "int64, float32 or float64");
  if (view.rank == 1) {
    expect_dimensions(times, {{"K+1", steps + 1}});
  } else {
    expect_dimensions(times, {{"N", windows}, {"K+1", steps + 1}});
  }
  times.expect_device(device);
  return array_of(view, false);
}

DeltaPlan check_delta(const Argument& x, DeltaDirection direction, const DeltaTiming& timing,
                      const ExecutionContext& context) {
  check_backend(context);
  if (direction > DeltaDirection::kToDelta) {
    throw_value_error("direction", "a DeltaDirection", std::to_string(static_cast<int>(direction)));
  }
  check_input(x, {{"N"}, {"K"}, {"D"}}, context.device);
  if (!(timing.duration > 0) || !std::isfinite(timing.duration)) {
    throw_value_error("duration", "a positive finite number of seconds",
                      std::to_string(timing.duration));
  }
  DeltaPlan plan{};
  plan.windows = x.view.shape[0];
  plan.steps = x.view.shape[1];
  plan.channels = x.view.shape[2];
  plan.direction = direction;
  plan.duration = timing.duration;
  plan.times = check_times(timing.times, plan.windows, plan.steps, context.device);
  plan.x = array_of(x.view, true);
  return plan;
}

}  // namespace

void convert_rotation(const ConstTensorView& x, RotationForm source, RotationForm target,
                      const TensorView& out, const ExecutionContext& context) {
  RotationPlan plan = check_rotation(x, source, target, context);
  plan.out = check_output("out", out, {{"N", plan.count}, {"width", plan.target_width}}, x, "x",
                          context.device);
  if (context.device == DeviceType::kCuda) {
    convert_rotation_on_cuda(plan, context.stream);
  } else {
    convert_rotation_on_cpu(plan, context);
  }
}

void convert_rotation_backward(const ConstTensorView& x, RotationForm source, RotationForm target,
                               const ConstTensorView& grad_out, const TensorView& grad_x,
                               const ExecutionContext& context) {
  RotationPlan plan = check_rotation(x, source, target, context);
  const Argument grad{"grad_out", grad_out};
  expect_type_like(grad, x, "x");
  check_input(grad, {{"N", plan.count}, {"width", plan.target_width}}, context.device);
  plan.grad_out = array_of(grad_out, false);
  plan.grad_x = check_output("grad_x", grad_x, {{"N", plan.count}, {"width", plan.source_width}}, x,
                             "x", context.device);
  if (context.device == DeviceType::kCuda) {
    convert_rotation_backward_on_cuda(plan, context.stream);
  } else {
    convert_rotation_backward_on_cpu(plan, context);
  }
}

void convert_pose(const ConstTensorView& poses, const ConstTensorView& anchor, RotationForm form,
                  PoseDirection direction, const TensorView& out, const ExecutionContext& context) {
  PosePlan plan = check_pose(poses, anchor, form, direction, context);
  plan.out = check_output("out", out, {{"N", plan.windows}, {"K", plan.steps}, {"P", plan.width}},
                          poses, "poses", context.device);
  if (context.device == DeviceType::kCuda) {
    convert_pose_on_cuda(plan, context.stream);
  } else {
    convert_pose_on_cpu(plan, context);
  }
}

void convert_pose_backward(const ConstTensorView& poses, const ConstTensorView& anchor,
                           RotationForm form, PoseDirection direction,
                           const ConstTensorView& grad_out, const TensorView& grad_poses,
                           const TensorView& grad_anchor, const ExecutionContext& context) {
  PosePlan plan = check_pose(poses, anchor, form, direction, context);
  const Dimension windows{"N", plan.windows}, steps{"K", plan.steps}, width{"P", plan.width};
  const Argument grad{"grad_out", grad_out};
  expect_type_like(grad, poses, "poses");
  check_input(grad, {windows, steps, width}, context.device);
  plan.grad_out = array_of(grad_out, true);
  if (grad_poses.present()) {
    plan.grad_poses = check_output("grad_poses", grad_poses, {windows, steps, width}, poses,
                                   "poses", context.device);
  }
  if (grad_anchor.present()) {
    plan.grad_anchor =
        check_output("grad_anchor", grad_anchor, {windows, width}, poses, "poses", context.device);
  }
  if (context.device == DeviceType::kCuda) {
    convert_pose_backward_on_cuda(plan, context.stream);
  } else {
    convert_pose_backward_on_cpu(plan, context);
  }
}

void convert_delta(const ConstTensorView& x, const ConstTensorView& start, DeltaDirection direction,
                   const DeltaTiming& timing, const TensorView& out,
                   const ExecutionContext& context) {
  DeltaPlan plan = check_delta({"x", x}, direction, timing, context);
  const Argument first{"start", start};
  expect_type_like(first, x, "x");
  check_input(first, {{"N", plan.windows}, {"D", plan.channels}}, context.device);
  plan.start = array_of(start, false);
  plan.out =
      check_output("out", out, {{"N", plan.windows}, {"K", plan.steps}, {"D", plan.channels}}, x,
                   "x", context.device);
  if (context.device == DeviceType::kCuda) {
    convert_delta_on_cuda(plan, context.stream);
  } else {
    convert_delta_on_cpu(plan, context);
  }
}

void convert_delta_backward(const ConstTensorView& grad_out, DeltaDirection direction,
                            const DeltaTiming& timing, const TensorView& grad_x,
                            const TensorView& grad_start, const ExecutionContext& context) {
  DeltaPlan plan = check_delta({"grad_out", grad_out}, direction, timing, context);
  plan.out =
      check_output("grad_x", grad_x, {{"N", plan.windows}, {"K", plan.steps}, {"D", plan.channels}},
                   grad_out, "grad_out", context.device);
  plan.grad_start =
      check_output("grad_start", grad_start, {{"N", plan.windows}, {"D", plan.channels}}, grad_out,
                   "grad_out", context.device);
  if (context.device == DeviceType::kCuda) {
    convert_delta_backward_on_cuda(plan, context.stream);
  } else {
    convert_delta_backward_on_cpu(plan, context);
  }
}

}  // namespace robocache
