// The windows of live streams, as a plan of the loader over their buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "live/image_rows.h"
#include "live/live_source.h"
#include "live/memory.h"
#include "live/output_layout.h"
#include "live/selection.h"
#include "live/transform_chain.h"
#include "loader/prepare.h"
#include "robocache/live.h"

namespace robocache {

/// Computes windows with the loader. A robot's buffers are one episode, which is recorded up to
/// now; its anchor is now. A query is a batch of that one sample per robot, computed by the
/// loader's CPU backend.
///
/// Besides the windows of the output, each reference of `undo` has a window of a single step at the
/// anchor, which is written to memory of this object, for each of the last queries.
///
/// A window of processed images is a window of the numbers of their slots, like that of JPEG frames
/// in the loader: the images with these numbers are then copied.
class LiveWindows {
 public:
  /// Throws ValueError and TypeError as the loader does, for streams that are not live too.
  /// `streams` (validated and processed), `layout`, `chain`, `sources` and `images` must outlive
  /// this object and keep their addresses.
  LiveWindows(const std::vector<LiveStream>& streams, const OutputLayout& layout,
              const TransformChain& chain, const LiveSources& sources, const ImageRows& images,
              const LiveOptions& options);
  LiveWindows(const LiveWindows&) = delete;
  LiveWindows& operator=(const LiveWindows&) = delete;

  /// Writes a robot's windows of the selected streams to an output, or to the input of their
  /// transforms; and the references of `undo`. `slot`: of the query, in `KeptQueries`.
  void make(const Selection& selection, std::int64_t slot, std::int64_t robot, std::int64_t now_ns,
            std::byte* out);

  /// Whether a live stream has a row that a robot's windows at a time can see. Call it between
  /// queries.
  bool has_rows(std::size_t stream, std::int64_t robot, std::int64_t now_ns) const;

  /// The value that a stream is relative to, as of each of the last queries.
  struct Reference {
    const LiveStream* stream;  // the reference
    DataType type;             // float32 or float64
    AlignedBytes values;       // [queries,R, its channels]
    AlignedBytes is_pad;       // [queries,R] bool
  };
  /// The reference of a relative stream; null for other streams.
  const Reference* reference_of(std::int64_t stream) const;

 private:
  /// A window of the plan, and the arrays that the plan points to.
  struct Window {
    const LiveStream* stream;
    std::string name;    // in the plan
    LiveSource* source;  // its rows; null: the window is validated, and never computed
    bool is_by_row;
    std::vector<std::int64_t> steps;   // of the plan; by row, counted from the robot's first row
    std::vector<std::int64_t> asked;   // the offsets of the spec
    std::int64_t offsets[2] = {0, 0};  // row offsets of the robot's entries in the buffer
    std::int64_t value_begin = 0;      // the position of the robot's slots, in elements
    std::vector<float> narrow[2];      // subtract and multiply, in the compute type
    std::vector<double> wide[2];
    const WindowPlace* place = nullptr;  // in the output; null for a reference
    std::byte* values = nullptr;         // the input of its transforms; null: the output
    Reference* reference = nullptr;      // for `undo`; else null
    bool is_image = false;               // of processed images
    std::vector<std::int64_t> numbers;   // of images: [slots], from 1 on
    std::vector<std::int64_t> found;     // [K] the numbers of the window's rows; 0: zeros
    // The index of the window that this one is relative to, or -1; and that window's row offsets
    // and value begin.
    std::int32_t relative_to = -1;
    std::int64_t reference_offsets[2] = {0, 0};
    std::int64_t reference_value_begin = 0;
  };

  Window& add_window(const LiveStream& stream, LiveSource* source);
  void add_reference(std::size_t stream);
  void relate(Window& window) const;
  WindowStream planned(Window& window) const;
  ConstTensorView scale(Window& window, int which, const std::vector<double>& numbers) const;
  void plan();
  const Window& reference_of(const Window& window) const;
  static std::int64_t value_begin(const Window& window, std::int64_t robot);
  std::byte* values_of(const Window& window, std::int64_t robot, std::byte* out) const;
  void copy_images(const Window& window, std::int64_t robot, std::byte* out) const;
  bool is_selected(const Selection& selection, std::size_t number) const;
  void point_to_reference(std::size_t number, std::int64_t robot, std::int64_t now_ns);
  void point_to(std::size_t number, std::int64_t slot, std::int64_t robot, std::int64_t now_ns,
                std::byte* out);

  const std::vector<LiveStream>& streams_;
  const LiveSources& sources_;
  const ImageRows& images_;
  std::int64_t robots_, kept_queries_;
  std::vector<std::unique_ptr<Reference>> references_;
  std::vector<const Reference*> reference_of_;  // [streams]
  std::vector<std::unique_ptr<Window>> windows_;
  std::size_t made_ = 0;  // the first `made_` windows are computed; the others are only validated
  std::int64_t index_ = 0;
  std::int64_t anchor_[2] = {0, 0};  // as an Anchor: episode and frame, time
  std::int64_t episode_[4] = {0, 0, 0, 0};
  std::optional<PreparedBatch> prepared_;
  PreparedBatch::Call call_;
};

}  // namespace robocache
