// The CUDA backend: one thread per piece of a task.
#include <cuda_runtime.h>

#include <type_traits>

#include "core/launch.cuh"
#include "transform/backends.h"
#include "transform/tasks.h"

namespace robocache {
namespace cuda {
namespace {

template <typename Task>
__global__ void __launch_bounds__(kThreads)
    task_kernel(const __grid_constant__ Task task, std::int64_t count) {
  wait_for_stream();
  const std::int64_t i = thread_index();
  if (i < count) task.run(i);
}

template <template <typename> class Task, typename Plan>
void run(const char* what, DataType type, const Plan& plan, cudaStream_t stream) {
  with_task<Task>(type, plan, [&](const auto& task) {
    using Made = std::remove_cv_t<std::remove_reference_t<decltype(task)>>;
    const std::int64_t count = task.count();
    if (count > 0) launch(what, task_kernel<Made>, blocks_for(count), stream, task, count);
  });
}

}  // namespace
}  // namespace cuda

void convert_rotation_on_cuda(const RotationPlan& plan, CUstream_st* stream) {
  cuda::run<cuda::ConvertRotation>("convert_rotation", plan.x.type, plan, stream);
}

void convert_rotation_backward_on_cuda(const RotationPlan& plan, CUstream_st* stream) {
  cuda::run<cuda::ConvertRotationBackward>("convert_rotation_backward", plan.x.type, plan, stream);
}

void convert_pose_on_cuda(const PosePlan& plan, CUstream_st* stream) {
  cuda::run<cuda::ConvertPose>("convert_pose", plan.poses.type, plan, stream);
}

void convert_pose_backward_on_cuda(const PosePlan& plan, CUstream_st* stream) {
  cuda::run<cuda::ConvertPoseBackward>("convert_pose_backward", plan.poses.type, plan, stream);
}

void convert_delta_on_cuda(const DeltaPlan& plan, CUstream_st* stream) {
  cuda::run<cuda::ConvertDelta>("convert_delta", plan.x.type, plan, stream);
}

void convert_delta_backward_on_cuda(const DeltaPlan& plan, CUstream_st* stream) {
  cuda::run<cuda::ConvertDeltaBackward>("convert_delta_backward", plan.x.type, plan, stream);
}

}  // namespace robocache
