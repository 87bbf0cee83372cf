#include "jpeg/frames.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "jpeg/turbo.h"

namespace robocache::testing {
namespace {

std::uint8_t to_byte(double x) { return static_cast<std::uint8_t>(std::clamp(x, 0.0, 255.0)); }

void add_text(Image& image, Random& random) {
  std::fill(image.rgb.begin(), image.rgb.end(), static_cast<std::uint8_t>(240));
  const std::int64_t strokes = 1 + static_cast<std::int64_t>(image.rgb.size() / 200);
  for (std::int64_t i = 0; i < strokes; ++i) {
    const std::int64_t x = random.below(image.width);
    const std::int64_t y = random.below(image.height);
    const std::int64_t length = 1 + random.below(12);
    const bool is_upright = random.one_in(2);
    const int color = static_cast<int>(random.below(8));
    for (std::int64_t k = 0; k < length; ++k) {
      const std::int64_t px = is_upright ? x : x + k;
      const std::int64_t py = is_upright ? y + k : y;
      if (px >= image.width || py >= image.height) break;
      for (int c = 0; c < 3; ++c) {
        image.rgb[(py * image.width + px) * 3 + c] = (color >> c & 1) != 0 ? 255 : 0;
      }
    }
  }
}

}  // namespace

Image make_image(std::int32_t width, std::int32_t height, Content content, std::uint64_t seed) {
  Random random(seed);
  Image image{width, height, Bytes(static_cast<std::size_t>(width) * height * 3)};
  if (content == Content::kText) {
    add_text(image, random);
    return image;
  }
  double phase[3], slope[3];
  for (int c = 0; c < 3; ++c) {
    phase[c] = random.between(0, 6);
    slope[c] = random.between(0.002, 0.2);
  }
  const std::int64_t squares = 3 + random.below(12);
  std::size_t at = 0;
  for (std::int32_t y = 0; y < height; ++y) {
    for (std::int32_t x = 0; x < width; ++x) {
      const bool is_square = ((x * squares / (width + 1)) + (y * squares / (height + 1))) % 3 == 0;
      for (int c = 0; c < 3; ++c, ++at) {
        if (content == Content::kNoise) {
          image.rgb[at] = static_cast<std::uint8_t>(random.below(256));
          continue;
        }
        double value = 128 + 110 * std::sin(phase[c] + slope[c] * (x + 0.6 * y));
        if (content == Content::kScene) {
          value = value * 0.5 + (is_square ? 120 : 20 * c) + random.between(-9, 9);
        }
        image.rgb[at] = to_byte(value);
      }
    }
  }
  return image;
}

std::string FrameOptions::text() const {
  const char* const contents[] = {"gradient", "noise", "text", "scene"};
  return std::to_string(width) + "x" + std::to_string(height) + " " +
         contents[static_cast<int>(content)] + ", quality " + std::to_string(encoding.quality) +
         ", " + name_of(encoding.sampling) + ", restart interval " +
         std::to_string(encoding.restart_interval) +
         (encoding.optimize_huffman ? ", optimized tables" : "");
}

Bytes make_frame(const FrameOptions& options, std::uint64_t seed) {
  const Image image = make_image(options.width, options.height, options.content, seed);
  JpegEncoder encoder(options.encoding);
  Bytes bytes;
  const JpegStatus status = encoder.encode(image.rgb.data(), image.width, image.height, 3,
                                           std::ptrdiff_t{3} * image.width, bytes);
  if (status != JpegStatus::kOk) throw std::runtime_error(describe(status));
  return bytes;
}

FrameOptions random_frame_options(Random& random) {
  FrameOptions options;
  const auto side = [&] {
    return static_cast<std::int32_t>(1 + random.below(random.one_in(4) ? 17 : 90));
  };
  options.width = side();
  options.height = side();
  if (random.one_in(40)) options.width = static_cast<std::int32_t>(200 + random.below(500));
  options.content =
      random.pick({Content::kGradient, Content::kNoise, Content::kText, Content::kScene});
  options.encoding.quality = static_cast<std::int32_t>(
      random.one_in(4) ? random.pick({1, 2, 3, 10, 98, 99, 100}) : 1 + random.below(100));
  options.encoding.sampling =
      random.pick({JpegSampling::kGray, JpegSampling::k444, JpegSampling::k422, JpegSampling::k440,
                   JpegSampling::k420, JpegSampling::k420});
  if (random.one_in(3)) {
    options.encoding.restart_interval = static_cast<std::int32_t>(1 + random.below(9));
  }
  options.encoding.optimize_huffman = random.one_in(2);
  return options;
}

namespace {

struct Plain {
  jpeg_decompress_struct info;
  TurboErrors errors;
};

}  // namespace

Decoded decode_with_libjpeg(const Bytes& bytes, int channels) {
  Decoded decoded;
  auto plain = std::make_unique<Plain>();
  plain->info.err = plain->errors.reset();
  if (setjmp(plain->errors.jump) != 0) {
    char text[JMSG_LENGTH_MAX] = "";
    plain->info.err->format_message(reinterpret_cast<j_common_ptr>(&plain->info), text);
    decoded.error = text;
    jpeg_destroy_decompress(&plain->info);
    return decoded;
  }
  jpeg_decompress_struct& info = plain->info;
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, bytes.data(), bytes.size());
  jpeg_read_header(&info, TRUE);
  info.out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_start_decompress(&info);
  decoded.width = static_cast<std::int32_t>(info.output_width);
  decoded.height = static_cast<std::int32_t>(info.output_height);
  const std::size_t pitch = static_cast<std::size_t>(decoded.width) * channels;
  decoded.pixels.resize(pitch * decoded.height);
  while (info.output_scanline < info.output_height) {
    JSAMPROW row = decoded.pixels.data() + info.output_scanline * pitch;
    jpeg_read_scanlines(&info, &row, 1);
  }
  decoded.warnings = static_cast<int>(info.err->num_warnings);
  decoded.is_decoded = true;
  char text[JMSG_LENGTH_MAX] = "";
  info.err->format_message(reinterpret_cast<j_common_ptr>(&info), text);
  decoded.error = text;
  jpeg_destroy_decompress(&info);
  return decoded;
}

std::string difference(const Bytes& expected, const Bytes& got, std::int32_t width, int channels) {
  if (expected.size() != got.size()) {
    return std::to_string(got.size()) + " bytes, not " + std::to_string(expected.size());
  }
  const auto at = static_cast<std::size_t>(
      std::mismatch(expected.begin(), expected.end(), got.begin()).first - expected.begin());
  if (at == expected.size()) return "";
  const std::size_t pitch = static_cast<std::size_t>(width) * channels;
  return "byte " + std::to_string(at) + " (x " + std::to_string(at % pitch / channels) + ", y " +
         std::to_string(at / pitch) + ", channel " + std::to_string(at % channels) + ") is " +
         std::to_string(got[at]) + ", not " + std::to_string(expected[at]);
}

}  // namespace robocache::testing
