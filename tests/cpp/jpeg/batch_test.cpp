// Batches of frames on the CPU, and the tables that CUDA needs, beside JpegDecoder and
// extract_jpeg_scan.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "jpeg/frames.h"
#include "robocache/jpeg.h"
#include "support/error_of.h"

namespace robocache::testing {
namespace {

/// Files of one size, as a store holds them.
struct Sources {
  std::vector<Bytes> files;
  std::vector<JpegIndex> indices;
  std::vector<const std::uint8_t*> pointers;
  std::vector<std::int64_t> sizes, entry_counts;
  std::vector<const std::uint64_t*> entries;
  std::vector<std::uint32_t> scan_bits;

  void append(const FrameOptions& options, std::uint64_t seed) {
    files.push_back(make_frame(options, seed));
    JpegHeader header;
    JpegIndex index;
    ASSERT_EQ(parse_jpeg(files.back().data(), files.back().size(), header), JpegStatus::kOk);
    ASSERT_EQ(index_jpeg(files.back().data(), files.back().size(), header, 1, index),
              JpegStatus::kOk);
    indices.push_back(index);
  }

  JpegSources view() {
    for (std::size_t i = 0; i < files.size(); ++i) {
      pointers.push_back(files[i].data());
      sizes.push_back(static_cast<std::int64_t>(files[i].size()));
      entries.push_back(indices[i].entries.data());
      entry_counts.push_back(static_cast<std::int64_t>(indices[i].entries.size()));
      scan_bits.push_back(indices[i].scan_bits);
    }
    JpegSources sources;
    sources.files = {pointers.data(), sizes.data(), static_cast<std::int64_t>(files.size())};
    sources.entries = entries.data();
    sources.entry_counts = entry_counts.data();
    sources.scan_bits = scan_bits.data();
    return sources;
  }
};

FrameOptions options_of(JpegSampling sampling, std::int32_t quality) {
  FrameOptions options{50, 34, Content::kScene, {}};
  options.encoding.sampling = sampling;
  options.encoding.quality = quality;
  return options;
}

TEST(JpegBatch, DecodesOnTheCpuWhatItsNumbersSelect) {
  Sources made;
  for (std::uint64_t i = 0; i < 3; ++i) made.append(options_of(JpegSampling::k420, 90), i);
  const JpegSources sources = made.view();
  const double subtract[3] = {10, 20, 30};
  const double multiply[3] = {0.5, 0.25, 2};
  std::vector<JpegStream> streams(2);
  streams[0].first_number = 1;
  streams[0].files = sources.files;
  streams[0].files.count = 2;
  streams[1].first_number = 3;
  streams[1].files = {sources.files.files + 2, sources.files.sizes + 2, 1};
  for (JpegStream& stream : streams) {
    stream.conversion = make_jpeg_conversion(DataType::kFloat32, true, 3, subtract, multiply);
  }
  const JpegLayout layout{50, 34};
  constexpr std::int64_t kPixels = std::int64_t{50} * 34;
  const std::vector<std::int64_t> numbers = {3, 0, 1, 9, 2};
  std::vector<float> out(kPixels * 5 * 3, -7);
  bool is_pad[5] = {};
  std::uint8_t status[5] = {9, 9, 9, 9, 9};
  std::int64_t damaged = 0;
  made.sizes[1] = 0;
  JpegOutput output;
  output.numbers = numbers.data();
  output.count = 5;
  output.values = out.data();
  output.is_pad = is_pad;
  output.status = status;
  output.stream_count = 2;
  decode_jpeg_frames(streams.data(), {output}, layout, streams[0].conversion.pixels, &damaged, {},
                     on_cpu());
  EXPECT_EQ(damaged, 1);
  for (std::size_t n = 0; n < numbers.size(); ++n) {
    const float* const image = &out[n * 3 * kPixels];
    EXPECT_EQ(is_pad[n], numbers[n] == 2);
    if (numbers[n] == 9) {
      EXPECT_EQ(image[0], -7);
      EXPECT_EQ(status[n], 9);
      continue;
    }
    if (numbers[n] == 0 || numbers[n] == 2) {
      for (std::int64_t i = 0; i < 3 * kPixels; ++i) ASSERT_EQ(image[i], 0);
      continue;
    }
    const Decoded bytes =
        decode_with_libjpeg(made.files[static_cast<std::size_t>(numbers[n]) - 1], 3);
    for (std::int64_t p = 0; p < kPixels; ++p) {
      for (int c = 0; c < 3; ++c) {
        const double expected =
            (bytes.pixels[static_cast<std::size_t>(3 * p + c)] - subtract[c]) * multiply[c];
        ASSERT_EQ(image[c * kPixels + p], static_cast<float>(expected));
      }
    }
  }
}

/// A call is divided into parts of at most 16 outputs and 2048 frames.
TEST(JpegBatch, DecodesMoreOutputsAndFramesThanAPartOfACallHas) {
  constexpr std::int64_t kBytes = std::int64_t{8} * 8 * 3;
  Sources made;
  for (std::uint64_t i = 0; i < 3; ++i) made.append({8, 8, Content::kScene, {}}, i);
  JpegStream stream;
  stream.files = made.view().files;
  made.sizes[2] = 0;
  stream.conversion = make_jpeg_conversion(DataType::kUInt8, false, 3, nullptr, nullptr);
  std::vector<std::int64_t> counts(50);
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] = static_cast<std::int64_t>(i % 3);
  counts.insert(counts.end(), {5000, 1});
  const std::int64_t total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  const auto size = static_cast<std::size_t>(total);
  std::vector<std::int64_t> numbers(size);
  for (std::size_t n = 0; n < size; ++n) numbers[n] = static_cast<std::int64_t>(5 * n % 11 % 4);
  Bytes out(size * kBytes, 0x5A);
  Bytes status(size, 9);
  const std::unique_ptr<bool[]> is_pad(new bool[size]());
  std::vector<JpegOutput> outputs;
  std::int64_t begin = 0;
  for (const std::int64_t count : counts) {
    outputs.push_back({&numbers[0] + begin, count, &out[0] + begin * kBytes, &is_pad[0] + begin,
                       &status[0] + begin});
    begin += count;
  }
  std::int64_t damaged = 0;
  decode_jpeg_frames(&stream, outputs, {8, 8}, stream.conversion.pixels, &damaged, {}, on_cpu());
  const Bytes images[3] = {Bytes(kBytes), decode_with_libjpeg(made.files[0], 3).pixels,
                           decode_with_libjpeg(made.files[1], 3).pixels};
  for (std::size_t n = 0; n < size; ++n) {
    const bool is_damaged = numbers[n] == 3;
    const auto image = out.begin() + static_cast<std::ptrdiff_t>(n * kBytes);
    ASSERT_EQ(Bytes(image, image + kBytes), images[is_damaged ? 0 : numbers[n]]) << n;
    ASSERT_EQ(is_pad[n], is_damaged) << n;
    ASSERT_EQ(status[n], static_cast<int>(is_damaged ? JpegStatus::kBadFrame : JpegStatus::kOk));
  }
  EXPECT_EQ(damaged, std::count(numbers.begin(), numbers.end(), 3));
  EXPECT_GT(damaged, 0);
}

TEST(JpegBatch, TheWorkspaceIsThatOfThePartWithTheMostFrames) {
  const auto bytes = [](std::int64_t count) {
    return decode_jpeg_frames_workspace_bytes({64, 64}, count, DeviceType::kCuda);
  };
  EXPECT_LT(bytes(1), bytes(2048));
  EXPECT_EQ(bytes(2048), bytes(100'000));
  EXPECT_EQ(decode_jpeg_frames_workspace_bytes({64, 64}, 100, DeviceType::kCpu), 0U);
}

TEST(JpegBatch, TablesAreStoredOnce) {
  Sources made;
  for (std::uint64_t i = 0; i < 600; ++i) {
    made.append(options_of(JpegSampling::k420, i % 2 == 0 ? 90 : 50), i % 5);
  }
  made.indices[7].entries.clear();
  const JpegFrameTable table(made.view(), {50, 34, JpegSampling::kGray, 1}, on_cpu());
  EXPECT_EQ(table.layout().sampling, JpegSampling::k420);
  std::int64_t words = 0;
  std::int64_t entries = 0;
  for (std::size_t i = 0; i < 600; ++i) {
    const JpegFrame& frame = table.frames()[i];
    EXPECT_EQ(frame.width, i == 7 ? 0 : 50);
    if (i == 7) continue;
    EXPECT_EQ(frame.scan, static_cast<std::uint64_t>(words));
    EXPECT_EQ(frame.index, static_cast<std::uint64_t>(entries));
    EXPECT_EQ(frame.tables, table.frames()[i % 2].tables);
    words += jpeg_scan_words(frame.scan_bits);
    entries += made.entry_counts[i];
  }
  EXPECT_EQ(table.scan_words(), words);
  EXPECT_EQ(table.index_size(), entries);
  EXPECT_LE(static_cast<std::int64_t>(table.tables().size()),
            2 * std::int64_t{table.layout().largest_tables});
  std::vector<std::uint32_t> scans(static_cast<std::size_t>(words));
  JpegFiles files{made.pointers.data(), made.sizes.data(), 600};
  extract_jpeg_scans(files, table.frames().data(), scans.data(), on_cpu());
  std::vector<std::uint32_t> alone(static_cast<std::size_t>(jpeg_scan_words(made.scan_bits[599])));
  JpegHeader header;
  parse_jpeg(made.files[599].data(), made.files[599].size(), header);
  extract_jpeg_scan(made.files[599].data(), made.files[599].size(), header, made.scan_bits[599],
                    alone.data());
  EXPECT_TRUE(std::equal(alone.begin(), alone.end(),
                         scans.begin() + static_cast<std::ptrdiff_t>(table.frames()[599].scan)));
}

TEST(JpegBatch, StagesTheFramesThatNumbersSelect) {
  Sources made;
  for (std::uint64_t i = 0; i < 3; ++i) made.append(options_of(JpegSampling::k420, 90), i);
  made.indices[1].entries.clear();
  const JpegSources sources = made.view();
  const JpegFrameTable table(sources, {50, 34}, on_cpu());
  const std::int64_t entries = made.entry_counts[0] + made.entry_counts[2];
  std::vector<std::uint32_t> all(static_cast<std::size_t>(table.scan_words()));
  extract_jpeg_scans(sources.files, table.frames().data(), all.data(), on_cpu());
  std::vector<std::uint32_t> scans(all.size());
  std::vector<std::uint64_t> indices(static_cast<std::size_t>(entries));
  JpegFrame frames[5];
  std::int64_t staged_numbers[5];
  JpegStage stage;
  stage.scans = scans.data();
  stage.scan_words = table.scan_words();
  stage.indices = indices.data();
  stage.index_size = entries;
  stage.frames = frames;
  stage.numbers = staged_numbers;
  stage.capacity = 5;
  const std::int64_t numbers[5] = {3, 0, 2, 1, 4};
  const auto fill = [&] {
    stage_jpeg_frames(sources, table.frames().data(), numbers, 5, stage, on_cpu());
  };
  fill();
  const std::int64_t expected[5] = {1, 0, 3, 4, 0};
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(staged_numbers[i], expected[i]);
    EXPECT_EQ(frames[i].width, numbers[i] == 1 || numbers[i] == 3 ? 50 : 0);
  }
  const auto first_words = static_cast<std::ptrdiff_t>(table.frames()[2].scan);  // of frame 1
  std::rotate(all.begin(), all.begin() + first_words, all.end());
  EXPECT_EQ(scans, all);
  EXPECT_EQ(frames[3].scan, scans.size() - static_cast<std::size_t>(first_words));
  std::vector<std::uint64_t> both = made.indices[2].entries;
  both.insert(both.end(), made.indices[0].entries.begin(), made.indices[0].entries.end());
  EXPECT_EQ(indices, both);
  EXPECT_EQ(frames[3].index, made.indices[2].entries.size());
  const std::string room = std::to_string(scans.size()) + " words and " + std::to_string(entries);
  --stage.index_size;
  EXPECT_EQ(error_of(fill), "ValueError stage: expected room for " + room + " entries, got " +
                                std::to_string(scans.size()) + " and " +
                                std::to_string(entries - 1));
  stage.capacity = 4;
  EXPECT_EQ(error_of(fill), "ValueError count: expected at most 4, got 5");
}

TEST(JpegBatch, FramesOfTwoSamplingsAreAnError) {
  Sources made;
  made.append(options_of(JpegSampling::k420, 90), 1);
  made.append(options_of(JpegSampling::k444, 90), 2);
  EXPECT_EQ(
      error_of([&] { JpegFrameTable(made.view(), {50, 34, JpegSampling::kGray, 1}, on_cpu()); }),
      "ValueError frame 1: expected chroma sampling 4:2:0 as frame 0, got 4:4:4");
}

}  // namespace
}  // namespace robocache::testing
