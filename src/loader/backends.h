// The backends behind `batch.cpp`: each takes checked calls only.
#pragma once

#include <cstdint>

#include "align/plan.h"
#include "loader/plan.h"
#include "robocache/execution.h"

namespace robocache {

/// A checked call.
struct BatchCall {
  DrawPlan draw;
  BatchMetadata metadata;
  const WindowPlan* windows;
  const RunTable* runs;  // of each window; by row, a relative one's tell angles from others
  const RelativePlan* relatives;  // of each window; null: none is relative
  std::int64_t count;             // of windows
  std::int64_t size;              // B
};

// Throws ValueError where the tensors of a plan, or the anchors, hold what they must not.
void check_contents_on_cpu(const WindowPlan& window, const WindowStream& stream,
                           const ExecutionContext& context);
void check_anchors_on_cpu(const DrawPlan& draw);
void check_mixture_on_cpu(const DrawPlan& draw);
/// Makes a batch, and moves the state on where it is drawn by one. Throws ValueError for an index
/// that is out of range.
void make_batch_on_cpu(const BatchCall& call, const ExecutionContext& context);

// Never called in a build without CUDA.
void make_batch_on_cuda(const BatchCall& call, CUstream_st* stream);

}  // namespace robocache
