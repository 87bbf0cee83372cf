#include "align/checks.h"

#include "align/plan.h"

namespace robocache {

namespace {

bool is_time_type(DataType type) {
  return type == DataType::kInt64 || type == DataType::kFloat32 || type == DataType::kFloat64;
}

/// Sets the batch size if it is not yet known; returns whether it equals `size`.
bool agree(std::int64_t& batch, std::int64_t size) {
  if (batch < 0) batch = size;
  return batch == size;
}

std::string batch_of(const Sizes& sizes) { return dimension("B", sizes.batch); }

void check_values(const Argument& values, CheckedStream& stream, Sizes& sizes, bool ragged) {
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

/// Checks `times` or `valid`: [B,S] or [S], or [N] where the stream is ragged.
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

void check_target_times(const Argument& targets, const Argument& times, Sizes& sizes) {
  const ConstTensorView& view = targets.view;
  targets.expect_type(is_time_type(view.dtype), "int64, float32 or float64");
  const DataType source = times.view.dtype;
  if (view.dtype != source) {
    const bool is_mixed = source == DataType::kInt64 || view.dtype == DataType::kInt64;
    const char* expected =
        is_mixed && source != DataType::kInt64 ? "float32 or float64" : name_of(source);
    throw_type_error(targets.name(), std::string(expected) + " like " + times.name(),
                     name_of(view.dtype));
  }
  targets.expect_shape(view.rank == 1 || view.rank == 2, "[B,T] or [T]");
  sizes.targets = view.shape[view.rank - 1];
  if (view.rank == 2) {
    targets.expect_shape(agree(sizes.batch, view.shape[0]),
                         [&] { return bracket({batch_of(sizes), "T"}); });
  }
}

void check_lengths(const Argument& lengths, Sizes& sizes) {
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

void check_begins(const Argument& begins, const Argument& lengths, Sizes& sizes) {
  if (!begins.view.present()) return;
  begins.expect_type(begins.view.dtype == DataType::kInt64, "int64");
  begins.expect_shape(begins.view.rank == 1 && agree(sizes.batch, begins.view.shape[0]),
                      [&] { return bracket({batch_of(sizes)}); });
  if (!lengths.view.present()) {
    throw_value_error(lengths.name(), "a length for every one of " + begins.name(), "none");
  }
}

/// Checks `subtract` or `multiply`.
void check_scale(const Argument& scale, const CheckedStream& stream, DataType compute_type) {
  if (!scale.view.present()) return;
  scale.expect_type(is_floating_type(scale.view.dtype), kFloatingTypes);
  if (scale.view.dtype != compute_type) {
    throw_type_error(scale.name(), std::string(name_of(compute_type)) + " (the compute type)",
                     name_of(scale.view.dtype));
  }
  scale.expect_shape(scale.view.rank == 1 && scale.view.shape[0] == stream.channels,
                     [&] { return bracket({dimension("D", stream.channels)}); });
}

}  // namespace

CheckedStream check_stream(const Stream& stream, StreamNumber number, const Argument& targets,
                           const ArgumentNames& names, DataType out_type, Sizes& sizes) {
  CheckedStream checked;
  checked.number = number;
  const Argument values{names.values, stream.values, checked.number};
  const Argument times{names.times, stream.times, checked.number};
  const Argument lengths{names.lengths, stream.lengths, checked.number};
  const bool ragged = stream.begins.present();

  check_values(values, checked, sizes, ragged);
  times.expect_type(is_time_type(stream.times.dtype), "int64, float32 or float64");
  check_rows(times, checked, sizes, ragged);
  check_target_times(targets, times, sizes);
  check_lengths(lengths, sizes);
  check_begins({"begins", stream.begins, checked.number}, lengths, sizes);
  if (stream.valid.present()) {
    const Argument valid{names.valid, stream.valid, checked.number};
    valid.expect_type(stream.valid.dtype == DataType::kBool, "bool");
    check_rows(valid, checked, sizes, ragged);
  }
  const DataType scale_type = compute_type(stream.values.dtype, out_type);
  check_scale({"subtract", stream.subtract, checked.number}, checked, scale_type);
  check_scale({"multiply", stream.multiply, checked.number}, checked, scale_type);
  return checked;
}

void check_device(const Stream& stream, const CheckedStream& checked, const ArgumentNames& names,
                  DeviceType device) {
  const auto check = [&](const char* label, const ConstTensorView& view) {
    if (view.present()) Argument{label, view, checked.number}.expect_device(device);
  };
  check(names.values, stream.values);
  check(names.times, stream.times);
  check(names.lengths, stream.lengths);
  check("begins", stream.begins);
  check(names.valid, stream.valid);
  check("subtract", stream.subtract);
  check("multiply", stream.multiply);
}

}  // namespace robocache
