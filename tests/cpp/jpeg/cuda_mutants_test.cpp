// Mutated files and damaged indices on a GPU, beside the CPU.
#include <gtest/gtest.h>

#include <algorithm>

#include "jpeg/cuda_fixture.h"
#include "jpeg/device_decoder.h"
#include "jpeg/frames.h"
#include "support/random.h"

namespace robocache::testing {
namespace {

constexpr std::int64_t kMutants = 100'000;
constexpr int kBatchFrames = 500;

/// Changes bytes, mostly of the scan, or cuts the file.
void mutate(Bytes& file, std::size_t scan_begin, Random& random) {
  const auto place = [&](std::size_t begin) {
    return static_cast<std::ptrdiff_t>(
        begin +
        static_cast<std::size_t>(random.below(static_cast<std::int64_t>(file.size() - begin))));
  };
  for (int i = 0; i == 0 || (i < 4 && random.one_in(2)); ++i) {
    if (file.size() < scan_begin + 8) return;
    const std::ptrdiff_t at = place(random.one_in(8) ? 0 : scan_begin);
    switch (random.below(6)) {
      case 0:
        file.resize(static_cast<std::size_t>(place(scan_begin)));
        break;
      case 1:
        file.erase(file.begin() + at);
        break;
      case 2:
        file.insert(file.begin() + at, static_cast<std::uint8_t>(random.below(256)));
        break;
      case 3:
        file[at] = static_cast<std::uint8_t>(random.below(256));
        break;
      default:
        file[at] ^= static_cast<std::uint8_t>(1 << random.below(8));
    }
  }
}

FrameOptions random_options(Random& random) {
  FrameOptions options{static_cast<std::int32_t>(1 + random.below(60)),
                       static_cast<std::int32_t>(1 + random.below(40)),
                       Content::kText,
                       {}};
  if (random.one_in(2)) options.width = (options.width + 15) / 16 * 16;
  options.content = random.pick({Content::kText, Content::kScene, Content::kNoise});
  options.encoding.sampling =
      random.pick({JpegSampling::k420, JpegSampling::k420, JpegSampling::k422, JpegSampling::k440,
                   JpegSampling::k444, JpegSampling::kGray});
  options.encoding.quality = static_cast<std::int32_t>(1 + random.below(100));
  options.encoding.optimize_huffman = random.one_in(2);
  options.encoding.restart_interval = static_cast<std::int32_t>(random.below(4));
  return options;
}

/// A batch of mutants of one frame, those that have an index.
struct Mutants {
  Batch batch;
  std::vector<Bytes> files;
};

Mutants make_mutants(Random& random) {
  const FrameOptions options = random_options(random);
  const Bytes good = make_frame(options, static_cast<std::uint64_t>(random.below(1 << 30)));
  JpegHeader header;
  parse_jpeg(good.data(), good.size(), header);
  Mutants made;
  made.batch.layout = {options.width, options.height, options.encoding.sampling,
                       random.pick({1, 1, 1, 2, 7})};
  for (int i = 0; i < kBatchFrames; ++i) {
    Bytes file = good;
    mutate(file, header.scan_begin, random);
    JpegHeader mutated;
    if (parse_jpeg(file.data(), file.size(), mutated) != JpegStatus::kOk) continue;
    const bool fits = mutated.width == options.width && mutated.height == options.height &&
                      mutated.sampling == options.encoding.sampling;
    if (fits && append_frame(made.batch, file)) made.files.push_back(std::move(file));
  }
  return made;
}

using JpegCudaMutants = JpegCuda;

TEST_F(JpegCudaMutants, HaveTheBytesOfLibjpegTurbo) {
  std::int64_t count = 0;
  for (std::uint64_t seed = 0; count < kMutants; ++seed) {
    Random random(seed);
    const Mutants mutants = make_mutants(random);
    if (mutants.files.empty()) continue;
    const DeviceDecoded got = decode_on_device(mutants.batch, bytes_of(3));
    for (std::size_t i = 0; i < mutants.files.size(); ++i) {
      const Decoded expected = decode_with_libjpeg(mutants.files[i], 3);
      ASSERT_TRUE(expected.is_decoded) << "seed " << seed << ", mutant " << i;
      ASSERT_EQ(got.status[i], 0) << "seed " << seed << ", mutant " << i;
      ASSERT_EQ(difference(expected.pixels, image_of(got, i), expected.width, 3), "")
          << "seed " << seed << ", mutant " << i;
    }
    count += static_cast<std::int64_t>(mutants.files.size());
  }
}

/// Indices and scans that are changed after they were made: a frame is right, as the host finds by
/// the same tasks, or zeros.
TEST_F(JpegCudaMutants, AreZerosIfTheirIndexDoesNotFit) {
  std::int64_t count = 0;
  std::int64_t right = 0;
  for (std::uint64_t seed = 0; count < kMutants / 4; ++seed) {
    Random random(seed);
    Mutants mutants = make_mutants(random);
    if (mutants.files.empty()) continue;
    Batch& batch = mutants.batch;
    for (std::size_t i = 0; i < mutants.files.size(); ++i) {
      const auto below = [&](std::size_t size) {
        return static_cast<std::size_t>(random.below(static_cast<std::int64_t>(size)));
      };
      if (random.one_in(2)) batch.indices[below(batch.indices.size())] ^= 1ull << random.below(64);
      if (random.one_in(2)) batch.scans[below(batch.scans.size())] ^= 1u << random.below(32);
    }
    const DeviceDecoded got = decode_on_device(batch, bytes_of(3));
    for (std::size_t i = 0; i < mutants.files.size(); ++i) {
      const JpegFrame& frame = batch.frames[i];
      JpegHeader header;
      JpegIndex index;
      const Bytes& file = mutants.files[i];
      ASSERT_EQ(parse_jpeg(file.data(), file.size(), header), JpegStatus::kOk);
      index_jpeg(file.data(), file.size(), header, batch.layout.every, index);
      const auto entries = batch.indices.begin() + static_cast<std::ptrdiff_t>(frame.index);
      std::copy_n(entries, index.entries.size(), index.entries.begin());
      const auto words = batch.scans.begin() + static_cast<std::ptrdiff_t>(frame.scan);
      const std::vector<std::uint32_t> scan(words, words + jpeg_scan_words(index.scan_bits));
      std::vector<std::uint32_t> tables;
      make_jpeg_tables(header, tables);
      Bytes pixels;
      const bool fits = run_tasks_on_host(header, index, scan, tables, 3, pixels);
      ASSERT_EQ(got.status[i] == 0, fits) << "seed " << seed << ", mutant " << i;
      if (!fits) pixels.assign(pixels.size(), 0);
      ASSERT_EQ(difference(pixels, image_of(got, i), header.width, 3), "")
          << "seed " << seed << ", mutant " << i;
      right += fits ? 1 : 0;
    }
    count += static_cast<std::int64_t>(mutants.files.size());
  }
  EXPECT_GT(right, count / 10);
  EXPECT_LT(right, count);
}

}  // namespace
}  // namespace robocache::testing
