// JPEG frames as a flat C API, which python/robocache/jpeg/library.py declares to ctypes.
//
// Functions return a JpegStatus: they may be called from several threads at once, each of which
// keeps a decoder.
#include "robocache/jpeg.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "c_api.h"

using robocache::JpegStatus;

// The client declares structures of the same layout to ctypes.
extern "C" {

/// The properties of a frame that a store needs.
struct RobocacheJpegFrame {
  std::int32_t width;
  std::int32_t height;
  std::int32_t components;   // 1 or 3
  std::int32_t orientation;  // of EXIF: 1 is upright
  std::int64_t index_size;   // elements of the index with an entry for every `every`-th MCU
};

}  // extern "C"

namespace {

/// Runs `body`, which returns a JpegStatus; no exception may cross the C API.
template <typename Body>
int jpeg_status_of(const Body& body) noexcept {
  try {
    return static_cast<int>(body());
  } catch (...) {
    return -1;  // out of memory
  }
}

}  // namespace

extern "C" {

/// The status in words, after "expected baseline JPEG, got ".
ROBOCACHE_C_API const char* robocache_jpeg_describe(int status) {
  return robocache::describe(static_cast<JpegStatus>(status));
}

/// Whether libjpeg-turbo decodes a frame of this status.
ROBOCACHE_C_API int robocache_jpeg_has_image(int status) {
  return robocache::has_image(static_cast<JpegStatus>(status)) ? 1 : 0;
}

/// Parses the header of a frame.
ROBOCACHE_C_API int robocache_jpeg_inspect(const void* bytes, std::int64_t size, std::int32_t every,
                                           RobocacheJpegFrame* frame) {
  return jpeg_status_of([&] {
    robocache::JpegHeader header;
    const JpegStatus status = robocache::parse_jpeg(bytes, static_cast<std::size_t>(size), header);
    *frame = {header.width, header.height, header.components, header.orientation, 0};
    if (status == JpegStatus::kOk) {
      frame->index_size =
          robocache::jpeg_index_size(header.width, header.height, header.sampling, every);
    }
    return status;
  });
}

/// Computes the index of a frame into `entries`, which has the `index_size` of
/// robocache_jpeg_inspect.
ROBOCACHE_C_API int robocache_jpeg_index(const void* bytes, std::int64_t size, std::int32_t every,
                                         std::uint64_t* entries, std::int64_t index_size,
                                         std::uint32_t* scan_bits) {
  return jpeg_status_of([&] {
    robocache::JpegHeader header;
    const auto length = static_cast<std::size_t>(size);
    JpegStatus status = robocache::parse_jpeg(bytes, length, header);
    if (status != JpegStatus::kOk) return status;
    thread_local robocache::JpegIndex index;
    status = robocache::index_jpeg(bytes, length, header, every, index);
    if (static_cast<std::int64_t>(index.entries.size()) != index_size) {
      return status == JpegStatus::kOk ? JpegStatus::kIndexMismatch : status;
    }
    std::copy(index.entries.begin(), index.entries.end(), entries);
    *scan_bits = index.scan_bits;
    return status;
  });
}

/// Decodes a frame to [height, width, channels] bytes; zeros where it has no image.
ROBOCACHE_C_API int robocache_jpeg_decode(const void* bytes, std::int64_t size, std::int32_t height,
                                          std::int32_t width, std::int32_t channels,
                                          std::uint8_t* out) {
  return jpeg_status_of([&] {
    thread_local robocache::JpegDecoder decoder;
    return decoder.decode(bytes, static_cast<std::size_t>(size), width, height, channels, {}, out,
                          static_cast<std::ptrdiff_t>(width) * channels);
  });
}

/// Encodes [height, width, channels] bytes. `*encoded` is valid until this thread encodes again.
ROBOCACHE_C_API int robocache_jpeg_encode(const std::uint8_t* pixels, std::int32_t height,
                                          std::int32_t width, std::int32_t channels,
                                          std::int32_t quality, int full_chroma,
                                          const std::uint8_t** encoded, std::int64_t* size) {
  return jpeg_status_of([&] {
    thread_local std::vector<std::uint8_t> bytes;
    robocache::JpegEncoding options;
    options.quality = quality;
    options.sampling = channels == 1      ? robocache::JpegSampling::kGray
                       : full_chroma != 0 ? robocache::JpegSampling::k444
                                          : robocache::JpegSampling::k420;
    robocache::JpegEncoder encoder(options);
    const JpegStatus status = encoder.encode(pixels, width, height, channels,
                                             static_cast<std::ptrdiff_t>(width) * channels, bytes);
    *encoded = bytes.data();
    *size = static_cast<std::int64_t>(bytes.size());
    return status;
  });
}
}
