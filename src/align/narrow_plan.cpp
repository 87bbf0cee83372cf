#include "align/narrow_plan.h"

namespace robocache {

bool narrow_plan(const StreamPlan& wide, NarrowPlan& narrow) {
  bool fits =
      wide.batch == 1 || wide.out_batch_stride == offset(wide.targets, wide.out_target_stride);
  const auto take = [&](std::int32_t& to, std::int64_t from) {
    fits = fits && from >= 0 && from < (std::int64_t{1} << 30);
    to = static_cast<std::int32_t>(from);
  };
  take(narrow.batch, wide.batch);
  take(narrow.rows, wide.rows);
  take(narrow.targets, wide.targets);
  take(narrow.channels, wide.channels);
  narrow.values = wide.values;
  take(narrow.values_batch_stride, wide.values_batch_stride);
  take(narrow.values_row_stride, wide.values_row_stride);
  take(narrow.values_channel_stride, wide.values_channel_stride);
  narrow.times = wide.times;
  take(narrow.times_batch_stride, wide.times_batch_stride);
  take(narrow.times_row_stride, wide.times_row_stride);
  narrow.target_times = wide.target_times;
  take(narrow.target_times_batch_stride, wide.target_times_batch_stride);
  take(narrow.target_times_stride, wide.target_times_stride);
  narrow.lengths = wide.lengths;
  take(narrow.lengths_stride, wide.lengths_stride);
  narrow.begins = wide.begins;
  take(narrow.begins_stride, wide.begins_stride);
  narrow.valid = wide.valid;
  take(narrow.valid_batch_stride, wide.valid_batch_stride);
  take(narrow.valid_row_stride, wide.valid_row_stride);
  narrow.subtract = wide.subtract;
  take(narrow.subtract_stride, wide.subtract_stride);
  narrow.multiply = wide.multiply;
  take(narrow.multiply_stride, wide.multiply_stride);
  narrow.out = wide.out;
  narrow.out_batch_stride = 0;  // the output is one array of rows
  take(narrow.out_target_stride, wide.out_target_stride);
  narrow.out_valid = wide.out_valid;
  take(narrow.out_valid_batch_stride, wide.out_valid_batch_stride);
  take(narrow.out_valid_target_stride, wide.out_valid_target_stride);
  narrow.out_age = wide.out_age;
  take(narrow.out_age_batch_stride, wide.out_age_batch_stride);
  take(narrow.out_age_target_stride, wide.out_age_target_stride);
  narrow.max_gap = wide.max_gap;
  narrow.tolerance = wide.tolerance;
  narrow.half_mean_window = wide.half_mean_window;
  narrow.clock_offset = wide.clock_offset;
  narrow.time_type = wide.time_type;
  narrow.value_type = wide.value_type;
  narrow.out_type = wide.out_type;
  narrow.lengths_are_int32 = wide.lengths_are_int32;
  narrow.has_max_gap = wide.has_max_gap;
  narrow.outside = wide.outside;
  narrow.method = wide.method;
  narrow.row_kinds = wide.row_kinds;
  // Kernels count targets over the batch, and keep three bits beside them.
  return fits && wide.batch * wide.targets < (std::int64_t{1} << 29);
}

}  // namespace robocache
