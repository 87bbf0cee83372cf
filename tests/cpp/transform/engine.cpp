#include "transform/engine.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <vector>

#include "robocache/build_info.h"
#include "support/random.h"
#if defined(ROBOCACHE_HAS_CUDA)
#include "support/device.h"
#endif

namespace robocache::testing {
namespace {

using Kind = TransformCall::Kind;

void backwards(void* /*pool*/, std::int64_t count, std::int64_t grain, ParallelBody body,
               void* body_data) {
  std::int64_t end = count;
  for (std::int64_t parts = 1; end > 0; ++parts) {
    const std::int64_t begin = std::max<std::int64_t>(0, end - grain * parts / 2 - 1);
    body(body_data, begin, end);
    end = begin;
  }
}

/// The tensors of a call, wherever they are.
struct Views {
  ConstTensorView x, row, times, grad_out;
  TensorView out, grad_x, grad_row;
};

void run(const TransformCall& call, const Views& v, const ExecutionContext& context) {
  if (call.kind == Kind::kRotation) {
    convert_rotation(v.x, call.source, call.target, v.out, context);
    convert_rotation_backward(v.x, call.source, call.target, v.grad_out, v.grad_x, context);
  } else if (call.kind == Kind::kPose) {
    const auto direction = call.is_back ? PoseDirection::kToAbsolute : PoseDirection::kToRelative;
    convert_pose(v.x, v.row, call.source, direction, v.out, context);
    convert_pose_backward(v.x, v.row, call.source, direction, v.grad_out, v.grad_x, v.grad_row,
                          context);
  } else {
    const auto direction = call.is_back ? DeltaDirection::kToDelta : DeltaDirection::kToAbsolute;
    const DeltaTiming timing{call.duration, v.times};
    convert_delta(v.x, v.row, direction, timing, v.out, context);
    convert_delta_backward(v.grad_out, direction, timing, v.grad_x, v.grad_row, context);
  }
}

/// Strides free: sometimes reversed, spread, or with the axes in another order.
Tensor random_tensor(Random& random, DataType type, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t stride = random.one_in(3) ? 2 : 1;
  const bool is_swapped = random.one_in(4);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::size_t axis = is_swapped ? i : shape.size() - 1 - i;
    strides[axis] = stride;
    stride *= std::max<std::int64_t>(1, shape[axis]);
  }
  Tensor tensor(type, shape, strides, random.below(3));
  for (std::int64_t i = 0; i < tensor.size(); ++i) {
    const double special[] = {0, -0.0, 1, -1, 3.5e-9, std::numeric_limits<double>::quiet_NaN()};
    tensor.set(i, random.one_in(8) ? random.pick(special) : random.between(-4, 4));
  }
  return tensor;
}

Tensor contiguous_like(const Tensor& tensor, DataType type) {
  Tensor made(type, tensor.shape());
  made.fill_bytes(0x5A);
  return made;
}

}  // namespace

std::string TransformCall::text() const {
  const char* const kinds[] = {"rotation", "pose", "delta"};
  return std::string(kinds[static_cast<int>(kind)]) + ", forms " +
         std::to_string(static_cast<int>(source)) + " and " +
         std::to_string(static_cast<int>(target)) + (is_back ? ", back" : "") + ", x " + x.text();
}

std::string transform_engine_problem(const std::string& engine) {
  return engine == "cuda" ? cuda_problem(0) : "";
}

TransformResult run_transform(const std::string& engine, const TransformCall& call) {
  const DataType type = call.x.type();
  TransformResult result{contiguous_like(call.grad_out, type), contiguous_like(call.x, type), {}};
  if (call.row.present()) result.grad_row = contiguous_like(call.row, type);
  if (engine != "cuda") {
    run(call,
        {call.x.view(), call.row.view(), call.times.view(), call.grad_out.view(), result.out.view(),
         result.grad_x.view(), result.grad_row.view()},
        on_cpu(engine == "cpu" ? parallel_for_threads : backwards));
    return result;
  }
#if defined(ROBOCACHE_HAS_CUDA)
  const DeviceCopy<const void> x(call.x.view());
  const DeviceCopy<const void> row(call.row.view());
  const DeviceCopy<const void> times(call.times.view());
  const DeviceCopy<const void> grad_out(call.grad_out.view());
  const DeviceCopy<void> out(result.out.view());
  const DeviceCopy<void> grad_x(result.grad_x.view());
  const DeviceCopy<void> grad_row(result.grad_row.view());
  const CudaStream stream;
  run(call,
      {x.view(), row.view(), times.view(), grad_out.view(), out.view(), grad_x.view(),
       grad_row.view()},
      on_cuda(stream.get()));
  stream.wait();
  for (const DeviceCopy<void>* copy : {&out, &grad_x, &grad_row}) copy->copy_back();
  return result;
#else
  throw std::logic_error(transform_engine_problem(engine));
#endif
}

TransformCall random_transform(std::uint64_t seed) {
  constexpr RotationForm kForms[] = {RotationForm::kQuaternionXyzw, RotationForm::kQuaternionWxyz,
                                     RotationForm::kRotationVector, RotationForm::kMatrix,
                                     RotationForm::k6d};
  Random random(seed);
  TransformCall call;
  call.kind = random.pick({Kind::kRotation, Kind::kPose, Kind::kDelta});
  call.source = random.pick(kForms);
  call.target = random.pick(kForms);
  call.is_back = random.one_in(2);
  const DataType type = random.pick(
      {DataType::kFloat16, DataType::kBFloat16, DataType::kFloat32, DataType::kFloat64});
  const std::int64_t windows = random.below(9);
  const std::int64_t steps = random.below(7);
  if (call.kind == Kind::kRotation) {
    const std::int64_t rows = random.one_in(5) ? 700 : windows;
    call.x = random_tensor(random, type, {rows, width_of(call.source)});
    call.grad_out = random_tensor(random, type, {rows, width_of(call.target)});
    return call;
  }
  const std::int64_t width = call.kind == Kind::kPose ? 3 + width_of(call.source) : random.below(6);
  call.x = random_tensor(random, type, {windows, steps, width});
  call.row = random_tensor(random, type, {windows, width});
  call.grad_out = random_tensor(random, type, {windows, steps, width});
  if (call.kind == Kind::kPose || random.one_in(3)) return call;
  call.duration = random.between(0.01, 2);
  if (random.one_in(2)) return call;
  const DataType time_type =
      random.pick({DataType::kInt64, DataType::kFloat32, DataType::kFloat64});
  call.times =
      random.one_in(2) ? Tensor(time_type, {steps + 1}) : Tensor(time_type, {windows, steps + 1});
  for (std::int64_t i = 0; i < call.times.size(); ++i) {
    if (time_type == DataType::kInt64) {
      call.times.set_int(i, 1'700'000'000'000'000'000 + random.below(1'000'000'000));
    } else {
      call.times.set(i, random.between(-1, 1));
    }
  }
  return call;
}

}  // namespace robocache::testing
