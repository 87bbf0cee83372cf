// The interface of the backends, which `align.cpp` and `align_backward.cpp` call with validated
// plans only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "align/plan.h"
#include "align/planner.h"
#include "robocache/execution.h"

namespace robocache {

/// The plan of a backward pass: the forward plan, whose `out_type` is the gradient's type here and
/// whose `out` is not used, and the arrays of gradients.
struct BackwardPlan {
  StreamPlan forward;
  const void* grad_output;
  std::int64_t grad_batch_stride, grad_target_stride, grad_channel_stride;
  void* grad_values;         // contiguous, [value_batch, rows, channels]
  std::int64_t value_batch;  // 1 where the values are shared by the batch
};

/// The location of a target, as the backward pass stores it. Rows count over [value_batch, rows].
struct TargetRecord {
  std::int64_t row;  // the first row that the target reads; -1: it passes no gradient
  double weight;
  std::uint8_t source;
  bool nearest_is_later;
};

/// The windows of a target, stored in addition where a stream has means or sums.
struct WindowRecord {
  struct Rows {
    std::int64_t begin, end, count;
    std::uint8_t source;
  };
  Rows mean, sum;
  std::int64_t lo;   // the first row that runs of other methods read
  std::int64_t end;  // the row after the last row that any run reads
};

/// All targets, located and sorted by their first row.
struct SortedTargets {
  const TargetRecord* records;
  const WindowRecord* windows;  // null where the stream has no means or sums
  const std::int64_t* order;    // targets, by first row and then by target
  const std::int64_t* starts;   // [rows + 1]: where in `order` the targets of a row begin
  const std::int64_t*
      begins;  // [rows]: where in `order` the first target is that reaches a row; or null
};

/// The arguments that have a batch dimension, which the indices in error messages depend on.
struct BatchedArguments {
  bool times, lengths, target_times;
};

// Throws ValueError where source times do not ascend, target times do not ascend with a sum, or a
// length is out of range.
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
