// The backends behind `align.cpp` and `align_backward.cpp`: each takes checked plans only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "align/plan.h"
#include "align/planner.h"
#include "robocache/execution.h"

namespace robocache {

/// What the backward pass reads and writes besides the forward plan, whose `out_type` is the
/// gradient's type here and whose `out` is not used.
struct BackwardPlan {
  StreamPlan forward;
  const void* grad_output;
  std::int64_t grad_batch_stride, grad_target_stride, grad_channel_stride;
  void* grad_values;         // contiguous, [value_batch, rows, channels]
  std::int64_t value_batch;  // 1 where the values are shared by the batch
};

/// What the backward pass keeps of a target's location. Rows are counted over [value_batch, rows].
struct TargetRecord {
  std::int64_t row;  // the first that it is made from; -1: it has no gradient to give
  double weight;
  std::uint8_t source;
  bool nearest_is_later;
};

/// And what it keeps besides where a stream has means or sums.
struct WindowRecord {
  struct Rows {
    std::int64_t begin, end, count;
    std::uint8_t source;
  };
  Rows mean, sum;
  std::int64_t lo;   // the first row that runs of other methods are made from
  std::int64_t end;  // the row after the last one of all
};

/// All targets, located and sorted by their first row.
struct SortedTargets {
  const TargetRecord* records;
  const WindowRecord* windows;  // null where the stream has no means or sums
  const std::int64_t* order;    // targets, by first row and then by target
  const std::int64_t* starts;   // [rows + 1]: where in `order` a row's begin
  const std::int64_t*
      begins;  // [rows]: where the first that reaches a row is; null as `windows` is
};

/// Which arguments have a batch dimension of their own: what the indices in messages go by.
struct BatchedArguments {
  bool times, lengths, target_times;
};

// Throws ValueError where source times do not ascend, target times do not although there is a sum,
// or a length is out of range.
void check_on_cpu(const StreamPlan& plan, StreamNumber number, const ArgumentNames& names,
                  BatchedArguments batched, const ExecutionContext& context);
void align_on_cpu(const StreamPlan& plan, const RunTable& runs, const ExecutionContext& context);
std::size_t backward_workspace_bytes_on_cpu(const BackwardPlan& plan);
void align_backward_on_cpu(const BackwardPlan& plan, const RunTable& runs, void* workspace,
                           const ExecutionContext& context);

// Never called in a build without CUDA.

// Whether this build has kernels that run on the current device.
bool has_cuda_kernels();
void align_on_cuda(const CallPlan& call, CUstream_st* stream);
std::size_t backward_workspace_bytes_on_cuda(const BackwardPlan& plan);
void align_backward_on_cuda(const BackwardPlan& plan, const RunTable& runs, void* workspace,
                            CUstream_st* stream);

}  // namespace robocache
