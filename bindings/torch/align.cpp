// Alignment as torch operators: converts the arguments to views, which the library checks, and
// allocates the outputs. Resampling is the fusion of one stream.
#include "robocache/align.h"

#include <torch/csrc/stable/tensor.h>

#include <cstring>
#include <string>
#include <utility>

#include "align_fields.h"
#include "errors.h"
#include "operators.h"
#include "robocache/error.h"
#include "tensors.h"

namespace robocache::torch_binding {
namespace {

const ArgumentNames kResampleNames{"data", "source_times", "target_times", "source_lengths",
                                   "source_valid"};

/// A call's options, read from their bit fields.
struct Options {
  Outside outside;
  bool return_valid, return_age;
  bool is_fusion;                    // else resample_trajectories, whose argument names differ
  std::optional<DataType> out_type;  // absent: that of the first stream's values

  explicit Options(std::int64_t packed)
      : outside(static_cast<Outside>(align_fields::kOutside.of(packed))),
        return_valid(align_fields::kReturnValid.of(packed)),
        return_age(align_fields::kReturnAge.of(packed)),
        is_fusion(align_fields::kIsFusion.of(packed)) {
    const std::int64_t type = align_fields::kOutDtype.of(packed);
    if (type != 0) out_type = static_cast<DataType>(type - 1);
  }

  AlignOptions align_options() const {
    AlignOptions options;
    options.outside = outside;
    if (is_fusion) {
      options.names.streams_are_numbered = true;
    } else {
      options.names = kResampleNames;
    }
    return options;
  }
};

/// Reads a list's items in order.
template <typename Item>
class Reader {
 public:
  explicit Reader(std::vector<Item>& items) : items_(items) {}

  bool is_at_end() const { return next_ == items_.size(); }
  Item read() {
    if (is_at_end()) throw ValueError("streams: expected more in their lists, got the end");
    return std::move(items_[next_++]);
  }

 private:
  std::vector<Item>& items_;
  std::size_t next_ = 0;
};

/// One stream's tensors, before they are converted to the types that the library takes.
struct StreamTensors {
  StreamTensors(Tensor its_times, std::optional<Tensor> its_values)
      : times(std::move(its_times)), values(std::move(its_values)) {}

  Tensor times;
  std::optional<Tensor> values;  // absent in a backward pass that does not need them
  std::optional<Tensor> lengths, valid, subtract, multiply;
};

/// The flags of a stream, and the tensors and durations that they announce.
struct StreamReader {
  Reader<std::int64_t>& integers;
  std::int64_t flags;

  explicit StreamReader(Reader<std::int64_t>& from) : integers(from), flags(from.read()) {}

  std::optional<Tensor> tensor(const BitField& flag, Reader<Tensor>& tensors) const {
    return flag.of(flags) ? std::optional(tensors.read()) : std::nullopt;
  }
  std::optional<Duration> duration(const BitField& flag, bool in_nanoseconds) const {
    if (!flag.of(flags)) return std::nullopt;
    const std::int64_t packed = integers.read();
    if (in_nanoseconds) return Duration::nanoseconds(packed);
    double seconds = 0;
    std::memcpy(&seconds, &packed, sizeof(seconds));
    return Duration::seconds(seconds);
  }

  /// Reads the optional tensors. The caller has read values and times, which come before them.
  void read_tensors(StreamTensors& into, Reader<Tensor>& tensors) const {
    into.lengths = tensor(align_fields::kLengths, tensors);
    into.valid = tensor(align_fields::kValid, tensors);
    into.subtract = tensor(align_fields::kSubtract, tensors);
    into.multiply = tensor(align_fields::kMultiply, tensors);
  }

  void read_options(Stream& stream, DataType time_type) const {
    const bool in_nanoseconds = time_type == DataType::kInt64;
    stream.method = static_cast<Method>(align_fields::kMethod.of(flags));
    stream.max_gap = duration(align_fields::kMaxGap, in_nanoseconds);
    stream.tolerance = duration(align_fields::kTolerance, in_nanoseconds);
    stream.mean_window = duration(align_fields::kMeanWindow, in_nanoseconds);
    stream.clock_offset = duration(align_fields::kClockOffset, in_nanoseconds);
    const std::int64_t runs = align_fields::kRuns.of(flags);
    stream.layout.reserve(static_cast<std::size_t>(runs));
    for (std::int64_t i = 0; i < runs; ++i) {
      const auto method = static_cast<Method>(integers.read());
      stream.layout.push_back({method, integers.read()});
    }
  }
};

/// Converts all times of a call to one type: float64 where float32 and float64 mix.
void promote_times(std::vector<StreamTensors>& streams, Tensor& target_times) {
  bool has_wide = false, has_narrow = false;
  const auto read_type = [&](const Tensor& times) {
    const DataType type = dtype_of(times);
    has_wide = has_wide || type == DataType::kFloat64;
    has_narrow = has_narrow || type == DataType::kFloat32;
  };
  read_type(target_times);
  for (const StreamTensors& stream : streams) read_type(stream.times);
  if (!has_wide || !has_narrow) return;
  const auto widen = [](Tensor& times) {
    if (dtype_of(times) == DataType::kFloat32) times = converted(times, DataType::kFloat64);
  };
  widen(target_times);
  for (StreamTensors& stream : streams) widen(stream.times);
}

/// The view of `subtract` or `multiply`, converted to the compute type if it is floating.
ConstTensorView scale_view(const char* name, std::optional<Tensor>& scale, DataType values,
                           DataType out) {
  if (!scale) return {};
  ConstTensorView view = view_of(name, *scale);
  const DataType type = compute_type(values, out);
  if (!is_floating_type(view.dtype) || view.dtype == type) return view;
  scale = converted(*scale, type);
  return view_of(name, *scale);
}

/// Sets the views of a stream's tensors except its values.
void view_tensors(Stream& stream, StreamTensors& tensors, DataType value_type, DataType out_type) {
  stream.times = view_of("times", tensors.times);
  stream.lengths = view_of("lengths", tensors.lengths);
  stream.valid = view_of("valid", tensors.valid);
  stream.subtract = scale_view("subtract", tensors.subtract, value_type, out_type);
  stream.multiply = scale_view("multiply", tensors.multiply, value_type, out_type);
}

void expect_on(const Device& device, const StreamTensors& tensors) {
  device.expect("values", tensors.values, "the first tensor");
  device.expect("times", tensors.times, "the first tensor");
  device.expect("lengths", tensors.lengths, "the first tensor");
  device.expect("valid", tensors.valid, "the first tensor");
  device.expect("subtract", tensors.subtract, "the first tensor");
  device.expect("multiply", tensors.multiply, "the first tensor");
}

/// The shape of a call's output if its arguments' shapes match, which `robocache::align` checks
/// before it writes. `robocache::aligned_shape` would check every call a second time.
AlignedShape shape_of(const std::vector<Stream>& streams, const ConstTensorView& target_times) {
  AlignedShape shape;
  const auto read_batch = [&shape](const ConstTensorView& view, int rank_without_batch) {
    if (view.rank <= rank_without_batch || shape.is_batched) return;
    shape.is_batched = true;
    shape.batch = view.shape[0];
  };
  read_batch(target_times, 1);
  if (target_times.rank > 0) shape.targets = target_times.shape[target_times.rank - 1];
  for (const Stream& stream : streams) {
    read_batch(stream.values, 2);
    read_batch(stream.times, 1);
    read_batch(stream.lengths, 0);
    read_batch(stream.valid, 1);
    if (stream.values.rank > 0) shape.channels += stream.values.shape[stream.values.rank - 1];
  }
  return shape;
}

/// An output with one column for each stream. resample_trajectories returns it without that
/// dimension, so the library's view has one more dimension than the tensor.
TensorView column_view(const Tensor& tensor, bool is_fusion) {
  TensorView view = mutable_view_of(tensor);
  if (!is_fusion) {
    view.shape[view.rank] = 1;
    view.strides[view.rank] = 1;
    ++view.rank;
  }
  return view;
}

/// Runs a call after its arguments are read: `stream_views` have the options of the streams.
std::vector<Tensor> align_streams(const Device& device, std::vector<StreamTensors>& streams,
                                  std::vector<Stream>& stream_views, Tensor& target_times,
                                  const Options& call) {
  device.expect("target_times", target_times, "the first tensor");
  promote_times(streams, target_times);

  for (std::size_t i = 0; i < streams.size(); ++i) {
    stream_views[i].values = view_of("values", streams[i].values);
  }
  const DataType out_type = call.out_type.value_or(stream_views[0].values.dtype);
  for (std::size_t i = 0; i < streams.size(); ++i) {
    view_tensors(stream_views[i], streams[i], stream_views[i].values.dtype, out_type);
  }
  const AlignOptions align_options = call.align_options();
  const ConstTensorView targets = view_of("target_times", target_times);
  const ExecutionContext context = device.context();
  const AlignedShape shape = shape_of(stream_views, targets);

  std::int64_t size[] = {shape.batch, shape.targets, shape.channels};
  const std::int64_t* first_size = shape.is_batched ? size : size + 1;
  const int rank = shape.is_batched ? 3 : 2;
  std::vector<Tensor> results{device.empty(first_size, rank, out_type)};
  size[2] = static_cast<std::int64_t>(streams.size());
  const int column_rank = call.is_fusion ? rank : rank - 1;
  const auto add_columns = [&](bool wanted, DataType type) {
    if (!wanted) return TensorView{};
    results.push_back(device.empty(first_size, column_rank, type));
    return column_view(results.back(), call.is_fusion);
  };
  const TensorView valid_out = add_columns(call.return_valid, DataType::kBool);
  const TensorView age_out = add_columns(call.return_age, targets.dtype);
  robocache::align(stream_views.data(), stream_views.size(), targets, align_options,
                   mutable_view_of(results[0]), valid_out, age_out, context);
  return results;
}

}  // namespace

std::vector<Tensor> align(std::vector<Tensor> tensors, Tensor target_times,
                          std::vector<int64_t> streams, int64_t options) {
  return translate_errors([&] {
    if (tensors.empty()) throw ValueError("streams: expected 1 to 64, got 0");
    const Device device(tensors[0]);

    Reader<Tensor> next_tensor(tensors);
    Reader<std::int64_t> next_integer(streams);
    std::vector<StreamTensors> stream_tensors;
    std::vector<Stream> stream_views;
    while (!next_integer.is_at_end()) {
      const StreamReader reader(next_integer);
      std::optional<Tensor> values = next_tensor.read();
      Tensor times = next_tensor.read();
      StreamTensors& stream = stream_tensors.emplace_back(std::move(times), std::move(values));
      reader.read_tensors(stream, next_tensor);
      expect_on(device, stream);
      reader.read_options(stream_views.emplace_back(), dtype_of(stream.times));
    }
    return align_streams(device, stream_tensors, stream_views, target_times, Options(options));
  });
}

Tensor align_backward(Tensor grad, std::optional<Tensor> values, std::vector<Tensor> tensors,
                      Tensor target_times, std::vector<int64_t> integers, int64_t outside,
                      int64_t values_dtype, std::vector<int64_t> values_shape) {
  return translate_errors([&] {
    const Device device(grad);
    const ConstTensorView grad_output = view_of("grad", grad);
    const DataType value_type = static_cast<DataType>(values_dtype);
    const int rank = static_cast<int>(values_shape.size());
    if (rank != 2 && rank != 3) {
      throw ValueError("values_shape: expected 2 or 3 numbers, got " + std::to_string(rank));
    }
    const Tensor grad_values = device.empty(values_shape.data(), rank, value_type);
    const TensorView grad_view = mutable_view_of(grad_values);

    Reader<Tensor> next_tensor(tensors);
    Reader<std::int64_t> next_integer(integers);
    const StreamReader reader(next_integer);
    std::vector<StreamTensors> stream_tensors;
    stream_tensors.emplace_back(next_tensor.read(), values);
    reader.read_tensors(stream_tensors[0], next_tensor);
    expect_on(device, stream_tensors[0]);
    device.expect("target_times", target_times, "grad");
    Stream stream;
    reader.read_options(stream, dtype_of(stream_tensors[0].times));
    promote_times(stream_tensors, target_times);
    stream_tensors[0].subtract.reset();  // the gradient does not depend on it
    view_tensors(stream, stream_tensors[0], value_type, grad_output.dtype);
    if (values) {
      stream.values = view_of("values", *values);
    } else {
      stream.values = grad_view;  // for its shape and type
      stream.values.data = nullptr;
    }

    AlignOptions options;
    options.outside = static_cast<Outside>(outside);
    options.names = kResampleNames;
    const ConstTensorView targets = view_of("target_times", target_times);
    const ExecutionContext context = device.context();
    const Scratch scratch(device, align_backward_workspace_bytes(stream, targets, context));
    robocache::align_backward(stream, targets, options, grad_output, grad_view, scratch.workspace(),
                              context);
    return grad_values;
  });
}

}  // namespace robocache::torch_binding
