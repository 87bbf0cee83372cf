// The record of a stream's window, which loaders, policy specs and LiveAligners share.
// docs/loader.md and docs/live.md define each field.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "robocache/align.h"
#include "robocache/export.h"
#include "robocache/image.h"
#include "robocache/jpeg.h"
#include "robocache/store.h"
#include "robocache/tensor_view.h"

namespace robocache {

/// The encoding of a camera's images in the training data.
struct ImageEncoding {
  std::int32_t quality = 0;              // of libjpeg, 1 to 100; 0: another one, or several
  std::optional<JpegSampling> sampling;  // none: several
};

/// The options of a stream's window: K offsets from the anchor, rows of D elements.
///
/// The anchor is the reference time, or the reference row, of a sample. The table of fields in
/// src/window/fields.cpp has their JSON names, types and descriptions; it drives the JSON reader
/// and writer, the schema in docs/ and the error messages. python/robocache has the same record,
/// with the same names.
struct WindowSpec {
  std::string name;  // the stream's key in a batch; unique

  // The type and shape of a row: [] for a number, [H,W,C] for an image. Rows of types that
  // alignment does not compute with are copied.
  DataType dtype = DataType::kFloat32;
  std::vector<std::int64_t> shape;
  double rate = 0.0;  // rows per second; 0: unknown

  // The rows' description in the store's manifest: a name for each of the D elements, or none; the
  // units, empty where unknown; the nominal rate in Hz, 0 where unknown.
  std::vector<std::string> channels;
  std::string units;
  double nominal_rate = 0.0;

  // The encoding of images that were JPEG in the training data; none: they were raw. Windows do not
  // depend on it.
  std::optional<ImageEncoding> encoding;

  // Offsets from the anchor: nanoseconds with Timeline::kTime, rows with Timeline::kRows. With a
  // kSum run they ascend.
  Timeline timeline = Timeline::kTime;
  std::vector<std::int64_t> offsets{0};
  bool has_axis = true;  // false: K is 1, and the output has no axis K

  // With Timeline::kTime: whether the window ignores rows stamped after the anchor and rows that
  // arrive after it, as if the recording stopped there. A row arrives `latency_ns` after its time
  // at the earliest. A target later than the newest row that had arrived holds that row, with every
  // method, and is valid where the row is valid and within `max_gap_ns`. A mean still takes the
  // rows in its window, if there are any, and a sum those in its interval. `outside` then applies
  // only before the first row.
  bool causal = true;

  // As in `Stream`. With Timeline::kRows they have no effect, except that a reference is subtracted
  // from channels of angle runs along the shorter arc.
  Method method = Method::kLinear;
  std::vector<Run> layout;  // in place of `method`
  Outside outside = Outside::kHold;
  std::optional<std::int64_t> max_gap_ns;
  std::int64_t tolerance_ns = 0;
  std::optional<std::int64_t> mean_window_ns;
  std::int64_t latency_ns = 0;

  // y = (x - subtract) * multiply. Each has D numbers, one for each element of the row's last axis,
  // one number, or none; with `channels_first` or `image`, one for each channel or one. A loader
  // takes them as tensors, which may be on its device: see `WindowStream`.
  std::vector<double> subtract, multiply;
  std::string normalize;  // the normalization mode that they came from; informative only
  DataType out_dtype = DataType::kFloat32;

  // Whether images [H,W,C] of uint8, with one to four channels, are written as [C,H,W]. With
  // `image`, all its rows may be: those without an axis of channels are written as [1,h,w].
  bool channels_first = false;

  // The geometry of images, which `process_images` applies to the window's source frames. Rows are
  // then [H,W] or [H,W,C] of uint8, uint16, float16 or float32, with one to four channels, and
  // `subtract`, `multiply`, `out_dtype` and `channels_first` apply to its output. None: the window
  // has the frames as they are.
  std::optional<ImageSpec> image;

  // The stream that the window is relative to, its reference; empty: none. From each of the
  // window's values x, alignment subtracts a column of the reference's value at the anchor (at 0 ns
  // or 0 rows, whatever the reference's offsets are). That value follows the reference stream's
  // options, but in this window's compute type, and without scale or rounding:
  //
  //     y = ((x - reference) - subtract) * multiply, rounded once
  //
  // Channels of an angle run are subtracted along the shorter arc, into (-pi, pi], also with
  // Timeline::kRows. Literal zeros and NaN (`outside`, an episode without rows) stay as they are.
  // Where the reference is padding, the whole window is; in an episode without rows of the
  // reference, the reference is 0.
  std::string relative_to;
  // [D], with relative_to: the reference's column for each element; -1: none.
  std::vector<std::int32_t> reference_columns;
  // With Timeline::kTime: whether the reference is computed only from rows that had arrived by the
  // anchor, whatever the `causal` of its stream is; false: from all rows.
  bool reference_is_causal = true;
};

/// Limits of windows.
inline constexpr std::int64_t kMaxRowElements = std::int64_t{1} << 26;  // D
inline constexpr std::int64_t kMaxRowOffset = (std::int64_t{1} << 31) - 1;
inline constexpr std::int64_t kMaxColors = 4;  // channels of an image with `channels_first`
inline constexpr std::int64_t kMaxReferenceChannels = 4096;

/// Parses windows from JSON: {"windows": [{"name": ..., ...}, ...]}, each with all fields of a
/// stream in version 2 of the policy spec. `name` names the text in error messages.
///
/// Throws ValueError, whose message names the field. It does not check windows against each other;
/// the loader or aligner that takes them does.
ROBOCACHE_API std::vector<WindowSpec> parse_windows(std::string_view text, const std::string& name);

/// Serializes windows to the JSON that `parse_windows` reads.
ROBOCACHE_API std::string windows_json(const std::vector<WindowSpec>& windows);

/// The JSON schema of a window in a policy spec.
ROBOCACHE_API std::string window_schema();

}  // namespace robocache
