// Rows of cameras that are cropped, resized and normalized.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "image/backends.h"
#include "live/memory.h"
#include "robocache/live.h"

namespace robocache {

/// The streams with the rows that buffers hold: of a stream with an image operation the processed
/// ones, of the others those that are pushed.
std::vector<LiveStream> processed_streams(const std::vector<LiveStream>& streams);

/// Applies the image operations of streams to frames as they are pushed, each once, with the
/// loader's code. A query then copies processed rows: at control time it would process a window's
/// frames again and again, for milliseconds in which the controller waits.
///
/// The thread that pushes a robot's stream uses the memory of that robot. Allocates nothing after
/// construction.
class ImageRows {
 public:
  /// Throws std::bad_alloc. `streams` are validated.
  ImageRows(const std::vector<LiveStream>& streams, std::int64_t robots);

  /// Whether the rows of a stream are processed.
  bool processes(std::int64_t stream) const { return !of(stream).robots.empty(); }

  /// Memory for a frame of a stream that is processed.
  std::byte* frame(std::int64_t stream, std::int64_t robot) const {
    return robot_of(stream, robot).frame.get();
  }

  /// Processes a frame, which need not be aligned, to a row.
  void process(std::int64_t stream, std::int64_t robot, const void* frame, std::byte* row) noexcept;

  /// The row that a frame of zeros is processed to, which windows without a row have; null for
  /// streams that are not processed.
  const std::byte* black(std::int64_t stream) const { return of(stream).black.get(); }

 private:
  struct Robot {
    ImageCall call;  // of one frame, validated: `process_images` itself allocates for its messages
    AlignedBytes frame;
    AlignedBytes workspace;
  };
  struct Stream {
    std::size_t frame_bytes = 0, element_bytes = 0;
    std::vector<std::unique_ptr<Robot>> robots;  // [R]; none: rows are not processed
    AlignedBytes black;
  };

  const Stream& of(std::int64_t stream) const { return streams_[static_cast<std::size_t>(stream)]; }
  Robot& robot_of(std::int64_t stream, std::int64_t robot) const {
    return *of(stream).robots[static_cast<std::size_t>(robot)];
  }

  std::vector<Stream> streams_;
};

}  // namespace robocache
