// The CUDA backend's backward pass: locates every target, sorts the targets by their first row, and
// gathers the gradient of each source row from its targets. contribute.h says why rows gather.
#include <cuda_runtime.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

#include <algorithm>
#include <cstdint>

#include "align/align_launch.cuh"
#include "align/backends.h"
#include "align/contribute.h"
#include "align/episode.h"
#include "align/search.cuh"
#include "core/launch.cuh"
#include "core/lower_bound.cuh"
#include "core/workspace.h"

namespace robocache {
namespace cuda {
namespace {

/// The row after the last row of the target at a place in the sorted order.
struct EndOfTarget {
  const WindowRecord* windows;
  const std::int64_t* sorted_targets;

  __device__ std::int64_t operator()(std::int64_t place) const {
    return windows[sorted_targets[place]].end;
  }
};

struct Larger {
  __device__ std::int64_t operator()(std::int64_t a, std::int64_t b) const { return max(a, b); }
};

/// The workspace of one call.
struct BackwardWorkspace {
  std::int64_t targets;  // over the batch
  std::int64_t rows;     // over the value batch
  std::size_t bytes;
  TargetRecord* records;
  WindowRecord* windows;  // null where the stream has no means or sums, as are `reach` and `begins`
  std::int64_t *row_keys, *sorted_row_keys;  // [targets]; `rows` for targets without a gradient
  std::int64_t *targets_in_order, *sorted_targets;
  std::int64_t* starts;  // [rows + 1]
  std::int64_t*
      reach;  // [targets]: the row after the last row of the targets up to a place in the order
  std::int64_t* begins;       // [rows]
  std::size_t storage_bytes;  // temporary storage of CUB, for the sort and then for the scan
  void* storage;

  BackwardWorkspace(const BackwardPlan& plan, void* workspace)
      : targets(plan.forward.batch * plan.forward.targets),
        rows(plan.value_batch * plan.forward.rows) {
    const bool has_windows = plan.forward.row_kinds & (kReadsWindow | kReadsInterval);
    WorkspaceCutter cutter(workspace, DeviceType::kCuda);
    records = cutter.cut<TargetRecord>(targets);
    windows = has_windows ? cutter.cut<WindowRecord>(targets) : nullptr;
    row_keys = cutter.cut<std::int64_t>(targets);
    sorted_row_keys = cutter.cut<std::int64_t>(targets);
    targets_in_order = cutter.cut<std::int64_t>(targets);
    sorted_targets = cutter.cut<std::int64_t>(targets);
    starts = cutter.cut<std::int64_t>(rows + 1);
    reach = has_windows ? cutter.cut<std::int64_t>(targets) : nullptr;
    begins = has_windows ? cutter.cut<std::int64_t>(rows) : nullptr;
    std::size_t sort_bytes = 0;
    std::size_t scan_bytes = 0;
    check_cuda(sort(nullptr, sort_bytes, nullptr), "alignment backward, workspace");
    if (has_windows)
      check_cuda(scan(nullptr, scan_bytes, nullptr), "alignment backward, workspace");
    storage_bytes = std::max(sort_bytes, scan_bytes);
    storage = cutter.cut<char>(static_cast<std::int64_t>(storage_bytes));
    bytes = cutter.bytes();
  }

  __host__ __device__ SortedTargets sorted() const {
    return {records, windows, sorted_targets, starts, begins};
  }

  /// Sorts the targets by row, stably. If `memory` is null, it only sets `its_bytes`.
  cudaError_t sort(void* memory, std::size_t& its_bytes, cudaStream_t stream) const {
    int bits = 1;
    while (bits < 63 && (std::int64_t{1} << bits) <= rows) ++bits;
    return cub::DeviceRadixSort::SortPairs(memory, its_bytes, row_keys, sorted_row_keys,
                                           targets_in_order, sorted_targets, targets, 0, bits,
                                           stream);
  }

  /// Computes `reach`. If `memory` is null, it only sets `its_bytes`.
  cudaError_t scan(void* memory, std::size_t& its_bytes, cudaStream_t stream) const {
    const auto ends = thrust::make_transform_iterator(
        thrust::make_counting_iterator<std::int64_t>(0), EndOfTarget{windows, sorted_targets});
    return cub::DeviceScan::InclusiveScan(memory, its_bytes, ends, reach, Larger{}, targets,
                                          stream);
  }
};

template <typename Compute>
__global__ void __launch_bounds__(kThreads)
    record_kernel(const __grid_constant__ BackwardPlan plan,
                  const __grid_constant__ BackwardWorkspace work) {
  wait_for_stream();
  const std::int64_t target = thread_index();
  if (target >= work.targets) return;
  const StreamPlan& forward = plan.forward;
  const std::int64_t b = target / forward.targets;
  const std::int64_t t = target - b * forward.targets;
  const Episode<std::int64_t> episode = episode_of(forward, b);
  TargetRecord record;
  if (work.windows == nullptr) {
    record =
        make_record(plan, b, episode.first_row, locate_target<Compute>(forward, b, t, episode));
  } else {
    const auto located = locate_target_all<Compute>(forward, b, t, episode);
    record = make_record(plan, b, episode.first_row, located.location);
    work.windows[target] = make_window_record(plan, b, episode.first_row, located, record);
  }
  work.records[target] = record;
  work.row_keys[target] = record.row < 0 ? work.rows : record.row;
  work.targets_in_order[target] = target;
}

/// Sets starts[r] to the number of targets whose first row is before r, and begins[r] to the number
/// of targets in the sorted order before the first one that reaches r.
__global__ void __launch_bounds__(kThreads)
    rows_kernel(const __grid_constant__ BackwardWorkspace work) {
  wait_for_stream();
  const std::int64_t row = thread_index();
  if (row > work.rows) return;
  work.starts[row] = lower_bound(work.sorted_row_keys, work.targets, row);
  if (work.begins == nullptr || row == work.rows) return;
  work.begins[row] = lower_bound(work.reach, work.targets, row + 1);
}

/// Writes the gradient; each thread computes one unit, a channel or a quaternion, of a source row.
template <typename Compute>
__global__ void __launch_bounds__(kThreads)
    gather_kernel(const __grid_constant__ BackwardPlan plan,
                  const __grid_constant__ RunsParameter given,
                  const __grid_constant__ BackwardWorkspace work) {
  wait_for_stream();
  const std::int64_t index = thread_index();
  if (index >= work.rows * given.units) return;
  const std::int64_t row = index / given.units;
  const std::int64_t unit = index - row * given.units;
  const RowTargets targets = targets_of_row(work.sorted(), row);
  const RunTable runs = given.table();
  const PlannedRun run = runs[run_of_unit(runs, unit)];
  if (is_slerp(run.method)) {
    gather_quaternion<Compute>(plan, targets, row, run.first_channel);
  } else {
    gather_channel<Compute>(plan, targets, run.method, row,
                            run.first_channel + (unit - run.first_unit));
  }
}

template <typename Compute>
void align_backward(const BackwardPlan& plan, const RunTable& runs, const BackwardWorkspace& work,
                    cudaStream_t stream) {
  if (work.targets > 0) {
    launch("alignment backward, locating targets", record_kernel<Compute>, blocks_for(work.targets),
           stream, plan, work);
    std::size_t storage_bytes = work.storage_bytes;
    check_cuda(work.sort(work.storage, storage_bytes, stream),
               "alignment backward, sorting targets");
    if (work.windows != nullptr) {
      check_cuda(work.scan(work.storage, storage_bytes, stream),
                 "alignment backward, finding what targets reach");
    }
  }
  launch("alignment backward, finding rows", rows_kernel, blocks_for(work.rows + 1), stream, work);
  launch("alignment backward, gathering", gather_kernel<Compute>,
         blocks_for(work.rows * runs.units), stream, plan, RunsParameter(runs), work);
}

}  // namespace
}  // namespace cuda

std::size_t backward_workspace_bytes_on_cuda(const BackwardPlan& plan) {
  return cuda::BackwardWorkspace(plan, nullptr).bytes;
}

void align_backward_on_cuda(const BackwardPlan& plan, const RunTable& runs, void* workspace,
                            CUstream_st* stream) {
  const cuda::BackwardWorkspace work(plan, workspace);
  if (computes_in_double(plan.forward.value_type, plan.forward.out_type)) {
    cuda::align_backward<double>(plan, runs, work, stream);
  } else {
    cuda::align_backward<float>(plan, runs, work, stream);
  }
}

}  // namespace robocache
