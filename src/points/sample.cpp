// Validates a farthest-point sampling, and dispatches it to a backend.
#include <string>

#include "core/workspace.h"
#include "points/backends.h"
#include "robocache/points.h"
#include "voxel/checks.h"

namespace robocache {
namespace {

CheckedCloud check_points(const ConstTensorView& points, const ConstTensorView& offsets,
                          const ExecutionContext& context) {
  return check_cloud({points, {}, offsets}, context);
}

void check_start(std::int64_t start, const CloudPlan& cloud) {
  if (start < 0) throw_value_error("start", "0 or more", std::to_string(start));
  if (cloud.offsets == nullptr && start > 0 && start >= cloud.per_cloud) {
    throw_value_error("start", "an index below " + dimension("N", cloud.per_cloud),
                      std::to_string(start));
  }
}

/// Checks the output, [B,n] or [n]; returns n.
std::int64_t check_indices(const TensorView& indices_out, const CheckedCloud& cloud,
                           DeviceType device) {
  const Argument indices{"indices_out", indices_out};
  indices.expect_type(indices_out.dtype == DataType::kInt64, name_of(DataType::kInt64));
  const int rank = cloud.is_batched ? 2 : 1;
  indices.expect_shape(
      indices_out.rank == rank && (rank == 1 || indices_out.shape[0] == cloud.plan.batch) &&
          is_contiguous(indices_out),
      [&] {
        const std::string batch = cloud.is_batched ? dimension("B", cloud.plan.batch) + "," : "";
        return "contiguous [" + batch + "n]";
      });
  indices.expect_device(device);
  return indices_out.shape[rank - 1];
}

}  // namespace

#if !defined(ROBOCACHE_HAS_CUDA)
// Never called: the checks throw first. With them, the dispatch below reads alike in every build.
std::size_t sample_workspace_bytes_on_cuda(const CloudPlan&) { return 0; }
void sample_farthest_on_cuda(const SamplePlan&, void*, CUstream_st*) {}
#endif

namespace {

std::size_t workspace_bytes(const CloudPlan& cloud, const ExecutionContext& context) {
  if (cloud.batch == 0) return 0;
  return context.device == DeviceType::kCuda ? sample_workspace_bytes_on_cuda(cloud)
                                             : sample_workspace_bytes_on_cpu(cloud);
}

}  // namespace

std::size_t sample_farthest_workspace_bytes(const ConstTensorView& points,
                                            const ConstTensorView& offsets,
                                            const ExecutionContext& context) {
  return workspace_bytes(check_points(points, offsets, context).plan, context);
}

void sample_farthest(const ConstTensorView& points, const ConstTensorView& offsets,
                     std::int64_t start, const TensorView& indices_out, const Workspace& workspace,
                     const ExecutionContext& context) {
  const CheckedCloud cloud = check_points(points, offsets, context);
  check_start(start, cloud.plan);
  const SamplePlan plan{cloud.plan, start, check_indices(indices_out, cloud, context.device),
                        static_cast<std::int64_t*>(indices_out.data)};
  if (context.device == DeviceType::kCpu) check_offsets_on_cpu(plan.cloud);
  if (plan.cloud.batch == 0 || plan.samples == 0) return;
  void* const memory =
      check_workspace(workspace, workspace_bytes(plan.cloud, context), context.device);
  if (context.device == DeviceType::kCuda) {
    sample_farthest_on_cuda(plan, memory, context.stream);
  } else {
    sample_farthest_on_cpu(plan, memory, context);
  }
}

}  // namespace robocache
