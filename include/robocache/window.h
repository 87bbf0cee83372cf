// The one record of a stream's window: what a loader, a policy spec and a LiveAligner compute from
// the rows of a stream. docs/loader.md and docs/live.md say what each field means.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "robocache/align.h"
#include "robocache/export.h"
#include "robocache/store.h"
#include "robocache/tensor_view.h"

namespace robocache {

/// A stream and its window: K offsets from the anchor, rows of D elements. Options only.
///
/// src/window/fields.cpp has the table of its fields: JSON names, kinds and descriptions. JSON is
/// read and written, the schema in docs/ is tested and messages are worded by it.
/// python/robocache has the same record, with the same names.
struct WindowSpec {
  std::string name;  // its key in a batch; the name of no other

  // A row: a number has no shape, an image [H,W,C]. Rows of types that alignment does not compute
  // with are copied.
  DataType dtype = DataType::kFloat32;
  std::vector<std::int64_t> shape;
  double rate = 0.0;  // rows in a second; 0: unknown

  // Offsets by time are ns, and offsets by row count rows, from the anchor's. With a sum they
  // ascend.
  Timeline timeline = Timeline::kTime;
  std::vector<std::int64_t> offsets{0};
  bool has_axis = true;  // else K is 1, and the output has no K

  // By time: whether rows that are later than the anchor, or arrive later, do not exist, as if the
  // recording stopped there. No row arrives earlier than `latency_ns` after its time. A target
  // later than the newest row that had arrived holds that row, by every method, and is valid where
  // the row is, within `max_gap_ns` of it; a mean is of the rows in its window where there are any,
  // and a sum of those in its interval. `outside` rules what lies before the first row alone.
  bool causal = true;

  // As in `Stream`; by row they have no effect, except that channels of angle runs are subtracted
  // the short way round.
  Method method = Method::kLinear;
  std::vector<Run> layout;  // in place of `method`
  Outside outside = Outside::kHold;
  std::optional<std::int64_t> max_gap_ns;
  std::int64_t tolerance_ns = 0;
  std::optional<std::int64_t> mean_window_ns;
  std::int64_t latency_ns = 0;

  // y = (x - subtract) * multiply: each [D], of the row's last axis, of one number, or empty; with
  // `channels_first` of the channels, or one. A loader takes them as tensors, which may lie on its
  // device: see `WindowStream`.
  std::vector<double> subtract, multiply;
  std::string normalize;  // the mode that they came from; for people
  DataType out_dtype = DataType::kFloat32;

  // Whether images [H,W,C] of uint8 and one to four channels are written [C,H,W].
  bool channels_first = false;

  // The stream that the window is relative to, its reference; empty: none. Of each of the window's
  // values x, a column of the reference is subtracted, as that stream's own options give it at the
  // anchor (by time at 0 ns, by row at 0 rows, whatever its offsets are), but in the compute type
  // of this window, and without scale or rounding:
  //
  //     y = ((x - reference) - subtract) * multiply, rounded once
  //
  // Channels of an angle run, by row too, are subtracted the short way round: into (-pi, pi]. Zeros
  // and NaN in place of a value (`outside`, no rows) stay as they are. Where the reference is
  // padded, so is the whole window; in an episode of which the reference has no rows, it is 0.
  std::string relative_to;
  // [D], with relative_to: the reference's column for each element; -1: none.
  std::vector<std::int32_t> reference_columns;
  // Whether the reference by time is computed from what had arrived by the anchor, whatever the
  // window of its own stream is; false: from all rows.
  bool reference_is_causal = true;
};

/// The largest values of a set of windows.
inline constexpr std::int64_t kMaxRowElements = std::int64_t{1} << 26;  // of a row
inline constexpr std::int64_t kMaxRowOffset = (std::int64_t{1} << 31) - 1;
inline constexpr std::int64_t kMaxColors = 4;  // of an image that is written channels first
inline constexpr std::int64_t kMaxReferenceChannels = 4096;

/// The windows in a text of JSON: {"windows": [{"name": ..., ...}, ...]}, each with all fields of
/// version 2 of a policy spec's streams. `name` is what errors call the text.
///
/// Throws ValueError, whose message names the field. Whether the windows fit each other is for what
/// takes them.
ROBOCACHE_API std::vector<WindowSpec> parse_windows(std::string_view text, const std::string& name);

/// The text that `parse_windows` reads.
ROBOCACHE_API std::string windows_json(const std::vector<WindowSpec>& windows);

/// The JSON schema of a window in a policy spec, an object.
ROBOCACHE_API std::string window_schema();

}  // namespace robocache
