#include "live/buffer_rows.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include "core/check.h"
#include "live/row_buffer.h"
#include "live/row_ring.h"
#include "loader/plan.h"
#include "window/check_windows.h"
#include "window/windows.h"

namespace robocache {
namespace {

constexpr std::int64_t kSpareRows = 8;  // beyond those that the rate implies: rates are nominal
constexpr std::int64_t kMaxRows = kMaxEpisodeRows / 2;
constexpr double kMaxBytes = 1e15;            // of a stream, all robots: sizes then fit 64 bits
constexpr double kMaxDefaultBytes = 1 << 30;  // of a robot, for default capacities
constexpr std::int64_t kMaxRobots = 1 << 20;
constexpr std::int64_t kMaxKeptQueries = 1 << 16;
constexpr int kMaxCudaSlots = 64;

/// How far back a window reads, in ns, for its offsets and for rows that latency hides.
double reach_ns(const LiveStream& stream) {
  const double mean = static_cast<double>(stream.mean_window_ns.value_or(0)) / 2;
  const double offsets = mean - static_cast<double>(earliest_offset(stream));
  return std::max(offsets, static_cast<double>(stream.latency_ns));
}

bool has_reach(const LiveStream& stream) { return is_by_row(stream) || stream.rate > 0; }

/// The number of rows that a window reads at the stream's rate: the rows in its reach, and the one
/// at or before its begin. A double, since int64 may overflow.
double rows_in_reach(const LiveStream& stream) {
  if (is_by_row(stream)) return 1 - static_cast<double>(earliest_offset(stream));
  return std::ceil(reach_ns(stream) * stream.rate / 1e9) + 1;
}

void check_options(const LiveOptions& options) {
  const auto expect = [](bool fits, const char* name, const std::string& expected,
                         const std::string& got) {
    if (!fits) throw_value_error(name, expected, got);
  };
  expect(options.robots >= 1 && options.robots <= kMaxRobots, "robots",
         "1 to " + std::to_string(kMaxRobots), std::to_string(options.robots));
  expect(options.margin >= 0 && std::isfinite(options.margin), "margin", "a number of 0 or more",
         text_of(options.margin));
  expect(options.pause_ns >= 0, "pause_ns", "0 or more", std::to_string(options.pause_ns));
  expect(options.query_every_ns >= 0, "query_every_ns", "0 or more",
         std::to_string(options.query_every_ns));
  expect(options.max_future_ns >= 0, "max_future_ns", "0 or more",
         std::to_string(options.max_future_ns));
  expect(options.kept_queries >= 1 && options.kept_queries <= kMaxKeptQueries, "kept_queries",
         "1 to " + std::to_string(kMaxKeptQueries), std::to_string(options.kept_queries));
  expect(options.cuda_slots >= 0 && options.cuda_slots <= kMaxCudaSlots, "cuda_slots",
         "0 to " + std::to_string(kMaxCudaSlots), std::to_string(options.cuda_slots));
}

/// Converts `rows` to an integer; throws an error with its reason if it exceeds kMaxRows.
std::int64_t checked_rows(double rows, const std::string& option, const std::string& reason) {
  if (rows <= static_cast<double>(kMaxRows)) return static_cast<std::int64_t>(rows);
  throw_value_error(option, "at most " + std::to_string(kMaxRows) + " rows in a buffer",
                    text_of(rows) + reason);
}

/// The bytes that a robot's buffer and ring of these rows take.
double bytes_of(const LiveStream& stream, std::int64_t buffer_rows, std::int64_t ring_rows) {
  const auto slot = static_cast<double>(RowRing::slot_bytes(row_bytes(stream)));
  return static_cast<double>(buffer_rows) * (slot + RowBuffer::kRowBytes) +
         static_cast<double>(ring_rows) * slot;
}

/// Sets the default capacities of a stream, and checks those that the user set.
void set_rows(LiveStream& stream, const std::vector<LiveStream>& streams,
              const LiveOptions& options) {
  const auto name = [&](const char* option) { return option + ("['" + stream.name + "']"); };
  for (const auto& [option, rows] :
       {std::pair{"buffer_rows", &stream.buffer_rows}, std::pair{"ring_rows", &stream.ring_rows}}) {
    if (*rows >= 0 && *rows <= kMaxRows) continue;
    throw_value_error(name(option), "0 to " + std::to_string(kMaxRows), std::to_string(*rows));
  }
  if (!takes_rows(stream, streams)) {
    stream.buffer_rows = stream.ring_rows = 0;
    return;
  }
  if (stream.buffer_rows == 0 && has_method(stream, Method::kSum)) {
    throw_value_error(
        name("buffer_rows"),
        "a number of rows for method sum, whose first offset adds all of an episode's", "0");
  }
  if (stream.buffer_rows == 0 && !has_reach(stream)) {
    throw_value_error(name("buffer_rows"), "a number of rows where the stream has no rate", "0");
  }
  const double needed = has_reach(stream) ? rows_in_reach(stream) : 0;
  const auto rows_in = [&](std::int64_t ns) {
    return std::ceil(stream.rate * static_cast<double>(ns) / 1e9) + kSpareRows;
  };
  const double usual = std::ceil(needed * (1 + options.margin)) + rows_in(options.pause_ns);
  if (stream.buffer_rows == 0) {
    checked_rows(needed, name("offsets"), " rows of their reach");
    stream.buffer_rows = checked_rows(usual, name("buffer_rows"), " of reach, margin and pause");
  } else if (needed > static_cast<double>(stream.buffer_rows)) {
    throw_value_error(name("buffer_rows"), "at least the " + text_of(needed) + " rows of its reach",
                      std::to_string(stream.buffer_rows));
  }
  if (stream.ring_rows == 0) {
    // A ring of more rows than a buffer would keep those that the buffer discards.
    const double most = std::max(usual, static_cast<double>(stream.buffer_rows));
    stream.ring_rows = stream.rate > 0
                           ? checked_rows(std::min(rows_in(options.query_every_ns), most),
                                          name("ring_rows"), " of query_every_ns")
                           : stream.buffer_rows;
  }
  const double bytes =
      bytes_of(stream, stream.buffer_rows, stream.ring_rows) * static_cast<double>(options.robots);
  if (bytes > kMaxBytes) {
    throw_value_error(name("buffer_rows"), "less than " + text_of(kMaxBytes) + " bytes",
                      text_of(bytes) + " of all robots");
  }
}

/// Throws an error where the default capacities of all streams take too much memory; it names the
/// stream that takes most. `streams`: as the user set them; `sized`: with all capacities.
void check_default_bytes(const std::vector<LiveStream>& streams,
                         const std::vector<LiveStream>& sized) {
  double bytes = 0;
  double most = 0;
  std::size_t largest = 0;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    const double of_stream =
        bytes_of(sized[i], streams[i].buffer_rows == 0 ? sized[i].buffer_rows : 0,
                 streams[i].ring_rows == 0 ? sized[i].ring_rows : 0);
    bytes += of_stream;
    if (of_stream > most) largest = i;
    most = std::max(most, of_stream);
  }
  if (bytes <= kMaxDefaultBytes) return;
  const LiveStream& stream = sized[largest];
  throw_value_error(
      "buffer_rows['" + stream.name + "']",
      "default capacities of at most " + text_of(kMaxDefaultBytes) + " bytes for a robot's streams",
      text_of(bytes) + ", of which " + text_of(most) + " for " +
          std::to_string(stream.buffer_rows) + " rows in the buffer and " +
          std::to_string(stream.ring_rows) + " in the ring at the rate of " + text_of(stream.rate) +
          " Hz (correct the rate and the offsets, or set "
          "buffer_rows and ring_rows)");
}

}  // namespace

std::string text_of(double number) {
  char text[32];
  const bool is_whole = number == std::floor(number) && std::abs(number) < 1e17;
  std::snprintf(text, sizeof text, is_whole ? "%.0f" : "%.15g", number);
  return text;
}

std::string quoted(const std::string& name) { return "'" + name + "'"; }

const LiveStream* find_stream(const std::vector<LiveStream>& streams, const std::string& name) {
  const auto found = std::find_if(streams.begin(), streams.end(),
                                  [&](const LiveStream& each) { return each.name == name; });
  return found == streams.end() ? nullptr : &*found;
}

std::size_t row_bytes(const LiveStream& stream) {
  const DataType type = stream.image ? stream.out_dtype : stream.dtype;
  const std::int64_t elements =
      stream.image ? elements_of(output_shape(stream)) : elements_of(stream);
  return static_cast<std::size_t>(elements * size_of(type));
}

bool takes_rows(const LiveStream& stream, const std::vector<LiveStream>& streams) {
  if (stream.is_missing) return false;
  return is_live(stream) ||
         std::any_of(streams.begin(), streams.end(),
                     [&](const LiveStream& each) { return each.relative_to == stream.name; });
}

std::int64_t kept_rows(const LiveStream& stream) {
  const double half = std::ceil(static_cast<double>(stream.buffer_rows) / 2);
  return static_cast<std::int64_t>(has_reach(stream) ? rows_in_reach(stream) : half);
}

std::vector<LiveStream> sized_streams(const std::vector<LiveStream>& streams,
                                      const LiveOptions& options) {
  check_options(options);
  if (streams.empty()) throw_value_error("streams", "one or more", "none");
  check_windows(windows_of(streams), WindowNames{}, WindowUse::kPlan);
  std::vector<LiveStream> sized = streams;
  for (LiveStream& stream : sized) set_rows(stream, streams, options);
  check_default_bytes(streams, sized);
  return sized;
}

}  // namespace robocache
