// The CPU backend's backward pass: locates every target, sorts the targets by their first row, and
// gathers the gradient of each source row from its targets. contribute.h says why rows gather.
#include <algorithm>
#include <cstdint>

#include "align/align_cpu_kernels.h"
#include "align/backends.h"
#include "core/cpu_target.h"
#include "core/parallel.h"
#include "core/workspace.h"

namespace robocache {
namespace {

const AlignBackwardCpuKernels& kernels() {
  static const AlignBackwardCpuKernels& chosen = ROBOCACHE_FOR_CPU(align_backward_cpu_kernels)();
  return chosen;
}

/// The workspace of the backward pass: arrays in one block of memory.
struct BackwardWorkspace {
  std::int64_t targets;  // over the batch
  std::int64_t rows;     // over the value batch
  WorkspaceCutter cutter;
  std::int64_t* order;    // [targets]: targets sorted by row, then by target
  std::int64_t* starts;   // [rows + 2]
  TargetRecord* records;  // [targets]
  WindowRecord* windows;  // [targets], or null where the stream has no means or sums
  std::int64_t* begins;   // [rows], or null as `windows` is

  BackwardWorkspace(const BackwardPlan& plan, void* workspace)
      : targets(plan.forward.batch * plan.forward.targets),
        rows(plan.value_batch * plan.forward.rows),
        cutter(workspace, DeviceType::kCpu),
        order(cutter.cut<std::int64_t>(targets)),
        starts(cutter.cut<std::int64_t>(rows + 2)),
        records(cutter.cut<TargetRecord>(targets)) {
    const bool has_windows = plan.forward.row_kinds & (kReadsWindow | kReadsInterval);
    windows = has_windows ? cutter.cut<WindowRecord>(targets) : nullptr;
    begins = has_windows ? cutter.cut<std::int64_t>(rows) : nullptr;
  }

  SortedTargets sorted() const { return {records, windows, order, starts, begins}; }
};

/// Sorts the targets by row with a counting sort, which is stable: each row's targets ascend.
void sort_by_row(const BackwardWorkspace& work) {
  std::fill(work.starts, work.starts + work.rows + 2, 0);
  std::int64_t* next = work.starts + 1;  // the place of row r's next target; ends as starts[r + 1]
  for (std::int64_t i = 0; i < work.targets; ++i) {
    if (work.records[i].row >= 0) ++next[work.records[i].row + 1];
  }
  for (std::int64_t row = 0; row < work.rows; ++row) next[row + 1] += next[row];
  for (std::int64_t i = 0; i < work.targets; ++i) {
    if (work.records[i].row >= 0) work.order[next[work.records[i].row]++] = i;
  }
}

/// Sets `begins`; the targets have been sorted.
void find_begins(const BackwardWorkspace& work) {
  std::int64_t begin = 0;
  for (std::int64_t row = 0; row < work.rows; ++row) {
    while (begin < work.starts[work.rows] && work.windows[work.order[begin]].end <= row) ++begin;
    work.begins[row] = begin;
  }
}

}  // namespace

std::size_t backward_workspace_bytes_on_cpu(const BackwardPlan& plan) {
  return BackwardWorkspace(plan, nullptr).cutter.bytes();
}

void align_backward_on_cpu(const BackwardPlan& plan, const RunTable& runs, void* workspace,
                           const ExecutionContext& context) {
  const StreamPlan& forward = plan.forward;
  const BackwardWorkspace work(plan, workspace);
  const std::int64_t row_bytes = forward.channels * size_of(forward.value_type);
  parallel_for(context, work.targets, grain_of(row_bytes),
               [&](std::int64_t begin, std::int64_t end) {
                 kernels().record(plan, work.records, work.windows, begin, end);
               });
  sort_by_row(work);
  if (work.begins != nullptr) find_begins(work);
  parallel_for(context, work.rows, grain_of(row_bytes), [&](std::int64_t begin, std::int64_t end) {
    kernels().gather(plan, runs, work.sorted(), begin, end);
  });
}

}  // namespace robocache
