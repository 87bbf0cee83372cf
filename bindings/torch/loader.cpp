// The loader's batches as a flat C API, which python/robocache/loader/plan.py declares to ctypes.
// It is in this library, which has the kernels and torch's threads.
//
// A function that can fail returns a Status; robocache_batch_error() has the message. On CUDA the
// caller makes the device current and gives the stream. Whoever opens a plan closes it, and keeps
// its tensors until then.
#include "robocache/loader.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "c_api.h"
#include "tensors.h"

using robocache::BatchPlan;
using robocache::ConstTensorView;
using robocache::DataType;
using robocache::DeviceType;
using robocache::Duration;
using robocache::ExecutionContext;
using robocache::Method;
using robocache::WindowStream;
using robocache::c_api::error_message;
using robocache::c_api::status_of;

// The structures are as ctypes lays them out.
extern "C" {

/// Absent where `data` is null and the rank is 0.
struct RobocacheTensor {
  void* data;
  std::int32_t dtype;  // DataType's number
  std::int32_t rank;   // at most 2
  std::int64_t shape[2];
  std::int64_t strides[2];
};

struct RobocacheRun {
  std::int32_t method;
  std::int32_t padding;
  std::int64_t channels;
};

/// robocache::WindowStream; a duration of -1 is none.
struct RobocacheWindowStream {
  const char* name;
  RobocacheTensor values, times, offsets, begins, received, valid, steps, subtract, multiply;
  const RobocacheRun* layout;
  std::int32_t run_count;
  std::int32_t timeline;  // 0: by time, 1: by row
  std::int32_t is_causal;
  std::int32_t outside;
  std::int32_t out_type;
  std::int32_t channels_first;
  std::int64_t latency_ns, max_gap_ns, tolerance_ns, mean_window_ns, pixels, colors;
  std::int64_t first_episode;
  RobocacheTensor reference_columns;
  std::int64_t relative_to;  // -1: none
  std::int64_t reference_is_causal;
};

struct RobocacheWindowOutput {
  void* values;
  std::int64_t row_stride;
  bool* is_pad;
  std::int64_t* age_ns;
};

struct RobocacheBatchMetadata {
  std::int64_t *index, *episode_index, *frame_index, *task_index, *timestamp_ns;
  float* timestamp;
  std::int64_t* dataset_index;
};

struct RobocacheBatchOrder {
  std::uint64_t seed;
  std::int64_t rank, ranks, batch_size;
  std::int32_t shuffle, drop_last;
  RobocacheTensor parts, thresholds;
  std::int64_t samples;
};

}  // extern "C"

namespace {

struct OpenPlan {
  BatchPlan plan;
  bool is_cuda;
  std::size_t streams;

  ExecutionContext context(void* cuda_stream) const {
    return is_cuda ? robocache::on_cuda(static_cast<CUstream_st*>(cuda_stream))
                   : robocache::torch_binding::on_torch_threads();
  }
};

ConstTensorView view_of(const RobocacheTensor& tensor, DeviceType device) {
  ConstTensorView view;
  view.data = tensor.data;
  view.dtype = static_cast<DataType>(tensor.dtype);
  view.device = device;
  view.rank = tensor.rank;
  for (int axis = 0; axis < tensor.rank; ++axis) {
    view.shape[axis] = tensor.shape[axis];
    view.strides[axis] = tensor.strides[axis];
  }
  return view;
}

std::optional<Duration> duration_of(std::int64_t nanoseconds) {
  if (nanoseconds == -1) return std::nullopt;
  return Duration::nanoseconds(nanoseconds);
}

WindowStream stream_of(const RobocacheWindowStream& from, DeviceType device) {
  WindowStream stream;
  stream.name = from.name;
  stream.values = view_of(from.values, device);
  stream.times = view_of(from.times, device);
  stream.offsets = view_of(from.offsets, device);
  stream.begins = view_of(from.begins, device);
  stream.first_episode = from.first_episode;
  stream.received = view_of(from.received, device);
  stream.valid = view_of(from.valid, device);
  stream.steps = view_of(from.steps, device);
  stream.subtract = view_of(from.subtract, device);
  stream.multiply = view_of(from.multiply, device);
  for (std::int32_t run = 0; run < from.run_count; ++run) {
    stream.layout.push_back(
        {static_cast<Method>(from.layout[run].method), from.layout[run].channels});
  }
  stream.timeline = from.timeline == 0 ? robocache::Timeline::kTime : robocache::Timeline::kRows;
  stream.is_causal = from.is_causal != 0;
  stream.outside = static_cast<robocache::Outside>(from.outside);
  stream.out_type = static_cast<DataType>(from.out_type);
  stream.channels_first = from.channels_first != 0;
  stream.latency_ns = from.latency_ns;
  stream.max_gap = duration_of(from.max_gap_ns);
  if (from.tolerance_ns != 0) stream.tolerance = duration_of(from.tolerance_ns);
  stream.mean_window = duration_of(from.mean_window_ns);
  stream.pixels = from.pixels;
  stream.colors = from.colors;
  stream.reference_columns = view_of(from.reference_columns, device);
  stream.relative_to = static_cast<std::int32_t>(from.relative_to);
  stream.reference_is_causal = from.reference_is_causal != 0;
  return stream;
}

/// Calls `make(outputs, metadata, context)` with a call's own.
template <typename Make>
int make_batch(const OpenPlan& open, const RobocacheWindowOutput* outputs,
               const RobocacheBatchMetadata* metadata, void* cuda_stream, const Make& make) {
  return status_of([&] {
    std::vector<robocache::WindowOutput> windows(open.streams);
    for (std::size_t i = 0; i < open.streams; ++i) {
      windows[i] = {outputs[i].values, outputs[i].row_stride, outputs[i].is_pad, outputs[i].age_ns};
    }
    robocache::BatchMetadata wanted;
    if (metadata != nullptr) {
      wanted = {metadata->index,        metadata->episode_index, metadata->frame_index,
                metadata->task_index,   metadata->timestamp_ns,  metadata->timestamp,
                metadata->dataset_index};
    }
    make(windows.data(), wanted, open.context(cuda_stream));
  });
}

}  // namespace

extern "C" {

/// What the last failure in this thread was.
ROBOCACHE_C_API const char* robocache_batch_error() { return error_message.c_str(); }

/// `streams`: `count` of them. A stream without a layout is linear.
ROBOCACHE_C_API int robocache_batch_plan_open(const RobocacheWindowStream* streams,
                                              std::int64_t count, const RobocacheTensor* anchors,
                                              const RobocacheTensor* episodes,
                                              const RobocacheBatchOrder* order,
                                              std::int32_t is_cuda, void** plan) {
  return status_of([&] {
    const DeviceType device = is_cuda != 0 ? DeviceType::kCuda : DeviceType::kCpu;
    std::vector<WindowStream> windows;
    windows.reserve(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i) windows.push_back(stream_of(streams[i], device));
    const robocache::BatchOrder drawing{order->seed,
                                        order->shuffle != 0,
                                        order->rank,
                                        order->ranks,
                                        order->batch_size,
                                        order->drop_last != 0,
                                        view_of(order->parts, device),
                                        view_of(order->thresholds, device),
                                        order->samples};
    const ExecutionContext context =
        is_cuda != 0 ? robocache::on_cuda(nullptr) : robocache::torch_binding::on_torch_threads();
    *plan = new OpenPlan{
        BatchPlan(windows, view_of(*anchors, device), view_of(*episodes, device), drawing, context),
        is_cuda != 0, windows.size()};
  });
}

ROBOCACHE_C_API void robocache_batch_plan_close(void* plan) { delete static_cast<OpenPlan*>(plan); }

/// `metadata` may be null.
ROBOCACHE_C_API int robocache_batch_plan_gather(void* plan, const std::int64_t* indices,
                                                std::int64_t size,
                                                const RobocacheWindowOutput* outputs,
                                                const RobocacheBatchMetadata* metadata,
                                                void* cuda_stream) {
  const OpenPlan& open = *static_cast<OpenPlan*>(plan);
  return make_batch(open, outputs, metadata, cuda_stream,
                    [&](const auto* windows, const auto& wanted, const auto& context) {
                      open.plan.gather(indices, size, windows, wanted, context);
                    });
}

ROBOCACHE_C_API int robocache_batch_plan_next(void* plan, std::int64_t* state, std::int64_t size,
                                              const RobocacheWindowOutput* outputs,
                                              const RobocacheBatchMetadata* metadata,
                                              void* cuda_stream) {
  const OpenPlan& open = *static_cast<OpenPlan*>(plan);
  return make_batch(open, outputs, metadata, cuda_stream,
                    [&](const auto* windows, const auto& wanted, const auto& context) {
                      open.plan.next(state, size, windows, wanted, context);
                    });
}

/// The anchor at a place of an epoch's order; -1 where there is none.
ROBOCACHE_C_API std::int64_t robocache_permute(std::uint64_t seed, std::int64_t epoch,
                                               std::int64_t count, std::int64_t place) {
  std::int64_t anchor = -1;
  status_of([&] { anchor = robocache::permuted(seed, epoch, count, place); });
  return anchor;
}
}
