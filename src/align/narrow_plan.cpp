#include "align/narrow_plan.h"

namespace robocache {

bool narrow_plan(const StreamPlan& wide, NarrowPlan& narrow) {
  bool fits =
      wide.batch == 1 || wide.out_batch_stride == offset(wide.targets, wide.out_target_stride);
  const auto cut = [&](std::int64_t size) {
    fits = fits && size >= 0 && size < (std::int64_t{1} << 30);
    return static_cast<std::int32_t>(size);
  };
  // Designated initializers in the order of the struct: the compiler warns of a missing field.
  narrow = NarrowPlan{
      .batch = cut(wide.batch),
      .rows = cut(wide.rows),
      .targets = cut(wide.targets),
      .channels = cut(wide.channels),
      .lengths = wide.lengths,
      .lengths_stride = cut(wide.lengths_stride),
      .begins = wide.begins,
      .begins_stride = cut(wide.begins_stride),
      .times = wide.times,
      .times_batch_stride = cut(wide.times_batch_stride),
      .times_row_stride = cut(wide.times_row_stride),
      .target_times = wide.target_times,
      .target_times_batch_stride = cut(wide.target_times_batch_stride),
      .target_times_stride = cut(wide.target_times_stride),
      .max_gap = wide.max_gap,
      .tolerance = wide.tolerance,
      .time_type = wide.time_type,
      .value_type = wide.value_type,
      .out_type = wide.out_type,
      .lengths_are_int32 = wide.lengths_are_int32,
      .has_max_gap = wide.has_max_gap,
      .outside = wide.outside,
      .method = wide.method,
      .row_kinds = wide.row_kinds,
      .values = wide.values,
      .values_batch_stride = cut(wide.values_batch_stride),
      .values_row_stride = cut(wide.values_row_stride),
      .values_channel_stride = cut(wide.values_channel_stride),
      .valid = wide.valid,
      .valid_batch_stride = cut(wide.valid_batch_stride),
      .valid_row_stride = cut(wide.valid_row_stride),
      .subtract = wide.subtract,
      .subtract_stride = cut(wide.subtract_stride),
      .multiply = wide.multiply,
      .multiply_stride = cut(wide.multiply_stride),
      .out = wide.out,
      .out_batch_stride = 0,  // the output is one array of rows
      .out_target_stride = cut(wide.out_target_stride),
      .out_valid = wide.out_valid,
      .out_valid_batch_stride = cut(wide.out_valid_batch_stride),
      .out_valid_target_stride = cut(wide.out_valid_target_stride),
      .out_age = wide.out_age,
      .out_age_batch_stride = cut(wide.out_age_batch_stride),
      .out_age_target_stride = cut(wide.out_age_target_stride),
      .half_mean_window = wide.half_mean_window,
      .clock_offset = wide.clock_offset,
  };
  // Kernels count targets over the batch, and pack three more bits into the same 32.
  return fits && wide.batch * wide.targets < (std::int64_t{1} << 29);
}

}  // namespace robocache
