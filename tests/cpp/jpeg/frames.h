// JPEG files for tests: generated images, encoded in all the ways that the library takes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "robocache/jpeg.h"
#include "support/random.h"

namespace robocache::testing {

using Bytes = std::vector<std::uint8_t>;

/// An RGB image, [height, width, 3].
struct Image {
  std::int32_t width = 0, height = 0;
  Bytes rgb;
};

enum class Content { kGradient, kNoise, kText, kScene };

Image make_image(std::int32_t width, std::int32_t height, Content content, std::uint64_t seed);

struct FrameOptions {
  std::int32_t width = 0, height = 0;
  Content content = Content::kScene;
  JpegEncoding encoding;
  std::string text() const;
};

Bytes make_frame(const FrameOptions& options, std::uint64_t seed);

/// Options of every kind: sizes mostly small, some odd, some large.
FrameOptions random_frame_options(Random& random);

/// An image that libjpeg-turbo decodes with its default settings, [height, width, channels].
struct Decoded {
  bool is_decoded = false;
  std::string error;
  int warnings = 0;
  std::int32_t width = 0, height = 0;
  Bytes pixels;
};
Decoded decode_with_libjpeg(const Bytes& bytes, int channels);

/// The CUDA decoder's code, compiled for the host, in the order of its tasks or backwards.
struct HostDecoded {
  JpegStatus status = JpegStatus::kOk;  // of parsing, then of indexing
  bool fits = false;                    // all tasks have found the index right
  JpegHeader header;
  Bytes pixels;
};
HostDecoded decode_on_host(const Bytes& bytes, std::int32_t every, int channels);

/// Decodes the parts of a frame on the host; anything may be wrong in the scan and in the index.
bool run_tasks_on_host(const JpegHeader& header, const JpegIndex& index,
                       const std::vector<std::uint32_t>& words,
                       const std::vector<std::uint32_t>& tables, int channels, Bytes& pixels);

/// "byte 17 (x 5, y 0, channel 2) is 3, not 4"; empty if equal.
std::string difference(const Bytes& expected, const Bytes& got, std::int32_t width, int channels);

}  // namespace robocache::testing
