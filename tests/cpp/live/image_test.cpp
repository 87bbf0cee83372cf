// Cameras whose images are cropped, resized and normalized as they are pushed.
// tests/cpp/live/live_test.cpp compares them with the loader.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "jpeg/frames.h"
#include "live/scalars.h"
#include "support/error_of.h"

namespace robocache::testing {
namespace {

constexpr std::int32_t kHeight = 45;
constexpr std::int32_t kWidth = 70;

/// A camera of 24 x 20 floats [3,24,20] from -1 to 1, padded.
LiveStream camera(const std::string& name = "camera") {
  LiveStream stream = scalar({0}, name);
  stream.dtype = DataType::kUInt8;
  stream.shape = {kHeight, kWidth, 3};
  stream.rate = 30;
  stream.method = Method::kPrevious;
  stream.channels_first = true;
  stream.subtract = {127.5};
  stream.multiply = {1 / 127.5};
  stream.image.emplace();
  stream.image->height = 24;
  stream.image->width = 20;
  stream.image->mode = ResizeMode::kPad;
  return stream;
}

/// The image that `process_images` makes of a frame.
std::vector<float> processed(const LiveStream& stream, const void* frame) {
  const ImageSpec& spec = *stream.image;
  ImageWindow window;
  window.spec = spec;
  window.frames =
      ConstTensorView(frame, stream.dtype, {1, stream.shape[0], stream.shape[1], stream.shape[2]});
  for (int c = 0; c < 3; ++c) {
    window.subtract[c] = stream.subtract[0];
    window.multiply[c] = stream.multiply[0];
  }
  window.channels_first = true;
  std::vector<float> out(static_cast<std::size_t>(3 * spec.height * spec.width));
  window.out = array(out.data(), {1, 3, spec.height, spec.width});
  std::vector<std::byte> workspace(process_images_workspace_bytes({window}, DeviceType::kCpu));
  process_images({window}, 1, {}, {workspace.data(), workspace.size()}, on_cpu());
  return out;
}

/// The values of a camera in a query.
std::vector<float> values_of(LiveAligner& aligner, std::int64_t at, const std::string& name,
                             LiveStatus wanted = LiveStatus::kOk) {
  std::vector<std::byte> out(aligner.output_bytes());
  EXPECT_EQ(LiveStatus(aligner.query(LiveNow::at(at), out.data())), wanted);
  const LiveArray& array = *aligner.find_output(name);
  std::size_t count = 1;
  for (const std::int64_t size : array.shape) count *= static_cast<std::size_t>(size);
  std::vector<float> values(count);
  std::memcpy(values.data(), out.data() + array.offset, count * sizeof(float));
  return values;
}

TEST(LiveImages, HaveTheShapeOfTheOutput) {
  LiveStream last = camera("last");
  last.channels_first = false;
  last.out_dtype = DataType::kBFloat16;
  last.has_axis = false;
  const LiveAligner aligner({camera(), last}, {});
  EXPECT_EQ(aligner.find_output("camera")->shape, (std::vector<std::int64_t>{1, 1, 3, 24, 20}));
  EXPECT_EQ(aligner.find_output("camera")->dtype, DataType::kFloat32);
  EXPECT_EQ(aligner.find_output("last")->shape, (std::vector<std::int64_t>{1, 24, 20, 3}));
  EXPECT_EQ(aligner.find_output("last")->dtype, DataType::kBFloat16);
  EXPECT_EQ(aligner.find_key("camera")->shape, (std::vector<std::int64_t>{3, 24, 20}));
  EXPECT_EQ(aligner.streams()[0].shape, (std::vector<std::int64_t>{kHeight, kWidth, 3}));
}

TEST(LiveImages, AreThoseOfProcessImages) {
  LiveOptions options;
  options.robots = 2;
  LiveAligner aligner({camera(), camera("other")}, options);
  std::vector<Image> images;
  for (std::uint64_t i = 0; i < 4; ++i) {
    images.push_back(make_image(kWidth, kHeight, Content::kScene, i));
    const Bytes& rgb = images.back().rgb;
    ASSERT_EQ(aligner.push(static_cast<std::int64_t>(i % 2), kMs, rgb.data(), rgb.size(),
                           static_cast<std::int64_t>(i / 2)),
              LiveStatus::kOk);
  }
  for (const std::size_t stream : {0, 1}) {
    std::vector<float> expected = processed(aligner.streams()[stream], images[stream].rgb.data());
    const std::vector<float> second =
        processed(aligner.streams()[stream], images[stream + 2].rgb.data());
    expected.insert(expected.end(), second.begin(), second.end());
    EXPECT_EQ(values_of(aligner, kMs, stream == 0 ? "camera" : "other"), expected);
  }
}

TEST(LiveImages, JpegFilesAreDecodedFirst) {
  LiveOptions options;
  LiveStream encoded = camera("encoded");
  encoded.encoding = ImageEncoding{80, JpegSampling::k420};
  options.encode_images = true;
  LiveAligner aligner({camera(), encoded}, options);
  const Image image = make_image(kWidth, kHeight, Content::kScene, 3);
  JpegEncoding encoding;
  encoding.quality = 80;
  encoding.sampling = JpegSampling::k420;
  Bytes file;
  ASSERT_EQ(JpegEncoder(encoding).encode(image.rgb.data(), kWidth, kHeight, 3, 3 * kWidth, file),
            JpegStatus::kOk);
  const Bytes pixels = decode_with_libjpeg(file, 3).pixels;
  const std::vector<float> expected = processed(aligner.streams()[0], pixels.data());
  ASSERT_EQ(aligner.push_jpeg(0, kMs, file.data(), file.size()), LiveStatus::kOk);
  ASSERT_EQ(aligner.push(1, kMs, image.rgb.data(), image.rgb.size()), LiveStatus::kOk);
  EXPECT_EQ(values_of(aligner, kMs, "camera"), expected);
  EXPECT_EQ(values_of(aligner, kMs, "encoded"), expected);
  ASSERT_EQ(aligner.push_jpeg(1, 2 * kMs, file.data(), file.size()), LiveStatus::kOk);
  EXPECT_EQ(values_of(aligner, 2 * kMs, "encoded"), expected);
  // A file in error changes no row.
  EXPECT_EQ(aligner.push_jpeg(0, 3 * kMs, file.data(), file.size() / 2), LiveStatus::kDamagedJpeg);
  EXPECT_EQ(aligner.stats(0).refused, 1);
  EXPECT_EQ(values_of(aligner, 3 * kMs, "camera"), expected);
}

TEST(LiveImages, AreBlackWithoutARow) {
  LiveAligner aligner({camera()}, {});
  const std::vector<std::uint8_t> black(std::size_t{3} * kHeight * kWidth);
  const std::vector<float> expected = processed(aligner.streams()[0], black.data());
  EXPECT_EQ(expected, std::vector<float>(expected.size(), -1));
  EXPECT_EQ(values_of(aligner, 0, "camera", LiveStatus::kNoRows), expected);
}

TEST(LiveImages, RowsNeedNotBeAligned) {
  LiveStream depth = camera("depth");
  depth.dtype = depth.out_dtype = DataType::kFloat32;
  depth.image->filter = ResizeFilter::kMasked;
  LiveAligner aligner({depth}, {});
  std::vector<float> meters(std::size_t{3} * kHeight * kWidth);
  for (std::size_t i = 0; i < meters.size(); ++i) meters[i] = static_cast<float>(i % 17);
  meters[5] = std::numeric_limits<float>::quiet_NaN();
  const std::size_t bytes = meters.size() * sizeof(float);
  std::vector<std::byte> shifted(bytes + 1);
  std::memcpy(shifted.data() + 1, meters.data(), bytes);
  ASSERT_EQ(aligner.push(0, kMs, shifted.data() + 1, bytes), LiveStatus::kOk);
  EXPECT_EQ(values_of(aligner, kMs, "depth"), processed(aligner.streams()[0], meters.data()));
}

TEST(LiveImages, PushesAreOfTheSourcesSize) {
  LiveAligner aligner({camera()}, {});
  const std::vector<std::uint8_t> row(std::size_t{3} * kHeight * kWidth);
  EXPECT_EQ(aligner.push(0, kMs, row.data(), row.size() - 1), LiveStatus::kWrongSize);
  EXPECT_EQ(aligner.push(0, kMs, row.data(), std::size_t{4} * 3 * 24 * 20), LiveStatus::kWrongSize);
  EXPECT_EQ(aligner.push<std::uint8_t>(0, kMs, row.data(), row.size()), LiveStatus::kOk);
  EXPECT_EQ(aligner.push<float>(0, kMs, values_of(aligner, kMs, "camera").data(), 3 * 24 * 20),
            LiveStatus::kWrongType);
  EXPECT_EQ(aligner.stats(0).refused, 3);
}

TEST(LiveImages, ChannelsMayHaveNames) {
  LiveStream stream = camera();
  stream.shape = {1, 2, 3};
  stream.channels = {"a", "b", "c", "d", "e", "f"};
  LiveAligner aligner({stream}, {});
  const ChannelOrder order = aligner.channel_order(0, {"f", "e", "d", "c", "b", "a"});
  const std::uint8_t message[] = {6, 5, 4, 3, 2, 1}, row[] = {1, 2, 3, 4, 5, 6};
  ASSERT_EQ(aligner.push(order, kMs, message, 6), LiveStatus::kOk);
  EXPECT_EQ(values_of(aligner, kMs, "camera"), processed(stream, row));
}

TEST(LiveImages, HaveNoInverse) {
  LiveAligner aligner({camera()}, {});
  std::vector<float> values(std::size_t{3} * 24 * 20), out(values.size());
  EXPECT_EQ(aligner.undo({}, *aligner.find_key("camera"), values.data(), 1, out.data()),
            LiveStatus::kNotInvertible);
}

TEST(LiveImages, AreTransformed) {
  LiveStream plain = camera();
  LiveOptions options;
  NormalizeTransform scale;
  scale.normalization["camera"] = {{3, 1, 1}, {0.5, 0, -0.5}, {2, 1, 4}};
  options.transforms = {scale};
  LiveAligner aligner({plain}, options);
  const Image image = make_image(kWidth, kHeight, Content::kScene, 3);
  ASSERT_EQ(aligner.push(0, kMs, image.rgb.data(), image.rgb.size()), LiveStatus::kOk);
  std::vector<float> expected = processed(plain, image.rgb.data());
  const float subtract[] = {0.5, 0, -0.5}, multiply[] = {2, 1, 4};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const std::size_t c = i / (24 * 20);
    expected[i] = (expected[i] - subtract[c]) * multiply[c];
  }
  EXPECT_EQ(values_of(aligner, kMs, "camera"), expected);
}

TEST(LiveImages, MissingCamerasAreZeros) {
  LiveStream missing = camera();
  missing.subtract.clear();
  missing.multiply.clear();
  missing.is_missing = true;
  LiveAligner aligner({missing, scalar({0}, "joint")}, {});
  EXPECT_EQ(aligner.find_output("camera")->shape, (std::vector<std::int64_t>{1, 1, 3, 24, 20}));
  const float row = 1;
  ASSERT_EQ(aligner.push(1, kMs, &row, sizeof row), LiveStatus::kOk);
  EXPECT_EQ(values_of(aligner, kMs, "camera"), std::vector<float>(std::size_t{3} * 24 * 20));
}

TEST(LiveImages, BuffersHoldProcessedRows) {
  // Frames of 48 MB, of which the default capacities would take more than 1 GiB.
  LiveStream large = camera();
  large.shape = {4096, 4096, 3};
  large.image->height = large.image->width = 8;
  const auto error = [&] { return error_of([&] { LiveAligner({large}, {}); }); };
  EXPECT_EQ(error(), "no error");
  large.image.reset();
  EXPECT_NE(error().find("expected default capacities of at most 1073741824 bytes"),
            std::string::npos)
      << error();
}

TEST(LiveImages, Errors) {
  const auto error = [](const LiveStream& stream) {
    return error_of([&] { LiveAligner({stream}, {}); });
  };
  LiveStream stream = camera();
  stream.method = Method::kLinear;
  EXPECT_EQ(error(stream),
            "ValueError method['camera']: expected \"previous\" or \"nearest\" with image, whose "
            "frames are not mixed, got \"linear\"");
}

}  // namespace
}  // namespace robocache::testing
