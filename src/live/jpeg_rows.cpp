#include "live/jpeg_rows.h"

#include <string>

#include "core/check.h"
#include "live/buffer_rows.h"
#include "window/windows.h"

namespace robocache {
namespace {

constexpr char kWayOut[] = " (push JPEG files, or raw images without the option)";

/// The options of the encoder that made a stream's images. Throws ValueError where they differ.
JpegEncoding encoding_of(const std::string& stream, const ImageEncoding& encoding) {
  JpegEncoding options;
  if (encoding.quality == 0) {
    throw_value_error("encode_images", "one quality of libjpeg for " + quoted(stream),
                      std::string("several in training, or another encoder's") + kWayOut);
  }
  if (!encoding.sampling.has_value()) {
    throw_value_error("encode_images", "one chroma sampling for " + quoted(stream),
                      std::string("several in training") + kWayOut);
  }
  options.quality = encoding.quality;
  options.sampling = *encoding.sampling;
  return options;
}

}  // namespace

JpegRows::JpegRows(const std::vector<LiveStream>& streams, const LiveOptions& options) {
  bool has_encoding = false;
  for (const LiveStream& stream : streams) {
    Stream& made = streams_.emplace_back();
    if (!may_be_jpeg(stream) || !takes_rows(stream, streams)) continue;
    made.height = static_cast<std::int32_t>(stream.shape[0]);
    made.width = static_cast<std::int32_t>(stream.shape[1]);
    made.channels = static_cast<std::int32_t>(stream.shape[2]);
    const ImageEncoding* const encoding = stream.encoding ? &*stream.encoding : nullptr;
    has_encoding = has_encoding || encoding != nullptr;
    for (std::int64_t r = 0; r < options.robots; ++r) {
      Robot& robot = *made.robots.emplace_back(std::make_unique<Robot>());
      if (!options.encode_images || encoding == nullptr) continue;
      robot.encoder = std::make_unique<JpegEncoder>(encoding_of(stream.name, *encoding));
    }
  }
  if (!options.encode_images) return;
  if (!has_encoding) {
    throw_value_error("encode_images", "a stream whose images were JPEG in training",
                      "none (push raw images without the option)");
  }
  warm_up();
}

/// Allocates the encoders' memory, so that no push does: encodes a frame of noise, which takes more
/// than those of cameras.
void JpegRows::warm_up() {
  for (std::size_t stream = 0; stream < streams_.size(); ++stream) {
    if (!encodes(static_cast<std::int64_t>(stream))) continue;
    const Stream& of = streams_[stream];
    std::vector<std::byte> image(static_cast<std::size_t>(of.height * of.row_stride()));
    std::uint32_t state = 1;
    for (std::byte& value : image) {
      state = state * 1664525 + 1013904223;  // Numerical Recipes' generator
      value = static_cast<std::byte>(state >> 24);
    }
    std::vector<std::byte> row(image.size());
    for (std::size_t robot = 0; robot < of.robots.size(); ++robot) {
      static_cast<void>(encode(static_cast<std::int64_t>(stream), static_cast<std::int64_t>(robot),
                               image.data(), row.data()));
    }
  }
}

LiveStatus JpegRows::decode(std::int64_t stream, std::int64_t robot, const void* bytes,
                            std::size_t size, std::byte* row) noexcept {
  const Stream& of = streams_[static_cast<std::size_t>(stream)];
  if (of.robots.empty()) return LiveStatus::kWrongType;
  JpegHeader header;
  const JpegStatus parsed = parse_jpeg(bytes, size, header);
  if (!has_image(parsed)) return LiveStatus::kNotJpeg;
  if (header.orientation != 1) return LiveStatus::kRotatedJpeg;
  // 0: the parser ended before it knew.
  if (header.components != 0 && header.components != of.channels) return LiveStatus::kWrongSize;
  const JpegStatus decoded = of.robots[static_cast<std::size_t>(robot)]->decoder.decode(
      bytes, size, of.width, of.height, of.channels, {}, reinterpret_cast<std::uint8_t*>(row),
      of.row_stride());
  switch (decoded) {
    case JpegStatus::kOk:
      return LiveStatus::kOk;
    case JpegStatus::kDamaged:
      return LiveStatus::kDamagedJpeg;
    case JpegStatus::kLayoutMismatch:
      return LiveStatus::kWrongSize;
    default:
      return LiveStatus::kNotJpeg;
  }
}

LiveStatus JpegRows::encode(std::int64_t stream, std::int64_t robot, const void* image,
                            std::byte* row) noexcept {
  const Stream& of = streams_[static_cast<std::size_t>(stream)];
  Robot& with = *of.robots[static_cast<std::size_t>(robot)];
  const JpegStatus encoded =
      with.encoder->encode(static_cast<const std::uint8_t*>(image), of.width, of.height,
                           of.channels, of.row_stride(), with.file);
  if (encoded != JpegStatus::kOk) return LiveStatus::kNotJpeg;
  return decode(stream, robot, with.file.data(), with.file.size(), row);
}

}  // namespace robocache
