// The CPU backend: splits the pieces of a task over threads. It is compiled for one instruction
// set: a rotation is too small, and has too many branches, to benefit from vectors.
#include "core/parallel.h"
#include "transform/backends.h"
#include "transform/tasks.h"

namespace robocache {
namespace {

using namespace ROBOCACHE_TARGET;

// The cost of a piece of a rotation or a pose, and of one step of a channel, in bytes that other
// operations write in the same time.
constexpr std::int64_t kBytesOfPose = 256;
constexpr std::int64_t kBytesOfStep = 16;

template <typename Task>
void run(const Task& task, std::int64_t bytes_each, const ExecutionContext& context) {
  parallel_for(context, task.count(), grain_of(bytes_each),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) task.run(i);
               });
}

}  // namespace

void convert_rotation_on_cpu(const RotationPlan& plan, const ExecutionContext& context) {
  with_task<ConvertRotation>(plan.x.type, plan,
                             [&](const auto& task) { run(task, kBytesOfPose, context); });
}

void convert_rotation_backward_on_cpu(const RotationPlan& plan, const ExecutionContext& context) {
  with_task<ConvertRotationBackward>(plan.x.type, plan,
                                     [&](const auto& task) { run(task, kBytesOfPose, context); });
}

void convert_pose_on_cpu(const PosePlan& plan, const ExecutionContext& context) {
  with_task<ConvertPose>(plan.poses.type, plan,
                         [&](const auto& task) { run(task, kBytesOfPose, context); });
}

void convert_pose_backward_on_cpu(const PosePlan& plan, const ExecutionContext& context) {
  with_task<ConvertPoseBackward>(plan.poses.type, plan,
                                 [&](const auto& task) { run(task, kBytesOfPose, context); });
}

void convert_delta_on_cpu(const DeltaPlan& plan, const ExecutionContext& context) {
  with_task<ConvertDelta>(plan.x.type, plan,
                          [&](const auto& task) { run(task, kBytesOfStep * plan.steps, context); });
}

void convert_delta_backward_on_cpu(const DeltaPlan& plan, const ExecutionContext& context) {
  with_task<ConvertDeltaBackward>(
      plan.x.type, plan, [&](const auto& task) { run(task, kBytesOfStep * plan.steps, context); });
}

}  // namespace robocache
