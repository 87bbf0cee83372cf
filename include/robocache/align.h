// Alignment resamples streams, each with its timestamps, onto one requested timeline, and writes a
// mask of the valid results. docs/meaning.md defines every option.
//
// Shapes: B batch rows (episodes), S source rows, T targets, D channels of one stream. A tensor
// without the axis B is shared by the batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "robocache/execution.h"
#include "robocache/export.h"
#include "robocache/tensor_view.h"

namespace robocache {

/// The rule by which the rows around a target combine.
enum class Method : std::uint8_t {
  kLinear,     // a + w (b - a)
  kPrevious,   // the last row at or before the target
  kNearest,    // the closer row; a tie takes the earlier
  kSlerpXyzw,  // unit quaternions, four channels, scalar last: spherical, along the shorter arc
  kSlerpWxyz,  // as kSlerpXyzw, scalar first
  kAngle,      // radians: linear along the shorter arc, result in (-pi, pi]
  kMean,       // the mean of the valid rows within mean_window / 2; without any, linear
  kSum,        // the sum of the rows after the previous target, up to this one
};

/// The value of a target before the first row or after the last. Its mask is false in every case.
enum class Outside : std::uint8_t {
  kHold,         // the first or last row
  kZero,         // 0, written after subtract and multiply
  kNan,          // NaN, written after subtract and multiply; an error for uint8 output
  kExtrapolate,  // linear runs extrapolate from the two nearest rows; other methods hold
};

/// A run of neighboring channels that share a method. A slerp run has four channels.
struct Run {
  Method method = Method::kLinear;
  std::int64_t channels = 0;
};

/// Limits of one call: its streams, the runs in one stream's layout, and the runs of all streams.
inline constexpr int kMaxStreams = 64;
inline constexpr int kMaxRuns = 256;
inline constexpr int kMaxRunsInAll = 512;

/// A length of time in the unit of the stream's times: nanoseconds for int64 times, seconds for
/// floating-point times (rounded to their type). Only a clock offset may be negative.
class Duration {
 public:
  static constexpr Duration nanoseconds(std::int64_t count) { return {true, count, 0.0}; }
  static constexpr Duration seconds(double count) { return {false, 0, count}; }

  constexpr bool is_nanoseconds() const { return is_nanoseconds_; }
  constexpr std::int64_t nanoseconds() const { return nanoseconds_; }
  constexpr double seconds() const { return seconds_; }

 private:
  constexpr Duration(bool is_nanoseconds, std::int64_t nanoseconds, double seconds)
      : is_nanoseconds_(is_nanoseconds), nanoseconds_(nanoseconds), seconds_(seconds) {}

  bool is_nanoseconds_;
  std::int64_t nanoseconds_;
  double seconds_;
};

/// The compute type: the type in which alignment combines values, before it rounds to the output's.
constexpr DataType compute_type(DataType values, DataType out) {
  const bool is_wide = values == DataType::kFloat64 || out == DataType::kFloat64;
  return is_wide ? DataType::kFloat64 : DataType::kFloat32;
}

/// One recorded stream and its alignment options.
///
/// Its rows are dense, [B,S,D] or [S,D], or ragged: with `begins`, values are [N,D], times [N] and
/// valid [N], and batch row b has the `lengths[b]` rows that start at row `begins[b]`.
struct Stream {
  ConstTensorView values;   // [B,S,D] or [S,D]; float16, bfloat16, float32, float64 or uint8
  ConstTensorView times;    // [B,S] or [S]; int64 ns, float32 or float64 s; ascending in an episode
  ConstTensorView lengths;  // optional, [B] or []; int32 or int64: rows past it are ignored
  ConstTensorView begins;   // optional, [B] int64; needs lengths
  ConstTensorView valid;    // optional, [B,S] or [S] bool: which source rows are real

  Method method = Method::kLinear;
  std::vector<Run> layout;  // in place of `method` where channels differ; sums to D

  // Masks a target whose rows are farther apart than this, or whose one row is farther away.
  std::optional<Duration> max_gap;
  std::optional<Duration> tolerance;     // a row this close to a target is copied
  std::optional<Duration> mean_window;   // of kMean runs: rows within half of it, on either side
  std::optional<Duration> clock_offset;  // added to the times before every other step

  // (x - subtract) * multiply, before the output is rounded: optional, [D], of `compute_type`.
  ConstTensorView subtract;
  ConstTensorView multiply;
};

/// The names of the arguments in error messages. A front end with other names sets them here.
struct ArgumentNames {
  const char* values = "values";
  const char* times = "times";
  const char* target_times = "target_times";
  const char* lengths = "lengths";
  const char* valid = "valid";
  bool streams_are_numbered = false;  // "streams[0].values", also where there is one stream
};

struct AlignOptions {
  Outside outside = Outside::kHold;
  ArgumentNames names;
};

/// The shape of the output of `align`: [batch, targets, channels], or [targets, channels] where no
/// argument has the axis B.
struct AlignedShape {
  bool is_batched = false;
  std::int64_t batch = 1;
  std::int64_t targets = 0;
  std::int64_t channels = 0;
};

/// Validates the arguments as `align` does, and returns the shape of an output of type `out_type`.
/// Reads shapes and types only.
ROBOCACHE_API AlignedShape aligned_shape(const Stream* streams, std::size_t count,
                                         const ConstTensorView& target_times,
                                         const AlignOptions& options, DataType out_type,
                                         const ExecutionContext& context);

/// Aligns `count` streams to `target_times` and writes their channels side by side in one output.
///
///     const float values[] = {0, 1, 2, 9};           // [S=4,D=1]
///     const std::int64_t times[] = {0, 10, 20, 90};  // [S], ns
///     const std::int64_t targets[] = {5, 20, 55};    // [T=3]
///     Stream stream;
///     stream.values = array(values, {4, 1});
///     stream.times = array(times, {4});
///     float out[3];
///     align(&stream, 1, array(targets, {3}), {}, array(out, {3, 1}), {}, {}, on_cpu());
///     // out: 0.5, 2, 5.5
///
/// `streams`: `count` streams, at most kMaxStreams. `options`: options of the whole call.
/// `target_times`: [B,T] or [T], of the streams' time type, in any order.
/// `values_out`: [B,T,sum of D], its last stride 1, any of the five value types; [T,sum of D] if
/// no argument has the axis B.
/// `valid_out`: absent, or bool [B,T,count]; without B, [T,count].
/// `age_out`: absent, or of the times' type, shaped as `valid_out`: the target's time minus the
/// time of the newest row that its value is computed from, negative where that row is later; 0 for
/// a NaN target and an empty episode. With int64 times it wraps on overflow.
///
/// `context`: the device of all tensors, and the threads or the CUDA stream that do the work.
///
/// On the CPU, these are errors: source times that do not ascend, target times that do not ascend
/// with a kSum run, and lengths outside [0,S]. CUDA checks none of them: it clamps lengths, and
/// unordered times give unspecified values. Throws ValueError or TypeError before it writes
/// anything, and DeviceError where a launch fails; earlier launches of the call may have written
/// part of the output.
///
/// On CUDA all streams share one launch, except for streams that take one launch each: those with
/// sizes or strides past 2^30, negative strides, 2^29 targets, or an output with gaps between batch
/// rows.
ROBOCACHE_API void align(const Stream* streams, std::size_t count,
                         const ConstTensorView& target_times, const AlignOptions& options,
                         const TensorView& values_out, const TensorView& valid_out,
                         const TensorView& age_out, const ExecutionContext& context);

/// Bytes of workspace, in the context's memory, that `align_backward` needs for these arguments.
ROBOCACHE_API std::size_t align_backward_workspace_bytes(const Stream& stream,
                                                         const ConstTensorView& target_times,
                                                         const ExecutionContext& context);

/// Computes the gradient of a loss with respect to `stream.values` from its gradient with respect
/// to the output of `align` for this one stream.
///
/// Sums are taken in the compute type, in order of the targets' first rows, then of batch row and
/// target, and rounded once, so that every run returns the same bits. A target's first row is the
/// earlier row of its linear pair, or the first row of its mean or sum where that is earlier.
///
/// `stream.values` has the shape and the type; its data are read for slerp runs only and may be
/// null otherwise. `grad_output`: [B,T,D] or [T,D], any strides. `grad_values`: shaped and typed as
/// the values, contiguous. `workspace`: at least `align_backward_workspace_bytes`. Throws as
/// `align` does.
ROBOCACHE_API void align_backward(const Stream& stream, const ConstTensorView& target_times,
                                  const AlignOptions& options, const ConstTensorView& grad_output,
                                  const TensorView& grad_values, const Workspace& workspace,
                                  const ExecutionContext& context);

}  // namespace robocache
