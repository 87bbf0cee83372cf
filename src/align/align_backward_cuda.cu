// The CUDA backend's backward pass: locate every target, sort the targets by their first row, and let
// each source row gather from its own. See contribute.h for why it gathers.
#include <cuda_runtime.h>
#include <cub/device/device_radix_sort.cuh>

#include <algorithm>
#include <cstdint>

#include "align/backends.h"
#include "align/contribute.h"
#include "align/episode.h"
#include "align/search_cuda.h"
#include "core/cuda_error.h"

namespace robocache {
namespace cuda {
namespace {

// Independent threads; 256 fill an SM whatever their registers.
constexpr unsigned kThreads = 256;

unsigned blocks_for(std::int64_t threads) {
  return static_cast<unsigned>((threads + kThreads - 1) / kThreads);
}

/// The scratch of one call, cut from one block. Each array starts on a multiple of 256 bytes, as CUB
/// asks.
struct Workspace {
  std::int64_t targets;  // over the batch
  std::int64_t rows;     // over the value batch
  TargetRecord* records;
  std::int64_t *row_keys, *sorted_row_keys;  // [targets]; `rows` where there is no gradient to give
  std::int64_t *targets_in_order, *sorted_targets;
  std::int64_t* starts;  // [rows + 1]
  void* sort_storage;
  std::size_t sort_bytes = 0;
  std::size_t bytes = 0;

  Workspace(const BackwardPlan& plan, void* workspace)
      : targets(plan.forward.batch * plan.forward.targets),
        rows(plan.value_batch * plan.forward.rows) {
    records = cut<TargetRecord>(workspace, targets);
    row_keys = cut<std::int64_t>(workspace, targets);
    sorted_row_keys = cut<std::int64_t>(workspace, targets);
    targets_in_order = cut<std::int64_t>(workspace, targets);
    sorted_targets = cut<std::int64_t>(workspace, targets);
    starts = cut<std::int64_t>(workspace, rows + 1);
    check_cuda(sort(nullptr, nullptr), "backward workspace");
    sort_storage = cut<char>(workspace, static_cast<std::int64_t>(sort_bytes));
  }

  /// Sorts the targets by row, stably; without storage, only sets `sort_bytes`.
  cudaError_t sort(void* storage, cudaStream_t stream) {
    int bits = 1;
    while (bits < 63 && (std::int64_t{1} << bits) <= rows) ++bits;
    return cub::DeviceRadixSort::SortPairs(storage, sort_bytes, row_keys, sorted_row_keys,
                                           targets_in_order, sorted_targets, targets, 0, bits,
                                           stream);
  }

 private:
  template <typename T>
  T* cut(void* workspace, std::int64_t count) {
    char* const start = static_cast<char*>(workspace) + bytes;
    bytes += (static_cast<std::size_t>(count) * sizeof(T) + 255) / 256 * 256;
    return reinterpret_cast<T*>(start);
  }
};

template <typename Compute>
__global__ void __launch_bounds__(kThreads)
    record_kernel(const __grid_constant__ BackwardPlan plan, TargetRecord* records,
                  std::int64_t* row_keys, std::int64_t* targets_in_order, std::int64_t targets,
                  std::int64_t rows) {
  const std::int64_t target = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (target >= targets) return;
  const std::int64_t b = target / plan.forward.targets;
  const Episode<std::int64_t> episode = episode_of(plan.forward, b);
  const TargetRecord record =
      make_record(plan, b, episode.first_row,
                  search<Compute>(plan.forward, b, target - b * plan.forward.targets, episode));
  records[target] = record;
  row_keys[target] = record.row < 0 ? rows : record.row;
  targets_in_order[target] = target;
}

/// starts[r] becomes the number of targets whose first row is before r.
__global__ void __launch_bounds__(kThreads)
    starts_kernel(const std::int64_t* sorted_row_keys, std::int64_t targets, std::int64_t* starts,
                  std::int64_t rows) {
  const std::int64_t row = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (row > rows) return;
  std::int64_t low = 0;
  std::int64_t high = targets;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (sorted_row_keys[middle] < row) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  starts[row] = low;
}

/// One thread makes one unit, a channel or a quaternion, of one source row.
template <typename Compute>
__global__ void __launch_bounds__(kThreads)
    gather_kernel(const __grid_constant__ BackwardPlan plan, const __grid_constant__ RunTable runs,
                  const TargetRecord* records, const std::int64_t* order,
                  const std::int64_t* starts, std::int64_t rows) {
  const std::int64_t index = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index >= rows * runs.units) return;
  const std::int64_t row = index / runs.units;
  const std::int64_t unit = index - row * runs.units;
  const RowTargets targets{records, order, row > 0 ? starts[row - 1] : starts[row], starts[row],
                           starts[row + 1]};
  const int run = run_of_unit(runs, unit);
  const Method method = runs.method[run];
  if (is_slerp(method)) {
    gather_quaternion<Compute>(plan, targets, row, runs.first_channel[run]);
  } else {
    gather_channel<Compute>(plan, targets, method, row,
                            runs.first_channel[run] + (unit - runs.first_unit[run]));
  }
}

template <typename Compute>
void align_backward(const BackwardPlan& plan, const RunTable& runs, Workspace& work,
                    cudaStream_t stream) {
  if (work.targets > 0) {
    record_kernel<Compute><<<blocks_for(work.targets), kThreads, 0, stream>>>(
        plan, work.records, work.row_keys, work.targets_in_order, work.targets, work.rows);
    check_cuda(cudaGetLastError(), "resampling backward, locating targets");
    check_cuda(work.sort(work.sort_storage, stream), "resampling backward, sorting targets");
  }
  starts_kernel<<<blocks_for(work.rows + 1), kThreads, 0, stream>>>(
      work.sorted_row_keys, work.targets, work.starts, work.rows);
  check_cuda(cudaGetLastError(), "resampling backward, finding rows");
  gather_kernel<Compute><<<blocks_for(work.rows * runs.units), kThreads, 0, stream>>>(
      plan, runs, work.records, work.sorted_targets, work.starts, work.rows);
  check_cuda(cudaGetLastError(), "resampling backward, gathering");
}

}  // namespace
}  // namespace cuda

std::size_t backward_workspace_bytes_on_cuda(const BackwardPlan& plan) {
  return cuda::Workspace(plan, nullptr).bytes;
}

void align_backward_on_cuda(const BackwardPlan& plan, const RunTable& runs, void* workspace,
                            CUstream_st* stream) {
  cuda::Workspace work(plan, workspace);
  if (computes_in_double(plan.forward)) {
    cuda::align_backward<double>(plan, runs, work, stream);
  } else {
    cuda::align_backward<float>(plan, runs, work, stream);
  }
}

}  // namespace robocache
