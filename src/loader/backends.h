// The backends behind `batch.cpp`: each receives validated calls only.
#pragma once

#include <cstdint>

#include "align/plan.h"
#include "loader/plan.h"
#include "robocache/execution.h"

namespace robocache {

/// A validated call.
struct BatchCall {
  DrawPlan draw;
  BatchMetadata metadata;
  const WindowPlan* windows;
  const RunTable* runs;  // per window; of a relative window by row, they mark the angle channels
  const RelativePlan* relatives;  // per window; null: no window is relative
  std::int64_t count;             // of windows
  std::int64_t size;              // B
};

// Throw ValueError where the tensors of a plan, its anchors or its mixture hold invalid values.
void check_contents_on_cpu(const WindowPlan& window, const WindowStream& stream,
                           const ExecutionContext& context);
void check_anchors_on_cpu(const DrawPlan& draw);
void check_mixture_on_cpu(const DrawPlan& draw);
/// Computes a batch, and advances the sampler state where the state draws it. Throws ValueError for
/// an index that is out of range.
void make_batch_on_cpu(const BatchCall& call, const ExecutionContext& context);

// Never called in a build without CUDA.
void make_batch_on_cuda(const BatchCall& call, CUstream_st* stream);

}  // namespace robocache
