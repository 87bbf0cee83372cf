// The CUDA decoder beside libjpeg-turbo. tests/cpp/jpeg/decode_test.cpp runs the code of its
// threads on the host.
#include <gtest/gtest.h>

#include <cstring>

#include "jpeg/cuda_fixture.h"
#include "jpeg/device_decoder.h"
#include "jpeg/frames.h"
#include "support/numbers.h"
#include "support/random.h"

namespace robocache::testing {
namespace {

/// Frames of one layout, whose contents, qualities, tables and restart intervals differ.
struct Problem {
  Batch batch;
  std::vector<Bytes> files;
  std::string text;
};

Problem random_problem(std::uint64_t seed) {
  Random random(seed);
  FrameOptions options = random_frame_options(random);
  if (random.one_in(3)) options.width = (options.width + 15) / 16 * 16;
  Problem problem;
  problem.text = options.text();
  problem.batch.layout = {options.width, options.height, options.encoding.sampling,
                          random.pick({1, 1, 2, 3, 16}), 1};
  const std::int64_t count = 1 + random.below(5);
  for (std::int64_t i = 0; i < count; ++i) {
    options.encoding.quality = static_cast<std::int32_t>(1 + random.below(100));
    options.encoding.optimize_huffman = random.one_in(2);
    options.encoding.restart_interval = static_cast<std::int32_t>(random.below(6));
    problem.files.push_back(make_frame(options, seed * 100 + static_cast<std::uint64_t>(i)));
    EXPECT_TRUE(append_frame(problem.batch, problem.files.back())) << problem.text;
  }
  return problem;
}

TEST_F(JpegCuda, GivesTheBytesOfLibjpegTurbo) {
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    const Problem problem = random_problem(seed);
    const int channels = seed % 7 == 0 ? 1 : 3;
    const DeviceDecoded got = decode_on_device(problem.batch, bytes_of(channels), seed % 5 == 0);
    for (std::size_t i = 0; i < problem.files.size(); ++i) {
      const Decoded expected = decode_with_libjpeg(problem.files[i], channels);
      ASSERT_EQ(got.status[i], 0) << "seed " << seed << ": " << problem.text;
      ASSERT_EQ(difference(expected.pixels, image_of(got, i), expected.width, channels), "")
          << "seed " << seed << ", frame " << i << ": " << problem.text;
    }
  }
}

TEST_F(JpegCuda, TakesLargeFrames) {
  for (const auto& [width, height] :
       {std::pair{4096, 4096}, {4095, 17}, {13, 4096}, {1920, 1080}}) {
    for (const JpegSampling sampling : {JpegSampling::kGray, JpegSampling::k444, JpegSampling::k422,
                                        JpegSampling::k440, JpegSampling::k420}) {
      FrameOptions options{width, height, Content::kScene, {}};
      options.encoding.sampling = sampling;
      const Bytes file = make_frame(options, 1);
      Batch batch;
      batch.layout = {width, height, sampling, 1, 1};
      ASSERT_TRUE(append_frame(batch, file));
      const DeviceDecoded got = decode_on_device(batch, bytes_of(3));
      ASSERT_EQ(got.status[0], 0);
      ASSERT_EQ(difference(decode_with_libjpeg(file, 3).pixels, got.out, width, 3), "")
          << options.text();
    }
  }
}

TEST_F(JpegCuda, ConvertsAsTheLoader) {
  const double subtract[] = {0.485 * 255, 0.456 * 255, 0.406 * 255};
  const double multiply[] = {1 / (0.229 * 255), 1 / (0.224 * 255), 1 / (0.225 * 255)};
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const Problem problem = random_problem(seed);
    Random random(seed);
    const DataType dtype = random.pick({DataType::kUInt8, DataType::kFloat16, DataType::kBFloat16,
                                        DataType::kFloat32, DataType::kFloat64});
    const bool channels_first = !random.one_in(3);
    const bool is_scaled = !random.one_in(4);
    const int channels = random.one_in(5) ? 1 : 3;
    const JpegConversion conversion =
        make_jpeg_conversion(dtype, channels_first, channels, is_scaled ? subtract : nullptr,
                             is_scaled ? multiply : nullptr);
    const DeviceDecoded got = decode_on_device(problem.batch, conversion);
    for (std::size_t i = 0; i < problem.files.size(); ++i) {
      const Decoded bytes = decode_with_libjpeg(problem.files[i], channels);
      const Bytes pixels = image_of(got, i);
      const std::int64_t count = std::int64_t{bytes.width} * bytes.height;
      for (std::int64_t p = 0; p < count; ++p) {
        for (int c = 0; c < channels; ++c) {
          const double x = bytes.pixels[p * channels + c];
          const double expected = rounded(is_scaled ? (x - subtract[c]) * multiply[c] : x, dtype);
          const std::int64_t at = channels_first ? c * count + p : p * channels + c;
          ASSERT_EQ(load_number(pixels.data(), dtype, at), expected)
              << "seed " << seed << ", pixel " << p << ", channel " << c << ": " << problem.text;
        }
      }
    }
  }
}

TEST_F(JpegCuda, SelectsFramesByNumber) {
  Problem problem = random_problem(3);
  const auto last = static_cast<std::int64_t>(problem.files.size());
  problem.batch.frames.push_back(problem.batch.frames[0]);
  problem.batch.frames.back().scan = ~std::uint64_t{0};
  problem.batch.numbers = {0, 1, last, 1, last + 1, 1'000'000, -1};
  const DeviceDecoded got = decode_on_device(problem.batch, bytes_of(3));
  const Decoded first = decode_with_libjpeg(problem.files.front(), 3);
  const Bytes zeros(first.pixels.size());
  const Bytes untouched(first.pixels.size(), 0x5A);
  const auto bad = static_cast<std::uint8_t>(JpegStatus::kBadFrame);
  EXPECT_EQ(got.status, (Bytes{0, 0, 0, 0, bad, 0x5A, 0x5A}));
  EXPECT_EQ(got.damaged, 1);
  EXPECT_EQ(image_of(got, 0), zeros);
  EXPECT_EQ(image_of(got, 1), first.pixels);
  EXPECT_EQ(image_of(got, 2), decode_with_libjpeg(problem.files.back(), 3).pixels);
  EXPECT_EQ(image_of(got, 3), first.pixels);
  EXPECT_EQ(image_of(got, 4), zeros);
  EXPECT_EQ(image_of(got, 5), untouched);
  EXPECT_EQ(image_of(got, 6), untouched);
}

/// Changes bits of anything that a kernel reads.
void damage(Batch& batch, Random& random) {
  const auto flip = [&](auto& values, std::int64_t changes) {
    auto* const bytes = reinterpret_cast<std::uint8_t*>(values.data());
    const auto size = static_cast<std::int64_t>(values.size() * sizeof(values[0]));
    for (std::int64_t i = 0; i < changes; ++i) {
      bytes[random.below(size)] ^= static_cast<std::uint8_t>(1 << random.below(8));
    }
  };
  switch (random.below(5)) {
    case 0:
      return flip(batch.scans, 1 + random.below(4));
    case 1:
      return flip(batch.indices, 1 + random.below(4));
    case 2:
      return flip(batch.frames, 1 + random.below(2));
    case 3:
      for (std::uint32_t& word : batch.scans) {
        word = static_cast<std::uint32_t>(random.below(1ll << 32));
      }
      return;
    default:
      for (std::uint64_t& entry : batch.indices) {
        entry = static_cast<std::uint64_t>(random.below(1ll << 62)) * 4;
      }
  }
}

TEST_F(JpegCuda, RepairsTruncatedFramesAndReportsOthers) {
  std::int64_t agreed = 0;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    Problem problem = random_problem(seed);
    Random random(seed);
    Batch truncated;
    truncated.layout = problem.batch.layout;
    Bytes file = problem.files[0];
    file.resize(static_cast<std::size_t>(random.below(static_cast<std::int64_t>(file.size()))));
    if (append_frame(truncated, file)) {
      const DeviceDecoded got = decode_on_device(truncated, bytes_of(3));
      const Decoded expected = decode_with_libjpeg(file, 3);
      ASSERT_EQ(got.status[0], 0) << "seed " << seed << ": " << problem.text;
      ASSERT_EQ(difference(expected.pixels, got.out, expected.width, 3), "")
          << "seed " << seed << ": " << problem.text;
      ++agreed;
    }
    damage(problem.batch, random);
    const DeviceDecoded got = decode_on_device(problem.batch, bytes_of(3));
    for (std::size_t i = 0; i < got.status.size(); ++i) {
      if (got.status[i] == 0) continue;
      const Bytes pixels = image_of(got, i);
      ASSERT_EQ(pixels, Bytes(pixels.size())) << "seed " << seed << ": " << problem.text;
    }
  }
  EXPECT_GT(agreed, 200);
}

/// Where the GPU reports nothing, its image is that of a sequential decoder of the same scan: that
/// is what the host makes of it too.
TEST_F(JpegCuda, AgreesWithTheHostAboutDamage) {
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    Problem problem = random_problem(seed);
    Random random(seed);
    JpegHeader header;
    ASSERT_EQ(parse_jpeg(problem.files[0].data(), problem.files[0].size(), header),
              JpegStatus::kOk);
    JpegIndex index;
    index_jpeg(problem.files[0].data(), problem.files[0].size(), header, problem.batch.layout.every,
               index);
    problem.batch.frames.resize(1);
    auto& scans = problem.batch.scans;
    scans.resize(static_cast<std::size_t>(jpeg_scan_words(index.scan_bits)));
    scans[random.below(static_cast<std::int64_t>(scans.size()))] ^= 1u << random.below(32);
    const DeviceDecoded got = decode_on_device(problem.batch, bytes_of(3));
    Bytes pixels;
    const bool fits = run_tasks_on_host(header, index, scans, problem.batch.tables, 3, pixels);
    ASSERT_EQ(got.status[0] == 0, fits) << "seed " << seed << ": " << problem.text;
    if (fits) {
      ASSERT_EQ(difference(pixels, got.out, header.width, 3), "") << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace robocache::testing
