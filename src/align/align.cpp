// The entry points of alignment: they validate a call and pass its plans to a backend.
#include "robocache/align.h"

#include "align/backends.h"
#include "align/planner.h"

namespace robocache {

AlignedShape aligned_shape(const Stream* streams, std::size_t count,
                           const ConstTensorView& target_times, const AlignOptions& options,
                           DataType out_type, const ExecutionContext& context) {
  const CallPlan call(streams, count, target_times, options, out_type, context);
  return {call.is_batched(), call.batch(), call.targets(), call.columns()};
}

#if !defined(ROBOCACHE_HAS_CUDA)
// Never called, since the constructor of CallPlan throws for CUDA in such a build. It lets the
// dispatch below compile in every build.
void align_on_cuda(const CallPlan&, CUstream_st*) {}
#endif

void align(const Stream* streams, std::size_t count, const ConstTensorView& target_times,
           const AlignOptions& options, const TensorView& values_out, const TensorView& valid_out,
           const TensorView& age_out, const ExecutionContext& context) {
  const Argument out{"values_out", values_out};
  out.expect_type(is_value_type(values_out.dtype), kValueTypes);
  CallPlan call(streams, count, target_times, options, values_out.dtype, context);
  call.set_outputs(values_out, valid_out, age_out);
  if (context.device == DeviceType::kCuda) {
    if (call.batch() > 0 && call.targets() > 0) align_on_cuda(call, context.stream);
    return;
  }
  for (std::size_t i = 0; i < count; ++i) {
    check_on_cpu(call.plan(i), call.checked(i).number, options.names,
                 {streams[i].times.rank == 2, streams[i].lengths.rank == 1, target_times.rank == 2},
                 context);
  }
  for (std::size_t i = 0; i < count; ++i) align_on_cpu(call.plan(i), call.runs(i), context);
}

}  // namespace robocache
