// Alignment as torch operators: unpacks the arguments, lets the library check them, and allocates
// what it writes. Resampling is the fusion of one stream.
#include "robocache/align.h"

#include <torch/csrc/stable/tensor.h>

#include <cstring>
#include <string>
#include <utility>

#include "errors.h"
#include "operators.h"
#include "robocache/error.h"
#include "tensors.h"

namespace robocache::torch_binding {
namespace {

/// The integers of a call and its streams, as python/robocache/align/options.py packs them.
struct Options {
  Outside outside;
  bool wants_valid, wants_age;
  bool is_fusion;                      // else resample_trajectories, which has its own names
  std::optional<DataType> out_type;    // absent: as the first stream's values
  std::optional<DataType> value_type;  // backward only

  explicit Options(std::int64_t packed)
      : outside(static_cast<Outside>(packed & 0x3)),
        wants_valid(packed >> 2 & 1),
        wants_age(packed >> 3 & 1),
        is_fusion(packed >> 4 & 1),
        out_type(data_type_of_code(packed >> 8 & 0xf)),
        value_type(data_type_of_code(packed >> 12 & 0xf)) {}

  AlignOptions align_options() const {
    AlignOptions options;
    options.outside = outside;
    if (is_fusion) {
      options.names.streams_are_numbered = true;
    } else {
      options.names = {"data", "source_times", "target_times", "source_lengths", "source_valid"};
    }
    return options;
  }
};

/// Hands out a list's items one after the other.
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

/// One stream's arguments: tensors of any type on the way to what the library takes.
struct StreamTensors {
  StreamTensors(Tensor its_times, std::optional<Tensor> its_values)
      : times(std::move(its_times)), values(std::move(its_values)) {}

  Tensor times;
  std::optional<Tensor> values;  // absent in a backward pass that does without
  std::optional<Tensor> lengths, valid, subtract, multiply;
};

/// The flags of a stream, and what they announce.
struct StreamReader {
  enum Flag {
    kLengths = 4,
    kValid,
    kSubtract,
    kMultiply,
    kMaxGap,
    kTolerance,
    kMeanWindow,
    kClockOffset
  };
  static constexpr int kRunsShift = 16;

  Reader<std::int64_t>& integers;
  std::int64_t flags;

  explicit StreamReader(Reader<std::int64_t>& from) : integers(from), flags(from.read()) {}

  bool has(Flag flag) const { return flags >> flag & 1; }
  std::optional<Tensor> tensor(Flag flag, Reader<Tensor>& tensors) const {
    return has(flag) ? std::optional(tensors.read()) : std::nullopt;
  }
  std::optional<Duration> duration(Flag flag, bool in_nanoseconds) const {
    if (!has(flag)) return std::nullopt;
    const std::int64_t packed = integers.read();
    if (in_nanoseconds) return Duration::nanoseconds(packed);
    double seconds = 0;
    std::memcpy(&seconds, &packed, sizeof(seconds));
    return Duration::seconds(seconds);
  }

  /// All but values and times: those are the caller's to read first, in this order.
  void read_tensors(StreamTensors& into, Reader<Tensor>& tensors) const {
    into.lengths = tensor(kLengths, tensors);
    into.valid = tensor(kValid, tensors);
    into.subtract = tensor(kSubtract, tensors);
    into.multiply = tensor(kMultiply, tensors);
  }

  void read_options(Stream& stream, DataType time_type) const {
    const bool in_nanoseconds = time_type == DataType::kInt64;
    stream.method = static_cast<Method>(flags & 0xf);
    stream.max_gap = duration(kMaxGap, in_nanoseconds);
    stream.tolerance = duration(kTolerance, in_nanoseconds);
    stream.mean_window = duration(kMeanWindow, in_nanoseconds);
    stream.clock_offset = duration(kClockOffset, in_nanoseconds);
    const std::int64_t runs = flags >> kRunsShift;
    stream.layout.reserve(static_cast<std::size_t>(runs));
    for (std::int64_t i = 0; i < runs; ++i) {
      const auto method = static_cast<Method>(integers.read());
      stream.layout.push_back({method, integers.read()});
    }
  }
};

/// All times of a call in one type: of floating ones, the widest.
void promote_times(std::vector<StreamTensors>& streams, Tensor& target_times) {
  bool has_wide = false, has_narrow = false;
  const auto look = [&](const Tensor& times) {
    const DataType type = dtype_of(times);
    has_wide = has_wide || type == DataType::kFloat64;
    has_narrow = has_narrow || type == DataType::kFloat32;
  };
  look(target_times);
  for (const StreamTensors& stream : streams) look(stream.times);
  if (!has_wide || !has_narrow) return;
  const auto widen = [](Tensor& times) {
    if (dtype_of(times) == DataType::kFloat32) times = converted(times, DataType::kFloat64);
  };
  widen(target_times);
  for (StreamTensors& stream : streams) widen(stream.times);
}

/// The view of `subtract` or `multiply` in the compute type, into which it is taken if it is
/// floating at all.
ConstTensorView scale_view(const char* name, std::optional<Tensor>& scale, DataType values,
                           DataType out) {
  if (!scale) return {};
  ConstTensorView view = view_of(name, *scale);
  const DataType type = compute_type(values, out);
  if (!is_floating_type(view.dtype) || view.dtype == type) return view;
  scale = converted(*scale, type);
  return view_of(name, *scale);
}

/// What the library is given of a stream, but for its values and options.
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

/// The shape of a call's values, if its arguments fit each other: `robocache::align` sees to that
/// before it writes. `robocache::aligned_shape` would do so too, and every call would be checked
/// twice.
AlignedShape shape_of(const std::vector<Stream>& streams, const ConstTensorView& target_times) {
  AlignedShape shape;
  const auto look = [&shape](const ConstTensorView& view, int rank_without_batch) {
    if (view.rank <= rank_without_batch || shape.is_batched) return;
    shape.is_batched = true;
    shape.batch = view.shape[0];
  };
  look(target_times, 1);
  if (target_times.rank > 0) shape.targets = target_times.shape[target_times.rank - 1];
  for (const Stream& stream : streams) {
    look(stream.values, 2);
    look(stream.times, 1);
    look(stream.lengths, 0);
    look(stream.valid, 1);
    if (stream.values.rank > 0) shape.channels += stream.values.shape[stream.values.rank - 1];
  }
  return shape;
}

/// An output of one column a stream. resample_trajectories has one stream and no such dimension, so
/// the library's view of it has one dimension more than the tensor.
TensorView column_view(const Tensor& tensor, bool is_fusion) {
  TensorView view = mutable_view_of(tensor);
  if (!is_fusion) {
    view.shape[view.rank] = 1;
    view.strides[view.rank] = 1;
    ++view.rank;
  }
  return view;
}

}  // namespace

std::vector<Tensor> align(std::vector<Tensor> tensors, Tensor target_times,
                          std::vector<int64_t> integers, int64_t options) {
  return translate_errors([&] {
    const Options call(options);
    if (tensors.empty()) throw ValueError("streams: expected 1 to 64, got 0");
    const Device device(tensors[0]);

    // Twice through the streams, since the types of all decide how each is read.
    Reader<Tensor> next_tensor(tensors);
    Reader<std::int64_t> next_integer(integers);
    std::vector<StreamTensors> given;
    std::vector<Stream> stream_views;
    while (!next_integer.is_at_end()) {
      const StreamReader reader(next_integer);
      std::optional<Tensor> values = next_tensor.read();
      Tensor times = next_tensor.read();
      StreamTensors& stream = given.emplace_back(std::move(times), std::move(values));
      reader.read_tensors(stream, next_tensor);
      expect_on(device, stream);
      reader.read_options(stream_views.emplace_back(), dtype_of(stream.times));
    }
    device.expect("target_times", target_times, "the first tensor");
    promote_times(given, target_times);

    const DataType out_type = call.out_type.value_or(dtype_of(*given[0].values));
    for (std::size_t i = 0; i < given.size(); ++i) {
      stream_views[i].values = view_of("values", given[i].values);
      view_tensors(stream_views[i], given[i], stream_views[i].values.dtype, out_type);
    }
    const AlignOptions align_options = call.align_options();
    const ConstTensorView targets = view_of("target_times", target_times);
    const ExecutionContext context = device.context();
    const AlignedShape shape = shape_of(stream_views, targets);

    const auto count = static_cast<std::int64_t>(given.size());
    std::int64_t size[] = {shape.batch, shape.targets, shape.channels};
    const std::int64_t* first_size = shape.is_batched ? size : size + 1;
    const int rank = shape.is_batched ? 3 : 2;
    std::vector<Tensor> results{device.empty(first_size, rank, out_type)};
    size[2] = count;
    const int column_rank = call.is_fusion ? rank : rank - 1;
    const auto add_columns = [&](bool wanted, DataType type) {
      if (!wanted) return TensorView{};
      results.push_back(device.empty(first_size, column_rank, type));
      return column_view(results.back(), call.is_fusion);
    };
    const TensorView valid_out = add_columns(call.wants_valid, DataType::kBool);
    const TensorView age_out = add_columns(call.wants_age, targets.dtype);
    robocache::align(stream_views.data(), stream_views.size(), targets, align_options,
                     mutable_view_of(results[0]), valid_out, age_out, context);
    return results;
  });
}

Tensor align_backward(Tensor grad, std::optional<Tensor> values, std::vector<Tensor> tensors,
                      Tensor target_times, std::vector<int64_t> integers, int64_t options,
                      std::vector<int64_t> values_shape) {
  return translate_errors([&] {
    const Options call(options);
    const Device device(grad);
    const ConstTensorView grad_output = view_of("grad", grad);
    const DataType value_type = call.value_type.value_or(grad_output.dtype);
    const int rank = static_cast<int>(values_shape.size());
    if (rank != 2 && rank != 3) {
      throw ValueError("values_shape: expected 2 or 3 numbers, got " + std::to_string(rank));
    }
    const Tensor grad_values = device.empty(values_shape.data(), rank, value_type);
    const TensorView grad_view = mutable_view_of(grad_values);

    Reader<Tensor> next_tensor(tensors);
    Reader<std::int64_t> next_integer(integers);
    const StreamReader reader(next_integer);
    std::vector<StreamTensors> given;
    given.emplace_back(next_tensor.read(), values);
    reader.read_tensors(given[0], next_tensor);
    expect_on(device, given[0]);
    device.expect("target_times", target_times, "grad");
    Stream stream;
    reader.read_options(stream, dtype_of(given[0].times));
    promote_times(given, target_times);
    given[0].subtract.reset();  // of no use to a gradient
    view_tensors(stream, given[0], value_type, grad_output.dtype);
    if (values) {
      stream.values = view_of("values", *values);
    } else {
      stream.values = grad_view;  // its shape and type alone
      stream.values.data = nullptr;
    }

    const AlignOptions align_options = call.align_options();
    const ConstTensorView targets = view_of("target_times", target_times);
    const ExecutionContext context = device.context();
    const Scratch scratch(device, align_backward_workspace_bytes(stream, targets, context));
    robocache::align_backward(stream, targets, align_options, grad_output, grad_view,
                              scratch.workspace(), context);
    return grad_values;
  });
}

}  // namespace robocache::torch_binding
