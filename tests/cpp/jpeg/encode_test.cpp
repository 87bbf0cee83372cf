// JpegEncoder::encode_planes beside the planes, and rewrite_jpeg beside the pixels of what it
// rewrites.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "jpeg/frames.h"

namespace robocache::testing {
namespace {

/// The planes of a video frame: gradients.
struct Planes {
  std::int32_t width, height;
  Bytes luma, cb, cr;

  Planes(std::int32_t wide, std::int32_t high) : width(wide), height(high) {
    luma.resize(size_of(width) * size_of(height));
    const std::size_t half = size_of((width + 1) / 2) * size_of((height + 1) / 2);
    cb.assign(half, 90);
    cr.assign(half, 160);
    std::size_t at = 0;
    for (std::int32_t y = 0; y < height; ++y) {
      for (std::int32_t x = 0; x < width; ++x) luma[at++] = value(x, y);
    }
  }

  static std::size_t size_of(std::int32_t side) { return static_cast<std::size_t>(side); }

  static std::uint8_t value(std::int32_t x, std::int32_t y) {
    return static_cast<std::uint8_t>(16 + (x * 3 + y * 2) % 210);
  }

  VideoPlanes view(bool is_full_range) const {
    return {luma.data(),     cb.data(), cr.data(), width,
            (width + 1) / 2, width,     height,    is_full_range};
  }
};

TEST(JpegEncode, PlanesKeepTheirLuma) {
  for (const auto& [width, height] : {std::pair{1, 1}, {2, 3}, {15, 17}, {16, 16}, {33, 48}}) {
    for (const bool is_full_range : {false, true}) {
      const Planes planes(width, height);
      JpegEncoder encoder({100, JpegSampling::k444, 0, false});
      Bytes file;
      ASSERT_EQ(encoder.encode_planes(planes.view(is_full_range), file), JpegStatus::kOk);
      JpegHeader header;
      ASSERT_EQ(parse_jpeg(file.data(), file.size(), header), JpegStatus::kOk);
      EXPECT_EQ(header.sampling, JpegSampling::k420);
      const Decoded got = decode_with_libjpeg(file, 1);
      ASSERT_EQ(got.width, width);
      ASSERT_EQ(got.height, height);
      std::size_t at = 0;
      for (std::int32_t y = 0; y < height; ++y) {
        for (std::int32_t x = 0; x < width; ++x) {
          const int stored = Planes::value(x, y);
          const int expected =
              is_full_range ? stored : std::clamp((stored - 16) * 255 / 219, 0, 255);
          const int pixel = got.pixels[at++];
          ASSERT_LE(std::abs(pixel - expected), 3)
              << width << "x" << height << ": " << x << ", " << y;
        }
      }
    }
  }
}

TEST(JpegEncode, PlanesAndPixelsShareAnEncoder) {
  const Planes planes(20, 20);
  const Image image = make_image(20, 20, Content::kScene, 1);
  JpegEncoder encoder;
  Bytes first, between, last;
  const auto encode = [&](Bytes& file) {
    return encoder.encode(image.rgb.data(), 20, 20, 3, 60, file);
  };
  ASSERT_EQ(encode(first), JpegStatus::kOk);
  ASSERT_EQ(encoder.encode_planes(planes.view(false), between), JpegStatus::kOk);
  ASSERT_EQ(encode(last), JpegStatus::kOk);
  EXPECT_EQ(first, last);
  VideoPlanes large = planes.view(false);
  large.width = kMaxJpegSide + 1;
  EXPECT_EQ(encoder.encode_planes(large, between), JpegStatus::kTooLarge);
}

TEST(JpegRewrite, KeepsThePixels) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    const FrameOptions options = random_frame_options(random);
    const Bytes file = make_frame(options, seed);
    Bytes rewritten;
    ASSERT_EQ(rewrite_jpeg(file.data(), file.size(), rewritten), JpegStatus::kOk);
    EXPECT_EQ(difference(decode_with_libjpeg(file, 3).pixels,
                         decode_with_libjpeg(rewritten, 3).pixels, options.width, 3),
              "")
        << options.text();
  }
}

TEST(JpegRewrite, RefusesDamage) {
  const Bytes file = make_frame({40, 30, Content::kScene, {}}, 1);
  Bytes rewritten;
  for (std::size_t size = 0; size < file.size() - 2; ++size) {
    const Bytes part(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_NE(rewrite_jpeg(part.data(), part.size(), rewritten), JpegStatus::kOk) << size;
    EXPECT_TRUE(rewritten.empty());
  }
  EXPECT_EQ(rewrite_jpeg("PNG", 3, rewritten), JpegStatus::kNotJpeg);
}

}  // namespace
}  // namespace robocache::testing
