#include "align/engine.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "robocache/build_info.h"
#include "support/scratch.h"
#if defined(ROBOCACHE_TEST_KERNELS)
#include "align/align_cpu_kernels.h"
#include "align/planner.h"
#include "core/cpu_target.h"
#endif
#if defined(ROBOCACHE_HAS_CUDA)
#include "support/device.h"
#endif

namespace robocache::testing {
namespace {

class CpuEngine : public Engine {
 public:
  CpuEngine() : Engine("cpu") {}

  void align(const std::vector<Stream>& streams, const ConstTensorView& target_times,
             const AlignOptions& options, const TensorView& values_out, const TensorView& valid_out,
             const TensorView& age_out) const override {
    robocache::align(streams.data(), streams.size(), target_times, options, values_out, valid_out,
                     age_out, on_cpu());
  }

  void align_backward(const Stream& stream, const ConstTensorView& target_times,
                      const AlignOptions& options, const ConstTensorView& grad_output,
                      const TensorView& grad_values) const override {
    const Scratch workspace(align_backward_workspace_bytes(stream, target_times, on_cpu()));
    robocache::align_backward(stream, target_times, options, grad_output, grad_values, workspace,
                              on_cpu());
  }
};

#if defined(ROBOCACHE_TEST_KERNELS)

/// One instruction set's kernels, in one thread, whichever set the library chose.
class KernelsEngine : public Engine {
 public:
  /// `kernels` and `backward` are called only where the CPU has what `needs` asks for.
  KernelsEngine(const std::string& target, const AlignCpuKernels& (*kernels)(),
                const AlignBackwardCpuKernels& (*backward)(), CpuTarget needs)
      : Engine("cpu_" + target), kernels_(kernels), backward_(backward), needs_(needs) {}

  std::string problem() const override {
    if (cpu_target() >= needs_) return "";
    return std::string("this CPU has no ") + cpu_target_name(needs_);
  }

  void align(const std::vector<Stream>& streams, const ConstTensorView& target_times,
             const AlignOptions& options, const TensorView& values_out, const TensorView& valid_out,
             const TensorView& age_out) const override {
    CallPlan call(streams.data(), streams.size(), target_times, options, values_out.dtype,
                  on_cpu());
    call.set_outputs(values_out, valid_out, age_out);
    for (std::size_t i = 0; i < streams.size(); ++i) {
      const StreamPlan& plan = call.plan(i);
      for (std::int64_t b = 0; b < plan.batch; ++b) {
        if (kernels_().first_unordered(plan, b) >= 0) {
          throw std::logic_error("unordered times in batch row " + std::to_string(b));
        }
      }
      const std::int64_t targets = plan.batch * plan.targets;
      if (targets > 0) kernels_().align(plan, call.runs(i), 0, targets);
    }
  }

  void align_backward(const Stream& stream, const ConstTensorView& target_times,
                      const AlignOptions& options, const ConstTensorView& grad_output,
                      const TensorView& grad_values) const override {
    const CallPlan call(&stream, 1, target_times, options, grad_output.dtype, on_cpu());
    BackwardPlan plan{};
    plan.forward = call.plan(0);
    plan.grad_output = grad_output.data;
    plan.grad_batch_stride = stride_along(grad_output, 3);
    plan.grad_target_stride = stride_along(grad_output, 2);
    plan.grad_channel_stride = stride_along(grad_output, 1);
    plan.grad_values = grad_values.data;
    plan.value_batch = stream.values.rank == 3 ? call.batch() : 1;
    const std::int64_t targets = call.batch() * call.targets();
    const std::int64_t rows = plan.value_batch * plan.forward.rows;
    std::vector<TargetRecord> records(static_cast<std::size_t>(targets));
    std::vector<WindowRecord> windows;
    if (plan.forward.row_kinds & (kReadsWindow | kReadsInterval)) windows.resize(records.size());
    WindowRecord* const window_records = windows.empty() ? nullptr : windows.data();
    if (targets > 0) backward_().record(plan, records.data(), window_records, 0, targets);
    // Targets by row, then by number; starts[row] is where a row's begin. As the place of the first
    // that reaches a row any before it will do: that of the first of all.
    const std::vector<std::int64_t> begins(static_cast<std::size_t>(rows));
    std::vector<std::int64_t> order;
    std::vector<std::int64_t> starts(static_cast<std::size_t>(rows) + 1);
    for (std::int64_t row = 0; row < rows; ++row) {
      starts[row] = static_cast<std::int64_t>(order.size());
      for (std::int64_t i = 0; i < targets; ++i) {
        if (records[i].row == row) order.push_back(i);
      }
    }
    starts[rows] = static_cast<std::int64_t>(order.size());
    backward_().gather(plan, call.runs(0),
                       {records.data(), window_records, order.data(), starts.data(),
                        windows.empty() ? nullptr : begins.data()},
                       0, rows);
  }

 private:
  const AlignCpuKernels& (*kernels_)();
  const AlignBackwardCpuKernels& (*backward_)();
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
             const AlignOptions& options, const TensorView& values_out, const TensorView& valid_out,
             const TensorView& age_out) const override {
    std::vector<std::unique_ptr<DeviceStream>> on_device;
    std::vector<Stream> device_streams;
    for (const Stream& stream : streams) {
      on_device.push_back(std::make_unique<DeviceStream>(stream));
      device_streams.push_back(on_device.back()->stream);
    }
    const DeviceCopy<const void> targets(target_times);
    const DeviceCopy<void> values(values_out);
    const DeviceCopy<void> valid(valid_out);
    const DeviceCopy<void> age(age_out);
    const CudaStream stream;
    robocache::align(device_streams.data(), device_streams.size(), targets.view(), options,
                     values.view(), valid.view(), age.view(), on_cuda(stream.get()));
    stream.wait();
    values.copy_back();
    valid.copy_back();
    age.copy_back();
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
    const DeviceScratch workspace(
        align_backward_workspace_bytes(on_device.stream, targets.view(), context));
    robocache::align_backward(on_device.stream, targets.view(), options, grad.view(), result.view(),
                              workspace, context);
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
             const TensorView&, const TensorView&, const TensorView&) const override {
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
                                        baseline::align_backward_cpu_kernels, CpuTarget::kBaseline);
    found.push_back(&baseline);
#if defined(ROBOCACHE_TEST_X86_KERNELS)
    static const KernelsEngine avx2("avx2", avx2::align_cpu_kernels,
                                    avx2::align_backward_cpu_kernels, CpuTarget::kAvx2);
    static const KernelsEngine avx512("avx512", avx512::align_cpu_kernels,
                                      avx512::align_backward_cpu_kernels, CpuTarget::kAvx512);
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

}  // namespace robocache::testing
