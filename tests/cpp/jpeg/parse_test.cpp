// Headers, indices, tables and arguments: what is accepted, and the reason for what is not.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "jpeg/frames.h"
#include "support/error_of.h"

namespace robocache::testing {
namespace {

JpegStatus parse(const Bytes& file) {
  JpegHeader header;
  return parse_jpeg(file.data(), file.size(), header);
}

Bytes frame() { return make_frame({40, 30, Content::kScene, {}}, 1); }

/// The position of a marker's first byte.
std::size_t find_marker(const Bytes& file, std::uint8_t marker) {
  std::size_t at = 2;
  while (file[at + 1] != marker) at += 2 + (file[at + 2] << 8 | file[at + 3]);
  return at;
}

Bytes with_byte(std::uint8_t marker, std::size_t offset, std::uint8_t value) {
  Bytes file = frame();
  file[find_marker(file, marker) + offset] = value;
  return file;
}

TEST(JpegParse, ReadsAHeader) {
  FrameOptions options{41, 29, Content::kScene, {}};
  options.encoding.sampling = JpegSampling::k422;
  options.encoding.restart_interval = 5;
  const Bytes file = make_frame(options, 1);
  JpegHeader header;
  ASSERT_EQ(parse_jpeg(file.data(), file.size(), header), JpegStatus::kOk);
  EXPECT_EQ(header.width, 41);
  EXPECT_EQ(header.height, 29);
  EXPECT_EQ(header.components, 3);
  EXPECT_EQ(header.orientation, 1);
  EXPECT_EQ(header.sampling, JpegSampling::k422);
  EXPECT_EQ(header.restart_interval, 5);
  EXPECT_EQ(header.scan_begin, find_marker(file, 0xda) + 14);
}

/// The orientation of a frame whose EXIF data have one field of 12 bytes.
std::int32_t orientation_of(bool is_little, const std::string& field) {
  using std::string_literals::operator""s;
  const std::string exif = "\xff\xe1\x00\x22"s + "Exif\0\0"s +
                           (is_little ? "II\x2a\0\x08\0\0\0\x01\0"s : "MM\0\x2a\0\0\0\x08\0\x01"s) +
                           field + "\0\0\0\0"s;
  Bytes file = frame();
  file.insert(file.begin() + 2, exif.begin(), exif.end());
  JpegHeader header;
  EXPECT_EQ(parse_jpeg(file.data(), file.size(), header), JpegStatus::kOk);
  return header.orientation;
}

TEST(JpegParse, ReadsTheOrientation) {
  using std::string_literals::operator""s;
  EXPECT_EQ(orientation_of(false, "\x01\x12\0\x03\0\0\0\x01\0\x06\0\0"s), 6);  // SHORT
  EXPECT_EQ(orientation_of(true, "\x12\x01\x03\0\x01\0\0\0\x08\0\0\0"s), 8);
  EXPECT_EQ(orientation_of(false, "\x01\x12\0\x04\0\0\0\x01\0\0\0\x06"s), 6);  // LONG
  EXPECT_EQ(orientation_of(true, "\x12\x01\x04\0\x01\0\0\0\x03\0\0\0"s), 3);
  EXPECT_EQ(orientation_of(false, "\x01\x12\0\x02\0\0\0\x01\0\x06\0\0"s), 1);  // text
  EXPECT_EQ(orientation_of(false, "\x01\x12\0\x03\0\0\0\x01\0\x09\0\0"s), 1);  // no orientation
  EXPECT_EQ(orientation_of(false, "\x01\x12\0\x04\0\0\0\x01\0\x06\0\0"s), 1);
  EXPECT_EQ(orientation_of(false, "\x01\x13\0\x03\0\0\0\x01\0\x06\0\0"s), 1);  // another tag
}

TEST(JpegParse, SaysWhyAFileIsNotBaseline) {
  const auto frame_marker = [](std::uint8_t marker) { return with_byte(0xc0, 1, marker); };
  EXPECT_EQ(parse({}), JpegStatus::kNotJpeg);
  EXPECT_EQ(parse({0x89, 'P', 'N', 'G'}), JpegStatus::kNotJpeg);
  EXPECT_EQ(parse({0xff, 0xd8}), JpegStatus::kTruncatedHeader);
  EXPECT_EQ(parse(frame_marker(0xc2)), JpegStatus::kProgressive);
  EXPECT_EQ(parse(frame_marker(0xc3)), JpegStatus::kLossless);
  EXPECT_EQ(parse(frame_marker(0xc9)), JpegStatus::kArithmetic);
  EXPECT_EQ(parse(with_byte(0xc0, 4, 12)), JpegStatus::kDepth);
  EXPECT_EQ(parse(with_byte(0xc0, 9, 4)), JpegStatus::kComponents);
  EXPECT_EQ(parse(with_byte(0xc0, 11, 0x41)), JpegStatus::kSampling);
  EXPECT_EQ(parse(with_byte(0xc0, 7, 0x20)), JpegStatus::kTooLarge);
  EXPECT_EQ(parse(with_byte(0xc0, 12, 9)), JpegStatus::kInvalidHeader);
  EXPECT_EQ(parse(with_byte(0xda, 4, 1)), JpegStatus::kInvalidHeader);
  EXPECT_EQ(parse(with_byte(0xdb, 9, 0)), JpegStatus::kInvalidHeader);  // a step of 0
  EXPECT_EQ(std::string(describe(JpegStatus::kProgressive)), "a progressive JPEG");
  Bytes truncated = frame();
  truncated.resize(find_marker(truncated, 0xda) + 3);
  EXPECT_EQ(parse(truncated), JpegStatus::kTruncatedHeader);
}

TEST(JpegIndex, IsVerified) {
  const Bytes file = frame();
  JpegHeader header;
  JpegIndex index;
  ASSERT_EQ(parse_jpeg(file.data(), file.size(), header), JpegStatus::kOk);
  for (const std::int32_t every : {1, 2, 5, 1000}) {
    ASSERT_EQ(index_jpeg(file.data(), file.size(), header, every, index), JpegStatus::kOk);
    const auto count = static_cast<std::int64_t>(index.entries.size());
    EXPECT_EQ(count, jpeg_index_size(40, 30, JpegSampling::k420, every));
    const auto verify = [&](std::int64_t entries, std::uint32_t bits) {
      return verify_jpeg_index(file.data(), file.size(), every, index.entries.data(), entries,
                               bits);
    };
    EXPECT_EQ(verify(count, index.scan_bits), JpegStatus::kOk);
    EXPECT_EQ(verify(count - 1, index.scan_bits), JpegStatus::kIndexMismatch);
    EXPECT_EQ(verify(count, index.scan_bits + 8), JpegStatus::kIndexMismatch);
    index.entries.back() ^= 1;
    EXPECT_EQ(verify(count, index.scan_bits), JpegStatus::kIndexMismatch);
  }
}

TEST(JpegIndex, RefusesMisplacedMarkers) {
  FrameOptions options{64, 64, Content::kScene, {}};
  options.encoding.restart_interval = 2;
  Bytes file = make_frame(options, 1);
  JpegHeader header;
  JpegIndex index;
  ASSERT_EQ(parse_jpeg(file.data(), file.size(), header), JpegStatus::kOk);
  const auto begin = file.begin() + static_cast<std::ptrdiff_t>(header.scan_begin);
  const std::uint8_t marker[] = {0xff, 0xd0};
  const auto found = std::search(begin, file.end(), std::begin(marker), std::end(marker));
  ASSERT_NE(found, file.end());
  found[1] = 0xd3;
  EXPECT_EQ(index_jpeg(file.data(), file.size(), header, 1, index), JpegStatus::kMarkers);
}

/// Frames of all kinds, one after the other: other tables, restart markers, damage, no JPEG.
std::vector<Bytes> make_files(std::uint64_t seed, std::size_t count) {
  std::vector<Bytes> files;
  for (std::size_t i = 0; i < count; ++i) {
    Random random(seed * 1000 + i);
    FrameOptions options = random_frame_options(random);
    options.width = std::min(options.width, 200);
    options.height = std::min(options.height, 200);
    Bytes file = make_frame(options, seed);
    const auto size = static_cast<std::int64_t>(file.size());
    if (random.one_in(4)) file.resize(static_cast<std::size_t>(random.below(size)));
    if (random.one_in(3) && !file.empty()) {
      file[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(file.size())))] ^= 0x55;
    }
    files.push_back(std::move(file));
  }
  return files;
}

TEST(JpegIndex, OfSeveralFilesIsThatOfEach) {
  int damaged = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const std::vector<Bytes> files = make_files(seed, seed % 9);
    const std::int32_t every = seed % 3 == 0 ? 3 : 1;
    std::vector<const std::uint8_t*> addresses;
    std::vector<std::int64_t> sizes;
    std::vector<JpegIndex> expected(files.size());
    std::vector<JpegStatus> statuses;
    std::vector<std::vector<std::uint64_t>> entries(files.size());
    std::vector<JpegIndexRow> rows(files.size());
    for (std::size_t i = 0; i < files.size(); ++i) {
      addresses.push_back(files[i].data());
      sizes.push_back(static_cast<std::int64_t>(files[i].size()));
      JpegHeader header;
      JpegStatus status = parse_jpeg(files[i].data(), files[i].size(), header);
      if (status == JpegStatus::kOk) {
        entries[i].resize(static_cast<std::size_t>(
            jpeg_index_size(header.width, header.height, header.sampling, every)));
        status = index_jpeg(files[i].data(), files[i].size(), header, every, expected[i]);
      }
      statuses.push_back(status);
      rows[i] = {entries[i].data(), static_cast<std::int64_t>(entries[i].size())};
    }
    const auto count = static_cast<std::int64_t>(files.size());
    index_jpegs({addresses.data(), sizes.data(), count}, every, rows.data());
    for (std::size_t i = 0; i < files.size(); ++i) {
      ASSERT_EQ(rows[i].status, statuses[i]) << "seed " << seed << ", file " << i;
      if (statuses[i] != JpegStatus::kOk && statuses[i] != JpegStatus::kDamaged) continue;
      EXPECT_EQ(entries[i], expected[i].entries) << "seed " << seed << ", file " << i;
      EXPECT_EQ(rows[i].scan_bits, expected[i].scan_bits) << "seed " << seed << ", file " << i;
      damaged += statuses[i] == JpegStatus::kDamaged ? 1 : 0;
    }
  }
  EXPECT_GT(damaged, 50);
}

TEST(JpegIndex, RefusesRowsOfAnotherSize) {
  const Bytes file = frame();
  const std::uint8_t* const address = file.data();
  const auto size = static_cast<std::int64_t>(file.size());
  std::vector<std::uint64_t> entries(1000);
  JpegIndexRow row{entries.data(), jpeg_index_size(40, 30, JpegSampling::k420, 1) + 1};
  index_jpegs({&address, &size, 1}, 1, &row);
  EXPECT_EQ(row.status, JpegStatus::kIndexMismatch);
}

TEST(JpegTables, FitTheirLimit) {
  for (const Content content : {Content::kNoise, Content::kText, Content::kScene}) {
    for (const std::int32_t quality : {1, 50, 100}) {
      FrameOptions options{256, 256, content, {}};
      options.encoding.quality = quality;
      options.encoding.optimize_huffman = true;
      const Bytes file = make_frame(options, 1);
      JpegHeader header;
      std::vector<std::uint32_t> words;
      ASSERT_EQ(parse_jpeg(file.data(), file.size(), header), JpegStatus::kOk);
      EXPECT_EQ(make_jpeg_tables(header, words), JpegStatus::kOk) << options.text();
      EXPECT_LE(words.size(), static_cast<std::size_t>(kMaxJpegTableWords)) << options.text();
    }
  }
}

TEST(JpegErrors, NameTheArgument) {
  EXPECT_EQ(error_of([] { JpegEncoder encoder({0, JpegSampling::k420, 0, false}); }),
            "ValueError quality: expected 1 to 100, got 0");
  EXPECT_EQ(error_of([] { JpegEncoder encoder({95, JpegSampling::k420, -1, false}); }),
            "ValueError restart_interval: expected 0 to 65535, got -1");
  EXPECT_EQ(error_of([] { make_jpeg_conversion(DataType::kInt32, false, 3, nullptr, nullptr); }),
            "TypeError dtype: expected float16, bfloat16, float32, float64 or uint8, got int32");
  EXPECT_EQ(error_of([] { make_jpeg_conversion(DataType::kUInt8, false, 2, nullptr, nullptr); }),
            "ValueError channels: expected 1 or 3, got 2");
  const auto call = [](const JpegLayout& layout, const JpegPixels& pixels,
                       const JpegOutput& output) {
    return error_of([&] {
      decode_jpeg_frames(nullptr, {output}, layout, pixels, nullptr, {}, on_cuda(nullptr));
    });
  };
  const JpegLayout layout{8, 16, JpegSampling::k420, 1, 100};
  std::uint8_t memory[8 * 16 * 3];
  const std::int64_t numbers[1] = {1};
  const JpegOutput output{numbers, 1, memory};
  EXPECT_EQ(call({0, 8}, {}, output), "ValueError layout.width: expected 1 to 4096, got 0");
  EXPECT_EQ(call({8, 8, JpegSampling::k420, 65536}, {}, output),
            "ValueError layout.every: expected 1 to 65535, got 65536");
  EXPECT_EQ(call({8, 8, static_cast<JpegSampling>(5)}, {}, output),
            "ValueError layout.sampling: expected a JpegSampling, got 5");
  EXPECT_EQ(call({8, 8, JpegSampling::k420, 1, 0}, {}, output),
            "ValueError layout.largest_tables: expected 1 to 8192, got 0");
  EXPECT_EQ(call(layout, {DataType::kInt32}, output),
            "TypeError pixels.dtype: expected float16, bfloat16, float32, float64 or uint8, "
            "got int32");
  EXPECT_EQ(call(layout, {DataType::kUInt8, false, 2}, output),
            "ValueError pixels.channels: expected 1 or 3, got 2");
  EXPECT_EQ(call(layout, {}, {numbers, -1, memory}),
            "ValueError outputs[0].count: expected 0 or more, got -1");
  EXPECT_EQ(call(layout, {}, {numbers, 1, nullptr}),
            "ValueError outputs[0]: expected numbers and values, got null");
  EXPECT_EQ(call(layout, {}, {numbers, 1, memory, nullptr, nullptr, -1, 1}),
            "ValueError outputs[0].first_stream: expected 0 or more, got -1");
  EXPECT_EQ(call(layout, {}, {numbers, 1, memory, nullptr, nullptr, 0, 0}),
            "ValueError outputs[0].stream_count: expected 1 or more, got 0");
#if defined(ROBOCACHE_HAS_CUDA)
  EXPECT_EQ(call(layout, {}, output),
            "ValueError workspace: expected 1024 bytes aligned to 256, got none");
#endif
}

}  // namespace
}  // namespace robocache::testing
