// Checks a call, turns it into plans, and hands these to a backend.
#include "robocache/align.h"

#include <limits>
#include <string>
#include <utility>

#include "align/backends.h"
#include "align/plan.h"
#include "core/check.h"
#include "robocache/build_info.h"

namespace robocache {
namespace {

constexpr char kValueTypes[] = "float16, bfloat16, float32, float64 or uint8";

bool is_value_type(DataType type) {
  return type == DataType::kFloat16 || type == DataType::kBFloat16 || type == DataType::kFloat32 ||
         type == DataType::kFloat64 || type == DataType::kUInt8;
}

bool is_time_type(DataType type) {
  return type == DataType::kInt64 || type == DataType::kFloat32 || type == DataType::kFloat64;
}

/// A tensor argument under the name that messages call it by.
///
/// A call that is right makes no text: names are put together, and what was expected is described, on
/// failure only.
struct Argument {
  std::string prefix;  // of a stream's arguments, where there are several streams
  const char* label;
  ConstTensorView view;

  std::string name() const { return prefix + label; }

  void expect_type(bool accepted, const char* expected) const {
    if (!accepted) throw_type_error(name(), expected, name_of(view.dtype));
  }
  void expect_shape(bool accepted, const char* expected) const {
    if (!accepted) throw_value_error(name(), expected, shape_text(view));
  }
  /// `describe()` says what was expected.
  template <typename Describe>
  void expect_shape(bool accepted, const Describe& describe) const {
    if (!accepted) throw_value_error(name(), describe(), shape_text(view));
  }
  void expect_device(DeviceType device) const {
    if (view.device != device) {
      throw_value_error(name(), std::string("device ") + device_name(device),
                        device_name(view.device));
    }
  }
};

/// Dimensions as they become known; -1 until then.
struct Sizes {
  std::int64_t batch = -1;
  std::int64_t targets = -1;
};

/// One stream's arguments and its own dimensions.
struct CheckedStream {
  Argument values, times, lengths, begins, valid, subtract, multiply;
  std::string prefix, method_name;
  std::int64_t rows = 0;
  std::int64_t channels = 0;
};

/// Takes the batch size from `size`, or checks that it agrees.
bool agree(std::int64_t& batch, std::int64_t size) {
  if (batch < 0) batch = size;
  return batch == size;
}

std::string bracket(std::initializer_list<std::string> dimensions) {
  std::string text = "[";
  for (const std::string& dimension : dimensions) {
    if (text.size() > 1) text += ",";
    text += dimension;
  }
  return text + "]";
}

std::string batch_of(const Sizes& sizes) { return dimension("B", sizes.batch); }

void check_values(CheckedStream& stream, Sizes& sizes, bool ragged) {
  const Argument& values = stream.values;
  const ConstTensorView& view = values.view;
  values.expect_type(is_value_type(view.dtype), kValueTypes);
  if (ragged) {
    values.expect_shape(view.rank == 2, "[N,D]");
  } else {
    values.expect_shape(view.rank == 2 || view.rank == 3, "[B,S,D] or [S,D]");
  }
  stream.rows = view.shape[view.rank - 2];
  stream.channels = view.shape[view.rank - 1];
  if (view.rank == 3) {
    values.expect_shape(agree(sizes.batch, view.shape[0]),
                        [&] { return bracket({batch_of(sizes), "S", "D"}); });
  }
}

/// `times` and `valid`: [B,S] or [S], or [N] where the stream is ragged.
void check_rows(const Argument& argument, const CheckedStream& stream, Sizes& sizes, bool ragged) {
  const ConstTensorView& view = argument.view;
  const auto rows = [&] { return dimension(ragged ? "N" : "S", stream.rows); };
  if (ragged || view.rank == 1) {
    argument.expect_shape(view.rank == 1 && view.shape[0] == stream.rows,
                          [&] { return bracket({rows()}); });
    return;
  }
  argument.expect_shape(view.rank == 2, "[B,S] or [S]");
  const bool batch_agrees = agree(sizes.batch, view.shape[0]);
  argument.expect_shape(batch_agrees && view.shape[1] == stream.rows,
                        [&] { return bracket({batch_of(sizes), rows()}); });
}

void check_target_times(const Argument& targets, const CheckedStream& stream, Sizes& sizes) {
  const ConstTensorView& view = targets.view;
  targets.expect_type(is_time_type(view.dtype), "int64, float32 or float64");
  const DataType source = stream.times.view.dtype;
  if (view.dtype != source) {
    const bool is_mixed = source == DataType::kInt64 || view.dtype == DataType::kInt64;
    const char* expected =
        is_mixed && source != DataType::kInt64 ? "float32 or float64" : name_of(source);
    throw_type_error(targets.name(), std::string(expected) + " like " + stream.times.name(),
                     name_of(view.dtype));
  }
  targets.expect_shape(view.rank == 1 || view.rank == 2, "[B,T] or [T]");
  sizes.targets = view.shape[view.rank - 1];
  if (view.rank == 2) {
    targets.expect_shape(agree(sizes.batch, view.shape[0]),
                         [&] { return bracket({batch_of(sizes), "T"}); });
  }
}

void check_lengths(const CheckedStream& stream, Sizes& sizes) {
  const Argument& lengths = stream.lengths;
  if (!lengths.view.present()) return;
  lengths.expect_type(
      lengths.view.dtype == DataType::kInt64 || lengths.view.dtype == DataType::kInt32,
      "int64 or int32");
  lengths.expect_shape(lengths.view.rank <= 1, "[B] or []");
  if (lengths.view.rank == 1) {
    lengths.expect_shape(agree(sizes.batch, lengths.view.shape[0]),
                         [&] { return bracket({batch_of(sizes)}); });
  }
}

void check_begins(const CheckedStream& stream, Sizes& sizes) {
  const Argument& begins = stream.begins;
  if (!begins.view.present()) return;
  begins.expect_type(begins.view.dtype == DataType::kInt64, "int64");
  begins.expect_shape(begins.view.rank == 1 && agree(sizes.batch, begins.view.shape[0]),
                      [&] { return bracket({batch_of(sizes)}); });
  if (!stream.lengths.view.present()) {
    throw_value_error(stream.lengths.name(), "a length for every one of " + begins.name(), "none");
  }
}

/// `subtract` and `multiply`.
void check_scale(const Argument& scale, const CheckedStream& stream, DataType compute_type) {
  if (!scale.view.present()) return;
  scale.expect_type(is_value_type(scale.view.dtype) && scale.view.dtype != DataType::kUInt8,
                    "float16, bfloat16, float32 or float64");
  if (scale.view.dtype != compute_type) {
    throw_type_error(scale.name(), std::string(name_of(compute_type)) + " (the compute type)",
                     name_of(scale.view.dtype));
  }
  scale.expect_shape(scale.view.rank == 1 && scale.view.shape[0] == stream.channels,
                     [&] { return bracket({dimension("D", stream.channels)}); });
}

const char* method_text(Method method) {
  switch (method) {
    case Method::kLinear:
      return "linear";
    case Method::kPrevious:
      return "previous";
    case Method::kNearest:
      return "nearest";
    case Method::kSlerpXyzw:
      return "slerp_xyzw";
    case Method::kSlerpWxyz:
      return "slerp_wxyz";
    case Method::kAngle:
      return "angle";
  }
  return "an unknown method";
}

void check_run(const Run& run, const std::string& name) {
  if (run.method > Method::kAngle) {
    throw_value_error(name, "a method", std::to_string(static_cast<int>(run.method)));
  }
  if (is_slerp(run.method) && run.channels != 4) {
    throw_value_error(name, std::string("a run of 4 channels for ") + method_text(run.method),
                      std::to_string(run.channels));
  }
}

/// The runs of a stream: its layout, neighbours of one kind merged, or its one method.
RunTable make_runs(const Stream& stream, const CheckedStream& checked) {
  RunTable runs;
  runs.count = 0;
  runs.units = 0;
  std::int64_t channel = 0;
  const auto add = [&](Method method, std::int64_t channels) {
    const bool merges =
        runs.count > 0 && !is_slerp(method) && runs.method[runs.count - 1] == method;
    if (!merges) {
      if (runs.count == kMaxRuns) {
        throw_value_error(checked.method_name, "at most " + std::to_string(kMaxRuns) + " runs",
                          "more");
      }
      runs.first_channel[runs.count] = channel;
      runs.first_unit[runs.count] = runs.units;
      runs.method[runs.count] = method;
      ++runs.count;
    }
    channel += channels;
    runs.units += is_slerp(method) ? 1 : channels;
  };
  if (stream.layout.empty()) {
    check_run({stream.method, checked.channels}, checked.method_name);
    add(stream.method, checked.channels);
    return runs;
  }
  std::int64_t sum = 0;
  for (const Run& run : stream.layout) {
    if (run.channels < 1) {
      throw_value_error(checked.method_name, "runs of at least 1 channel",
                        std::to_string(run.channels));
    }
    check_run(run, checked.method_name);
    if (__builtin_add_overflow(sum, run.channels, &sum))
      sum = std::numeric_limits<std::int64_t>::max();
  }
  if (sum != checked.channels) {
    throw_value_error(checked.method_name, "runs that sum to " + dimension("D", checked.channels),
                      std::to_string(sum));
  }
  for (const Run& run : stream.layout) add(run.method, run.channels);
  return runs;
}

/// A duration as the times' type has it; `zero` where there is none.
TimeValue make_duration(const std::optional<Duration>& duration, DataType time_type,
                        const std::string& name) {
  const bool integer = time_type == DataType::kInt64;
  TimeValue value;
  value.i64 = 0;
  if (!duration) return value;
  if (duration->is_nanoseconds() != integer) {
    throw_type_error(name, integer ? "nanoseconds for int64 times" : "seconds for floating times",
                     integer ? "seconds" : "nanoseconds");
  }
  if (integer) {
    if (duration->nanoseconds() < 0) {
      throw_value_error(name, "0 or more", std::to_string(duration->nanoseconds()));
    }
    value.i64 = duration->nanoseconds();
    return value;
  }
  if (!(duration->seconds() >= 0)) {
    throw_value_error(name, "0 or more", std::to_string(duration->seconds()));
  }
  if (time_type == DataType::kFloat32) {
    value.f32 = static_cast<float>(duration->seconds());
  } else {
    value.f64 = duration->seconds();
  }
  return value;
}

/// The stride along an axis, which is counted from the last, 1. It is 0 where the argument has no such
/// axis, and where it has no elements: its pointer may be null then, and must not be moved.
std::int64_t stride_along(const ConstTensorView& view, int axis_from_last) {
  for (int axis = 0; axis < view.rank; ++axis) {
    if (view.shape[axis] == 0) return 0;
  }
  return axis_from_last <= view.rank ? view.strides[view.rank - axis_from_last] : 0;
}

/// A stream and its targets, checked and planned, but for where the output goes.
struct Planned {
  StreamPlan plan;
  RunTable runs;
  BatchedArguments batched;
};

class Planner {
 public:
  Planner(const ConstTensorView& target_times, const AlignOptions& options, DataType out_type,
          const ExecutionContext& context)
      : options_(options),
        targets_{"", options.names.target_times, target_times},
        out_type_(out_type),
        device_(context.device) {
#if !defined(ROBOCACHE_HAS_CUDA)
    if (device_ == DeviceType::kCuda)
      throw DeviceError("context: expected the CPU, got CUDA in " + cuda_problem(0));
#endif
  }

  /// Checks a stream's shapes and types against those seen so far. `prefix` names the stream where
  /// there are several.
  CheckedStream check(const Stream& stream, const std::string& prefix) {
    const ArgumentNames& names = options_.names;
    CheckedStream checked;
    checked.values = {prefix, names.values, stream.values};
    checked.times = {prefix, names.times, stream.times};
    checked.lengths = {prefix, names.lengths, stream.lengths};
    checked.begins = {prefix, "begins", stream.begins};
    checked.valid = {prefix, names.valid, stream.valid};
    checked.subtract = {prefix, "subtract", stream.subtract};
    checked.multiply = {prefix, "multiply", stream.multiply};
    checked.prefix = prefix;
    checked.method_name = prefix + "method";
    const bool ragged = stream.begins.present();

    check_values(checked, sizes_, ragged);
    checked.times.expect_type(is_time_type(stream.times.dtype), "int64, float32 or float64");
    check_rows(checked.times, checked, sizes_, ragged);
    check_target_times(targets_, checked, sizes_);
    check_lengths(checked, sizes_);
    check_begins(checked, sizes_);
    if (stream.valid.present()) {
      checked.valid.expect_type(stream.valid.dtype == DataType::kBool, "bool");
      check_rows(checked.valid, checked, sizes_, ragged);
    }
    const DataType compute_type =
        stream.values.dtype == DataType::kFloat64 || out_type_ == DataType::kFloat64
            ? DataType::kFloat64
            : DataType::kFloat32;
    check_scale(checked.subtract, checked, compute_type);
    check_scale(checked.multiply, checked, compute_type);
    for (const Argument* argument :
         {&checked.values, &checked.times, &targets_, &checked.lengths, &checked.begins,
          &checked.valid, &checked.subtract, &checked.multiply}) {
      if (argument->view.present()) argument->expect_device(device_);
    }
    return checked;
  }

  /// Whether anything has a B, and how large it is.
  bool is_batched() const { return sizes_.batch >= 0; }
  std::int64_t batch() const { return sizes_.batch < 0 ? 1 : sizes_.batch; }
  std::int64_t targets() const { return sizes_.targets; }

  /// The plan of a stream that has been checked, once all have.
  Planned plan(const Stream& stream, const CheckedStream& checked) const {
    Planned planned;
    planned.runs = make_runs(stream, checked);
    planned.batched = {stream.times.rank == 2, stream.lengths.rank == 1};
    StreamPlan& plan = planned.plan;
    plan = StreamPlan{};
    plan.batch = batch();
    plan.rows = checked.rows;
    plan.targets = sizes_.targets;
    plan.channels = checked.channels;

    const ConstTensorView& values = stream.values;
    plan.values = values.data;
    plan.values_batch_stride = stride_along(values, 3);
    plan.values_row_stride = stride_along(values, 2);
    plan.values_channel_stride = stride_along(values, 1);
    plan.value_type = values.dtype;
    plan.times = stream.times.data;
    plan.times_batch_stride = stride_along(stream.times, 2);
    plan.times_row_stride = stride_along(stream.times, 1);
    plan.time_type = stream.times.dtype;
    plan.target_times = targets_.view.data;
    plan.target_times_batch_stride = stride_along(targets_.view, 2);
    plan.target_times_stride = stride_along(targets_.view, 1);
    if (stream.lengths.present()) {
      plan.lengths = stream.lengths.data;
      plan.lengths_stride = stride_along(stream.lengths, 1);
      plan.lengths_are_int32 = stream.lengths.dtype == DataType::kInt32;
    }
    if (stream.begins.present()) {
      plan.begins = static_cast<const std::int64_t*>(stream.begins.data);
      plan.begins_stride = stride_along(stream.begins, 1);
    }
    if (stream.valid.present()) {
      plan.valid = static_cast<const bool*>(stream.valid.data);
      plan.valid_batch_stride = stride_along(stream.valid, 2);
      plan.valid_row_stride = stride_along(stream.valid, 1);
    }
    if (stream.subtract.present()) {
      plan.subtract = stream.subtract.data;
      plan.subtract_stride = stride_along(stream.subtract, 1);
    }
    if (stream.multiply.present()) {
      plan.multiply = stream.multiply.data;
      plan.multiply_stride = stride_along(stream.multiply, 1);
    }

    plan.out_type = out_type_;
    plan.outside = options_.outside;
    if (plan.outside > Outside::kExtrapolate) {
      throw_value_error("outside", "an Outside", std::to_string(static_cast<int>(plan.outside)));
    }
    if (plan.outside == Outside::kNan && plan.out_type == DataType::kUInt8) {
      throw_value_error("outside", "hold, zero or extrapolate for uint8 output", "'nan'");
    }
    plan.method = planned.runs.method[0];
    for (int run = 0; run < planned.runs.count; ++run) {
      plan.row_kinds |= row_kind(planned.runs.method[run]);
    }
    plan.has_max_gap = stream.max_gap.has_value();
    plan.max_gap = make_duration(stream.max_gap, plan.time_type, checked.prefix + "max_gap");
    plan.tolerance = make_duration(stream.tolerance, plan.time_type, checked.prefix + "tolerance");
    return planned;
  }

  /// Checks an output (or its gradient) of `columns` columns: [B,T,columns], or [T,columns] where
  /// nothing has a B.
  void check_output(const Argument& out, std::int64_t columns, const char* columns_name) const {
    const int rank = is_batched() ? 3 : 2;
    const ConstTensorView& view = out.view;
    const bool fits = view.rank == rank && (rank == 2 || view.shape[0] == batch()) &&
                      view.shape[rank - 2] == targets() && view.shape[rank - 1] == columns;
    out.expect_shape(fits, [&] {
      const std::string rows = dimension("T", targets());
      const std::string last = dimension(columns_name, columns);
      return is_batched() ? bracket({dimension("B", batch()), rows, last}) : bracket({rows, last});
    });
    out.expect_device(device_);
  }

 private:
  AlignOptions options_;
  Argument targets_;
  DataType out_type_;
  DeviceType device_;
  Sizes sizes_;
};

/// Checks all streams of a call; `columns` becomes the sum of their channels.
std::vector<CheckedStream> check_all(Planner& planner, const Stream* streams, std::size_t count,
                                     std::int64_t& columns) {
  if (count == 0) throw ValueError("streams: expected at least 1, got 0");
  std::vector<CheckedStream> checked;
  checked.reserve(count);
  columns = 0;
  for (std::size_t i = 0; i < count; ++i) {
    checked.push_back(
        planner.check(streams[i], count == 1 ? "" : "streams[" + std::to_string(i) + "]."));
    columns += checked.back().channels;
  }
  return checked;
}

}  // namespace

AlignedShape aligned_shape(const Stream* streams, std::size_t count,
                           const ConstTensorView& target_times, const AlignOptions& options,
                           DataType out_type, const ExecutionContext& context) {
  Planner planner(target_times, options, out_type, context);
  AlignedShape shape;
  const std::vector<CheckedStream> checked = check_all(planner, streams, count, shape.channels);
  if (!is_value_type(out_type)) throw_type_error("out_dtype", kValueTypes, name_of(out_type));
  for (std::size_t i = 0; i < count; ++i) planner.plan(streams[i], checked[i]);
  shape.is_batched = planner.is_batched();
  shape.batch = planner.batch();
  shape.targets = planner.targets();
  return shape;
}

#if !defined(ROBOCACHE_HAS_CUDA)
// Never reached: the planner has thrown. They let the dispatch below read the same in every build.
void align_on_cuda(const StreamPlan&, const RunTable&, CUstream_st*) {}
std::size_t backward_workspace_bytes_on_cuda(const BackwardPlan&) { return 0; }
void align_backward_on_cuda(const BackwardPlan&, const RunTable&, void*, CUstream_st*) {}
#endif

void align(const Stream* streams, std::size_t count, const ConstTensorView& target_times,
           const AlignOptions& options, const TensorView& values_out, const TensorView& valid_out,
           const ExecutionContext& context) {
  Planner planner(target_times, options, values_out.dtype, context);
  const Argument out{"", "values_out", values_out};
  std::int64_t columns = 0;
  const std::vector<CheckedStream> checked = check_all(planner, streams, count, columns);
  out.expect_type(is_value_type(values_out.dtype), kValueTypes);
  planner.check_output(out, columns, "D");
  const int last = values_out.rank - 1;
  if (values_out.shape[last] > 1 && values_out.strides[last] != 1) {
    throw_value_error("values_out", "a last stride of 1", std::to_string(values_out.strides[last]));
  }
  const Argument mask{"", "valid_out", valid_out};
  if (valid_out.present()) {
    mask.expect_type(valid_out.dtype == DataType::kBool, "bool");
    planner.check_output(mask, static_cast<std::int64_t>(count), "streams");
  }

  std::vector<Planned> plans;
  plans.reserve(count);
  std::int64_t column = 0;
  for (std::size_t i = 0; i < count; ++i) {
    plans.push_back(planner.plan(streams[i], checked[i]));
    StreamPlan& plan = plans.back().plan;
    plan.out = static_cast<char*>(values_out.data) + column * size_of(values_out.dtype);
    plan.out_batch_stride = stride_along(values_out, 3);
    plan.out_target_stride = stride_along(values_out, 2);
    if (valid_out.present()) {
      const std::int64_t stride = stride_along(valid_out, 1);
      plan.out_valid = static_cast<bool*>(valid_out.data) + static_cast<std::int64_t>(i) * stride;
      plan.out_valid_batch_stride = stride_along(valid_out, 3);
      plan.out_valid_target_stride = stride_along(valid_out, 2);
    } else {
      plan.valid = nullptr;  // of use to the mask alone
      plan.has_max_gap = false;
    }
    column += checked[i].channels;
    if (context.device == DeviceType::kCpu) {
      AlignOptions named = options;
      const std::string times_name = checked[i].times.name();
      const std::string lengths_name = checked[i].lengths.name();
      named.names.times = times_name.c_str();
      named.names.lengths = lengths_name.c_str();
      check_on_cpu(plan, named, plans.back().batched, context);
    }
  }
  for (const Planned& planned : plans) {
    const StreamPlan& plan = planned.plan;
    if (plan.batch == 0 || plan.targets == 0) continue;
    if (plan.channels == 0 && plan.out_valid == nullptr) continue;
    if (context.device == DeviceType::kCuda) {
      align_on_cuda(planned.plan, planned.runs, context.stream);
    } else {
      align_on_cpu(planned.plan, planned.runs, context);
    }
  }
}

namespace {

/// The backward pass of one stream, planned.
std::pair<BackwardPlan, RunTable> plan_backward(Planner& planner, const Stream& stream) {
  const CheckedStream checked = planner.check(stream, "");
  const Planned planned = planner.plan(stream, checked);
  BackwardPlan plan{};
  plan.forward = planned.plan;
  plan.value_batch = stream.values.rank == 3 ? planned.plan.batch : 1;
  return {plan, planned.runs};
}

}  // namespace

std::size_t align_backward_workspace_bytes(const Stream& stream,
                                           const ConstTensorView& target_times,
                                           const ExecutionContext& context) {
  Planner planner(target_times, AlignOptions{}, stream.values.dtype, context);
  Stream unscaled = stream;  // scratch does not depend on the scale, nor its type on the gradient's
  unscaled.subtract = {};
  unscaled.multiply = {};
  const BackwardPlan plan = plan_backward(planner, unscaled).first;
  return context.device == DeviceType::kCuda ? backward_workspace_bytes_on_cuda(plan)
                                             : backward_workspace_bytes_on_cpu(plan);
}

void align_backward(const Stream& stream, const ConstTensorView& target_times,
                    const AlignOptions& options, const ConstTensorView& grad_output,
                    const TensorView& grad_values, void* workspace,
                    const ExecutionContext& context) {
  const Argument grad{"", "grad_output", grad_output};
  grad.expect_type(is_value_type(grad_output.dtype) && grad_output.dtype != DataType::kUInt8,
                   "float16, bfloat16, float32 or float64");
  Planner planner(target_times, options, grad_output.dtype, context);
  auto [plan, runs] = plan_backward(planner, stream);
  planner.check_output(grad, plan.forward.channels, "D");
  plan.grad_output = grad_output.data;
  plan.grad_batch_stride = stride_along(grad_output, 3);
  plan.grad_target_stride = stride_along(grad_output, 2);
  plan.grad_channel_stride = stride_along(grad_output, 1);

  const Argument result{"", "grad_values", grad_values};
  result.expect_type(
      grad_values.dtype == stream.values.dtype && grad_values.dtype != DataType::kUInt8,
      name_of(stream.values.dtype));
  bool fits = grad_values.rank == stream.values.rank;
  std::int64_t elements = 1;
  for (int axis = 0; fits && axis < grad_values.rank; ++axis) {
    fits = grad_values.shape[axis] == stream.values.shape[axis];
    elements *= grad_values.shape[axis];
  }
  std::int64_t stride = 1;
  for (int axis = grad_values.rank - 1; fits && elements > 0 && axis >= 0; --axis) {
    fits = grad_values.shape[axis] == 1 || grad_values.strides[axis] == stride;
    stride *= grad_values.shape[axis];
  }
  result.expect_shape(fits, [&] { return "contiguous " + shape_text(stream.values); });
  result.expect_device(context.device);
  plan.grad_values = grad_values.data;
  if (elements == 0) return;
  for (int run = 0; run < runs.count; ++run) {
    if (is_slerp(runs.method[run]) && stream.values.data == nullptr) {
      throw_value_error("values", "the data, which the gradient of slerp depends on", "none");
    }
  }

  if (context.device == DeviceType::kCuda) {
    align_backward_on_cuda(plan, runs, workspace, context.stream);
  } else {
    align_backward_on_cpu(plan, runs, workspace, context);
  }
}

}  // namespace robocache
