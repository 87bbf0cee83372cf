// Entry points of the LiveAligner.
#include "robocache/live.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "core/check.h"
#include "live/buffer_rows.h"
#include "live/constant_outputs.h"
#include "live/image_rows.h"
#include "live/jpeg_rows.h"
#include "live/kept_queries.h"
#include "live/key_inverses.h"
#include "live/live_batch.h"
#include "live/live_source.h"
#include "live/live_windows.h"
#include "live/memory.h"
#include "live/ordered_rows.h"
#include "live/output_layout.h"
#include "live/pinned_slots.h"
#include "live/selection.h"
#include "live/stream_status.h"
#include "live/transform_chain.h"
#include "window/windows.h"

namespace robocache {

struct LiveAligner::Contents {
  Contents(const std::vector<LiveStream>& given, const LiveOptions& wanted)
      : options(wanted),
        streams(sized_streams(given, wanted)),
        processed(processed_streams(streams)),
        batch(plan_live_batch(processed, wanted.concat, wanted.transforms,
                              wanted.dataset_index.has_value())),
        layout(lay_out(processed, batch.keys, wanted.robots, wanted.dataset_index.has_value())),
        chain(processed, batch, layout, wanted),
        constants(processed, layout, chain, wanted.dataset_index),
        sources(make_sources()),
        ordered(streams, wanted.robots),
        jpegs(streams, wanted),
        images(streams, wanted.robots),
        windows(processed, layout, chain, sources, images, wanted),
        all_keys(select_all(processed, batch, layout)),
        statuses(processed, sources, wanted.robots),
        inverses(streams, processed, batch, chain, windows, wanted.robots),
        queries(wanted.kept_queries, wanted.robots, inverses.references().size()) {
    for (const BatchKey& key : batch.keys) {
      keys.push_back({key.name, static_cast<std::int64_t>(keys.size()), key.shape, key.unpadded});
    }
    if (options.cuda_slots > 0) slots.emplace(options.cuda_slots, layout.bytes);
    // Warms up: the first query of the caller then runs with warm caches and touched pages.
    const AlignedBytes out = make_aligned(layout.bytes);
    for (std::int64_t r = 0; r < options.robots; ++r) make(all_keys, r, 0, out.get());
  }

  void make(const Selection& selection, std::int64_t robot, std::int64_t now_ns, std::byte* out) {
    windows.make(selection, queries.slot(), robot, now_ns, out);
    constants.write(selection, robot, out);
    chain.apply(selection, queries.slot(), robot, out);
  }

  /// Memory for a robot's next frame of a stream: the row itself, unless it is then processed.
  std::byte* next_frame(std::int64_t stream, std::int64_t robot) const {
    return images.processes(stream) ? images.frame(stream, robot)
                                    : source(stream)->ring(robot).next_row();
  }

  /// Appends the frame in `next_frame`, or counts its error.
  LiveStatus push_decoded(std::int64_t stream, std::int64_t robot, LiveStatus status,
                          std::int64_t time_ns, bool is_valid) {
    RowRing& ring = source(stream)->ring(robot);
    if (status != LiveStatus::kOk) {
      ring.refuse();
      return status;
    }
    if (images.processes(stream)) {
      images.process(stream, robot, images.frame(stream, robot), ring.next_row());
    }
    ring.push_next(time_ns, is_valid);
    return status;
  }

  /// Records a query of a robot, for `undo`.
  void keep(std::int64_t robot, std::int64_t now_ns) {
    queries.add(robot, now_ns);
    const std::vector<std::size_t>& references = inverses.references();
    for (std::size_t i = 0; i < references.size(); ++i) {
      if (!windows.has_rows(references[i], robot, now_ns)) queries.set_empty(robot, i);
    }
  }

  LiveSources make_sources() const {
    LiveSources made;
    for (const LiveStream& stream : streams) {
      made.push_back(takes_rows(stream, streams)
                         ? std::make_unique<LiveSource>(stream.buffer_rows, kept_rows(stream),
                                                        stream.ring_rows, row_bytes(stream),
                                                        options.robots)
                         : nullptr);
    }
    return made;
  }

  /// The source of a stream; null for an unknown stream, and for one that takes no rows.
  LiveSource* source(std::int64_t stream) const {
    return has_stream(stream) ? sources[static_cast<std::size_t>(stream)].get() : nullptr;
  }
  bool has_stream(std::int64_t stream) const {
    return stream >= 0 && stream < static_cast<std::int64_t>(streams.size());
  }
  /// The bytes of a row that is pushed.
  std::size_t pushed_bytes(std::int64_t stream) const {
    const LiveStream& of = streams[static_cast<std::size_t>(stream)];
    return static_cast<std::size_t>(elements_of(of) * size_of(of.dtype));
  }
  bool has_robot(std::int64_t robot) const { return robot >= 0 && robot < options.robots; }

  void reset(std::int64_t robot) {
    for (const auto& each : sources) {
      if (each != nullptr) each->forget(robot);
    }
    statuses.forget(robot);
    queries.forget(robot);
  }

  const LiveOptions options;
  const std::vector<LiveStream> streams;
  const std::vector<LiveStream> processed;  // with the rows that buffers hold
  const LiveBatch batch;
  const OutputLayout layout;
  TransformChain chain;
  const ConstantOutputs constants;
  LiveSources sources;
  OrderedRows ordered;
  JpegRows jpegs;
  ImageRows images;
  LiveWindows windows;
  const Selection all_keys;
  StreamStatuses statuses;
  KeyInverses inverses;
  KeptQueries queries;
  std::vector<LiveKey> keys;
  std::optional<PinnedSlots> slots;
  std::atomic<std::int64_t> misdirected{0};  // any thread increments it
};

LiveAligner::LiveAligner(const std::vector<LiveStream>& streams, const LiveOptions& options)
    : contents_(std::make_unique<Contents>(streams, options)) {}
LiveAligner::LiveAligner(LiveAligner&&) noexcept = default;
LiveAligner& LiveAligner::operator=(LiveAligner&&) noexcept = default;
LiveAligner::~LiveAligner() = default;

const std::vector<LiveStream>& LiveAligner::streams() const noexcept { return contents_->streams; }
const LiveOptions& LiveAligner::options() const noexcept { return contents_->options; }
const std::vector<LiveArray>& LiveAligner::outputs() const noexcept {
  return contents_->layout.arrays;
}
std::size_t LiveAligner::output_bytes() const noexcept { return contents_->layout.bytes; }

std::optional<std::int64_t> LiveAligner::find_stream(std::string_view name) const noexcept {
  for (std::size_t i = 0; i < contents_->streams.size(); ++i) {
    if (contents_->streams[i].name == name) return static_cast<std::int64_t>(i);
  }
  return std::nullopt;
}

const std::vector<LiveKey>& LiveAligner::keys() const noexcept { return contents_->keys; }

const LiveKey* LiveAligner::find_key(std::string_view name) const noexcept {
  for (const LiveKey& key : contents_->keys) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

const LiveArray* LiveAligner::find_output(std::string_view key) const noexcept {
  for (const LiveArray& array : contents_->layout.arrays) {
    if (array.key == key) return &array;
  }
  return nullptr;
}

LiveStatus LiveAligner::push_elements(std::int64_t stream, std::int64_t time_ns, const void* values,
                                      std::size_t count, DataType type, std::int64_t robot,
                                      bool is_valid) noexcept {
  Contents& all = *contents_;
  LiveSource* const source = all.source(stream);
  // The untyped function reports and counts the errors of the other arguments.
  if (source == nullptr || !all.has_robot(robot) || values == nullptr) {
    return push(stream, time_ns, values, 0, robot, is_valid);
  }
  const LiveStream& of = all.streams[static_cast<std::size_t>(stream)];
  const bool is_half = of.dtype == DataType::kFloat16 || of.dtype == DataType::kBFloat16;
  if (type != (is_half ? DataType::kUInt16 : of.dtype)) {
    source->ring(robot).refuse();
    return LiveStatus::kWrongType;
  }
  const auto bytes = static_cast<std::size_t>(size_of(type));
  // A count whose bytes would exceed size_t is not a row's either.
  const bool is_row = count <= SIZE_MAX / bytes;
  return push(stream, time_ns, values, is_row ? count * bytes : SIZE_MAX, robot, is_valid);
}

LiveStatus LiveAligner::push(std::int64_t stream, std::int64_t time_ns, const void* values,
                             std::size_t bytes, std::int64_t robot, bool is_valid) noexcept {
  Contents& all = *contents_;
  const auto misdirected = [&all](LiveStatus status) {
    all.misdirected.fetch_add(1, std::memory_order_relaxed);
    return status;
  };
  LiveSource* const source = all.source(stream);
  if (source == nullptr) {
    return misdirected(all.has_stream(stream) ? LiveStatus::kTakesNoRows
                                              : LiveStatus::kUnknownStream);
  }
  if (!all.has_robot(robot)) return misdirected(LiveStatus::kUnknownRobot);
  if (values == nullptr) return misdirected(LiveStatus::kBadPointer);
  RowRing& ring = source->ring(robot);
  if (bytes != all.pushed_bytes(stream)) {
    ring.refuse();
    return LiveStatus::kWrongSize;
  }
  if (all.jpegs.encodes(stream)) {
    std::byte* const frame = all.next_frame(stream, robot);
    const LiveStatus status = all.jpegs.encode(stream, robot, values, frame);
    return all.push_decoded(stream, robot, status, time_ns, is_valid);
  }
  if (all.images.processes(stream)) {
    all.images.process(stream, robot, values, ring.next_row());
    ring.push_next(time_ns, is_valid);
  } else {
    ring.push(time_ns, values, is_valid);
  }
  return LiveStatus::kOk;
}

LiveStatus LiveAligner::push_jpeg(std::int64_t stream, std::int64_t time_ns, const void* bytes,
                                  std::size_t size, std::int64_t robot, bool is_valid) noexcept {
  Contents& all = *contents_;
  LiveSource* const source = all.source(stream);
  // The other function reports and counts the errors of the other arguments.
  if (source == nullptr || !all.has_robot(robot) || bytes == nullptr) {
    return push(stream, time_ns, bytes, 0, robot, is_valid);
  }
  std::byte* const frame = all.next_frame(stream, robot);
  const LiveStatus status = all.jpegs.decode(stream, robot, bytes, size, frame);
  return all.push_decoded(stream, robot, status, time_ns, is_valid);
}

bool LiveAligner::ready() const noexcept {
  for (std::int64_t r = 0; r < contents_->options.robots; ++r) {
    if (!ready(r)) return false;
  }
  return true;
}

bool LiveAligner::ready(std::int64_t robot) const noexcept {
  if (!contents_->has_robot(robot)) return false;
  for (const auto& source : contents_->sources) {
    if (source != nullptr && !source->ring(robot).has_been_pushed()) return false;
  }
  return true;
}

ChannelOrder LiveAligner::channel_order(std::int64_t stream,
                                        const std::vector<std::string>& names) const {
  if (contents_->source(stream) == nullptr) {
    throw_value_error("stream", "the number of a stream that takes rows", std::to_string(stream));
  }
  return {stream, names,
          find_channels(contents_->streams[static_cast<std::size_t>(stream)], names)};
}

LiveStatus LiveAligner::push_in_order(const ChannelOrder& order, std::int64_t time_ns,
                                      const void* values, std::size_t count, DataType type,
                                      std::int64_t robot, bool is_valid) noexcept {
  Contents& all = *contents_;
  const std::int64_t stream = order.stream();
  LiveSource* const source = all.source(stream);
  // The untyped function counts what is wrong with the other arguments.
  if (source == nullptr || !all.has_robot(robot) || values == nullptr) {
    return push(stream, time_ns, values, 0, robot, is_valid);
  }
  RowRing& ring = source->ring(robot);
  // An order of another aligner may have another number of channels.
  const std::size_t channels = all.streams[static_cast<std::size_t>(stream)].channels.size();
  if (count != order.names().size() || order.indices().size() != channels) {
    ring.refuse();
    return LiveStatus::kWrongSize;
  }
  const std::byte* const row = all.ordered.order(stream, robot, values, type, order.indices());
  if (row == nullptr) {
    ring.refuse();
    return LiveStatus::kWrongType;
  }
  return push(stream, time_ns, row, all.pushed_bytes(stream), robot, is_valid);
}

LiveSelection LiveAligner::select(const std::vector<std::string>& keys) const {
  return LiveSelection(std::make_shared<const Selection>(
      select_keys(contents_->streams, contents_->batch, contents_->layout, keys)));
}

const std::vector<std::string>& LiveSelection::keys() const noexcept { return selection_->names; }

LiveResult LiveAligner::query(const LiveNow& now, void* out) noexcept {
  return query_selected(now, out, contents_->all_keys);
}

LiveResult LiveAligner::query(const LiveNow& now, void* out,
                              const LiveSelection& selection) noexcept {
  return query_selected(now, out, *selection.selection_);
}

LiveResult LiveAligner::query_selected(const LiveNow& now, void* out,
                                       const Selection& selection) noexcept {
  Contents& all = *contents_;
  if (selection.keys.size() != all.batch.keys.size() ||
      selection.streams.size() != all.streams.size()) {
    return {LiveStatus::kUnknownKey, {}};
  }
  const bool is_missing = out == nullptr && all.layout.bytes > 0;
  if (is_missing || reinterpret_cast<std::uintptr_t>(out) % alignof(std::int64_t) != 0) {
    return {LiveStatus::kBadPointer, {}};
  }
  const bool is_at_newest = now.kind_ == LiveNow::Kind::kNewest;
  if (now.kind_ == LiveNow::Kind::kEach && now.times_ns_ == nullptr) {
    return {LiveStatus::kBadPointer, {}};
  }
  LiveSource* const clock = is_at_newest ? all.source(now.number_) : nullptr;
  if (is_at_newest && clock == nullptr) {
    const bool is_known = all.has_stream(now.number_);
    return {is_known ? LiveStatus::kTakesNoRows : LiveStatus::kUnknownStream, {}};
  }
  LiveStatus status = LiveStatus::kOk;
  all.queries.begin();
  for (std::int64_t r = 0; r < all.options.robots; ++r) {
    std::int64_t time = now.kind_ == LiveNow::Kind::kEach ? now.times_ns_[r] : now.number_;
    std::int64_t taken_at = time;  // rows later than this are future rows
    if (is_at_newest) {
      clock->drain_clock(r, all.options.max_future_ns);
      const bool has_rows = clock->buffer.count(r) > 0;
      time = has_rows ? clock->buffer.newest_time(r) : INT64_MIN;
      taken_at = has_rows ? time : INT64_MAX;  // no row yet defines the future
    }
    for (std::size_t i = 0; i < all.sources.size(); ++i) {
      if (selection.sources[i] == 0) continue;
      all.sources[i]->drain(r, taken_at, all.options.max_future_ns);
    }
    all.make(selection, r, time, static_cast<std::byte*>(out));
    status = std::max(status, all.statuses.update(r, time, selection.sources));
    all.keep(r, time);
  }
  return {status, all.queries.ticket()};
}

LiveResult LiveAligner::query_on_cuda(const LiveNow& now, void* device_out,
                                      CUstream_st* stream) noexcept {
  return query_selected_on_cuda(now, device_out, stream, contents_->all_keys);
}

LiveResult LiveAligner::query_on_cuda(const LiveNow& now, void* device_out, CUstream_st* stream,
                                      const LiveSelection& selection) noexcept {
  return query_selected_on_cuda(now, device_out, stream, *selection.selection_);
}

LiveResult LiveAligner::query_selected_on_cuda(const LiveNow& now, void* device_out,
                                               CUstream_st* stream,
                                               const Selection& selection) noexcept {
  Contents& all = *contents_;
  if (!all.slots) return {LiveStatus::kNoDevice, {}};
  if (device_out == nullptr) return {LiveStatus::kBadPointer, {}};
  std::byte* const slot = all.slots->free_slot();
  if (slot == nullptr) return {LiveStatus::kBusy, {}};
  const LiveResult result = query_selected(now, slot, selection);
  if (!has_output(result)) return result;
  if (!all.slots->copy_to(device_out, selection.ranges, stream))
    return {LiveStatus::kDeviceError, {}};
  return result;
}

LiveStatus LiveAligner::wait_on_cuda() noexcept {
  if (!contents_->slots) return LiveStatus::kNoDevice;
  return contents_->slots->wait() ? LiveStatus::kOk : LiveStatus::kDeviceError;
}

LiveStatus LiveAligner::status(std::int64_t stream, std::int64_t robot) const noexcept {
  if (contents_->source(stream) == nullptr) {
    return contents_->has_stream(stream) ? LiveStatus::kTakesNoRows : LiveStatus::kUnknownStream;
  }
  if (!contents_->has_robot(robot)) return LiveStatus::kUnknownRobot;
  return contents_->statuses.status(stream, robot);
}

std::int64_t LiveAligner::now_ns(std::int64_t robot) const noexcept {
  return contents_->has_robot(robot) ? contents_->queries.now_ns(robot) : 0;
}

LiveStatus LiveAligner::undo(const LiveTicket& ticket, const LiveKey& key, const float* values,
                             std::int64_t rows, float* out) noexcept {
  return contents_->inverses.undo(contents_->queries, ticket, key.number, values, rows, out);
}

LiveStatus LiveAligner::undo(const LiveTicket& ticket, const LiveKey& key, const double* values,
                             std::int64_t rows, double* out) noexcept {
  return contents_->inverses.undo(contents_->queries, ticket, key.number, values, rows, out);
}

void LiveAligner::reset() noexcept {
  for (std::int64_t r = 0; r < contents_->options.robots; ++r) contents_->reset(r);
}

LiveStatus LiveAligner::reset(std::int64_t robot) noexcept {
  if (!contents_->has_robot(robot)) return LiveStatus::kUnknownRobot;
  contents_->reset(robot);
  return LiveStatus::kOk;
}

LiveStats LiveAligner::stats(std::int64_t stream, std::int64_t robot) const noexcept {
  LiveStats stats;
  LiveSource* const source = contents_->source(stream);
  if (source == nullptr || !contents_->has_robot(robot)) return stats;
  const RowRing& ring = source->ring(robot);
  stats.pushed = ring.pushed();
  stats.overwritten = ring.overwritten();
  stats.refused = ring.refused();
  const RowBuffer::Counters& counters = std::as_const(source->buffer).counters(robot);
  stats.taken = counters.taken.get();
  stats.clock_back = counters.clock_back.get();
  stats.late = counters.late.get();
  stats.too_late = counters.too_late.get();
  stats.repeated = counters.repeated.get();
  stats.early = counters.early.get();
  stats.future = counters.future.get();
  stats.outdated = counters.outdated.get();
  stats.forgotten = counters.forgotten.get();
  stats.held = counters.held.get();
  stats.newest_ns = counters.newest.get();
  stats.short_windows = counters.short_windows.get();
  stats.period_ns = counters.period.get();
  stats.wrong_rate = counters.wrong_rate.get();
  return stats;
}

std::int64_t LiveAligner::misdirected() const noexcept {
  return contents_->misdirected.load(std::memory_order_relaxed);
}

const char* name_of(LiveStatus status) {
  switch (status) {
    case LiveStatus::kOk:
      return "Ok";
    case LiveStatus::kWrongRate:
      return "WrongRate";
    case LiveStatus::kRowsLost:
      return "RowsLost";
    case LiveStatus::kStale:
      return "Stale";
    case LiveStatus::kNoRows:
      return "NoRows";
    case LiveStatus::kTwoClocks:
      return "TwoClocks";
    case LiveStatus::kUnknownStream:
      return "UnknownStream";
    case LiveStatus::kUnknownKey:
      return "UnknownKey";
    case LiveStatus::kUnknownRobot:
      return "UnknownRobot";
    case LiveStatus::kTakesNoRows:
      return "TakesNoRows";
    case LiveStatus::kWrongSize:
      return "WrongSize";
    case LiveStatus::kBadPointer:
      return "BadPointer";
    case LiveStatus::kNoQuery:
      return "NoQuery";
    case LiveStatus::kNotInvertible:
      return "NotInvertible";
    case LiveStatus::kBusy:
      return "Busy";
    case LiveStatus::kNoDevice:
      return "NoDevice";
    case LiveStatus::kDeviceError:
      return "DeviceError";
    case LiveStatus::kWrongType:
      return "WrongType";
    case LiveStatus::kUnknownTicket:
      return "UnknownTicket";
    case LiveStatus::kPadded:
      return "Padded";
    case LiveStatus::kNotJpeg:
      return "NotJpeg";
    case LiveStatus::kDamagedJpeg:
      return "DamagedJpeg";
    case LiveStatus::kRotatedJpeg:
      return "RotatedJpeg";
  }
  return "an unknown status";
}

}  // namespace robocache
