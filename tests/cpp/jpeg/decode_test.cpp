// The code of CUDA's threads, compiled for the host, beside libjpeg-turbo: every byte. And
// JpegDecoder beside it, whole frames and rectangles.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "jpeg/frames.h"
#include "support/environment.h"
#include "support/random.h"

namespace robocache::testing {
namespace {

/// Frames per run: ROBOCACHE_TEST_JPEG_FRAMES, or fewer.
std::uint64_t frame_count(std::uint64_t usual) {
  const std::string wanted = environment("ROBOCACHE_TEST_JPEG_FRAMES");
  return wanted.empty() ? usual : std::stoull(wanted);
}

std::string problem_of(const Bytes& file, std::int32_t every, int channels) {
  const HostDecoded got = decode_on_host(file, every, channels);
  if (got.status != JpegStatus::kOk) return describe(got.status);
  if (!got.fits) return "the index does not fit";
  return difference(decode_with_libjpeg(file, channels).pixels, got.pixels, got.header.width,
                    channels);
}

TEST(JpegDecode, ThreadsGiveTheBytesOfLibjpegTurbo) {
  for (std::uint64_t seed = 0; seed < frame_count(4000); ++seed) {
    Random random(seed);
    const FrameOptions options = random_frame_options(random);
    const std::int32_t every = random.pick({1, 1, 2, 3, 7, 100});
    const int channels = random.one_in(6) ? 1 : 3;
    ASSERT_EQ(problem_of(make_frame(options, seed), every, channels), "")
        << "seed " << seed << ", every " << every << ": " << options.text();
  }
}

TEST(JpegDecode, TakesEverySmallSize) {
  for (const JpegSampling sampling : {JpegSampling::kGray, JpegSampling::k444, JpegSampling::k422,
                                      JpegSampling::k440, JpegSampling::k420}) {
    for (std::int32_t width = 1; width <= 34; ++width) {
      for (const std::int32_t height : {1, 2, 3, 7, 8, 9, 15, 16, 17, 33}) {
        FrameOptions options{width, height, Content::kNoise, {}};
        options.encoding.sampling = sampling;
        ASSERT_EQ(problem_of(make_frame(options, 1), 1, 3), "") << options.text();
      }
    }
  }
}

TEST(JpegDecode, TakesEveryQuality) {
  for (std::int32_t quality = 1; quality <= 100; ++quality) {
    for (const Content content : {Content::kNoise, Content::kText, Content::kScene}) {
      FrameOptions options{61, 45, content, {}};
      options.encoding.quality = quality;
      ASSERT_EQ(problem_of(make_frame(options, 2), 1, 3), "") << options.text();
    }
  }
}

TEST(JpegDecode, TakesLargeFrames) {
  for (const auto& [width, height] : {std::pair{4096, 4096}, {4095, 33}, {17, 4096}}) {
    FrameOptions options{width, height, Content::kScene, {}};
    ASSERT_EQ(problem_of(make_frame(options, 3), 1, 3), "") << options.text();
  }
}

TEST(JpegDecode, TakesFramesWithoutTables) {  // Motion JPEG: cameras omit the standard tables
  FrameOptions options{40, 30, Content::kScene, {}};
  Bytes file = make_frame(options, 4);
  for (std::size_t i = 2; i + 4 < file.size() && file[i + 1] != 0xda;) {
    const std::size_t size = 2 + (file[i + 2] << 8 | file[i + 3]);
    if (file[i + 1] == 0xc4) {
      file.erase(file.begin() + static_cast<std::ptrdiff_t>(i),
                 file.begin() + static_cast<std::ptrdiff_t>(i + size));
    } else {
      i += size;
    }
  }
  EXPECT_EQ(problem_of(file, 1, 3), "");
}

TEST(JpegDecode, RealFrames) {
  const std::string path =
      "../shared/data/rlds_bridge/bridge_dataset/1.0.0/"
      "bridge_dataset-train.tfrecord-00000-of-00001";
  std::filesystem::path folder = std::filesystem::current_path();
  while (!std::filesystem::exists(folder / path) && folder != folder.parent_path()) {
    folder = folder.parent_path();
  }
  std::ifstream file(folder / path, std::ios::binary);
  if (!file.good()) GTEST_SKIP() << path << " is not here";
  const Bytes bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  int count = 0;
  for (std::size_t i = 0; i + 3 < bytes.size() && count < 60; ++i) {
    if (bytes[i] != 0xff || bytes[i + 1] != 0xd8 || bytes[i + 2] != 0xff) continue;
    const std::size_t end = std::min(bytes.size(), i + 200'000);
    const Bytes frame(bytes.begin() + static_cast<std::ptrdiff_t>(i),
                      bytes.begin() + static_cast<std::ptrdiff_t>(end));
    ASSERT_EQ(problem_of(frame, 1, 3), "") << "at byte " << i;
    ++count;
  }
  EXPECT_GT(count, 10);
}

TEST(JpegDecode, RepairsTruncatedFramesAsLibjpegTurbo) {
  int damaged = 0;
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    Random random(seed);
    const FrameOptions options = random_frame_options(random);
    Bytes file = make_frame(options, seed);
    file.resize(static_cast<std::size_t>(random.below(static_cast<std::int64_t>(file.size()))));
    const HostDecoded got = decode_on_host(file, random.pick({1, 2, 5}), 3);
    if (got.status != JpegStatus::kOk && got.status != JpegStatus::kDamaged) continue;
    const Decoded expected = decode_with_libjpeg(file, 3);
    ASSERT_TRUE(got.fits) << "seed " << seed << ": " << options.text();
    ASSERT_EQ(difference(expected.pixels, got.pixels, options.width, 3), "")
        << "seed " << seed << ": " << options.text();
    damaged += got.status == JpegStatus::kDamaged ? 1 : 0;
  }
  EXPECT_GT(damaged, 400);
}

/// A task is right only if it ends where the index says that the next one begins.
TEST(JpegDecode, TasksNoticeAnotherIndex) {
  std::int64_t noticed = 0;
  std::int64_t harmless = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Random random(seed);
    FrameOptions options = random_frame_options(random);
    const Bytes file = make_frame(options, seed);
    JpegHeader header;
    JpegIndex index;
    ASSERT_EQ(parse_jpeg(file.data(), file.size(), header), JpegStatus::kOk);
    ASSERT_EQ(index_jpeg(file.data(), file.size(), header, 1, index), JpegStatus::kOk);
    std::vector<std::uint32_t> tables;
    make_jpeg_tables(header, tables);
    std::vector<std::uint32_t> words(static_cast<std::size_t>(jpeg_scan_words(index.scan_bits)));
    extract_jpeg_scan(file.data(), file.size(), header, index.scan_bits, words.data());
    Bytes right;
    Bytes pixels;
    ASSERT_TRUE(run_tasks_on_host(header, index, words, tables, 3, right));
    index.entries[random.below(static_cast<std::int64_t>(index.entries.size()))] ^=
        std::uint64_t{1} << random.below(64);
    if (!run_tasks_on_host(header, index, words, tables, 3, pixels)) {
      ++noticed;
    } else {  // a bit that has no meaning, as of chroma in a gray frame or the upper half of a base
      ++harmless;
      ASSERT_EQ(pixels, right) << "seed " << seed << ": " << options.text();
    }
  }
  EXPECT_GT(noticed, 300);
}

TEST(JpegDecoder, CropsExactly) {
  JpegDecoder decoder;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    Random random(seed);
    const FrameOptions options = random_frame_options(random);
    const Bytes file = make_frame(options, seed);
    const int channels = random.one_in(4) ? 1 : 3;
    const Decoded whole = decode_with_libjpeg(file, channels);
    JpegCrop crop;
    crop.x = static_cast<std::int32_t>(random.below(options.width));
    crop.y = static_cast<std::int32_t>(random.below(options.height));
    crop.width = static_cast<std::int32_t>(1 + random.below(options.width - crop.x));
    crop.height = static_cast<std::int32_t>(1 + random.below(options.height - crop.y));
    const std::size_t row = static_cast<std::size_t>(crop.width) * channels;
    const std::size_t stride = row + static_cast<std::size_t>(random.below(5));
    Bytes got(stride * crop.height, 0x5A);
    ASSERT_EQ(decoder.decode(file.data(), file.size(), options.width, options.height, channels,
                             crop, got.data(), static_cast<std::ptrdiff_t>(stride)),
              JpegStatus::kOk);
    for (std::int32_t y = 0; y < crop.height; ++y) {
      const std::uint8_t* const expected =
          &whole.pixels[(static_cast<std::size_t>(crop.y + y) * options.width + crop.x) * channels];
      ASSERT_EQ(std::memcmp(&got[y * stride], expected, row), 0)
          << "seed " << seed << ", row " << y << " of " << crop.width << "x" << crop.height
          << " at (" << crop.x << ", " << crop.y << "): " << options.text();
      for (std::size_t i = row; i < stride; ++i) ASSERT_EQ(got[y * stride + i], 0x5A);
    }
  }
}

TEST(JpegDecoder, ReportsWhatItCannotDecode) {
  JpegDecoder decoder;
  const FrameOptions options{40, 30, Content::kScene, {}};
  const Bytes good = make_frame(options, 5);
  const Bytes zeros(40 * 30 * 3);
  Bytes out(zeros.size(), 0x5A);
  const auto decode = [&](const Bytes& file, std::int32_t width) {
    return decoder.decode(file.data(), file.size(), width, 30, 3, {}, out.data(), 120);
  };
  EXPECT_EQ(decode({'P', 'N', 'G'}, 40), JpegStatus::kNotJpeg);
  EXPECT_EQ(out, zeros);
  EXPECT_EQ(decode({}, 40), JpegStatus::kNotJpeg);
  EXPECT_EQ(decode({0xff, 0xd8, 0xff, 0xd9}, 40), JpegStatus::kUndecodable);
  out.assign(out.size(), 0x5A);
  EXPECT_EQ(decode(good, 39), JpegStatus::kLayoutMismatch);
  EXPECT_EQ(Bytes(out.begin(), out.begin() + 39 * 3), Bytes(39 * 3));
  Bytes half(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(good.size() / 2));
  EXPECT_EQ(decode(half, 40), JpegStatus::kDamaged);
  EXPECT_EQ(out, decode_with_libjpeg(half, 3).pixels);
  EXPECT_EQ(decode(good, 40), JpegStatus::kOk);  // after errors
  EXPECT_EQ(out, decode_with_libjpeg(good, 3).pixels);
  std::int32_t width = 0;
  std::int32_t height = 0;
  EXPECT_EQ(decoder.read_size(good.data(), good.size(), width, height), JpegStatus::kOk);
  EXPECT_EQ(width, 40);
  EXPECT_EQ(height, 30);
}

/// A file without the segments of a marker in its header.
Bytes without_segments(const Bytes& file, std::uint8_t marker) {
  Bytes made(file.begin(), file.begin() + 2);
  std::size_t at = 2;
  while (file[at + 1] != 0xda) {
    const std::size_t end = at + 2 + file[at + 2] * 256U + file[at + 3];
    if (file[at + 1] != marker) made.insert(made.end(), &file[at], &file[at] + (end - at));
    at = end;
  }
  made.insert(made.end(), &file[at], file.data() + file.size());
  return made;
}

TEST(JpegDecode, FramesDoNotTakeTheTablesOfThoseBefore) {
  constexpr std::uint8_t kHuffmanTables = 0xc4, kQuantizationTables = 0xdb;
  FrameOptions options{40, 30, Content::kScene, {}};
  const Bytes standard = make_frame(options, 1);
  options.encoding.quality = 40;
  options.encoding.optimize_huffman = true;
  const Bytes other = make_frame(options, 2);
  const Bytes motion_jpeg = without_segments(standard, kHuffmanTables);
  const Bytes damaged = without_segments(standard, kQuantizationTables);
  Bytes pixels(std::size_t{40} * 30 * 3);
  JpegDecoder decoder;
  const auto decode = [&](const Bytes& file) {
    return decoder.decode(file.data(), file.size(), 40, 30, 3, {}, pixels.data(), 120);
  };
  ASSERT_EQ(decode(other), JpegStatus::kOk);
  EXPECT_EQ(decode(motion_jpeg), JpegStatus::kOk);
  EXPECT_EQ(pixels, decode_with_libjpeg(standard, 3).pixels);
  ASSERT_EQ(decode(other), JpegStatus::kOk);
  EXPECT_EQ(decode(damaged), JpegStatus::kUndecodable);
}

}  // namespace
}  // namespace robocache::testing
