// Producers and a control thread at once, as fast as they go, for so many seconds:
//   robocache_live_threads [SECONDS]
// ThreadSanitizer looks on where the build has it (the preset tsan). Without it too, rows must come
// whole: every value of a row says which row it is of.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "robocache/jpeg.h"
#include "robocache/live.h"

namespace {

using robocache::LiveAligner;
using robocache::LiveNow;
using robocache::LiveOptions;
using robocache::LiveStats;
using robocache::LiveStatus;
using robocache::LiveStream;

constexpr std::int64_t kCamera = 4;   // of JPEG frames; those before it are of numbers
constexpr std::int64_t kResized = 5;  // likewise, resized
constexpr std::int64_t kStreams = kResized + 1;
constexpr std::int32_t kSide = 16;
constexpr std::int32_t kResizedSide = 9;
constexpr std::int64_t kRobots = 2;
constexpr std::int64_t kChannels = 24;
constexpr std::int64_t kStepNs = 1000;

std::vector<LiveStream> streams() {
  std::vector<LiveStream> made;
  for (std::int64_t i = 0; i < kCamera; ++i) {
    LiveStream& stream = made.emplace_back();
    stream.name = "stream" + std::to_string(i);
    stream.shape = {kChannels};
    stream.method = robocache::Method::kPrevious;
    stream.offsets.clear();
    for (std::int64_t k = 15; k >= 0; --k) stream.offsets.push_back(-k * kStepNs);
    stream.buffer_rows = 64;
    stream.ring_rows = i == 0 ? 4 : 256;  // one that overflows
  }
  LiveStream& camera = made.emplace_back();
  camera.name = "camera";
  camera.shape = {kSide, kSide, 1};
  camera.dtype = camera.out_dtype = robocache::DataType::kUInt8;
  camera.method = robocache::Method::kPrevious;
  camera.buffer_rows = 8;
  camera.ring_rows = 4;
  LiveStream resized = camera;
  resized.name = "resized";
  resized.image.emplace();
  resized.image->height = resized.image->width = kResizedSide;
  made.push_back(resized);
  return made;
}

/// JPEG files of one gray each.
std::vector<std::vector<std::uint8_t>> frames() {
  std::vector<std::vector<std::uint8_t>> files(8);
  robocache::JpegEncoding gray;
  gray.sampling = robocache::JpegSampling::kGray;
  robocache::JpegEncoder encoder(gray);
  for (std::size_t i = 0; i < files.size(); ++i) {
    const std::vector<std::uint8_t> pixels(kSide * kSide, static_cast<std::uint8_t>(30 * i));
    static_cast<void>(encoder.encode(pixels.data(), kSide, kSide, 1, kSide, files[i]));
  }
  return files;
}

/// Sends rows until it is told to stop, now and then out of order; counts what was accepted.
void produce(LiveAligner& aligner, std::int64_t stream, std::int64_t robot,
             const std::atomic<bool>& is_over, std::atomic<std::int64_t>& newest,
             std::int64_t& pushed) {
  float row[kChannels];
  for (std::int64_t n = 1; !is_over.load(std::memory_order_relaxed); ++n) {
    const std::int64_t number = n % 16 == 0 ? n - 3 : n;
    for (float& value : row) value = static_cast<float>(number % 65536);
    if (aligner.push(stream, number * kStepNs, row, sizeof row, robot) == LiveStatus::kOk) ++pushed;
    newest.store(number * kStepNs, std::memory_order_relaxed);
    if (n % 64 == 0) std::this_thread::yield();
  }
}

/// Same, of JPEG files; each fourth is cut short, and refused.
void produce_frames(LiveAligner& aligner, std::int64_t stream, std::int64_t robot,
                    const std::atomic<bool>& is_over, std::atomic<std::int64_t>& newest,
                    std::int64_t& pushed) {
  const std::vector<std::vector<std::uint8_t>> files = frames();
  for (std::size_t n = 1; !is_over.load(std::memory_order_relaxed); ++n) {
    const std::vector<std::uint8_t>& file = files[n % files.size()];
    const std::size_t size = n % 4 == 0 ? file.size() / 2 : file.size();
    const std::int64_t now = newest.load(std::memory_order_relaxed);
    if (aligner.push_jpeg(stream, now, file.data(), size, robot) == LiveStatus::kOk) ++pushed;
    std::this_thread::yield();
  }
}

/// Whether all channels of each step are of one row.
bool is_whole(const LiveAligner& aligner, const std::vector<std::byte>& out) {
  for (std::int64_t i = 0; i < kCamera; ++i) {
    const std::byte* step = out.data() + aligner.outputs()[static_cast<std::size_t>(i)].offset;
    for (std::int64_t k = 0; k < kRobots * 16; ++k) {
      float row[kChannels];
      std::memcpy(row, step, sizeof row);
      step += sizeof row;
      for (const float value : row) {
        if (value != row[0]) return false;
      }
    }
  }
  for (const auto& [camera, side] : {std::pair{kCamera, kSide}, {kResized, kResizedSide}}) {
    const std::byte* image =
        out.data() + aligner.outputs()[static_cast<std::size_t>(camera)].offset;
    const auto pixels = static_cast<std::size_t>(side * side);
    for (std::int64_t r = 0; r < kRobots; ++r, image += pixels) {
      for (std::size_t i = 0; i < pixels; ++i) {
        if (image[i] != image[0]) return false;
      }
    }
  }
  return true;
}

}  // namespace

int main(int count, char** words) {
  const double seconds = count > 1 ? std::strtod(words[1], nullptr) : 1;
  LiveOptions options;
  options.robots = kRobots;
  LiveAligner aligner(streams(), options);
  std::atomic<bool> is_over{false};
  std::atomic<std::int64_t> newest{0};
  std::vector<std::int64_t> pushed(kStreams * kRobots);
  std::vector<std::thread> producers;
  for (std::int64_t i = 0; i < kStreams * kRobots; ++i) {
    producers.emplace_back([&, i] {
      std::int64_t& count = pushed[static_cast<std::size_t>(i)];
      if (i / kRobots >= kCamera) {
        produce_frames(aligner, i / kRobots, i % kRobots, is_over, newest, count);
      } else {
        produce(aligner, i / kRobots, i % kRobots, is_over, newest, count);
      }
    });
  }
  std::vector<std::byte> out(aligner.output_bytes());
  std::int64_t queries = 0;
  bool is_good = true;
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end && is_good) {
    const auto now = LiveNow::at(newest.load(std::memory_order_relaxed));
    is_good = has_output(aligner.query(now, out.data())) && is_whole(aligner, out);
    if (++queries % 1000 == 0) {
      is_good = is_good && aligner.reset(queries / 1000 % kRobots) == LiveStatus::kOk;
    }
    if (queries % 16 == 0) std::this_thread::yield();
  }
  is_over = true;
  for (std::thread& producer : producers) producer.join();
  // The newest row is in each ring, also in one that has overwritten rows.
  const std::int64_t last_ns = std::int64_t{1} << 60;
  const float last[kChannels] = {};
  const std::vector<std::uint8_t> file = frames().back();
  for (std::int64_t i = 0; i < kStreams * kRobots; ++i) {
    ++pushed[static_cast<std::size_t>(i)];
    const LiveStatus status =
        i / kRobots >= kCamera
            ? aligner.push_jpeg(i / kRobots, last_ns, file.data(), file.size(), i % kRobots)
            : aligner.push(i / kRobots, last_ns, last, sizeof last, i % kRobots);
    is_good = is_good && status == LiveStatus::kOk;
  }
  is_good = is_good && has_output(aligner.query(LiveNow::at(INT64_MAX), out.data()));
  std::int64_t rows = 0;
  std::int64_t overwritten = 0;
  for (std::int64_t i = 0; i < kStreams * kRobots; ++i) {
    const LiveStats stats = aligner.stats(i / kRobots, i % kRobots);
    const std::int64_t accounted =
        stats.held + stats.too_late + stats.future + stats.outdated + stats.forgotten;
    is_good = is_good && stats.pushed == pushed[static_cast<std::size_t>(i)] &&
              stats.taken + stats.overwritten == stats.pushed && accounted == stats.taken &&
              stats.newest_ns == last_ns;
    rows += stats.pushed;
    overwritten += stats.overwritten;
  }
  std::printf("%lld rows, %lld overwritten, %lld queries: %s\n", static_cast<long long>(rows),
              static_cast<long long>(overwritten), static_cast<long long>(queries),
              is_good ? "every row whole, every row accounted for" : "FAILED");
  return is_good ? 0 : 1;
}
