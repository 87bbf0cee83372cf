// The entry points of alignment's gradient: they validate a call and pass its plan to a backend.
#include <string>

#include "align/backends.h"
#include "align/planner.h"
#include "core/workspace.h"
#include "robocache/align.h"

namespace robocache {

#if !defined(ROBOCACHE_HAS_CUDA)
// Never called, since the constructor of CallPlan throws for CUDA in such a build. They let the
// dispatch below compile in every build.
std::size_t backward_workspace_bytes_on_cuda(const BackwardPlan&) { return 0; }
void align_backward_on_cuda(const BackwardPlan&, const RunTable&, void*, CUstream_st*) {}
#endif

namespace {

BackwardPlan backward_plan(const CallPlan& call, const Stream& stream) {
  BackwardPlan plan{};
  plan.forward = call.plan(0);
  plan.value_batch = stream.values.rank == 3 ? call.batch() : 1;
  return plan;
}

std::size_t workspace_bytes(const BackwardPlan& plan, const ExecutionContext& context) {
  return context.device == DeviceType::kCuda ? backward_workspace_bytes_on_cuda(plan)
                                             : backward_workspace_bytes_on_cpu(plan);
}

}  // namespace

std::size_t align_backward_workspace_bytes(const Stream& stream,
                                           const ConstTensorView& target_times,
                                           const ExecutionContext& context) {
  // The workspace does not depend on the scale, whose type depends on the gradient's, unknown here.
  Stream unscaled = stream;
  unscaled.subtract = {};
  unscaled.multiply = {};
  const CallPlan call(&unscaled, 1, target_times, AlignOptions{}, stream.values.dtype, context);
  return workspace_bytes(backward_plan(call, unscaled), context);
}

void align_backward(const Stream& stream, const ConstTensorView& target_times,
                    const AlignOptions& options, const ConstTensorView& grad_output,
                    const TensorView& grad_values, const Workspace& workspace,
                    const ExecutionContext& context) {
  const Argument grad{"grad_output", grad_output};
  grad.expect_type(is_value_type(grad_output.dtype) && grad_output.dtype != DataType::kUInt8,
                   "float16, bfloat16, float32 or float64");
  const CallPlan call(&stream, 1, target_times, options, grad_output.dtype, context);
  call.check_output(grad, call.columns(), "D");
  BackwardPlan plan = backward_plan(call, stream);
  const RunTable runs = call.runs(0);
  plan.grad_output = grad_output.data;
  plan.grad_batch_stride = stride_along(grad_output, 3);
  plan.grad_target_stride = stride_along(grad_output, 2);
  plan.grad_channel_stride = stride_along(grad_output, 1);

  const Argument result{"grad_values", grad_values};
  result.expect_type(
      grad_values.dtype == stream.values.dtype && grad_values.dtype != DataType::kUInt8,
      name_of(stream.values.dtype));
  bool fits = grad_values.rank == stream.values.rank && is_contiguous(grad_values);
  for (int axis = 0; fits && axis < grad_values.rank; ++axis) {
    fits = grad_values.shape[axis] == stream.values.shape[axis];
  }
  result.expect_shape(fits, [&] { return "contiguous " + shape_text(stream.values); });
  result.expect_device(context.device);
  plan.grad_values = grad_values.data;
  if (has_no_elements(grad_values)) return;
  for (int run = 0; run < runs.count; ++run) {
    if (is_slerp(runs[run].method) && stream.values.data == nullptr) {
      throw_value_error("values", "the data, which the gradient of slerp depends on", "none");
    }
  }

  void* const memory = check_workspace(workspace, workspace_bytes(plan, context), context.device);
  if (context.device == DeviceType::kCuda) {
    align_backward_on_cuda(plan, runs, memory, context.stream);
  } else {
    align_backward_on_cpu(plan, runs, memory, context);
  }
}

}  // namespace robocache
