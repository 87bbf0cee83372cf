#include "live/stream_status.h"

#include <algorithm>

#include "live/durations.h"
#include "live/row_rate.h"
#include "window/windows.h"

namespace robocache {
namespace {

/// How far before now a stream's window reads: ns, or rows of a window by row. A stream whose
/// window reaches into the future is read at now alone.
std::int64_t reach_of(const LiveStream& stream) {
  if (has_method(stream, Method::kSum)) return INT64_MAX;
  const std::int64_t offset = is_live(stream) ? earliest_offset(stream) : 0;
  const std::int64_t back = offset == INT64_MIN ? INT64_MAX : -offset;
  if (is_by_row(stream)) return back;
  const std::int64_t half = stream.mean_window_ns.value_or(0) / 2;
  const std::int64_t reach = back > INT64_MAX - half ? INT64_MAX : back + half;
  return std::max(reach, stream.latency_ns);  // to the newest row that latency does not hide
}

}  // namespace

StreamStatuses::StreamStatuses(const std::vector<LiveStream>& streams, const LiveSources& sources,
                               std::int64_t robots)
    : streams_(streams),
      sources_(sources),
      robots_(robots),
      all_(streams.size() * static_cast<std::size_t>(robots)) {
  for (const LiveStream& stream : streams) reaches_.push_back(reach_of(stream));
  for (std::int64_t r = 0; r < robots; ++r) forget(r);
}

LiveStatus StreamStatuses::update(std::int64_t robot, std::int64_t now_ns,
                                  const std::vector<std::uint8_t>& sources) {
  LiveStatus gravest = LiveStatus::kOk;
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    if (sources[i] == 0) continue;
    const LiveStatus status = status_at(i, robot, now_ns);
    all_[place(static_cast<std::int64_t>(i), robot)].set(static_cast<std::int64_t>(status));
    gravest = std::max(gravest, status);
  }
  return gravest;
}

void StreamStatuses::forget(std::int64_t robot) {
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    all_[place(static_cast<std::int64_t>(i), robot)].set(
        static_cast<std::int64_t>(LiveStatus::kNoQuery));
  }
}

LiveStatus StreamStatuses::status_at(std::size_t stream, std::int64_t robot,
                                     std::int64_t now_ns) const {
  const LiveStream& window = streams_[stream];
  LiveSource& source = *sources_[stream];
  const bool is_short = lacks_rows(stream, robot, now_ns);
  if (is_short) source.buffer.counters(robot).short_windows.add(1);
  const bool is_nominal = has_nominal_rate(stream, robot, now_ns);
  if (source.has_another_clock(robot)) return LiveStatus::kTwoClocks;
  const std::int64_t latency = is_by_row(window) ? 0 : window.latency_ns;
  const std::int64_t rows = source.buffer.rows_not_after(robot, earlier(now_ns, latency));
  if (rows == 0) return LiveStatus::kNoRows;
  if (window.max_gap_ns) {
    const std::int64_t newest = source.buffer.time_at(robot, rows - 1);
    if (is_past(now_ns, newest, *window.max_gap_ns)) return LiveStatus::kStale;
  }
  if (is_short) return LiveStatus::kRowsLost;
  return is_nominal ? LiveStatus::kOk : LiveStatus::kWrongRate;
}

/// Measures the rate of a stream by rows, and compares it with the nominal one.
bool StreamStatuses::has_nominal_rate(std::size_t stream, std::int64_t robot,
                                      std::int64_t now_ns) const {
  const LiveStream& window = streams_[stream];
  if (!is_by_row(window) || window.nominal_rate == 0) return true;
  RowBuffer& buffer = sources_[stream]->buffer;
  const std::int64_t period =
      mean_period_ns(buffer, robot, now_ns, buffer.complete_rows(robot, now_ns), reaches_[stream]);
  buffer.counters(robot).period.set(period);
  const bool is_nominal = is_nominal_period(period, window.nominal_rate);
  if (!is_nominal) buffer.counters(robot).wrong_rate.add(1);
  return is_nominal;
}

/// Whether a window reads, at `now_ns`, where rows have been lost.
bool StreamStatuses::lacks_rows(std::size_t stream, std::int64_t robot, std::int64_t now_ns) const {
  const RowBuffer& buffer = sources_[stream]->buffer;
  if (!buffer.has_lost_rows(robot)) return false;
  const std::int64_t reach = reaches_[stream];
  return is_by_row(streams_[stream]) ? buffer.complete_rows(robot, now_ns) - 1 < reach
                                     : !buffer.is_complete_since(robot, earlier(now_ns, reach));
}

}  // namespace robocache
