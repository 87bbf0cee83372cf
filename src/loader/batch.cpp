// Entry points of the loader: validates a plan or a call, and dispatches it to a backend.
#include <cstdint>

#include "core/check.h"
#include "loader/backends.h"
#include "loader/permutation.h"
#include "loader/prepare.h"
#include "robocache/loader.h"

namespace robocache {

struct BatchPlan::Contents {
  PreparedBatch batch;
};

#if !defined(ROBOCACHE_HAS_CUDA)
// Never called: the constructor of PreparedBatch throws first. With it, the dispatch below reads
// alike in every build.
void make_batch_on_cuda(const BatchCall&, CUstream_st*) {}
#endif

namespace {

void make_batch(const PreparedBatch::Call& made, const ExecutionContext& context) {
  if (context.device == DeviceType::kCuda) {
    make_batch_on_cuda(made.call, context.stream);
  } else {
    make_batch_on_cpu(made.call, context);
  }
}

}  // namespace

BatchPlan::BatchPlan(const std::vector<WindowStream>& streams, const ConstTensorView& anchors,
                     const ConstTensorView& episodes, const BatchOrder& order,
                     const ExecutionContext& context)
    : contents_(std::make_shared<const Contents>(
          Contents{PreparedBatch(streams, anchors, episodes, order, context)})) {
  if (context.device == DeviceType::kCuda) return;
  const PreparedBatch& batch = contents_->batch;
  for (std::size_t i = 0; i < batch.count(); ++i) {
    check_contents_on_cpu(batch.window(i), streams[i], context);
  }
  check_anchors_on_cpu(batch.draw());
  check_mixture_on_cpu(batch.draw());
}

void BatchPlan::gather(const std::int64_t* indices, std::int64_t size, const WindowOutput* outputs,
                       const BatchMetadata& metadata, const ExecutionContext& context) const {
  make_batch(contents_->batch.call(indices, nullptr, size, outputs, metadata, context), context);
}

void BatchPlan::next(std::int64_t* state, std::int64_t size, const WindowOutput* outputs,
                     const BatchMetadata& metadata, const ExecutionContext& context) const {
  if (state == nullptr) throw_value_error("state", "4 numbers", "none");
  make_batch(contents_->batch.call(nullptr, state, size, outputs, metadata, context), context);
}

std::int64_t BatchPlan::batch_size_at(std::int64_t position) const {
  return contents_->batch.batch_size_at(position);
}

std::int64_t permuted(std::uint64_t seed, std::int64_t epoch, std::int64_t count,
                      std::int64_t place) {
  constexpr std::int64_t kMost = std::int64_t{1} << 62;
  if (count < 1 || count > kMost) {
    throw_value_error("count", "1 to 2^62", std::to_string(count));
  }
  if (place < 0 || place >= count) {
    throw_value_error("place", "0 to " + std::to_string(count - 1), std::to_string(place));
  }
  return permute(make_permutation(seed, count), epoch, place);
}

}  // namespace robocache
