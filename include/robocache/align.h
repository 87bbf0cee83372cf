// Alignment: values with their own timestamps go in, values on a requested timeline come out, with
// a mask that says which are real. The meaning of every option is in docs/meaning.md.
//
// Shapes: B batch rows (episodes), S source rows, T targets, D channels of one stream. Whatever
// has no B is shared by the batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "robocache/execution.h"
#include "robocache/export.h"
#include "robocache/tensor_view.h"

namespace robocache {

/// How the rows around a target combine.
enum class Method : std::uint8_t {
  kLinear,     // a + w (b - a)
  kPrevious,   // the last row at or before the target
  kNearest,    // the closer row; a tie takes the earlier
  kSlerpXyzw,  // unit quaternions, four channels, scalar last: spherical, the short way round
  kSlerpWxyz,  // the same, scalar first
  kAngle,      // radians: linear the short way round, result in (-pi, pi]
  kMean,       // the mean of the valid rows within mean_window / 2; linear where there is none
  kSum,        // the sum of the rows after the previous target, up to this one
};

/// What a target before the first or after the last row is given (its mask is false either way).
enum class Outside : std::uint8_t {
  kHold,         // the first or last row
  kZero,         // 0, written after subtract and multiply
  kNan,          // NaN, likewise; an error for uint8 output
  kExtrapolate,  // linear runs go on along the two nearest rows; everything else holds
};

/// A run of neighboring channels that are combined alike. A slerp run has four channels.
struct Run {
  Method method = Method::kLinear;
  std::int64_t channels = 0;
};

/// The most streams that one call takes, runs in one stream's layout, and runs in all of them.
inline constexpr int kMaxStreams = 64;
inline constexpr int kMaxRuns = 256;
inline constexpr int kMaxRunsInAll = 512;

/// A length of time, in the unit of the times it is compared with: nanoseconds for int64 times,
/// seconds for floating ones (rounded to their type). Only a clock offset may be negative.
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

/// The compute type: in which values of one type are combined on their way to an output of another.
constexpr DataType compute_type(DataType values, DataType out) {
  const bool is_wide = values == DataType::kFloat64 || out == DataType::kFloat64;
  return is_wide ? DataType::kFloat64 : DataType::kFloat32;
}

/// One recorded stream and how it is to be aligned.
///
/// Its rows are dense, [B,S,D] or [S,D], or ragged: with `begins`, values are [N,D], times [N] and
/// valid [N], and batch row b owns the `lengths[b]` rows from `begins[b]` on.
struct Stream {
  ConstTensorView values;   // [B,S,D] or [S,D]; float16, bfloat16, float32, float64 or uint8
  ConstTensorView times;    // [B,S] or [S]; int64 ns, float32 or float64 s; ascending in an episode
  ConstTensorView lengths;  // optional, [B] or []; int32 or int64: rows past it do not exist
  ConstTensorView begins;   // optional, [B] int64; needs lengths
  ConstTensorView valid;    // optional, [B,S] or [S] bool: which source rows are real

  Method method = Method::kLinear;
  std::vector<Run> layout;  // in place of `method` where channels differ; sums to D

  std::optional<Duration> max_gap;    // rows farther apart (or away) than this do not make a target
  std::optional<Duration> tolerance;  // a row this close to a target is the answer alone
  std::optional<Duration> mean_window;   // with a kMean: the rows within half of it, on either side
  std::optional<Duration> clock_offset;  // added to the times before anything else looks at them

  // (x - subtract) * multiply, before the output is rounded: optional, [D], of `compute_type`.
  ConstTensorView subtract;
  ConstTensorView multiply;
};

/// What error messages call the arguments: a front end that has other names for them says so here.
struct ArgumentNames {
  const char* values = "values";
  const char* times = "times";
  const char* target_times = "target_times";
  const char* lengths = "lengths";
  const char* valid = "valid";
  bool streams_are_numbered = false;  // "streams[0].values", of a single stream too
};

struct AlignOptions {
  Outside outside = Outside::kHold;
  ArgumentNames names;
};

/// The shape of what `align` writes: [batch, targets, channels], or [targets, channels] where
/// nothing has a B.
struct AlignedShape {
  bool is_batched = false;
  std::int64_t batch = 1;
  std::int64_t targets = 0;
  std::int64_t channels = 0;
};

/// Checks the arguments of `align` as it does, and says how large an output of type `out_type` is
/// to be. Reads shapes and types only.
ROBOCACHE_API AlignedShape aligned_shape(const Stream* streams, std::size_t count,
                                         const ConstTensorView& target_times,
                                         const AlignOptions& options, DataType out_type,
                                         const ExecutionContext& context);

/// Aligns `count` streams to `target_times` and writes them side by side.
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
/// `streams`: `count` of them, at most kMaxStreams. `options`: what holds for all of them.
/// `target_times`: [B,T] or [T], of the streams' time type, in any order.
/// `values_out`: [B,T,sum of D], its last stride 1, any of the five value types; [T,sum of D] if
/// nothing has a B.
/// `valid_out`: absent, or bool [B,T,count] ([T,count] likewise).
/// `age_out`: absent, or of the times' type, shaped as `valid_out`: the target's time less that of
/// the newest row that its value is made from, negative where that row is later; 0 for a NaN target
/// and an empty episode. Of int64 times it wraps where it does not fit.
///
/// `context`: where all tensors are and the work is done.
///
/// On the CPU, source times that do not ascend, target times that do not where there is a sum, and
/// lengths outside [0,S] are errors. On CUDA none is looked at: lengths are clamped, and unordered
/// times give unspecified values. Throws ValueError or TypeError before anything is written, and
/// DeviceError where a launch fails: if others went before it, part of the output is written.
///
/// On CUDA this is one launch, but for streams with sizes or strides past 2^30, negative strides,
/// 2^29 targets or an output with gaps between batch rows, which take one each.
ROBOCACHE_API void align(const Stream* streams, std::size_t count,
                         const ConstTensorView& target_times, const AlignOptions& options,
                         const TensorView& values_out, const TensorView& valid_out,
                         const TensorView& age_out, const ExecutionContext& context);

/// Bytes of scratch, in the context's memory, that `align_backward` needs for these arguments.
ROBOCACHE_API std::size_t align_backward_workspace_bytes(const Stream& stream,
                                                         const ConstTensorView& target_times,
                                                         const ExecutionContext& context);

/// The gradient of a loss with respect to `stream.values`, given its gradient with respect to what
/// `align` writes for this one stream. Sums are taken in the compute type, in order of the targets'
/// first rows and then of batch row and target, and rounded once: the same bits on every run. A
/// target's first row is that of a linear run, or the first within reach of its mean or sum where
/// that is earlier.
///
/// `stream.values` gives shape and type; its data are read for slerp runs only and may be null
/// otherwise. `grad_output`: [B,T,D] or [T,D], any strides. `grad_values`: shaped and typed as the
/// values, contiguous. `workspace`: at least the bytes asked for above. Throws as
/// `align` does.
ROBOCACHE_API void align_backward(const Stream& stream, const ConstTensorView& target_times,
                                  const AlignOptions& options, const ConstTensorView& grad_output,
                                  const TensorView& grad_values, const Workspace& workspace,
                                  const ExecutionContext& context);

}  // namespace robocache
