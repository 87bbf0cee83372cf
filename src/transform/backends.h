// The backends behind `transform.cpp`: each receives validated plans only.
#pragma once

#include "robocache/execution.h"
#include "transform/plan.h"

namespace robocache {

void convert_rotation_on_cpu(const RotationPlan& plan, const ExecutionContext& context);
void convert_rotation_backward_on_cpu(const RotationPlan& plan, const ExecutionContext& context);
void convert_pose_on_cpu(const PosePlan& plan, const ExecutionContext& context);
void convert_pose_backward_on_cpu(const PosePlan& plan, const ExecutionContext& context);
void convert_delta_on_cpu(const DeltaPlan& plan, const ExecutionContext& context);
void convert_delta_backward_on_cpu(const DeltaPlan& plan, const ExecutionContext& context);

// In a build without CUDA, none of these is called.

void convert_rotation_on_cuda(const RotationPlan& plan, CUstream_st* stream);
void convert_rotation_backward_on_cuda(const RotationPlan& plan, CUstream_st* stream);
void convert_pose_on_cuda(const PosePlan& plan, CUstream_st* stream);
void convert_pose_backward_on_cuda(const PosePlan& plan, CUstream_st* stream);
void convert_delta_on_cuda(const DeltaPlan& plan, CUstream_st* stream);
void convert_delta_backward_on_cuda(const DeltaPlan& plan, CUstream_st* stream);

}  // namespace robocache
