// Rows of cameras that arrive as JPEG, or that are encoded as the images of training were.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "robocache/jpeg.h"
#include "robocache/live.h"

namespace robocache {

/// Decoders of the streams of images, and encoders where `LiveOptions::encode_images` asks for
/// them, one of each robot. The thread that pushes a robot's stream uses them.
class JpegRows {
 public:
  /// Throws ValueError where images can't be encoded as in training, and std::bad_alloc.
  JpegRows(const std::vector<LiveStream>& streams, const LiveOptions& options);

  /// Decodes a frame to a row: kOk, or the reason why the row is not to be used.
  LiveStatus decode(std::int64_t stream, std::int64_t robot, const void* bytes, std::size_t size,
                    std::byte* row) noexcept;

  /// Whether raw images of a stream are encoded.
  bool encodes(std::int64_t stream) const {
    const auto& robots = streams_[static_cast<std::size_t>(stream)].robots;
    return !robots.empty() && robots[0]->encoder != nullptr;
  }
  /// Encodes an image of a stream that is encoded, and decodes it to a row. kNotJpeg: memory has
  /// run out.
  LiveStatus encode(std::int64_t stream, std::int64_t robot, const void* image,
                    std::byte* row) noexcept;

 private:
  struct Robot {
    JpegDecoder decoder;
    std::unique_ptr<JpegEncoder> encoder;  // null: images are not encoded
    std::vector<std::uint8_t> file;        // of the encoder
  };
  struct Stream {
    std::int32_t height = 0, width = 0, channels = 0;
    // [R]; none for a stream that has no images or takes no rows. Decoders can't be moved.
    std::vector<std::unique_ptr<Robot>> robots;

    std::ptrdiff_t row_stride() const { return std::ptrdiff_t{width} * channels; }
  };

  void warm_up();

  std::vector<Stream> streams_;
};

}  // namespace robocache
