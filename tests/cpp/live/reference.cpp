#include "live/reference.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <sstream>

#include "align/problem.h"
#include "robocache/loader.h"
#include "support/tensor.h"

namespace robocache::testing {

namespace {

bool reaches_ahead(const LiveStream& stream) {
  return *std::max_element(stream.offsets.begin(), stream.offsets.end()) > 0;
}

}  // namespace

LiveReference::LiveReference(const std::vector<LiveStream>& streams, const LiveOptions& options)
    : streams_(streams), options_(options) {
  held_.resize(streams.size() * static_cast<std::size_t>(options.robots));
}

LiveReference::Held& LiveReference::held(std::int64_t stream, std::int64_t robot) {
  return held_[static_cast<std::size_t>(stream * options_.robots + robot)];
}

const LiveStats& LiveReference::stats(std::int64_t stream, std::int64_t robot) const {
  return held_[static_cast<std::size_t>(stream * options_.robots + robot)].stats;
}

void LiveReference::push(const LiveRow& row) {
  Held& to = held(row.stream, row.robot);
  const LiveStream& stream = streams_[static_cast<std::size_t>(row.stream)];
  if (static_cast<std::int64_t>(to.pending.size()) == stream.ring_rows) {
    ++to.stats.overwritten;
    to.pending.erase(to.pending.begin());
    to.has_missed = true;
  }
  ++to.stats.pushed;
  to.pending.push_back(row);
}

void LiveReference::take(std::int64_t stream, std::int64_t robot, std::int64_t now_ns) {
  Held& to = held(stream, robot);
  LiveStats& stats = to.stats;
  const LiveStream& options = streams_[static_cast<std::size_t>(stream)];
  const std::int64_t capacity = options.buffer_rows;
  const bool is_by_row = options.timeline == Timeline::kRows;
  const std::int64_t kept =  // streams of random problems have no rate
      is_by_row ? 1 - std::min<std::int64_t>(
                          0, *std::min_element(options.offsets.begin(), options.offsets.end()))
                : (capacity + 1) / 2;
  for (const LiveRow& row : to.pending) {
    ++stats.taken;
    if (row.time_ns < to.last_arrived) ++stats.clock_back;
    to.last_arrived = row.time_ns;
    const __int128 ahead = __int128{row.time_ns} - now_ns;
    to.are_distant.push_back(ahead > options_.max_future_ns || -ahead > options_.max_future_ns);
    if (row.time_ns > now_ns) {
      if (__int128{row.time_ns} - now_ns > options_.max_future_ns) {
        ++stats.future;
        continue;
      }
      ++stats.early;
    }
    auto is_full = static_cast<std::int64_t>(to.rows.size()) == capacity;
    if (is_full && std::max(row.time_ns, to.rows.back().time_ns) > now_ns) {
      const auto seen = std::count_if(to.rows.begin(), to.rows.end(), [&](const LiveRow& other) {
        return other.time_ns <= now_ns;
      });
      if (seen + (row.time_ns <= now_ns ? 1 : 0) <= kept) {
        ++stats.future;
        to.lost.push_back(std::max(row.time_ns, to.rows.back().time_ns) + 1);
        if (row.time_ns >= to.rows.back().time_ns) continue;
        to.rows.pop_back();
        is_full = false;
      }
    }
    if (is_full && row.time_ns < to.rows.front().time_ns) {
      ++stats.too_late;
      to.has_given_up = true;
      continue;
    }
    if (!to.rows.empty() && row.time_ns < to.rows.back().time_ns) ++stats.late;
    if (std::any_of(to.rows.begin(), to.rows.end(),
                    [&](const LiveRow& other) { return other.time_ns == row.time_ns; })) {
      ++stats.repeated;
    }
    if (to.has_missed) to.lost.push_back(row.time_ns);
    to.has_missed = false;
    to.rows.push_back(row);
    std::stable_sort(to.rows.begin(), to.rows.end(),
                     [](const LiveRow& a, const LiveRow& b) { return a.time_ns < b.time_ns; });
    if (is_full) {
      to.rows.erase(to.rows.begin());
      ++stats.outdated;
      to.has_given_up = true;
    }
  }
  to.pending.clear();
  stats.held = static_cast<std::int64_t>(to.rows.size());
  stats.newest_ns = to.rows.empty() ? INT64_MIN : to.rows.back().time_ns;
}

/// Whether a window reads where rows are no more.
bool LiveReference::is_short(std::int64_t stream, std::int64_t robot, std::int64_t now_ns) {
  Held& of = held(stream, robot);
  const LiveStream& options = streams_[static_cast<std::size_t>(stream)];
  if (of.has_missed) return true;
  if (!of.has_given_up && of.lost.empty()) return false;
  const __int128 step =  // a stream that is only a reference is read at now
      reaches_ahead(options) ? 0
                             : std::min<std::int64_t>(0, *std::min_element(options.offsets.begin(),
                                                                           options.offsets.end()));
  const std::int64_t since =
      of.lost.empty() ? INT64_MIN : *std::max_element(of.lost.begin(), of.lost.end());
  if (options.timeline == Timeline::kRows) {
    const auto seen = std::count_if(of.rows.begin(), of.rows.end(), [&](const LiveRow& row) {
      return row.time_ns <= now_ns && row.time_ns >= since;
    });
    return seen - 1 + step < 0;
  }
  if (has_method(options, Method::kSum)) return true;
  const __int128 from = std::min<__int128>(now_ns + step - options.mean_window_ns.value_or(0) / 2,
                                           __int128{now_ns} - options.latency_ns);
  return since > from || (of.has_given_up && of.rows.front().time_ns > from);
}

/// Whether recent rows of a stream by rows are more or less apart than at its nominal rate.
bool LiveReference::is_off_rate(std::int64_t stream, std::int64_t robot, std::int64_t now_ns) {
  Held& of = held(stream, robot);
  const LiveStream& options = streams_[static_cast<std::size_t>(stream)];
  if (options.timeline != Timeline::kRows || options.nominal_rate == 0) return false;
  std::vector<__int128> times;
  for (const LiveRow& row : of.rows) {  // in order of time
    const bool is_lost =
        !of.lost.empty() && row.time_ns < *std::max_element(of.lost.begin(), of.lost.end());
    if (row.time_ns <= now_ns && !is_lost && !of.has_missed) times.push_back(row.time_ns);
  }
  const std::int64_t first = *std::min_element(options.offsets.begin(), options.offsets.end());
  const std::int64_t window = reaches_ahead(options) ? 1 : 1 - std::min<std::int64_t>(first, 0);
  const auto most = static_cast<std::size_t>(std::max<std::int64_t>(window, 33));
  if (times.size() > most) {
    times.erase(times.begin(), times.end() - static_cast<std::ptrdiff_t>(most));
  }
  of.stats.period_ns = -1;
  if (times.size() < 9) return false;
  of.stats.period_ns = static_cast<std::int64_t>((times.back() - times.front()) /
                                                 static_cast<__int128>(times.size() - 1));
  const double nominal = 1e9 / options.nominal_rate;
  const auto period = static_cast<double>(of.stats.period_ns);
  return period > 1.15 * nominal || period < nominal / 1.15;
}

LiveStatus LiveReference::judge(std::int64_t stream, std::int64_t robot, std::int64_t now_ns) {
  Held& of = held(stream, robot);
  const LiveStream& options = streams_[static_cast<std::size_t>(stream)];
  const bool lacks_rows = is_short(stream, robot, now_ns);
  if (lacks_rows) ++of.stats.short_windows;
  const bool is_off = is_off_rate(stream, robot, now_ns);
  if (is_off) ++of.stats.wrong_rate;
  const std::vector<bool>& distant = of.are_distant;
  if (distant.size() > 1 && distant.back() && distant[distant.size() - 2]) {
    return LiveStatus::kTwoClocks;
  }
  const std::int64_t latency = options.timeline == Timeline::kRows ? 0 : options.latency_ns;
  std::optional<__int128> age;
  for (const LiveRow& row : of.rows) {  // in order of time
    const __int128 ns = __int128{now_ns} - row.time_ns;
    if (ns >= latency) age = ns;
  }
  if (!age) return LiveStatus::kNoRows;
  if (options.max_gap_ns && *age > *options.max_gap_ns) return LiveStatus::kStale;
  if (lacks_rows) return LiveStatus::kRowsLost;
  return is_off ? LiveStatus::kWrongRate : LiveStatus::kOk;
}

LiveStatus LiveReference::status(std::int64_t stream, std::int64_t robot) const {
  return held_[static_cast<std::size_t>(stream * options_.robots + robot)].status;
}

namespace {

/// One robot's rows of a stream as the loader takes them: an episode that ends now.
struct Recording {
  WindowSpec spec;
  Tensor values, times, valid, row_offsets, window_offsets, subtract, multiply;

  Recording(const LiveStream& stream, const std::vector<LiveRow>& rows) : spec(stream) {
    const std::int64_t channels = elements_of(stream);
    const auto count = static_cast<std::int64_t>(rows.size());
    values = Tensor(stream.dtype, {count, channels});
    times = Tensor(DataType::kInt64, {count});
    valid = Tensor(DataType::kBool, {count});
    row_offsets = Tensor(DataType::kInt64, {2});
    row_offsets.set_int(1, count);
    for (std::int64_t i = 0; i < count; ++i) {
      const LiveRow& row = rows[static_cast<std::size_t>(i)];
      std::memcpy(static_cast<unsigned char*>(values.view().data) +
                      static_cast<std::size_t>(i) * row.values.size(),
                  row.values.data(), row.values.size());
      times.set_int(i, row.time_ns);
      valid.set(i, row.is_valid ? 1 : 0);
    }
    window_offsets = Tensor(DataType::kInt64, {static_cast<std::int64_t>(stream.offsets.size())});
    for (std::int64_t k = 0; k < window_offsets.size(); ++k) {
      window_offsets.set_int(k, stream.offsets[static_cast<std::size_t>(k)]);
    }
    const DataType compute =
        stream.channels_first ? DataType::kFloat64 : compute_type(stream.dtype, stream.out_dtype);
    for (const auto& [tensor, numbers] :
         {std::pair{&subtract, &stream.subtract}, std::pair{&multiply, &stream.multiply}}) {
      if (numbers->empty()) continue;
      *tensor = Tensor(compute, {static_cast<std::int64_t>(numbers->size())});
      for (std::size_t i = 0; i < numbers->size(); ++i) {
        tensor->set(static_cast<std::int64_t>(i), (*numbers)[i]);
      }
    }
    spec.causal = true;
  }

  WindowStream view() const {
    WindowStream made;
    made.spec = spec;
    made.values = values.view();
    made.times = times.view();
    made.valid = valid.view();
    made.row_offsets = row_offsets.view();
    made.window_offsets = window_offsets.view();
    made.subtract = subtract.view();
    made.multiply = multiply.view();
    const std::vector<std::int32_t>& columns = spec.reference_columns;
    if (!columns.empty()) {
      made.reference_columns = array(columns.data(), {static_cast<std::int64_t>(columns.size())});
    }
    return made;
  }
};

const LiveArray& array_of(const LiveAligner& aligner, const std::string& key) {
  return *std::find_if(aligner.outputs().begin(), aligner.outputs().end(),
                       [&](const LiveArray& array) { return array.key == key; });
}

}  // namespace

/// The rows that a window at `now` may see: by row, none that is later.
std::vector<LiveRow> LiveReference::seen(std::size_t stream, std::int64_t robot,
                                         std::int64_t now_ns) {
  std::vector<LiveRow> rows = held(static_cast<std::int64_t>(stream), robot).rows;
  if (streams_[stream].timeline == Timeline::kTime) return rows;
  while (!rows.empty() && rows.back().time_ns > now_ns) rows.pop_back();
  return rows;
}

/// Writes a robot's window of images, of the source frames that the window has.
void LiveReference::process(const LiveAligner& aligner, const LiveStream& stream,
                            std::int64_t robot, const Bytes& frames, Bytes& out) const {
  const auto steps = static_cast<std::int64_t>(stream.offsets.size());
  const std::int64_t channels = stream.shape.size() == 3 ? stream.shape[2] : 1;
  const LiveArray& array = array_of(aligner, stream.name);
  std::int64_t row = 1;
  for (std::size_t axis = stream.has_axis ? 2 : 1; axis < array.shape.size(); ++axis) {
    row *= array.shape[axis];
  }
  const std::int64_t pixels = row / channels;
  ImageWindow window;
  window.spec = *stream.image;
  window.frames = ConstTensorView(frames.data(), stream.dtype,
                                  {steps, stream.shape[0], stream.shape[1], channels});
  window.frames_per_sample = steps;
  for (std::size_t c = 0; c < static_cast<std::size_t>(channels); ++c) {
    if (!stream.subtract.empty()) window.subtract[c] = stream.subtract[c];
    if (!stream.multiply.empty()) window.multiply[c] = stream.multiply[c];
  }
  window.channels_first = stream.channels_first;
  const std::int64_t height = stream.image->height > 0        ? stream.image->height
                              : stream.image->crop_height > 0 ? stream.image->crop_height
                                                              : stream.shape[0];
  const std::int64_t width = pixels / height;
  void* const to = out.data() + array.offset + robot * steps * row * size_of(stream.out_dtype);
  window.out = stream.channels_first
                   ? TensorView(to, stream.out_dtype, {steps, channels, height, width})
                   : TensorView(to, stream.out_dtype, {steps, height, width, channels});
  Bytes workspace(process_images_workspace_bytes({window}, DeviceType::kCpu));
  process_images({window}, 1, {}, {workspace.data(), workspace.size()}, on_cpu());
}

Bytes LiveReference::query(const LiveAligner& aligner, const std::vector<std::int64_t>& now_ns) {
  Bytes out(aligner.output_bytes(), kGap);
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    for (std::int64_t r = 0; r < options_.robots; ++r) {
      const std::int64_t now = now_ns[static_cast<std::size_t>(r)];
      take(static_cast<std::int64_t>(i), r, now);
      held(static_cast<std::int64_t>(i), r).status = judge(static_cast<std::int64_t>(i), r, now);
    }
  }
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    LiveStream stream = streams_[i];
    if (reaches_ahead(stream)) continue;
    if (stream.image) {  // the source frames
      stream.image.reset();
      stream.out_dtype = stream.dtype;
      stream.channels_first = false;
      stream.subtract.clear();
      stream.multiply.clear();
    }
    // Where its columns are.
    std::string key = stream.name;
    std::int64_t before = 0;
    std::int64_t columns = elements_of(stream);
    for (const LiveGroup& group : options_.concat) {
      const auto member = std::find(group.streams.begin(), group.streams.end(), stream.name);
      if (member == group.streams.end()) continue;
      key = group.key;
      columns = 0;
      for (auto each = group.streams.begin(); each != group.streams.end(); ++each) {
        if (each == member) before = columns;
        columns +=
            elements_of(*std::find_if(streams_.begin(), streams_.end(),
                                      [&](const auto& other) { return other.name == *each; }));
      }
    }
    const auto steps = static_cast<std::int64_t>(stream.offsets.size());
    const std::int64_t bytes = size_of(stream.out_dtype);
    for (std::int64_t r = 0; r < options_.robots; ++r) {
      const std::int64_t now = now_ns[static_cast<std::size_t>(r)];
      const std::vector<LiveRow> rows = seen(i, r, now);
      const Recording recording(stream, rows);
      const auto frame = rows.empty() ? 0 : static_cast<std::int64_t>(rows.size()) - 1;
      const std::int64_t anchor[] = {frame << 32, now};
      const std::int64_t episode[] = {0, 0, 0, 0};
      const std::int64_t index = 0;
      std::vector<Recording> recordings{recording};
      for (std::size_t to = 0; to < streams_.size(); ++to) {
        if (streams_[to].name != stream.relative_to) continue;
        std::vector<LiveRow> reference = seen(to, r, now);
        if (streams_[to].timeline == Timeline::kRows && !reference.empty()) {
          // So that its newest row is the anchor's, however many it has.
          reference.assign(static_cast<std::size_t>(frame) + 1, LiveRow(reference.back()));
        }
        recordings.emplace_back(streams_[to], reference);
      }
      std::vector<WindowStream> windows;
      for (const Recording& each : recordings) windows.push_back(each.view());
      const BatchPlan plan(windows, array(anchor, {1, 2}), array(episode, {1, 4}), {}, on_cpu());
      const bool is_image = streams_[i].image.has_value();
      Bytes frames(static_cast<std::size_t>(is_image ? steps * columns * bytes : 0));
      unsigned char* const values = is_image ? frames.data()
                                             : out.data() + array_of(aligner, key).offset +
                                                   (r * steps * columns + before) * bytes;
      const WindowOutput output{
          values, columns,
          reinterpret_cast<bool*>(out.data() + array_of(aligner, stream.name + "_is_pad").offset) +
              r * steps,
          reinterpret_cast<std::int64_t*>(out.data() +
                                          array_of(aligner, stream.name + "_age").offset) +
              r * steps};
      const WindowStream& last = windows.back();
      Bytes elsewhere(
          static_cast<std::size_t>(last.window_offsets.shape[0] * last.values.shape[1] * 8));
      const WindowOutput outputs[] = {output,
                                      {elsewhere.data(), last.values.shape[1], nullptr, nullptr}};
      plan.gather(&index, 1, outputs, {}, on_cpu());
      if (is_image) process(aligner, streams_[i], r, frames, out);
    }
  }
  return out;
}

Bytes answer(LiveAligner& aligner, const LiveNow& now) {
  Bytes out(aligner.output_bytes(), LiveReference::kGap);
  const LiveStatus status = aligner.query(now, out.data());
  if (!has_output(status)) return {};
  return out;
}

std::string difference_of(const LiveAligner& aligner, const Bytes& got, const Bytes& expected) {
  if (got.size() != expected.size()) return "the query failed";
  for (std::size_t i = 0; i < aligner.outputs().size(); ++i) {
    const LiveArray& array = aligner.outputs()[i];
    const std::int64_t end = i + 1 < aligner.outputs().size()
                                 ? aligner.outputs()[i + 1].offset
                                 : static_cast<std::int64_t>(got.size());
    for (std::int64_t byte = array.offset; byte < end; ++byte) {
      const auto at = static_cast<std::size_t>(byte);
      if (got[at] == expected[at]) continue;
      return array.key + " differs at byte " + std::to_string(byte - array.offset);
    }
  }
  return "";
}

std::string difference_of(const LiveStats& got, const LiveStats& expected) {
  std::ostringstream text;
  const auto compare = [&](const char* name, std::int64_t LiveStats::* count) {
    if (got.*count == expected.*count) return;
    text << name << ": expected " << expected.*count << ", got " << got.*count << "; ";
  };
  compare("pushed", &LiveStats::pushed);
  compare("overwritten", &LiveStats::overwritten);
  compare("refused", &LiveStats::refused);
  compare("taken", &LiveStats::taken);
  compare("clock_back", &LiveStats::clock_back);
  compare("late", &LiveStats::late);
  compare("too_late", &LiveStats::too_late);
  compare("repeated", &LiveStats::repeated);
  compare("early", &LiveStats::early);
  compare("future", &LiveStats::future);
  compare("outdated", &LiveStats::outdated);
  compare("forgotten", &LiveStats::forgotten);
  compare("held", &LiveStats::held);
  compare("newest_ns", &LiveStats::newest_ns);
  compare("short_windows", &LiveStats::short_windows);
  compare("period_ns", &LiveStats::period_ns);
  compare("wrong_rate", &LiveStats::wrong_rate);
  return text.str();
}

}  // namespace robocache::testing
