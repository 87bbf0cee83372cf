#include "live_problem.h"

#include <algorithm>
#include <cstring>
#include <sstream>

#include "problem.h"
#include "random_problem.h"
#include "tensor.h"

namespace robocache::testing {

std::string LiveProblem::text() const {
  std::ostringstream text;
  for (const LiveStream& stream : streams) {
    text << "\n  " << stream.name << (stream.timeline == Timeline::kRows ? " by row" : " by time")
         << ", " << name_of(stream.dtype) << " of";
    for (const std::int64_t size : stream.shape) text << " " << size;
    text << " as " << name_of(stream.out_type) << ", " << stream.steps.size() << " steps, method "
         << static_cast<int>(stream.method);
    for (const Run& run : stream.layout) {
      text << " " << static_cast<int>(run.method) << "x" << run.channels;
    }
    text << ", latency " << stream.latency_ns << ", outside " << static_cast<int>(stream.outside)
         << ", " << stream.buffer_rows << " rows";
    if (!stream.relative_to.empty()) text << ", relative to " << stream.relative_to;
  }
  text << "\n  " << options.robots << " robots, " << rows.size() << " rows";
  return text.str();
}

// ---- a random problem ---------------------------------------------------------------------------

namespace {

constexpr DataType kCopiedTypes[] = {DataType::kBool, DataType::kInt64, DataType::kInt16,
                                     DataType::kUInt32};

std::int64_t elements_of(const LiveStream& stream) {
  std::int64_t elements = 1;
  for (const std::int64_t size : stream.shape) elements *= size;
  return elements;
}

bool is_computed(DataType type) {
  return std::find(std::begin(kValueTypes), std::end(kValueTypes), type) != std::end(kValueTypes);
}

std::vector<Run> runs_of(const LiveStream& stream) {
  if (!stream.layout.empty()) return stream.layout;
  return {{stream.method, elements_of(stream)}};
}

bool has_method(const LiveStream& stream, Method method) {
  const std::vector<Run> runs = runs_of(stream);
  return std::any_of(runs.begin(), runs.end(),
                     [&](const Run& run) { return run.method == method; });
}

void fill_window(LiveStream& stream, std::int64_t tick, Random& random) {
  const std::int64_t unit = stream.timeline == Timeline::kRows ? 1 : tick;
  const std::int64_t count = 1 + random.below(random.pick({1, 3, 9, 140}));
  for (std::int64_t k = 0; k < count; ++k) {
    std::int64_t step = -random.below(12) * unit;
    if (stream.timeline == Timeline::kTime && random.one_in(3)) step /= 2;
    if (random.one_in(60)) step = INT64_MIN;
    stream.steps.push_back(step);
  }
  if (random.one_in(2) || has_method(stream, Method::kSum)) {
    std::sort(stream.steps.begin(), stream.steps.end());
  }
  if (count == 1) stream.has_step_axis = random.one_in(2);
  if (random.one_in(3)) stream.latency_ns = tick * random.below(4);
  if (stream.timeline == Timeline::kRows) return;
  stream.outside = random.pick(
      {Outside::kHold, Outside::kHold, Outside::kZero, Outside::kNan, Outside::kExtrapolate});
  if (stream.outside == Outside::kNan && !is_floating_type(stream.out_type)) {
    stream.outside = Outside::kZero;
  }
  if (random.one_in(2)) stream.max_gap_ns = tick * random.below(4);
  if (random.one_in(2)) stream.tolerance_ns = tick * random.below(3) / 2;
  if (has_method(stream, Method::kMean)) stream.mean_window_ns = tick * random.below(12) / 2;
}

LiveStream random_stream(std::int64_t number, std::int64_t tick, bool is_image, Random& random) {
  LiveStream stream;
  stream.name = "stream" + std::to_string(number);
  stream.timeline = random.one_in(3) ? Timeline::kRows : Timeline::kTime;
  const std::int64_t channels = random.pick<std::int64_t>({1, 2, 3, 4, 7, 16, 300});
  if (is_image) {
    stream.dtype = DataType::kUInt8;
    stream.channels_first = true;
    stream.shape = {1 + random.below(6), 1 + random.below(9), random.pick<std::int64_t>({1, 3, 4})};
    stream.method = random.pick({Method::kLinear, Method::kPrevious, Method::kNearest});
    stream.out_type = random.pick({DataType::kFloat16, DataType::kFloat32, DataType::kUInt8});
  } else if (random.one_in(6)) {
    stream.dtype = stream.out_type = random.pick(kCopiedTypes);
    stream.shape = {1 + random.below(3), 1 + random.below(4)};
    stream.method = random.pick({Method::kPrevious, Method::kNearest});
  } else {
    stream.dtype = random.pick(kValueTypes);
    stream.out_type = random.pick(kValueTypes);
    if (channels > 1 || random.one_in(2)) stream.shape = {channels};
    stream.method = random.pick(kMethods);
    if (is_slerp(stream.method) && channels != 4) stream.method = Method::kAngle;
    if (random.one_in(3)) stream.layout = random_layout(channels, random);
  }
  fill_window(stream, tick, random);
  const std::int64_t scales = is_image ? stream.shape[2] : elements_of(stream);
  for (std::vector<double>* scale : {&stream.subtract, &stream.multiply}) {
    if (!is_computed(stream.dtype) || random.one_in(2)) continue;
    for (std::int64_t i = 0; i < scales; ++i) scale->push_back(random.between(-2, 2));
  }
  return stream;
}

/// How a channel is combined.
Method method_of(const LiveStream& stream, std::int64_t channel) {
  for (const Run& run : runs_of(stream)) {
    if (channel < run.channels) return run.method;
    channel -= run.channels;
  }
  return stream.method;
}

/// Makes a stream relative to another, in most of the channels that may be.
void relate(LiveStream& stream, const LiveStream& reference, Random& random) {
  stream.relative_to = reference.name;
  for (std::int64_t c = 0; c < elements_of(stream); ++c) {
    const std::int64_t column = random.below(elements_of(reference));
    const Method method = method_of(reference, column);
    const bool may_be =
        reference.timeline == Timeline::kRows || (!is_slerp(method) && method != Method::kSum);
    const bool is_none = is_slerp(method_of(stream, c)) || !may_be || random.one_in(5);
    stream.reference_columns.push_back(is_none ? -1 : static_cast<std::int32_t>(column));
  }
}

Bytes random_row(const LiveStream& stream, Random& random) {
  const std::int64_t elements = elements_of(stream);
  Tensor row(stream.dtype, {1, elements});
  if (is_computed(stream.dtype)) {
    fill_values(row, runs_of(stream), false, random);
    return row.bytes();
  }
  Bytes bytes(static_cast<std::size_t>(elements * size_of(stream.dtype)));
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random.below(2));
  return bytes;
}

}  // namespace

LiveProblem random_live_problem(std::uint64_t seed, const LiveWanted& wanted) {
  Random random(seed);
  LiveProblem problem;
  const std::int64_t tick = random.pick<std::int64_t>({1, 3, 1'000, 33'333'333});
  const std::int64_t start = random.pick<std::int64_t>({0, -5'000, 1'700'000'000'000'000'000});
  problem.options.robots = random.pick<std::int64_t>({1, 1, 1, 2, 5});
  problem.options.max_future_ns = random.one_in(4) ? 3 * tick : INT64_MAX;
  const std::int64_t streams = 1 + random.below(4);
  for (std::int64_t i = 0; i < streams; ++i) {
    problem.streams.push_back(random_stream(
        i, tick, wanted.is_image || (!wanted.is_relative && random.one_in(8)), random));
  }

  if (problem.streams[0].shape.size() <= 1 && random.one_in(4)) {
    problem.streams.push_back(problem.streams[0]);
    problem.streams.back().name = "twin";
    problem.options.concat = {{"both", {"twin", "stream0"}}};
  }
  if (wanted.is_relative) {
    problem.options.concat.clear();
    LiveStream first = random_stream(0, tick, false, random);
    LiveStream last = random_stream(streams, tick, false, random);
    while (!is_computed(first.dtype)) first = random_stream(0, tick, false, random);
    while (!is_computed(last.dtype) || !is_floating_type(last.out_type)) {
      last = random_stream(streams, tick, false, random);
    }
    relate(last, first, random);
    problem.streams.front() = first;
    problem.streams.push_back(last);
  }

  struct Arrival {
    std::int64_t at;
    LiveRow row;
  };
  std::vector<Arrival> arrivals;
  const std::int64_t length = 5 + random.below(40);
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(problem.streams.size()); ++i) {
    LiveStream& stream = problem.streams[static_cast<std::size_t>(i)];
    stream.ring_rows = 200;
    stream.buffer_rows = 200;
    if (random.one_in(2)) stream.buffer_rows = 1 + random.below(14);
    if (stream.timeline == Timeline::kRows) {
      const std::int64_t earliest = *std::min_element(stream.steps.begin(), stream.steps.end());
      if (earliest < -180) stream.steps.assign(stream.steps.size(), -3);
      stream.buffer_rows = std::max<std::int64_t>(stream.buffer_rows, 13);
    }
    const std::int64_t jitter = random.pick<std::int64_t>({0, 0, 2, 9});
    for (std::int64_t r = 0; r < problem.options.robots; ++r) {
      for (std::int64_t t = random.below(6); t < length; t += random.pick({0, 1, 1, 2, 7})) {
        LiveRow row{i, r, start + t * tick, !random.one_in(8), random_row(stream, random)};
        if (random.one_in(50)) row.time_ns += random.pick<std::int64_t>({-40, 40}) * tick;
        arrivals.push_back({t + random.below(jitter + 1), row});
        if (arrivals.size() % 190 == 189) break;
      }
    }
  }
  std::stable_sort(arrivals.begin(), arrivals.end(),
                   [](const Arrival& a, const Arrival& b) { return a.at < b.at; });
  std::size_t next_query = 0;
  for (std::size_t i = 0; i <= arrivals.size(); ++i) {
    if (i == next_query || i == arrivals.size()) {
      LiveQuery query{i, {}};
      const std::int64_t latest = i == 0 ? 0 : arrivals[i - 1].at;
      for (std::int64_t r = 0; r < problem.options.robots; ++r) {
        query.now_ns.push_back(start + (latest + random.below(7) - 3) * tick + random.below(2));
      }
      problem.queries.push_back(query);
      next_query = i + static_cast<std::size_t>(1 + random.below(9));
    }
    if (i < arrivals.size()) problem.rows.push_back(arrivals[i].row);
  }
  return problem;
}

// ---- the reference ------------------------------------------------------------------------------

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
    ++to.stats.dropped_full;
    return;
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
      is_by_row ? 1 - *std::min_element(options.steps.begin(), options.steps.end())
                : (capacity + 1) / 2;
  for (const LiveRow& row : to.pending) {
    ++stats.taken;
    if (row.time_ns < to.last_arrived) ++stats.clock_back;
    to.last_arrived = row.time_ns;
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
        if (row.time_ns >= to.rows.back().time_ns) continue;
        to.rows.pop_back();
        is_full = false;
      }
    }
    if (is_full && row.time_ns < to.rows.front().time_ns) {
      ++stats.too_late;
      continue;
    }
    if (!to.rows.empty() && row.time_ns < to.rows.back().time_ns) ++stats.late;
    if (std::any_of(to.rows.begin(), to.rows.end(),
                    [&](const LiveRow& other) { return other.time_ns == row.time_ns; })) {
      ++stats.repeated;
    }
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

void LiveReference::count_short(std::int64_t stream, std::int64_t robot, std::int64_t now_ns) {
  Held& of = held(stream, robot);
  if (!of.has_given_up) return;
  const LiveStream& options = streams_[static_cast<std::size_t>(stream)];
  const __int128 step = *std::min_element(options.steps.begin(), options.steps.end());
  if (options.timeline == Timeline::kRows) {
    const auto seen = std::count_if(of.rows.begin(), of.rows.end(),
                                    [&](const LiveRow& row) { return row.time_ns <= now_ns; });
    if (seen - 1 + step < 0) ++of.stats.short_windows;
    return;
  }
  const __int128 from = std::min<__int128>(now_ns + step - options.mean_window_ns.value_or(0) / 2,
                                           __int128{now_ns} - options.latency_ns);
  if (has_method(options, Method::kSum) || of.rows.front().time_ns > from) {
    ++of.stats.short_windows;
  }
}

namespace {

/// One robot's rows of a stream as the loader takes them: an episode that ends now.
struct Recording {
  WindowStream window;
  Tensor values, times, valid, offsets, steps, subtract, multiply;
  std::vector<std::int32_t> columns;

  Recording(const LiveStream& stream, const std::vector<LiveRow>& rows) {
    const bool computed = is_computed(stream.dtype);
    const std::int64_t wide = computed ? 1 : size_of(stream.dtype);
    const std::int64_t channels = elements_of(stream) * wide;
    const auto count = static_cast<std::int64_t>(rows.size());
    values = Tensor(computed ? stream.dtype : DataType::kUInt8, {count, channels});
    times = Tensor(DataType::kInt64, {count});
    valid = Tensor(DataType::kBool, {count});
    offsets = Tensor(DataType::kInt64, {2});
    offsets.set_int(1, count);
    for (std::int64_t i = 0; i < count; ++i) {
      const LiveRow& row = rows[static_cast<std::size_t>(i)];
      std::memcpy(static_cast<unsigned char*>(values.view().data) +
                      static_cast<std::size_t>(i) * row.values.size(),
                  row.values.data(), row.values.size());
      times.set_int(i, row.time_ns);
      valid.set(i, row.is_valid ? 1 : 0);
    }
    steps = Tensor(DataType::kInt64, {static_cast<std::int64_t>(stream.steps.size())});
    for (std::int64_t k = 0; k < steps.size(); ++k) {
      steps.set_int(k, stream.steps[static_cast<std::size_t>(k)]);
    }
    const DataType compute =
        stream.channels_first ? DataType::kFloat64 : compute_type(stream.dtype, stream.out_type);
    for (const auto& [tensor, numbers] :
         {std::pair{&subtract, &stream.subtract}, std::pair{&multiply, &stream.multiply}}) {
      if (numbers->empty()) continue;
      *tensor = Tensor(compute, {static_cast<std::int64_t>(numbers->size())});
      for (std::size_t i = 0; i < numbers->size(); ++i) {
        tensor->set(static_cast<std::int64_t>(i), (*numbers)[i]);
      }
    }
    columns = stream.reference_columns;
    window.name = stream.name;
    window.timeline = stream.timeline;
    window.is_causal = true;
    window.latency_ns = stream.latency_ns;
    window.method = stream.method;
    window.layout = stream.layout;
    window.outside = stream.outside;
    const auto duration = [](const std::optional<std::int64_t>& ns) {
      return ns ? std::optional(Duration::nanoseconds(*ns)) : std::nullopt;
    };
    window.max_gap = duration(stream.max_gap_ns);
    window.tolerance = duration(stream.tolerance_ns);
    window.mean_window = duration(stream.mean_window_ns);
    window.out_type = computed ? stream.out_type : DataType::kUInt8;
    if (stream.channels_first) {
      window.channels_first = true;
      window.colours = stream.shape[2];
      window.pixels = stream.shape[0] * stream.shape[1];
    }
  }

  WindowStream view() const {
    WindowStream made = window;
    made.values = values.view();
    made.times = times.view();
    made.valid = valid.view();
    made.offsets = offsets.view();
    made.steps = steps.view();
    made.subtract = subtract.view();
    made.multiply = multiply.view();
    if (!columns.empty()) {
      made.relative_to = 1;
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

Bytes LiveReference::query(const LiveAligner& aligner, const std::vector<std::int64_t>& now_ns) {
  Bytes out(aligner.output_bytes(), kGap);
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    for (std::int64_t r = 0; r < options_.robots; ++r) {
      const std::int64_t now = now_ns[static_cast<std::size_t>(r)];
      take(static_cast<std::int64_t>(i), r, now);
      count_short(static_cast<std::int64_t>(i), r, now);
    }
  }
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    const LiveStream& stream = streams_[i];
    if (std::any_of(stream.steps.begin(), stream.steps.end(), [](auto step) { return step > 0; })) {
      continue;
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
    const auto steps = static_cast<std::int64_t>(stream.steps.size());
    const std::int64_t bytes = size_of(stream.out_type);
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
      unsigned char* const values =
          out.data() + array_of(aligner, key).offset + (r * steps * columns + before) * bytes;
      const std::int64_t wide = is_computed(stream.dtype) ? 1 : bytes;
      const WindowOutput output{
          values, columns * wide,
          reinterpret_cast<bool*>(out.data() + array_of(aligner, stream.name + "_is_pad").offset) +
              r * steps,
          reinterpret_cast<std::int64_t*>(out.data() +
                                          array_of(aligner, stream.name + "_age").offset) +
              r * steps};
      const WindowStream& last = windows.back();
      Bytes elsewhere(static_cast<std::size_t>(last.steps.shape[0] * last.values.shape[1] * 8));
      const WindowOutput outputs[] = {output,
                                      {elsewhere.data(), last.values.shape[1], nullptr, nullptr}};
      plan.gather(&index, 1, outputs, {}, on_cpu());
    }
  }
  return out;
}

Bytes answer(LiveAligner& aligner, const LiveNow& now) {
  Bytes out(aligner.output_bytes(), LiveReference::kGap);
  const LiveStatus status = aligner.query(now, out.data());
  if (status != LiveStatus::kOk) return {};
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
  compare("dropped_full", &LiveStats::dropped_full);
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
  return text.str();
}

}  // namespace robocache::testing
