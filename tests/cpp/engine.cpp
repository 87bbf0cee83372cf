#include "engine.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "environment.h"
#include "robocache/build_info.h"
#if defined(ROBOCACHE_TEST_KERNELS)
#include "align/align_cpu_kernels.h"
#include "core/cpu_target.h"
#endif
#if defined(ROBOCACHE_HAS_CUDA)
#include "device.h"
#endif

namespace robocache::testing {
namespace {

class CpuEngine : public Engine {
 public:
  CpuEngine() : Engine("cpu") {}

  void align(const std::vector<Stream>& streams, const ConstTensorView& target_times,
             const AlignOptions& options, const TensorView& values_out,
             const TensorView& valid_out) const override {
    robocache::align(streams.data(), streams.size(), target_times, options, values_out, valid_out,
                     on_cpu());
  }

  void align_backward(const Stream& stream, const ConstTensorView& target_times,
                      const AlignOptions& options, const ConstTensorView& grad_output,
                      const TensorView& grad_values) const override {
    const std::size_t bytes = align_backward_workspace_bytes(stream, target_times, on_cpu());
    // Exactly as much as was asked for, and not zeros: a sanitizer sees one byte too far.
    const std::unique_ptr<unsigned char[]> workspace(new unsigned char[bytes]);
    std::fill_n(workspace.get(), bytes, static_cast<unsigned char>(0xA5));
    robocache::align_backward(stream, target_times, options, grad_output, grad_values,
                              workspace.get(), on_cpu());
  }
};

#if defined(ROBOCACHE_TEST_KERNELS)

/// The stride of an axis counted from the last; 0 where there is none, and where nothing is there to
/// be strided over.
std::int64_t stride_along(const ConstTensorView& view, int axis_from_last) {
  for (int axis = 0; axis < view.rank; ++axis) {
    if (view.shape[axis] == 0) return 0;
  }
  return axis_from_last <= view.rank ? view.strides[view.rank - axis_from_last] : 0;
}

TimeValue time_value(const std::optional<Duration>& duration, DataType time_type) {
  TimeValue value{};
  if (!duration) return value;
  if (time_type == DataType::kInt64) value.i64 = duration->nanoseconds();
  if (time_type == DataType::kFloat32) value.f32 = static_cast<float>(duration->seconds());
  if (time_type == DataType::kFloat64) value.f64 = duration->seconds();
  return value;
}

/// A stream's runs as they are written, where the library merges neighbours of one kind.
RunTable run_table(const Stream& stream, std::int64_t channels) {
  RunTable table{};
  const std::vector<Run> runs =
      stream.layout.empty() ? std::vector<Run>{{stream.method, channels}} : stream.layout;
  std::int64_t channel = 0;
  for (const Run& run : runs) {
    table.first_channel[table.count] = static_cast<std::int32_t>(channel);
    table.first_unit[table.count] = static_cast<std::int32_t>(table.units);
    table.method[table.count++] = run.method;
    channel += run.channels;
    table.units += is_slerp(run.method) ? 1 : run.channels;
  }
  return table;
}

StreamPlan plan_of(const Stream& stream, const ConstTensorView& target_times,
                   const AlignOptions& options, DataType out_type, const AlignedShape& shape,
                   const RunTable& runs) {
  StreamPlan plan{};
  plan.batch = shape.batch;
  plan.targets = shape.targets;
  plan.rows = stream.values.shape[stream.values.rank - 2];
  plan.channels = stream.values.shape[stream.values.rank - 1];
  plan.values = stream.values.data;
  plan.values_batch_stride = stride_along(stream.values, 3);
  plan.values_row_stride = stride_along(stream.values, 2);
  plan.values_channel_stride = stride_along(stream.values, 1);
  plan.times = stream.times.data;
  plan.times_batch_stride = stride_along(stream.times, 2);
  plan.times_row_stride = stride_along(stream.times, 1);
  plan.target_times = target_times.data;
  plan.target_times_batch_stride = stride_along(target_times, 2);
  plan.target_times_stride = stride_along(target_times, 1);
  plan.lengths = stream.lengths.data;
  plan.lengths_stride = stride_along(stream.lengths, 1);
  plan.lengths_are_int32 = stream.lengths.dtype == DataType::kInt32;
  plan.begins = static_cast<const std::int64_t*>(stream.begins.data);
  plan.begins_stride = stride_along(stream.begins, 1);
  plan.valid = static_cast<const bool*>(stream.valid.data);
  plan.valid_batch_stride = stride_along(stream.valid, 2);
  plan.valid_row_stride = stride_along(stream.valid, 1);
  plan.subtract = stream.subtract.data;
  plan.subtract_stride = stride_along(stream.subtract, 1);
  plan.multiply = stream.multiply.data;
  plan.multiply_stride = stride_along(stream.multiply, 1);
  plan.max_gap = time_value(stream.max_gap, stream.times.dtype);
  plan.tolerance = time_value(stream.tolerance, stream.times.dtype);
  plan.time_type = stream.times.dtype;
  plan.value_type = stream.values.dtype;
  plan.out_type = out_type;
  plan.has_max_gap = stream.max_gap.has_value();
  plan.outside = options.outside;
  plan.method = runs.method[0];
  for (int run = 0; run < runs.count; ++run) plan.row_kinds |= row_kind(runs.method[run]);
  return plan;
}

/// One instruction set's kernels, in one thread, whichever set the library chose.
class KernelsEngine : public Engine {
 public:
  /// `kernels` is called only where the CPU has what `needs` asks for.
  KernelsEngine(const std::string& target, const AlignCpuKernels& (*kernels)(), CpuTarget needs)
      : Engine("cpu_" + target), kernels_(kernels), needs_(needs) {}

  std::string problem() const override {
    if (cpu_target() >= needs_) return "";
    return std::string("this CPU has no ") + cpu_target_name(needs_);
  }

  void align(const std::vector<Stream>& streams, const ConstTensorView& target_times,
             const AlignOptions& options, const TensorView& values_out,
             const TensorView& valid_out) const override {
    const AlignedShape shape = aligned_shape(streams.data(), streams.size(), target_times, options,
                                             values_out.dtype, on_cpu());
    std::int64_t column = 0;
    for (std::size_t i = 0; i < streams.size(); ++i) {
      const RunTable runs =
          run_table(streams[i], streams[i].values.shape[streams[i].values.rank - 1]);
      StreamPlan plan = plan_of(streams[i], target_times, options, values_out.dtype, shape, runs);
      plan.out = static_cast<char*>(values_out.data) + column * size_of(values_out.dtype);
      plan.out_batch_stride = stride_along(values_out, 3);
      plan.out_target_stride = stride_along(values_out, 2);
      if (valid_out.present()) {
        plan.out_valid = static_cast<bool*>(valid_out.data) +
                         static_cast<std::int64_t>(i) * stride_along(valid_out, 1);
        plan.out_valid_batch_stride = stride_along(valid_out, 3);
        plan.out_valid_target_stride = stride_along(valid_out, 2);
      }
      column += plan.channels;
      for (std::int64_t b = 0; b < plan.batch; ++b) {
        if (kernels_().first_unordered(plan, b) >= 0) {
          throw std::logic_error("unordered times in batch row " + std::to_string(b));
        }
      }
      const std::int64_t targets = plan.batch * plan.targets;
      if (targets > 0) kernels_().align(plan, runs, 0, targets);
    }
  }

  void align_backward(const Stream& stream, const ConstTensorView& target_times,
                      const AlignOptions& options, const ConstTensorView& grad_output,
                      const TensorView& grad_values) const override {
    const AlignedShape shape =
        aligned_shape(&stream, 1, target_times, options, grad_output.dtype, on_cpu());
    const RunTable runs = run_table(stream, shape.channels);
    BackwardPlan plan{};
    plan.forward = plan_of(stream, target_times, options, grad_output.dtype, shape, runs);
    plan.grad_output = grad_output.data;
    plan.grad_batch_stride = stride_along(grad_output, 3);
    plan.grad_target_stride = stride_along(grad_output, 2);
    plan.grad_channel_stride = stride_along(grad_output, 1);
    plan.grad_values = grad_values.data;
    plan.value_batch = stream.values.rank == 3 ? shape.batch : 1;
    const std::int64_t targets = shape.batch * shape.targets;
    const std::int64_t rows = plan.value_batch * plan.forward.rows;
    std::vector<TargetRecord> records(static_cast<std::size_t>(targets));
    if (targets > 0) kernels_().record(plan, records.data(), 0, targets);
    // Targets by row, then by number; starts[row] is where a row's begin.
    std::vector<std::int64_t> order;
    std::vector<std::int64_t> starts(static_cast<std::size_t>(rows) + 1);
    for (std::int64_t row = 0; row < rows; ++row) {
      starts[row] = static_cast<std::int64_t>(order.size());
      for (std::int64_t i = 0; i < targets; ++i) {
        if (records[i].row == row) order.push_back(i);
      }
    }
    starts[rows] = static_cast<std::int64_t>(order.size());
    kernels_().gather(plan, runs, records.data(), order.data(), starts.data(), 0, rows);
  }

 private:
  const AlignCpuKernels& (*kernels_)();
  CpuTarget needs_;
};

#endif

#if defined(ROBOCACHE_HAS_CUDA)

/// A stream whose arguments are all on the device.
struct DeviceStream {
  DeviceCopy<const void> values, times, lengths, begins, valid, subtract, multiply;
  Stream stream;

  explicit DeviceStream(const Stream& host)
      : values(host.values),
        times(host.times),
        lengths(host.lengths),
        begins(host.begins),
        valid(host.valid),
        subtract(host.subtract),
        multiply(host.multiply),
        stream(host) {
    stream.values = values.view();
    stream.times = times.view();
    stream.lengths = lengths.view();
    stream.begins = begins.view();
    stream.valid = valid.view();
    stream.subtract = subtract.view();
    stream.multiply = multiply.view();
  }
};

class CudaEngine : public Engine {
 public:
  CudaEngine() : Engine("cuda") {}

  std::string problem() const override { return cuda_problem(0); }

  void align(const std::vector<Stream>& streams, const ConstTensorView& target_times,
             const AlignOptions& options, const TensorView& values_out,
             const TensorView& valid_out) const override {
    std::vector<std::unique_ptr<DeviceStream>> on_device;
    std::vector<Stream> device_streams;
    for (const Stream& stream : streams) {
      on_device.push_back(std::make_unique<DeviceStream>(stream));
      device_streams.push_back(on_device.back()->stream);
    }
    const DeviceCopy<const void> targets(target_times);
    const DeviceCopy<void> values(values_out);
    const DeviceCopy<void> valid(valid_out);
    const CudaStream stream;
    robocache::align(device_streams.data(), device_streams.size(), targets.view(), options,
                     values.view(), valid.view(), on_cuda(stream.get()));
    stream.wait();
    values.copy_back();
    valid.copy_back();
  }

  void align_backward(const Stream& stream, const ConstTensorView& target_times,
                      const AlignOptions& options, const ConstTensorView& grad_output,
                      const TensorView& grad_values) const override {
    const DeviceStream on_device(stream);
    const DeviceCopy<const void> targets(target_times);
    const DeviceCopy<const void> grad(grad_output);
    const DeviceCopy<void> result(grad_values);
    const CudaStream cuda_stream;
    const ExecutionContext context = on_cuda(cuda_stream.get());
    const DeviceMemory workspace =
        device_memory(align_backward_workspace_bytes(on_device.stream, targets.view(), context));
    robocache::align_backward(on_device.stream, targets.view(), options, grad.view(), result.view(),
                              workspace.get(), context);
    cuda_stream.wait();
    result.copy_back();
  }
};

#else

/// Stands in where the build has no CUDA, so that tests say why they skip.
class CudaEngine : public Engine {
 public:
  CudaEngine() : Engine("cuda") {}
  std::string problem() const override { return cuda_problem(0); }
  void align(const std::vector<Stream>&, const ConstTensorView&, const AlignOptions&,
             const TensorView&, const TensorView&) const override {
    throw std::logic_error(problem());
  }
  void align_backward(const Stream&, const ConstTensorView&, const AlignOptions&,
                      const ConstTensorView&, const TensorView&) const override {
    throw std::logic_error(problem());
  }
};

#endif

}  // namespace

const std::vector<const Engine*>& engines() {
  static const CpuEngine cpu;
  static const CudaEngine cuda;
  static const std::vector<const Engine*> all = [] {
    std::vector<const Engine*> found{&cpu};
#if defined(ROBOCACHE_TEST_KERNELS)
    static const KernelsEngine baseline("baseline", baseline::align_cpu_kernels,
                                        CpuTarget::kBaseline);
    found.push_back(&baseline);
#if defined(ROBOCACHE_TEST_X86_KERNELS)
    static const KernelsEngine avx2("avx2", avx2::align_cpu_kernels, CpuTarget::kAvx2);
    static const KernelsEngine avx512("avx512", avx512::align_cpu_kernels, CpuTarget::kAvx512);
    found.push_back(&avx2);
    found.push_back(&avx512);
#endif
#endif
    found.push_back(&cuda);
    return found;
  }();
  return all;
}

const Engine& engine(const std::string& name) {
  for (const Engine* candidate : engines()) {
    if (candidate->name() == name) return *candidate;
  }
  throw std::logic_error("there is no engine " + name);
}

bool is_required(const Engine& engine) {
  const std::string list = "," + environment("ROBOCACHE_TEST_BACKENDS") + ",";
  return list.find("," + engine.name() + ",") != std::string::npos;
}

}  // namespace robocache::testing
