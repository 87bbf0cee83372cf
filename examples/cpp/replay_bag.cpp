// Replays a recording in real time, as on a robot: replay_bag STORE [options]; --help lists them.
//
// One thread per stream pushes its rows at their recorded times of arrival, and the main thread
// queries windows at the rate of a controller, in real time or faster.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "robocache/live.h"
#include "robocache/policy_spec.h"
#include "robocache/store.h"

namespace {

using Clock = std::chrono::steady_clock;
using robocache::LiveAligner;
using robocache::LiveArray;
using robocache::LiveStatus;
using robocache::LiveStream;

constexpr std::string_view kUsage =
    R"(usage: replay_bag STORE [--spec FILE] [--episode N] [--rate HZ] [--speed X]

Pushes an episode's rows through producer threads at their times of arrival, queries windows at the
rate of a controller, and prints the newest values, their ages, query times and lost rows.

  --spec FILE   the windows of a policy, as loader.spec().save(FILE) wrote them; the default is
                three steps of every stream
  --episode N   index of the episode (0)
  --rate HZ     queries per second of the recording (50)
  --speed X     speed relative to the recording (1)
)";

struct Arguments {
  std::string store, spec;
  std::int64_t episode = 0;
  double rate = 50;
  double speed = 1;
};

double positive(const std::string& text, const std::string& option) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (*end != '\0' || !(number > 0) || std::isinf(number)) {
    throw std::runtime_error(option + ": expected a number above 0, got '" + text + "'");
  }
  return number;
}

Arguments parse_arguments(const std::vector<std::string>& words) {
  Arguments arguments;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word.rfind("--", 0) != 0) {
      if (!arguments.store.empty())
        throw std::runtime_error("expected one store; --help says more");
      arguments.store = word;
      continue;
    }
    if (word != "--spec" && word != "--episode" && word != "--rate" && word != "--speed") {
      throw std::runtime_error("there is no option " + word + "; --help lists them");
    }
    if (++i == words.size()) throw std::runtime_error(word + ": expected a value after it");
    if (word == "--spec") arguments.spec = words[i];
    if (word == "--episode") {
      arguments.episode = words[i] == "0" ? 0 : static_cast<std::int64_t>(positive(words[i], word));
    }
    if (word == "--rate") arguments.rate = positive(words[i], word);
    if (word == "--speed") arguments.speed = positive(words[i], word);
  }
  if (arguments.store.empty()) throw std::runtime_error("expected a store; --help says more");
  return arguments;
}

/// A recorded stream's rows in the order of their arrival.
struct Rows {
  robocache::StreamRows rows;
  std::vector<std::int64_t> arrival;   // ns, of each row
  std::vector<std::int64_t> in_order;  // rows by arrival
  std::size_t row_bytes = 0;

  Rows(const robocache::StreamRows& recorded, const LiveStream& stream) : rows(recorded) {
    const auto* const times = static_cast<const std::int64_t*>(rows.times.data);
    const auto* const received = static_cast<const std::int64_t*>(rows.received.data);
    row_bytes = static_cast<std::size_t>(robocache::size_of(rows.values.dtype));
    for (int axis = 1; axis < rows.values.rank; ++axis) {
      row_bytes *= static_cast<std::size_t>(rows.values.shape[axis]);
    }
    for (std::int64_t i = 0; i < rows.times.shape[0]; ++i) {
      const std::int64_t earliest = times[i] + stream.latency_ns;
      arrival.push_back(received == nullptr ? earliest : std::max(earliest, received[i]));
      in_order.push_back(i);
    }
    std::stable_sort(in_order.begin(), in_order.end(), [this](std::int64_t a, std::int64_t b) {
      return arrival[static_cast<std::size_t>(a)] < arrival[static_cast<std::size_t>(b)];
    });
  }
};

/// A window of three steps for a stream with `rows` rows in an episode, by its stored method.
LiveStream three_steps(const robocache::StreamInfo& info, std::int64_t rows, double seconds,
                       std::int64_t period_ns) {
  LiveStream stream;
  stream.name = info.name;
  stream.dtype = stream.out_dtype = info.dtype;
  stream.shape = info.shape;
  stream.method = info.method;
  stream.layout = info.layout;
  stream.offsets = {-2 * period_ns, -period_ns, 0};
  stream.rate =
      std::max(info.rate.value_or(1), static_cast<double>(rows) / std::max(seconds, 1e-9));
  const auto has = [&](robocache::Method method) {
    return std::any_of(info.layout.begin(), info.layout.end(),
                       [&](const robocache::Run& run) { return run.method == method; }) ||
           (info.layout.empty() && info.method == method);
  };
  if (has(robocache::Method::kMean)) stream.mean_window_ns = period_ns;
  if (has(robocache::Method::kSum)) stream.buffer_rows = rows + 1;  // it sums from the first row on
  return stream;
}

/// The clock of the recording, which starts at `start_ns` at construction.
class Replay {
 public:
  Replay(std::int64_t start_ns, double speed) : start_ns_(start_ns), speed_(speed) {}
  std::int64_t now_ns() const {
    const std::chrono::duration<double, std::nano> passed = Clock::now() - begin_;
    return start_ns_ + static_cast<std::int64_t>(passed.count() * speed_);
  }
  void sleep_until(std::int64_t time_ns) const {
    const double ahead = static_cast<double>(time_ns - start_ns_) / speed_;
    std::this_thread::sleep_until(begin_ + std::chrono::duration_cast<Clock::duration>(
                                               std::chrono::duration<double, std::nano>(ahead)));
  }

 private:
  std::int64_t start_ns_;
  double speed_;
  Clock::time_point begin_ = Clock::now();
};

void produce(LiveAligner& aligner, std::int64_t stream, const Rows& rows, const Replay& replay) {
  const auto* const values = static_cast<const std::byte*>(rows.rows.values.data);
  const auto* const times = static_cast<const std::int64_t*>(rows.rows.times.data);
  const auto* const valid = static_cast<const bool*>(rows.rows.valid.data);
  for (const std::int64_t i : rows.in_order) {
    replay.sleep_until(rows.arrival[static_cast<std::size_t>(i)]);
    // The counters of the aligner say how many rows it dropped.
    static_cast<void>(aligner.push(stream, times[i],
                                   values + static_cast<std::size_t>(i) * rows.row_bytes,
                                   rows.row_bytes, 0, valid == nullptr || valid[i]));
  }
}

/// The first values of the last step: "0.12 0.3 1.5 ...".
std::string newest_values(const LiveArray& array, std::int64_t steps,
                          const std::vector<std::byte>& out) {
  std::int64_t elements = 1;
  for (const std::int64_t size : array.shape) elements *= size;
  const std::int64_t width = elements / steps;
  const bool is_wide = array.dtype == robocache::DataType::kFloat64;
  if (!is_wide && array.dtype != robocache::DataType::kFloat32) {
    return std::string(robocache::name_of(array.dtype)) + " x " + std::to_string(width);
  }
  std::string text;
  for (std::int64_t i = 0; i < std::min<std::int64_t>(width, 4); ++i) {
    const std::int64_t at = array.offset + ((steps - 1) * width + i) * (is_wide ? 8 : 4);
    double value = 0;
    float narrow = 0;
    if (is_wide) {
      std::memcpy(&value, out.data() + at, sizeof value);
    } else {
      std::memcpy(&narrow, out.data() + at, sizeof narrow);
      value = narrow;
    }
    char number[32];
    std::snprintf(number, sizeof number, "%s%.4g", i > 0 ? " " : "", value);
    text += number;
  }
  return width > 4 ? text + " ..." : text;
}

/// The width of the name column: that of the longest name.
int name_width(const LiveAligner& aligner) {
  std::size_t width = 8;
  for (const LiveStream& stream : aligner.streams()) width = std::max(width, stream.name.size());
  return static_cast<int>(width);
}

void print_windows(const LiveAligner& aligner, const std::vector<std::byte>& out, double second) {
  std::printf("%.1f s\n", second);
  for (const LiveStream& stream : aligner.streams()) {
    const LiveArray* const age = aligner.find_output(stream.name + "_age");
    if (age == nullptr) continue;  // a window that reaches into the future
    const auto steps = static_cast<std::int64_t>(stream.offsets.size());
    const LiveArray* const values = aligner.find_output(stream.name);
    const auto last = static_cast<std::size_t>(steps - 1);
    std::int64_t age_ns = 0;
    std::memcpy(&age_ns, out.data() + age->offset + 8 * last, sizeof age_ns);
    const LiveArray& is_pad = *aligner.find_output(stream.name + "_is_pad");
    const bool is_padded = out[static_cast<std::size_t>(is_pad.offset) + last] != std::byte{0};
    std::printf("  %-*s %8.2f ms old%s  %s\n", name_width(aligner), stream.name.c_str(),
                static_cast<double>(age_ns) * 1e-6, is_padded ? ", padded" : "        ",
                values == nullptr ? "in a group" : newest_values(*values, steps, out).c_str());
  }
}

void print_counts(const LiveAligner& aligner, std::vector<double>& queries_us) {
  std::sort(queries_us.begin(), queries_us.end());
  const auto quantile = [&](std::size_t thousandths) {
    return queries_us.empty() ? std::numeric_limits<double>::quiet_NaN()
                              : queries_us[(queries_us.size() - 1) * thousandths / 1000];
  };
  std::printf("%zu queries: %.1f us (P50), %.1f (P99), %.1f (P99.9)\n", queries_us.size(),
              quantile(500), quantile(990), quantile(999));
  const int width = name_width(aligner);
  std::printf("  %-*s %9s %11s %8s %8s %8s %8s %13s\n", width, "rows of", "pushed", "overwritten",
              "late", "too late", "repeated", "future", "short windows");
  for (std::size_t i = 0; i < aligner.streams().size(); ++i) {
    const robocache::LiveStats stats = aligner.stats(static_cast<std::int64_t>(i));
    const auto print = [](std::int64_t count, int columns) {
      std::printf(" %*lld", columns, static_cast<long long>(count));
    };
    std::printf("  %-*s", width, aligner.streams()[i].name.c_str());
    print(stats.pushed, 9);
    print(stats.overwritten, 11);
    for (const std::int64_t count : {stats.late, stats.too_late, stats.repeated, stats.future}) {
      print(count, 8);
    }
    print(stats.short_windows, 13);
    std::printf("\n");
  }
}

void replay(const Arguments& arguments) {
  const robocache::EpisodeStore store(arguments.store);
  const robocache::EpisodeInfo episode = store.episode(arguments.episode);
  const auto period_ns = static_cast<std::int64_t>(1e9 / arguments.rate);
  robocache::PolicySpec spec;
  if (arguments.spec.empty()) {
    const double seconds = static_cast<double>(episode.end_ns - episode.start_ns) * 1e-9;
    for (std::size_t i = 0; i < store.streams().size(); ++i) {
      const auto rows = store.rows(arguments.episode, static_cast<std::int64_t>(i)).times.shape[0];
      spec.streams.push_back(three_steps(store.streams()[i], rows, seconds, period_ns));
    }
  } else {
    spec = robocache::read_policy_spec(arguments.spec);
  }
  robocache::LiveOptions options;
  options.query_every_ns = std::max(options.query_every_ns, period_ns);
  LiveAligner aligner(spec, options);
  std::vector<Rows> recorded;
  for (const LiveStream& stream : aligner.streams()) {
    const auto found = store.find_stream(stream.name);
    if (!found) throw std::runtime_error(arguments.store + ": expected a stream " + stream.name);
    recorded.emplace_back(store.rows(arguments.episode, *found), stream);
  }

  const Replay clock(episode.start_ns, arguments.speed);
  std::vector<std::thread> producers;
  for (std::size_t i = 0; i < recorded.size(); ++i) {
    if (aligner.streams()[i].ring_rows == 0) continue;  // reaches into the future: takes no rows
    producers.emplace_back([&aligner, &recorded, &clock, i] {
      produce(aligner, static_cast<std::int64_t>(i), recorded[i], clock);
    });
  }
  std::vector<std::byte> out(aligner.output_bytes());
  LiveStatus last_status = LiveStatus::kOk;
  const auto query = [&] {
    const LiveStatus status = aligner.query(robocache::LiveNow::at(clock.now_ns()), out.data());
    if (status != last_status) std::printf("query: %s\n", robocache::name_of(status));
    last_status = status;
  };
  std::vector<double> queries_us;
  std::int64_t next_print = episode.start_ns;
  for (std::int64_t tick = episode.start_ns; tick <= episode.end_ns; tick += period_ns) {
    clock.sleep_until(tick);
    const auto begin = Clock::now();
    query();
    queries_us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
    if (tick < next_print) continue;
    print_windows(aligner, out, static_cast<double>(tick - episode.start_ns) * 1e-9);
    next_print += 1'000'000'000;
  }
  for (std::thread& producer : producers) producer.join();
  query();  // counts the last rows
  print_counts(aligner, queries_us);
}

}  // namespace

int main(int count, char** words) {
  try {
    const std::vector<std::string> arguments(words + 1, words + count);
    if (std::find(arguments.begin(), arguments.end(), "--help") != arguments.end()) {
      std::cout << kUsage;
      return 0;
    }
    replay(parse_arguments(arguments));
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "replay_bag: " << error.what() << '\n';
    return 1;
  }
}
