// Measures what a LiveAligner costs at control time, beside what a user would otherwise write:
//   robocache_live_bench [--seconds S] [--rate HZ] [--json]
//
// 8 streams of 32 float32 channels are pushed at 1 kHz, by one thread as a driver's would, and a
// control thread asks at --rate (100 Hz) for 16 steps of each, 10 ms apart, linear. Every push and
// query is timed by itself, for --seconds (10; a report takes 600); docs/benchmarks.md says more.
//
// The other is a std::deque of rows for each stream under a std::mutex, whose rows are searched by
// std::lower_bound and interpolated: no mask, no ages, no late rows.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "robocache/live.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kStreams = 8;
constexpr int kChannels = 32;
constexpr int kSteps = 16;
constexpr std::int64_t kStepNs = 10'000'000;
constexpr std::int64_t kPeriodNs = 1'000'000;

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
      .count();
}

/// A buffer under measurement: rows in, windows [kStreams,kSteps,kChannels] out.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual const char* name() const = 0;
  virtual void push(int stream, std::int64_t time_ns, const float* row) = 0;
  /// Returns the sum of some values, so that nothing is left out.
  virtual float query(std::int64_t now) = 0;
};

class Aligner final : public Buffer {
 public:
  Aligner() : aligner_(streams(), {}), out_(aligner_.output_bytes()) {}
  const char* name() const override { return "robocache::LiveAligner"; }
  void push(int stream, std::int64_t time_ns, const float* row) override {
    // Before the first query the rings are full.
    static_cast<void>(aligner_.push<float>(stream, time_ns, row, kChannels));
  }
  float query(std::int64_t now) override {
    if (aligner_.query(robocache::LiveNow::at(now), out_.data()) != robocache::LiveStatus::kOk) {
      return NAN;
    }
    float last = 0;
    std::memcpy(&last, out_.data() + 4 * (kStreams * kSteps * kChannels - 1), sizeof last);
    return last;
  }

 private:
  static std::vector<robocache::LiveStream> streams() {
    std::vector<robocache::LiveStream> made(kStreams);
    for (int i = 0; i < kStreams; ++i) {
      robocache::LiveStream& stream = made[static_cast<std::size_t>(i)];
      stream.name = "stream" + std::to_string(i);
      stream.shape = {kChannels};
      stream.rate = 1e9 / kPeriodNs;
      stream.offsets.clear();
      for (int k = kSteps - 1; k >= 0; --k) stream.offsets.push_back(-k * kStepNs);
    }
    return made;
  }

  robocache::LiveAligner aligner_;
  std::vector<std::byte> out_;
};

class Deques final : public Buffer {
 public:
  const char* name() const override { return "std::mutex, std::deque, lerp"; }
  void push(int stream, std::int64_t time_ns, const float* row) override {
    Rows& rows = streams_[stream];
    const std::lock_guard<std::mutex> lock(rows.mutex);
    rows.rows.push_back({time_ns, std::vector<float>(row, row + kChannels)});
    if (rows.rows.size() > kKept) rows.rows.pop_front();
  }
  float query(std::int64_t now) override {
    float* out = out_.data();
    for (Rows& stream : streams_) {
      const std::lock_guard<std::mutex> lock(stream.mutex);
      const std::deque<Row>& rows = stream.rows;
      for (int k = kSteps - 1; k >= 0; --k, out += kChannels) {
        if (rows.empty()) continue;
        const std::int64_t t = now - k * kStepNs;
        const auto after =
            std::lower_bound(rows.begin(), rows.end(), t,
                             [](const Row& row, std::int64_t at) { return row.time < at; });
        if (after == rows.begin() || after == rows.end()) {
          const Row& held = after == rows.end() ? rows.back() : rows.front();
          std::copy(held.values.begin(), held.values.end(), out);
          continue;
        }
        const Row& a = *(after - 1);
        const float w = static_cast<float>(t - a.time) / static_cast<float>(after->time - a.time);
        for (std::size_t c = 0; c < kChannels; ++c) {
          out[c] = a.values[c] + w * (after->values[c] - a.values[c]);
        }
      }
    }
    return out_.back();
  }

 private:
  static constexpr std::size_t kKept = 233;  // as many as the aligner's buffer
  struct Row {
    std::int64_t time;
    std::vector<float> values;
  };
  struct Rows {
    std::mutex mutex;
    std::deque<Row> rows;
  };

  Rows streams_[kStreams];
  std::vector<float> out_ = std::vector<float>(kStreams * kSteps * kChannels);
};

/// Durations in ns, as they come.
using Times = std::vector<std::int64_t>;

/// The duration that so many thousandths are at most as long as.
double quantile_us(Times& times, double share) {
  if (times.empty()) return NAN;
  const auto rank = std::min(static_cast<std::size_t>(share * static_cast<double>(times.size())),
                             times.size() - 1);
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(rank), times.end());
  return static_cast<double>(times[rank]) * 1e-3;
}

struct Result {
  Times pushes, queries;
  float sum = 0;
};

/// Pushes all streams at 1 kHz until it is told to stop.
void produce(Buffer& buffer, const std::atomic<bool>& is_over, Times& times) {
  float row[kChannels];
  auto next = Clock::now();
  for (std::int64_t n = 0; !is_over.load(std::memory_order_relaxed); ++n) {
    for (int i = 0; i < kStreams; ++i) {
      for (int c = 0; c < kChannels; ++c) row[c] = static_cast<float>(n + c);
      const std::int64_t begin = now_ns();
      buffer.push(i, begin, row);
      times.push_back(now_ns() - begin);
    }
    next += std::chrono::nanoseconds(kPeriodNs);
    std::this_thread::sleep_until(next);
  }
}

Result measure(Buffer& buffer, double seconds, double rate) {
  Result result;
  // Room for all of them, so that what is measured is not the growing of these.
  result.pushes.reserve(static_cast<std::size_t>(seconds * 1.1e9 / kPeriodNs * kStreams) + 65536);
  result.queries.reserve(static_cast<std::size_t>(seconds * rate * 1.1) + 1024);
  std::atomic<bool> is_over{false};
  std::thread producer([&] { produce(buffer, is_over, result.pushes); });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // the buffers are full by then
  const auto period =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(1 / rate));
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  for (auto next = Clock::now(); next < end; next += period) {
    std::this_thread::sleep_until(next);
    const std::int64_t begin = now_ns();
    result.sum += buffer.query(begin);
    result.queries.push_back(now_ns() - begin);
  }
  is_over = true;
  producer.join();
  return result;
}

double number(const char* text, const char* option) {
  char* end = nullptr;
  const double value = std::strtod(text, &end);
  if (*end == '\0' && value > 0 && std::isfinite(value)) return value;
  std::fprintf(stderr, "%s: expected a number above 0, got '%s'\n", option, text);
  std::exit(2);
}

}  // namespace

int main(int count, char** words) {
  double seconds = 10;
  double rate = 100;
  bool is_json = false;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word == "--json") {
      is_json = true;
    } else if ((word == "--seconds" || word == "--rate") && i + 1 < count) {
      (word == "--rate" ? rate : seconds) = number(words[i + 1], words[i]);
      ++i;
    } else {
      std::fprintf(stderr, "usage: robocache_live_bench [--seconds S] [--rate HZ] [--json]\n");
      return 2;
    }
  }
  std::vector<std::unique_ptr<Buffer>> buffers;
  buffers.push_back(std::make_unique<Aligner>());
  buffers.push_back(std::make_unique<Deques>());
  if (is_json) {
    std::printf(
        "{\"seconds\": %g, \"query_rate\": %g, \"streams\": %d, \"steps\": %d, "
        "\"channels\": %d, \"results\": [",
        seconds, rate, kStreams, kSteps, kStreams * kChannels);
  } else {
    std::printf("%g s each, us:  %-30s %8s %8s %8s %8s %9s %8s\n", seconds, "query", "P50", "P99",
                "P99.9", "most", "push P50", "P99.9");
  }
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    Result result = measure(*buffers[i], seconds, rate);
    const double query[4] = {quantile_us(result.queries, 0.5), quantile_us(result.queries, 0.99),
                             quantile_us(result.queries, 0.999), quantile_us(result.queries, 1)};
    const double push[2] = {quantile_us(result.pushes, 0.5), quantile_us(result.pushes, 0.999)};
    if (is_json) {
      std::printf(
          "%s{\"name\": \"%s\", \"queries\": %zu, \"query_us\": {\"p50\": %.3f, \"p99\": "
          "%.3f, \"p99.9\": %.3f, \"max\": %.3f}, \"pushes\": %zu, \"push_us\": "
          "{\"p50\": %.3f, \"p99.9\": %.3f}}",
          i > 0 ? ", " : "", buffers[i]->name(), result.queries.size(), query[0], query[1],
          query[2], query[3], result.pushes.size(), push[0], push[1]);
    } else {
      std::printf("%-46s %8.2f %8.2f %8.2f %8.2f %9.3f %8.3f\n", buffers[i]->name(), query[0],
                  query[1], query[2], query[3], push[0], push[1]);
    }
    std::fflush(stdout);
    if (std::isnan(result.sum)) return 1;
  }
  if (is_json) std::printf("]}\n");
  return 0;
}
