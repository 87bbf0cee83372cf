// Resampling as torch operators: unpacks the arguments, lets the library check them, and allocates
// what it writes.
#include <torch/csrc/stable/tensor.h>

#include <string>

#include "errors.h"
#include "operators.h"
#include "robocache/align.h"
#include "robocache/error.h"
#include "tensors.h"

namespace robocache::torch_binding {
namespace {

constexpr ArgumentNames kNames{"data", "source_times", "target_times", "source_lengths",
                               "source_valid"};

/// `options`, as python/robocache/_options.py packs it.
struct Options {
  Method method;
  Outside outside;
  std::optional<DataType> out_type;    // absent: as the values
  std::optional<DataType> value_type;  // backward only

  explicit Options(std::int64_t packed)
      : method(static_cast<Method>(packed & 0xf)),
        outside(static_cast<Outside>(packed >> 4 & 0x3)),
        out_type(data_type_of_code(packed >> 8 & 0xf)),
        value_type(data_type_of_code(packed >> 12 & 0xf)) {}
};

std::vector<Run> runs_of(const std::optional<std::vector<int64_t>>& layout) {
  std::vector<Run> runs;
  if (!layout) return runs;
  for (std::size_t i = 0; i + 1 < layout->size(); i += 2) {
    runs.push_back({static_cast<Method>((*layout)[i]), (*layout)[i + 1]});
  }
  return runs;
}

/// Source and target times in one type: of two floating ones, the wider.
void promote_times(Tensor& source_times, Tensor& target_times) {
  const DataType source = view_of(kNames.times, source_times).dtype;
  const DataType target = view_of(kNames.target_times, target_times).dtype;
  const bool source_is_narrow = source == DataType::kFloat32 && target == DataType::kFloat64;
  const bool target_is_narrow = source == DataType::kFloat64 && target == DataType::kFloat32;
  if (source_is_narrow) source_times = converted(source_times, DataType::kFloat64);
  if (target_is_narrow) target_times = converted(target_times, DataType::kFloat64);
}

/// `subtract` or `multiply` in the compute type, if it is floating at all.
void take_into(DataType compute_type, const char* name, std::optional<Tensor>& scale) {
  if (scale && is_floating(view_of(name, *scale).dtype)) scale = converted(*scale, compute_type);
}

DataType compute_type_of(DataType values, DataType out) {
  return values == DataType::kFloat64 || out == DataType::kFloat64 ? DataType::kFloat64
                                                                   : DataType::kFloat32;
}

std::optional<Duration> duration_of(DataType time_type, std::int64_t nanoseconds, double seconds) {
  if (time_type == DataType::kInt64) {
    return nanoseconds < 0 ? std::nullopt : std::optional(Duration::nanoseconds(nanoseconds));
  }
  return seconds < 0 ? std::nullopt : std::optional(Duration::seconds(seconds));
}

struct Resampled {
  Tensor values;
  std::optional<Tensor> valid;
};

struct ResampleArguments {
  Tensor values, source_times, target_times;
  std::optional<Tensor> source_lengths, source_valid, subtract, multiply;
  std::optional<std::vector<int64_t>> layout;
  std::int64_t options, max_gap_ns, tolerance_ns;
  double max_gap_s, tolerance_s;
};

Resampled resample_checked(ResampleArguments arguments, bool wants_valid) {
  const Options options(arguments.options);
  const Device device(arguments.values);
  promote_times(arguments.source_times, arguments.target_times);

  Stream stream;
  stream.values = view_of(kNames.values, arguments.values);
  const DataType out_type = options.out_type.value_or(stream.values.dtype);
  const DataType compute_type = compute_type_of(stream.values.dtype, out_type);
  take_into(compute_type, "subtract", arguments.subtract);
  take_into(compute_type, "multiply", arguments.multiply);
  stream.times = view_of(kNames.times, arguments.source_times);
  stream.lengths = view_of(kNames.lengths, arguments.source_lengths);
  stream.valid = view_of(kNames.valid, arguments.source_valid);
  stream.subtract = view_of("subtract", arguments.subtract);
  stream.multiply = view_of("multiply", arguments.multiply);
  stream.method = options.method;
  stream.layout = runs_of(arguments.layout);
  stream.max_gap = duration_of(stream.times.dtype, arguments.max_gap_ns, arguments.max_gap_s);
  stream.tolerance = duration_of(stream.times.dtype, arguments.tolerance_ns, arguments.tolerance_s);

  AlignOptions align_options;
  align_options.outside = options.outside;
  align_options.names = kNames;
  ConstTensorView target_times = view_of(kNames.target_times, arguments.target_times);
  const ExecutionContext context = device.context();
  // The library tells a CPU from a GPU. Which GPU is for this file to say, once shapes are right.
  for (ConstTensorView* view : {&target_times, &stream.times, &stream.lengths, &stream.valid,
                                &stream.subtract, &stream.multiply}) {
    view->device = stream.values.device;
  }
  const AlignedShape shape =
      aligned_shape(&stream, 1, target_times, align_options, out_type, context);
  device.expect(kNames.times, arguments.source_times, kNames.values);
  device.expect(kNames.target_times, arguments.target_times, kNames.values);
  device.expect(kNames.lengths, arguments.source_lengths, kNames.values);
  device.expect(kNames.valid, arguments.source_valid, kNames.values);
  device.expect("subtract", arguments.subtract, kNames.values);
  device.expect("multiply", arguments.multiply, kNames.values);

  const std::int64_t batched[] = {shape.batch, shape.targets, shape.channels};
  const std::int64_t* size = shape.is_batched ? batched : batched + 1;
  const int rank = shape.is_batched ? 3 : 2;
  Resampled result{device.empty(size, rank, out_type), std::nullopt};
  TensorView valid_out;
  if (wants_valid) {
    result.valid = device.empty(size, rank - 1, DataType::kBool);
    valid_out = mutable_view_of(*result.valid);
    // The library has a column per stream; here there is one, which torch's users do not see.
    valid_out.shape[valid_out.rank] = 1;
    valid_out.strides[valid_out.rank] = 1;
    ++valid_out.rank;
  }
  align(&stream, 1, target_times, align_options, mutable_view_of(result.values), valid_out,
        {}, context);
  return result;
}

}  // namespace

Tensor resample(Tensor values, Tensor source_times, Tensor target_times,
                std::optional<Tensor> source_lengths, std::optional<Tensor> source_valid,
                std::optional<Tensor> subtract, std::optional<Tensor> multiply,
                std::optional<std::vector<int64_t>> layout, int64_t options, int64_t max_gap_ns,
                int64_t tolerance_ns, double max_gap_s, double tolerance_s) {
  return translate_errors([&] {
    return resample_checked(
               {values, source_times, target_times, source_lengths, source_valid, subtract,
                multiply, layout, options, max_gap_ns, tolerance_ns, max_gap_s, tolerance_s},
               false)
        .values;
  });
}

std::tuple<Tensor, Tensor> resample_valid(
    Tensor values, Tensor source_times, Tensor target_times, std::optional<Tensor> source_lengths,
    std::optional<Tensor> source_valid, std::optional<Tensor> subtract,
    std::optional<Tensor> multiply, std::optional<std::vector<int64_t>> layout, int64_t options,
    int64_t max_gap_ns, int64_t tolerance_ns, double max_gap_s, double tolerance_s) {
  return translate_errors([&] {
    Resampled result = resample_checked(
        {values, source_times, target_times, source_lengths, source_valid, subtract, multiply,
         layout, options, max_gap_ns, tolerance_ns, max_gap_s, tolerance_s},
        true);
    return std::make_tuple(result.values, *result.valid);
  });
}

Tensor resample_backward(Tensor grad, std::optional<Tensor> values, Tensor source_times,
                         Tensor target_times, std::optional<Tensor> source_lengths,
                         std::optional<Tensor> multiply, std::optional<std::vector<int64_t>> layout,
                         int64_t packed_options, int64_t tolerance_ns, double tolerance_s,
                         std::vector<int64_t> values_shape) {
  return translate_errors([&] {
    const Options options(packed_options);
    const Device device(grad);
    promote_times(source_times, target_times);
    const ConstTensorView grad_output = view_of("grad", grad);
    const DataType value_type = options.value_type.value_or(grad_output.dtype);
    const int rank = static_cast<int>(values_shape.size());
    if (rank != 2 && rank != 3) {
      throw ValueError("values_shape: expected 2 or 3 numbers, got " + std::to_string(rank));
    }
    const Tensor grad_values = device.empty(values_shape.data(), rank, value_type);
    const TensorView grad_view = mutable_view_of(grad_values);

    Stream stream;
    if (values) {
      stream.values = view_of(kNames.values, *values);
    } else {
      stream.values = grad_view;  // its shape and type alone
      stream.values.data = nullptr;
    }
    take_into(compute_type_of(value_type, grad_output.dtype), "multiply", multiply);
    stream.times = view_of(kNames.times, source_times);
    stream.lengths = view_of(kNames.lengths, source_lengths);
    stream.multiply = view_of("multiply", multiply);
    stream.method = options.method;
    stream.layout = runs_of(layout);
    stream.tolerance = duration_of(stream.times.dtype, tolerance_ns, tolerance_s);
    device.expect(kNames.times, source_times, "grad");
    device.expect(kNames.target_times, target_times, "grad");
    device.expect(kNames.values, values, "grad");
    device.expect(kNames.lengths, source_lengths, "grad");
    device.expect("multiply", multiply, "grad");

    AlignOptions align_options;
    align_options.outside = options.outside;
    align_options.names = kNames;
    const ConstTensorView targets = view_of(kNames.target_times, target_times);
    const ExecutionContext context = device.context();
    const std::int64_t bytes =
        static_cast<std::int64_t>(align_backward_workspace_bytes(stream, targets, context));
    const Tensor workspace = device.empty(&bytes, 1, DataType::kUInt8);
    align_backward(stream, targets, align_options, grad_output, grad_view,
                   workspace.mutable_data_ptr(), context);
    return grad_values;
  });
}

}  // namespace robocache::torch_binding
