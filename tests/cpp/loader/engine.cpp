#include "loader/engine.h"

#include <memory>
#include <stdexcept>

#include "robocache/build_info.h"
#if defined(ROBOCACHE_TEST_KERNELS)
#include "core/cpu_target.h"
#include "loader/batch_cpu_kernels.h"
#include "loader/draw_state.h"
#include "loader/prepare.h"
#endif
#if defined(ROBOCACHE_HAS_CUDA)
#include "support/device.h"
#endif

namespace robocache::testing {
namespace {

class CpuLoaderEngine : public LoaderEngine {
 public:
  CpuLoaderEngine() : LoaderEngine("cpu") {}

  BatchResult gather(const LoaderProblem& problem,
                     const std::vector<std::int64_t>& indices) const override {
    const auto size = static_cast<std::int64_t>(indices.size());
    BatchResult result(problem, size);
    plan_of(problem).gather(indices.data(), size, result.outputs().data(), result.metadata(),
                            on_cpu());
    return result;
  }

  std::vector<BatchResult> next(const LoaderProblem& problem, std::vector<std::int64_t>& state,
                                const std::vector<std::int64_t>& sizes) const override {
    const BatchPlan plan = plan_of(problem);
    std::vector<BatchResult> results;
    for (const std::int64_t size : sizes) {
      BatchResult& result = results.emplace_back(problem, size);
      plan.next(state.data(), size, result.outputs().data(), result.metadata(), on_cpu());
    }
    return results;
  }

 private:
  static BatchPlan plan_of(const LoaderProblem& problem) {
    return {problem.streams(), problem.anchors.view(), problem.episodes.view(), problem.drawing(),
            on_cpu()};
  }
};

#if defined(ROBOCACHE_TEST_KERNELS)

/// One instruction set's kernels, in one thread, whichever set the library chose.
class LoaderKernelsEngine : public LoaderEngine {
 public:
  /// `kernels` is called only where the CPU has what `needs` asks for.
  LoaderKernelsEngine(const std::string& target, const BatchCpuKernels& (*kernels)(),
                      CpuTarget needs)
      : LoaderEngine("cpu_" + target), kernels_(kernels), needs_(needs) {}

  std::string problem() const override {
    if (cpu_target() >= needs_) return "";
    return std::string("this CPU has no ") + cpu_target_name(needs_);
  }

  BatchResult gather(const LoaderProblem& problem,
                     const std::vector<std::int64_t>& indices) const override {
    const auto size = static_cast<std::int64_t>(indices.size());
    BatchResult result(problem, size);
    const PreparedBatch batch = prepare(problem);
    make(batch.call(indices.data(), nullptr, size, result.outputs().data(), result.metadata(),
                    on_cpu()));
    return result;
  }

  std::vector<BatchResult> next(const LoaderProblem& problem, std::vector<std::int64_t>& state,
                                const std::vector<std::int64_t>& sizes) const override {
    const PreparedBatch batch = prepare(problem);
    std::vector<BatchResult> results;
    for (const std::int64_t size : sizes) {
      BatchResult& result = results.emplace_back(problem, size);
      make(batch.call(nullptr, state.data(), size, result.outputs().data(), result.metadata(),
                      on_cpu()));
      const DrawState after = state_after(batch.draw(), {state[0], state[1]});
      state[0] = after.epoch;
      state[1] = after.position;
    }
    return results;
  }

 private:
  static PreparedBatch prepare(const LoaderProblem& problem) {
    return {problem.streams(), problem.anchors.view(), problem.episodes.view(), problem.drawing(),
            on_cpu()};
  }

  void make(const PreparedBatch::Call& made) const {
    if (made.call.size == 0) return;
    if (kernels_().first_missing(made.call.draw, 0, made.call.size) >= 0) {
      throw std::logic_error("an index is out of range");
    }
    kernels_().make(made.call, 0, made.call.size);
  }

  const BatchCpuKernels& (*kernels_)();
  CpuTarget needs_;
};

#endif

#if defined(ROBOCACHE_HAS_CUDA)

/// A problem whose tensors are all on the device.
class DeviceProblem {
 public:
  explicit DeviceProblem(const LoaderProblem& problem) : order_(problem.drawing()) {
    order_.parts = on_device(order_.parts);
    order_.thresholds = on_device(order_.thresholds);
    for (WindowStream stream : problem.streams()) {
      for (ConstTensorView* view :
           {&stream.values, &stream.times, &stream.row_offsets, &stream.value_begins,
            &stream.received, &stream.valid, &stream.window_offsets, &stream.subtract,
            &stream.multiply, &stream.reference_columns}) {
        *view = on_device(*view);
      }
      streams_.push_back(stream);
    }
    anchors_ = on_device(problem.anchors.view());
    episodes_ = on_device(problem.episodes.view());
  }

  BatchPlan plan() const { return {streams_, anchors_, episodes_, order_, on_cuda(nullptr)}; }

 private:
  ConstTensorView on_device(const ConstTensorView& view) {
    copies_.push_back(std::make_unique<DeviceCopy<const void>>(view));
    return copies_.back()->view();
  }

  std::vector<std::unique_ptr<DeviceCopy<const void>>> copies_;
  std::vector<WindowStream> streams_;
  ConstTensorView anchors_, episodes_;
  BatchOrder order_;
};

/// A batch's outputs on the device.
class DeviceResult {
 public:
  explicit DeviceResult(BatchResult& host) : facts_(host.metadata()) {
    const std::vector<WindowOutput> outputs = host.outputs();
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      BatchResult::Window& window = host.windows[i];
      outputs_.push_back({on_device(window.values), outputs[i].row_stride,
                          static_cast<bool*>(on_device(window.is_pad)),
                          static_cast<std::int64_t*>(on_device(window.age))});
    }
    const auto fact = [&](Tensor& tensor) { return static_cast<std::int64_t*>(on_device(tensor)); };
    facts_ = {fact(host.index),         fact(host.episode_index),
              fact(host.frame_index),   fact(host.task_index),
              fact(host.timestamp_ns),  static_cast<float*>(on_device(host.timestamp)),
              fact(host.dataset_index), fact(host.epoch)};
  }

  const WindowOutput* outputs() const { return outputs_.data(); }
  const BatchMetadata& metadata() const { return facts_; }
  void copy_back() const {
    for (const auto& copy : copies_) copy->copy_back();
  }

 private:
  void* on_device(Tensor& tensor) {
    copies_.push_back(std::make_unique<DeviceCopy<void>>(tensor.view()));
    return copies_.back()->view().data;
  }

  std::vector<std::unique_ptr<DeviceCopy<void>>> copies_;
  std::vector<WindowOutput> outputs_;
  BatchMetadata facts_;
};

/// So many numbers on the device.
class DeviceNumbers {
 public:
  explicit DeviceNumbers(const std::vector<std::int64_t>& numbers)
      : bytes_(numbers.size() * sizeof(std::int64_t)), memory_(device_memory(bytes_)) {
    expect_success(cudaMemcpy(memory_.get(), numbers.data(), bytes_, cudaMemcpyHostToDevice));
    expect_success(cudaDeviceSynchronize());
  }

  std::int64_t* data() const { return static_cast<std::int64_t*>(memory_.get()); }
  void copy_to(std::vector<std::int64_t>& numbers) const {
    expect_success(cudaMemcpy(numbers.data(), memory_.get(), bytes_, cudaMemcpyDeviceToHost));
  }

 private:
  std::size_t bytes_;
  DeviceMemory memory_;
};

class CudaLoaderEngine : public LoaderEngine {
 public:
  CudaLoaderEngine() : LoaderEngine("cuda") {}

  std::string problem() const override { return cuda_problem(0); }

  BatchResult gather(const LoaderProblem& problem,
                     const std::vector<std::int64_t>& indices) const override {
    const auto size = static_cast<std::int64_t>(indices.size());
    BatchResult result(problem, size);
    const DeviceProblem on_device(problem);
    const DeviceNumbers device_indices(indices);
    const DeviceResult device_result(result);
    const CudaStream stream;
    on_device.plan().gather(device_indices.data(), size, device_result.outputs(),
                            device_result.metadata(), on_cuda(stream.get()));
    stream.wait();
    device_result.copy_back();
    return result;
  }

  std::vector<BatchResult> next(const LoaderProblem& problem, std::vector<std::int64_t>& state,
                                const std::vector<std::int64_t>& sizes) const override {
    std::vector<BatchResult> results;
    for (const std::int64_t size : sizes) results.emplace_back(problem, size);
    const DeviceProblem on_device(problem);
    const BatchPlan plan = on_device.plan();
    const DeviceNumbers device_state(state);
    std::vector<std::unique_ptr<DeviceResult>> device_results;
    for (BatchResult& result : results) {
      device_results.push_back(std::make_unique<DeviceResult>(result));
    }
    const CudaStream stream;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      plan.next(device_state.data(), sizes[i], device_results[i]->outputs(),
                device_results[i]->metadata(), on_cuda(stream.get()));
    }
    stream.wait();
    device_state.copy_to(state);
    for (const auto& result : device_results) result->copy_back();
    return results;
  }
};

#else

/// Stands in where the build has no CUDA, so that tests say why they skip.
class CudaLoaderEngine : public LoaderEngine {
 public:
  CudaLoaderEngine() : LoaderEngine("cuda") {}
  std::string problem() const override { return cuda_problem(0); }
  BatchResult gather(const LoaderProblem&, const std::vector<std::int64_t>&) const override {
    throw std::logic_error(problem());
  }
  std::vector<BatchResult> next(const LoaderProblem&, std::vector<std::int64_t>&,
                                const std::vector<std::int64_t>&) const override {
    throw std::logic_error(problem());
  }
};

#endif

}  // namespace

const std::vector<const LoaderEngine*>& loader_engines() {
  static const CpuLoaderEngine cpu;
  static const CudaLoaderEngine cuda;
  static const std::vector<const LoaderEngine*> all = [] {
    std::vector<const LoaderEngine*> found{&cpu};
#if defined(ROBOCACHE_TEST_KERNELS)
    static const LoaderKernelsEngine baseline("baseline", baseline::batch_cpu_kernels,
                                              CpuTarget::kBaseline);
    found.push_back(&baseline);
#if defined(ROBOCACHE_TEST_X86_KERNELS)
    static const LoaderKernelsEngine avx2("avx2", avx2::batch_cpu_kernels, CpuTarget::kAvx2);
    static const LoaderKernelsEngine avx512("avx512", avx512::batch_cpu_kernels,
                                            CpuTarget::kAvx512);
    found.push_back(&avx2);
    found.push_back(&avx512);
#endif
#endif
    found.push_back(&cuda);
    return found;
  }();
  return all;
}

const LoaderEngine& loader_engine(const std::string& name) {
  for (const LoaderEngine* candidate : loader_engines()) {
    if (candidate->name() == name) return *candidate;
  }
  throw std::logic_error("there is no engine " + name);
}

}  // namespace robocache::testing
