// Cameras that send JPEG, and raw images that are encoded as those of training were.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "jpeg/frames.h"
#include "live/scalars.h"
#include "support/error_of.h"

namespace robocache::testing {
namespace {

constexpr std::int32_t kHeight = 45;
constexpr std::int32_t kWidth = 70;

LiveStream camera(const std::string& name = "camera", std::int64_t channels = 3) {
  LiveStream stream = scalar({0}, name);
  stream.dtype = stream.out_dtype = DataType::kUInt8;
  stream.shape = {kHeight, kWidth, channels};
  stream.rate = 30;
  return stream;
}

LiveStream encoded_camera(std::int32_t quality, std::optional<JpegSampling> sampling) {
  LiveStream stream = camera();
  stream.encoding = ImageEncoding{quality, sampling};
  return stream;
}

FrameOptions frame_options(std::int32_t width = kWidth, std::int32_t height = kHeight) {
  return {width, height, Content::kScene, {}};
}

/// The newest image of a stream, and the status of the query.
Bytes image_of(LiveAligner& aligner, const std::string& name = "camera",
               std::int64_t at = 100 * kMs, LiveStatus wanted = LiveStatus::kOk) {
  std::vector<std::byte> out(aligner.output_bytes());
  EXPECT_EQ(LiveStatus(aligner.query(LiveNow::at(at), out.data())), wanted);
  const LiveArray& array = *aligner.find_output(name);
  std::size_t count = 1;
  for (const std::int64_t size : array.shape) count *= static_cast<std::size_t>(size);
  Bytes pixels(count);
  std::memcpy(pixels.data(), out.data() + array.offset, count);
  return pixels;
}

LiveStatus push_file(LiveAligner& aligner, const Bytes& file, std::int64_t time_ms = 1,
                     std::int64_t stream = 0, std::int64_t robot = 0) {
  return aligner.push_jpeg(stream, time_ms * kMs, file.data(), file.size(), robot);
}

/// An EXIF segment with an orientation, which follows the first marker of a file.
Bytes rotated(const Bytes& file, std::uint8_t orientation) {
  const Bytes segment{0xff, 0xe1, 0, 34, 'E', 'x',         'i', 'f', 0, 0,    'M', 'M',
                      0,    42,   0, 0,  0,   8,           0,   1,   1, 0x12, 0,   3,
                      0,    0,    0, 1,  0,   orientation, 0,   0,   0, 0,    0,   0};
  Bytes made = file;
  made.insert(made.begin() + 2, segment.begin(), segment.end());
  return made;
}

TEST(LiveJpeg, FramesAreTheImagesOfLibjpegTurbo) {
  for (const JpegSampling sampling :
       {JpegSampling::k420, JpegSampling::k422, JpegSampling::k440, JpegSampling::k444}) {
    LiveAligner aligner({camera()}, {});
    for (std::int64_t ms = 1; ms <= 5; ++ms) {
      FrameOptions options = frame_options();
      options.encoding.sampling = sampling;
      options.encoding.quality = 60 + static_cast<std::int32_t>(8 * ms);
      options.encoding.optimize_huffman = ms == 4;
      const Bytes file = make_frame(options, static_cast<std::uint64_t>(ms));
      ASSERT_EQ(push_file(aligner, file, ms), LiveStatus::kOk);
      ASSERT_EQ(image_of(aligner, "camera", ms * kMs), decode_with_libjpeg(file, 3).pixels);
    }
    EXPECT_EQ(aligner.stats(0).pushed, 5);
    EXPECT_EQ(aligner.stats(0).refused, 0);
  }
}

TEST(LiveJpeg, GrayFramesAreOfGrayStreams) {
  LiveAligner aligner({camera("gray", 1)}, {});
  FrameOptions options = frame_options();
  options.encoding.sampling = JpegSampling::kGray;
  const Bytes file = make_frame(options, 3);
  ASSERT_EQ(push_file(aligner, file), LiveStatus::kOk);
  EXPECT_EQ(image_of(aligner, "gray"), decode_with_libjpeg(file, 1).pixels);
  EXPECT_EQ(push_file(aligner, make_frame(frame_options(), 3)), LiveStatus::kWrongSize);
}

TEST(LiveJpeg, EachRobotHasItsOwnFrames) {
  LiveOptions options;
  options.robots = 2;
  LiveAligner aligner({camera(), camera("other")}, options);
  const Bytes first = make_frame(frame_options(), 1);
  const Bytes second = make_frame(frame_options(), 2);
  ASSERT_EQ(push_file(aligner, first, 1, 1, 0), LiveStatus::kOk);
  ASSERT_EQ(push_file(aligner, second, 1, 1, 1), LiveStatus::kOk);
  Bytes both = decode_with_libjpeg(first, 3).pixels;
  const Bytes of_second = decode_with_libjpeg(second, 3).pixels;
  both.insert(both.end(), of_second.begin(), of_second.end());
  EXPECT_EQ(image_of(aligner, "other", 100 * kMs, LiveStatus::kNoRows), both);
}

TEST(LiveJpeg, FramesInErrorAreCountedAndNotPushed) {
  LiveAligner aligner({camera()}, {});
  const Bytes good = make_frame(frame_options(), 1);
  ASSERT_EQ(push_file(aligner, good), LiveStatus::kOk);
  FrameOptions gray = frame_options();
  gray.encoding.sampling = JpegSampling::kGray;
  const Bytes half(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(good.size() / 2));
  const Bytes head(good.begin(), good.begin() + 40);
  const Bytes none{0};
  const std::pair<Bytes, LiveStatus> frames[] = {
      {make_frame(frame_options(kWidth + 1), 1), LiveStatus::kWrongSize},
      {make_frame(frame_options(kWidth, kHeight - 1), 1), LiveStatus::kWrongSize},
      {make_frame(gray, 1), LiveStatus::kWrongSize},
      {half, LiveStatus::kDamagedJpeg},
      {head, LiveStatus::kNotJpeg},
      {none, LiveStatus::kNotJpeg},
      {Bytes{0x89, 'P', 'N', 'G', 13, 10, 26, 10}, LiveStatus::kNotJpeg},
      {rotated(good, 6), LiveStatus::kRotatedJpeg},
  };
  std::int64_t refused = 0;
  for (const auto& [file, status] : frames) {
    EXPECT_EQ(push_file(aligner, file, 2), status) << name_of(status);
    EXPECT_EQ(aligner.stats(0).refused, ++refused);
  }
  EXPECT_EQ(aligner.push_jpeg(0, 2 * kMs, good.data(), 0), LiveStatus::kNotJpeg);
  EXPECT_EQ(aligner.stats(0).pushed, 1);
  EXPECT_EQ(aligner.misdirected(), 0);
  EXPECT_EQ(image_of(aligner), decode_with_libjpeg(good, 3).pixels);
  // A decoder that has seen errors still decodes.
  const Bytes next = make_frame(frame_options(), 2);
  EXPECT_EQ(push_file(aligner, rotated(next, 1), 3), LiveStatus::kOk);
  EXPECT_EQ(image_of(aligner), decode_with_libjpeg(next, 3).pixels);
}

TEST(LiveJpeg, MisdirectedFramesAreCounted) {
  LiveStream joints = scalar({0}, "joints");
  joints.shape = {kHeight, kWidth, 3};
  LiveStream ahead = camera("ahead");
  ahead.offsets = {kMs};
  ahead.causal = false;
  LiveAligner aligner({camera(), joints, ahead}, {});
  const Bytes good = make_frame(frame_options(), 1);
  EXPECT_EQ(push_file(aligner, good, 1, 9), LiveStatus::kUnknownStream);
  EXPECT_EQ(push_file(aligner, good, 1, 0, 1), LiveStatus::kUnknownRobot);
  EXPECT_EQ(push_file(aligner, good, 1, 2), LiveStatus::kTakesNoRows);
  EXPECT_EQ(aligner.push_jpeg(0, 0, nullptr, 5), LiveStatus::kBadPointer);
  EXPECT_EQ(aligner.misdirected(), 4);
  EXPECT_EQ(push_file(aligner, good, 1, 1), LiveStatus::kWrongType);
  EXPECT_EQ(aligner.stats(1).refused, 1);
}

TEST(LiveJpeg, RawImagesAreEncodedAsInTraining) {
  for (const std::int32_t quality : {30, 95}) {
    for (const JpegSampling sampling :
         {JpegSampling::k420, JpegSampling::k440, JpegSampling::k444}) {
      LiveOptions options;
      options.encode_images = true;
      LiveAligner aligner({encoded_camera(quality, sampling), camera("raw")}, options);
      const Image image = make_image(kWidth, kHeight, Content::kScene, 5);
      JpegEncoding encoding;
      encoding.quality = quality;
      encoding.sampling = sampling;
      Bytes file;
      ASSERT_EQ(
          JpegEncoder(encoding).encode(image.rgb.data(), kWidth, kHeight, 3, 3 * kWidth, file),
          JpegStatus::kOk);
      for (const std::int64_t stream : {0, 1}) {
        ASSERT_EQ(aligner.push(stream, kMs, image.rgb.data(), image.rgb.size()), LiveStatus::kOk);
      }
      EXPECT_EQ(image_of(aligner), decode_with_libjpeg(file, 3).pixels);
      EXPECT_EQ(image_of(aligner, "raw"), image.rgb);
      EXPECT_EQ(aligner.push(0, kMs, image.rgb.data(), image.rgb.size() - 1),
                LiveStatus::kWrongSize);
      // A frame that is JPEG is not encoded again.
      encoding.quality = 70;
      ASSERT_EQ(
          JpegEncoder(encoding).encode(image.rgb.data(), kWidth, kHeight, 3, 3 * kWidth, file),
          JpegStatus::kOk);
      ASSERT_EQ(push_file(aligner, file, 2), LiveStatus::kOk);
      EXPECT_EQ(image_of(aligner), decode_with_libjpeg(file, 3).pixels);
    }
  }
}

TEST(LiveJpeg, WithoutTheOptionRawImagesStayAsTheyAre) {
  LiveAligner aligner({encoded_camera(90, JpegSampling::k420)}, {});
  const Image image = make_image(kWidth, kHeight, Content::kNoise, 5);
  ASSERT_EQ(aligner.push(0, kMs, image.rgb.data(), image.rgb.size()), LiveStatus::kOk);
  EXPECT_EQ(image_of(aligner), image.rgb);
}

TEST(LiveJpeg, ErrorsOfTheOption) {
  LiveOptions options;
  options.encode_images = true;
  const auto error = [&](const std::vector<LiveStream>& streams) {
    return error_of([&] { LiveAligner(streams, options); });
  };
  EXPECT_EQ(error({camera(), scalar({0})}),
            "ValueError encode_images: expected a stream whose images were JPEG in training, got "
            "none (push raw images without the option)");
  EXPECT_EQ(error({encoded_camera(0, JpegSampling::k420)}),
            "ValueError encode_images: expected one quality of libjpeg for 'camera', got several "
            "in training, or another encoder's (push JPEG files, or raw images without the "
            "option)");
  EXPECT_EQ(error({encoded_camera(90, std::nullopt)}),
            "ValueError encode_images: expected one chroma sampling for 'camera', got several in "
            "training (push JPEG files, or raw images without the option)");
}

TEST(LiveJpeg, ErrorsOfEncodings) {
  const auto error = [&](const LiveStream& stream) {
    return error_of([&] { LiveAligner({stream}, {}); });
  };
  const std::string no_image =
      "ValueError encoding['camera']: expected null for rows that are no images [H,W,C] of U8, C "
      "of 1 or 3, H and W at most 4096, got "
      "{\"chroma\":\"4:2:0\",\"format\":\"jpeg\",\"quality\":90}";
  LiveStream stream = encoded_camera(90, JpegSampling::k420);
  stream.shape = {4, 5, 4};
  EXPECT_EQ(error(stream), no_image);
  stream.shape = {4, 4097, 3};
  EXPECT_EQ(error(stream), no_image);
  stream.shape = {4, 3};
  EXPECT_EQ(error(stream), no_image);
  EXPECT_EQ(error(encoded_camera(101, std::nullopt)),
            "ValueError encoding['camera']: expected a quality of 1 to 100, or null, got "
            "{\"chroma\":null,\"format\":\"jpeg\",\"quality\":101}");
  EXPECT_EQ(error(encoded_camera(0, JpegSampling::kGray)),
            "ValueError encoding['camera']: expected chroma \"4:0:0\" with 1 channel, and another "
            "one with 3, got {\"chroma\":\"4:0:0\",\"format\":\"jpeg\",\"quality\":null}");
}

}  // namespace
}  // namespace robocache::testing
