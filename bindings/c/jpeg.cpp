// JPEG frames as a flat C API, which python/robocache/jpeg/library.py declares to ctypes.
//
// Functions return a JpegStatus: they may be called from several threads at once, each of which
// keeps a decoder.
#include "robocache/jpeg.h"

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
  std::int32_t status;       // the JpegStatus of the header
  std::int16_t quality;      // of libjpeg, 1 to 100; 0: of another encoder
  std::int16_t sampling;     // the number of the JpegSampling
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

/// Parses the headers of `count` frames: frame i is bytes[offsets[i] - offsets[0]] up to
/// bytes[offsets[i + 1] - offsets[0]].
ROBOCACHE_C_API int robocache_jpeg_inspect(const std::uint8_t* bytes, const std::int64_t* offsets,
                                           std::int64_t count, std::int32_t every,
                                           RobocacheJpegFrame* frames) {
  return jpeg_status_of([&] {
    for (std::int64_t i = 0; i < count; ++i) {
      robocache::JpegHeader header;
      const JpegStatus status =
          robocache::parse_jpeg(bytes + (offsets[i] - offsets[0]),
                                static_cast<std::size_t>(offsets[i + 1] - offsets[i]), header);
      RobocacheJpegFrame& frame = frames[i];
      frame = {header.width,
               header.height,
               header.components,
               header.orientation,
               0,
               static_cast<std::int32_t>(status),
               0,
               static_cast<std::int16_t>(header.sampling)};
      if (status == JpegStatus::kOk) {
        frame.quality = static_cast<std::int16_t>(robocache::find_jpeg_quality(header));
        frame.index_size =
            robocache::jpeg_index_size(header.width, header.height, header.sampling, every);
      }
    }
    return JpegStatus::kOk;
  });
}

/// Computes the indices of `count` frames, with `offsets` as for robocache_jpeg_inspect. Frame i
/// has entries[entry_offsets[i] - entry_offsets[0]] up to that of i + 1: the `index_size` of
/// robocache_jpeg_inspect; a frame of none is left out. `statuses` are JpegStatus: the entries of a
/// frame that is neither kOk nor kDamaged are unspecified.
ROBOCACHE_C_API int robocache_jpeg_index(const std::uint8_t* bytes, const std::int64_t* offsets,
                                         std::int64_t count, std::int32_t every,
                                         std::uint64_t* entries, const std::int64_t* entry_offsets,
                                         std::uint32_t* scan_bits, std::int32_t* statuses) {
  return jpeg_status_of([&] {
    std::vector<std::int64_t> frames;
    std::vector<const std::uint8_t*> files;
    std::vector<std::int64_t> sizes;
    std::vector<robocache::JpegIndexRow> rows;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t index_size = entry_offsets[i + 1] - entry_offsets[i];
      if (index_size == 0) continue;
      frames.push_back(i);
      files.push_back(bytes + (offsets[i] - offsets[0]));
      sizes.push_back(offsets[i + 1] - offsets[i]);
      rows.push_back({entries + (entry_offsets[i] - entry_offsets[0]), index_size});
    }
    const auto listed = static_cast<std::int64_t>(files.size());
    robocache::index_jpegs({files.data(), sizes.data(), listed}, every, rows.data());
    for (std::size_t i = 0; i < frames.size(); ++i) {
      scan_bits[frames[i]] = rows[i].scan_bits;
      statuses[frames[i]] = static_cast<std::int32_t>(rows[i].status);
    }
    return JpegStatus::kOk;
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

/// Encodes the planes of a video frame; `*encoded` as robocache_jpeg_encode.
ROBOCACHE_C_API int robocache_jpeg_encode_planes(const std::uint8_t* luma, const std::uint8_t* cb,
                                                 const std::uint8_t* cr, std::int64_t luma_stride,
                                                 std::int64_t chroma_stride, std::int32_t height,
                                                 std::int32_t width, int is_full_range,
                                                 std::int32_t quality, const std::uint8_t** encoded,
                                                 std::int64_t* size) {
  return jpeg_status_of([&] {
    thread_local std::vector<std::uint8_t> bytes;
    robocache::JpegEncoding options;
    options.quality = quality;
    robocache::JpegEncoder encoder(options);
    const robocache::VideoPlanes planes{luma,          cb,    cr,     luma_stride,
                                        chroma_stride, width, height, is_full_range != 0};
    const JpegStatus status = encoder.encode_planes(planes, bytes);
    *encoded = bytes.data();
    *size = static_cast<std::int64_t>(bytes.size());
    return status;
  });
}

/// Writes a JPEG of another kind as a baseline JPEG of the same pixels. `*rewritten` is valid until
/// this thread rewrites again.
ROBOCACHE_C_API int robocache_jpeg_rewrite(const void* bytes, std::int64_t size,
                                           const std::uint8_t** rewritten, std::int64_t* length) {
  return jpeg_status_of([&] {
    thread_local std::vector<std::uint8_t> file;
    const JpegStatus status = robocache::rewrite_jpeg(bytes, static_cast<std::size_t>(size), file);
    *rewritten = file.data();
    *length = static_cast<std::int64_t>(file.size());
    return status;
  });
}
}
