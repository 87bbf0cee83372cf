#include "align/planner.h"

#include <cmath>
#include <limits>
#include <string>

#include "align/method_names.h"
#include "robocache/build_info.h"

namespace robocache {
namespace {

void check_run(const Run& run, StreamNumber stream) {
  if (!is_named(kMethodNames, run.method)) {
    throw_value_error(stream.name("method"), "a method",
                      std::to_string(static_cast<int>(run.method)));
  }
  if (is_slerp(run.method) && run.channels != 4) {
    throw_value_error(stream.name("method"),
                      "a run of 4 channels for " + std::string(name_in(kMethodNames, run.method)),
                      std::to_string(run.channels));
  }
}

/// A duration in the type of the times: nanoseconds for int64, else seconds.
TimeValue make_time(DataType time_type, std::int64_t nanoseconds, double seconds) {
  TimeValue value;
  if (time_type == DataType::kInt64) {
    value.i64 = nanoseconds;
  } else if (time_type == DataType::kFloat32) {
    value.f32 = static_cast<float>(seconds);
  } else {
    value.f64 = seconds;
  }
  return value;
}

/// Validates a duration and converts it to the type of the times; 0 for nullopt.
TimeValue make_duration(const std::optional<Duration>& duration, DataType time_type,
                        StreamNumber stream, const char* label, bool may_be_negative = false) {
  if (!duration) return make_time(time_type, 0, 0);
  const bool integer = time_type == DataType::kInt64;
  if (duration->is_nanoseconds() != integer) {
    throw_type_error(stream.name(label),
                     integer ? "nanoseconds for int64 times" : "seconds for floating times",
                     integer ? "seconds" : "nanoseconds");
  }
  if (integer) {
    if (duration->nanoseconds() < 0 && !may_be_negative) {
      throw_value_error(stream.name(label), "0 or more", std::to_string(duration->nanoseconds()));
    }
    return make_time(time_type, duration->nanoseconds(), 0);
  }
  const double seconds = duration->seconds();
  if (may_be_negative && !std::isfinite(seconds)) {
    throw_value_error(stream.name(label), "a finite number", std::to_string(seconds));
  }
  if (!may_be_negative && !(seconds >= 0)) {
    throw_value_error(stream.name(label), "0 or more", std::to_string(seconds));
  }
  return make_time(time_type, 0, seconds);
}

TimeValue halved(TimeValue duration, DataType time_type) {
  if (time_type == DataType::kInt64) {
    duration.i64 /= 2;
  } else if (time_type == DataType::kFloat32) {
    duration.f32 /= 2;
  } else {
    duration.f64 /= 2;
  }
  return duration;
}

}  // namespace

CallPlan::CallPlan(const Stream* streams, std::size_t count, const ConstTensorView& target_times,
                   const AlignOptions& options, DataType out_type, const ExecutionContext& context)
    : options_(options),
      target_times_(target_times),
      targets_{options.names.target_times, target_times_},
      out_type_(out_type),
      device_(context.device) {
#if !defined(ROBOCACHE_HAS_CUDA)
  if (device_ == DeviceType::kCuda) {
    throw DeviceError("context: expected the CPU, got CUDA in " + cuda_problem(0));
  }
#endif
  check(streams, count);
  plans_.reserve(count);
  run_ranges_.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    add_runs(streams[i], checked_[i]);
    add_plan(streams[i], checked_[i]);
  }
  if (runs_.size() > std::size_t{kMaxRunsInAll}) {
    throw_value_error("streams", "at most " + std::to_string(kMaxRunsInAll) + " runs in all",
                      std::to_string(runs_.size()));
  }
}

void CallPlan::check(const Stream* streams, std::size_t count) {
  if (count == 0 || count > std::size_t{kMaxStreams}) {
    throw_value_error("streams", "1 to " + std::to_string(kMaxStreams), std::to_string(count));
  }
  checked_.reserve(count);
  const bool are_numbered = count > 1 || options_.names.streams_are_numbered;
  for (std::size_t i = 0; i < count; ++i) {
    const StreamNumber number{are_numbered ? static_cast<std::int64_t>(i) : -1};
    checked_.push_back(
        check_stream(streams[i], number, targets_, options_.names, out_type_, sizes_));
    columns_ += checked_.back().channels;
  }
  if (!is_value_type(out_type_)) throw_type_error("out_dtype", kValueTypes, name_of(out_type_));
  for (std::size_t i = 0; i < count; ++i) {
    check_device(streams[i], checked_[i], options_.names, device_);
  }
  targets_.expect_device(device_);
}

RunTable CallPlan::runs(std::size_t stream) const {
  const RunRange& range = run_ranges_[stream];
  return {runs_.data() + range.first, range.count, range.units};
}

/// Adds the runs of a stream: its layout, with neighboring runs of one method merged, or its single
/// method.
void CallPlan::add_runs(const Stream& stream, const CheckedStream& checked) {
  RunRange range{runs_.size(), 0, 0};
  std::int64_t channel = 0;
  const auto name = [&] { return checked.number.name("method"); };
  const auto add = [&](Method method, std::int64_t channels) {
    if (range.count == 0 || is_slerp(method) || runs_.back().method != method) {
      runs_.push_back({channel, range.units, method});
      ++range.count;
    }
    channel += channels;
    range.units += is_slerp(method) ? 1 : channels;
  };
  if (stream.layout.empty()) {
    check_run({stream.method, checked.channels}, checked.number);
    add(stream.method, checked.channels);
    run_ranges_.push_back(range);
    return;
  }
  std::int64_t sum = 0;
  for (const Run& run : stream.layout) {
    if (run.channels < 1) {
      throw_value_error(name(), "runs of at least 1 channel", std::to_string(run.channels));
    }
    check_run(run, checked.number);
    if (__builtin_add_overflow(sum, run.channels, &sum)) {
      sum = std::numeric_limits<std::int64_t>::max();
    }
  }
  if (sum != checked.channels) {
    throw_value_error(name(), "runs that sum to " + dimension("D", checked.channels),
                      std::to_string(sum));
  }
  for (const Run& run : stream.layout) add(run.method, run.channels);
  if (range.count > kMaxRuns) {
    throw_value_error(name(), "at most " + std::to_string(kMaxRuns) + " runs",
                      std::to_string(range.count));
  }
  run_ranges_.push_back(range);
}

void CallPlan::add_plan(const Stream& stream, const CheckedStream& checked) {
  StreamPlan plan{};
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
  const RunRange& range = run_ranges_.back();
  plan.method = runs_[range.first].method;
  for (int run = 0; run < range.count; ++run) {
    plan.row_kinds |= row_kinds(runs_[range.first + static_cast<std::size_t>(run)].method);
  }
  const auto duration = [&](const std::optional<Duration>& from, const char* name) {
    return make_duration(from, plan.time_type, checked.number, name);
  };
  plan.has_max_gap = stream.max_gap.has_value();
  plan.max_gap = duration(stream.max_gap, "max_gap");
  plan.tolerance = duration(stream.tolerance, "tolerance");
  if ((plan.row_kinds & kReadsWindow) && !stream.mean_window) {
    throw_value_error(checked.number.name("mean_window"), "a duration for method 'mean'", "None");
  }
  plan.half_mean_window = halved(duration(stream.mean_window, "mean_window"), plan.time_type);
  if (!(plan.row_kinds & kReadsWindow) && stream.mean_window) {
    throw_value_error(checked.number.name("mean_window"), "None without a run of method 'mean'",
                      "a duration");
  }
  plan.clock_offset = make_duration(stream.clock_offset, plan.time_type, checked.number,
                                    "clock_offset", /*may_be_negative=*/true);
  plans_.push_back(plan);
}

void CallPlan::check_output(const Argument& out, std::int64_t columns,
                            const char* columns_name) const {
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

void CallPlan::set_outputs(const TensorView& values_out, const TensorView& valid_out,
                           const TensorView& age_out) {
  check_output({"values_out", values_out}, columns_, "D");
  const int last = values_out.rank - 1;
  if (values_out.shape[last] > 1 && values_out.strides[last] != 1) {
    throw_value_error("values_out", "a last stride of 1", std::to_string(values_out.strides[last]));
  }
  const auto streams = static_cast<std::int64_t>(count());
  if (valid_out.present()) {
    const Argument mask{"valid_out", valid_out};
    mask.expect_type(valid_out.dtype == DataType::kBool, "bool");
    check_output(mask, streams, "streams");
  }
  if (age_out.present()) {
    const Argument age{"age_out", age_out};
    age.expect_type(age_out.dtype == targets_.view.dtype, name_of(targets_.view.dtype));
    check_output(age, streams, "streams");
  }

  char* values = static_cast<char*>(values_out.data);
  for (std::int64_t i = 0; i < streams; ++i) {
    StreamPlan& plan = plans_[static_cast<std::size_t>(i)];
    plan.out = values;
    plan.out_batch_stride = stride_along(values_out, 3);
    plan.out_target_stride = stride_along(values_out, 2);
    if (values != nullptr) values += plan.channels * size_of(values_out.dtype);
    if (valid_out.present()) {
      plan.out_valid = static_cast<bool*>(valid_out.data) + i * stride_along(valid_out, 1);
      plan.out_valid_batch_stride = stride_along(valid_out, 3);
      plan.out_valid_target_stride = stride_along(valid_out, 2);
    } else {
      // Only the mask depends on `max_gap`, and on `valid` except where rows are added.
      plan.has_max_gap = false;
      if (!(plan.row_kinds & (kReadsWindow | kReadsInterval))) plan.valid = nullptr;
    }
    if (age_out.present()) {
      plan.out_age =
          static_cast<char*>(age_out.data) + i * stride_along(age_out, 1) * size_of(age_out.dtype);
      plan.out_age_batch_stride = stride_along(age_out, 3);
      plan.out_age_target_stride = stride_along(age_out, 2);
    }
  }
}

}  // namespace robocache
