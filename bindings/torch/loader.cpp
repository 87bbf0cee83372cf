// The loader's batches as a flat C API, which python/robocache/loader/plan.py declares to ctypes.
// It is part of this library, which has the kernels and access to torch's threads.
//
// A function that can fail returns a Status; robocache_error() has the message. On CUDA the caller
// makes the device current and passes the stream. The client that opens a plan must close it, and
// must keep its tensors alive until then.
#include "robocache/loader.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "c_api.h"
#include "tensors.h"

using robocache::BatchPlan;
using robocache::ConstTensorView;
using robocache::DataType;
using robocache::DeviceType;
using robocache::ExecutionContext;
using robocache::WindowStream;
using robocache::c_api::status_of;

// The client declares structures of the same layout to ctypes.
extern "C" {

/// A tensor; absent if `data` is null and the rank is 0.
struct RobocacheTensor {
  void* data;
  std::int32_t dtype;  // DataType's number
  std::int32_t rank;   // at most 2
  std::int64_t shape[2];
  std::int64_t strides[2];
};

/// The tensors of a robocache::WindowStream; its spec is in the JSON text of the plan's windows.
struct RobocacheWindowData {
  RobocacheTensor values, times, row_offsets, value_begins, received, valid, window_offsets,
      subtract, multiply, reference_columns;
  std::int64_t first_episode;
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
  std::int64_t *dataset_index, *epoch;
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

ExecutionContext context_on(DeviceType device, void* cuda_stream) {
  return device == DeviceType::kCuda ? robocache::on_cuda(static_cast<CUstream_st*>(cuda_stream))
                                     : robocache::torch_binding::on_torch_threads();
}

struct OpenPlan {
  BatchPlan plan;
  DeviceType device;
  std::size_t streams;
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

WindowStream stream_of(robocache::WindowSpec spec, const RobocacheWindowData& from,
                       DeviceType device) {
  WindowStream stream;
  stream.spec = std::move(spec);
  stream.first_episode = from.first_episode;
  stream.values = view_of(from.values, device);
  stream.times = view_of(from.times, device);
  stream.row_offsets = view_of(from.row_offsets, device);
  stream.value_begins = view_of(from.value_begins, device);
  stream.received = view_of(from.received, device);
  stream.valid = view_of(from.valid, device);
  stream.window_offsets = view_of(from.window_offsets, device);
  stream.subtract = view_of(from.subtract, device);
  stream.multiply = view_of(from.multiply, device);
  stream.reference_columns = view_of(from.reference_columns, device);
  return stream;
}

/// Calls `make(outputs, metadata, context)` with the converted arguments of a call.
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
      wanted = {metadata->index,         metadata->episode_index, metadata->frame_index,
                metadata->task_index,    metadata->timestamp_ns,  metadata->timestamp,
                metadata->dataset_index, metadata->epoch};
    }
    make(windows.data(), wanted, context_on(open.device, cuda_stream));
  });
}

}  // namespace

extern "C" {

/// The sizes of the structures above in bytes, which the client compares with its own.
ROBOCACHE_C_API const char* robocache_batch_layout() {
  static const std::string layout =
      robocache::c_api::sizes_json({{"Tensor", sizeof(RobocacheTensor)},
                                    {"WindowData", sizeof(RobocacheWindowData)},
                                    {"WindowOutput", sizeof(RobocacheWindowOutput)},
                                    {"BatchMetadata", sizeof(RobocacheBatchMetadata)},
                                    {"BatchOrder", sizeof(RobocacheBatchOrder)}});
  return layout.c_str();
}

/// Builds a plan. `text`: the windows, in the JSON of robocache::parse_windows; `data`: the tensors
/// per window.
ROBOCACHE_C_API int robocache_batch_plan_open(const char* text, std::int64_t bytes,
                                              const RobocacheWindowData* data, std::int64_t count,
                                              const RobocacheTensor* anchors,
                                              const RobocacheTensor* episodes,
                                              const RobocacheBatchOrder* order,
                                              std::int32_t is_cuda, void** plan) {
  return status_of([&] {
    const DeviceType device = is_cuda != 0 ? DeviceType::kCuda : DeviceType::kCpu;
    std::vector<robocache::WindowSpec> specs = robocache::parse_windows(
        std::string_view(text, static_cast<std::size_t>(bytes)), "windows");
    if (specs.size() != static_cast<std::size_t>(count)) {
      throw robocache::ValueError("windows: expected the tensors of " +
                                  std::to_string(specs.size()) + ", got " + std::to_string(count));
    }
    std::vector<WindowStream> windows;
    windows.reserve(specs.size());
    for (std::size_t i = 0; i < specs.size(); ++i) {
      windows.push_back(stream_of(std::move(specs[i]), data[i], device));
    }
    const robocache::BatchOrder batch_order{order->seed,
                                            order->shuffle != 0,
                                            order->rank,
                                            order->ranks,
                                            order->batch_size,
                                            order->drop_last != 0,
                                            view_of(order->parts, device),
                                            view_of(order->thresholds, device),
                                            order->samples};
    *plan = new OpenPlan{BatchPlan(windows, view_of(*anchors, device), view_of(*episodes, device),
                                   batch_order, context_on(device, nullptr)),
                         device, windows.size()};
  });
}

ROBOCACHE_C_API void robocache_batch_plan_close(void* plan) { delete static_cast<OpenPlan*>(plan); }

/// Computes a batch of the anchors at `indices`. `metadata` may be null.
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

/// The anchor at a place of an epoch's order; -1 if the arguments are out of range.
ROBOCACHE_C_API std::int64_t robocache_permute(std::uint64_t seed, std::int64_t epoch,
                                               std::int64_t count, std::int64_t place) {
  std::int64_t anchor = -1;
  status_of([&] { anchor = robocache::permuted(seed, epoch, count, place); });
  return anchor;
}
}
