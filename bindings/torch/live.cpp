// The LiveAligner as a flat C API, which python/robocache/live/library.py declares to ctypes.
//
// A function that builds an aligner returns a Status; robocache_error() has the message. Every
// other function that can fail returns the number of a LiveStatus. On CUDA the caller makes the
// device current and passes the stream. The client that opens an aligner must close it.
#include "robocache/live.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "c_api.h"
#include "robocache/policy_spec.h"

using robocache::LiveAligner;
using robocache::LiveNow;
using robocache::LiveSelection;
using robocache::c_api::status_of;

// The client declares structures of the same layout to ctypes.
extern "C" {

/// Capacities for a stream's rows; 0: the aligner's default.
struct RobocacheLiveRows {
  std::int64_t buffer_rows, ring_rows;
};

struct RobocacheLiveOptions {
  std::int64_t robots;
  std::int64_t query_every_ns;
  std::int64_t max_future_ns;
  std::int64_t kept_queries;
  std::int64_t cuda_slots;
  std::int64_t encode_images;  // 0 or 1
};

/// An array of the output; it lives as long as the aligner.
struct RobocacheLiveArray {
  const char* key;
  std::int64_t dtype;  // DataType's number
  std::int64_t rank;
  const std::int64_t* shape;
  std::int64_t offset;
};

/// A key of the batches with the shapes of a row, in batches and as `undo` returns it; it lives as
/// long as the aligner.
struct RobocacheLiveKey {
  const char* name;
  std::int64_t rank, aligned_rank;
  const std::int64_t *shape, *aligned;
};

/// The fields of robocache::LiveTicket.
struct RobocacheLiveTicket {
  std::int64_t sequence, now_ns;
};

/// The fields of robocache::LiveStats.
struct RobocacheLiveStats {
  std::int64_t pushed, overwritten, refused, taken, clock_back, late, too_late, repeated, early,
      future, outdated, forgotten, held, newest_ns, short_windows, period_ns, wrong_rate;
};

}  // extern "C"

namespace {

std::int32_t number_of(robocache::LiveStatus status) { return static_cast<std::int32_t>(status); }

/// Writes the ticket of a query, and returns the number of its status.
std::int32_t take_ticket(const robocache::LiveResult& result, RobocacheLiveTicket* ticket) {
  *ticket = {result.ticket.sequence, result.ticket.now_ns};
  return number_of(result.status);
}

/// The time of a query, in one of three ways: a stream's newest row, a time per robot, or one time
/// for all robots.
LiveNow now_of(std::int64_t stream, const std::int64_t* times_ns, std::int64_t time_ns) {
  if (stream >= 0) return LiveNow::newest_of(stream);
  return times_ns != nullptr ? LiveNow::each(times_ns) : LiveNow::at(time_ns);
}

}  // namespace

extern "C" {

/// The sizes of the structures above in bytes, which the client compares with its own.
ROBOCACHE_C_API const char* robocache_live_layout() {
  static const std::string layout =
      robocache::c_api::sizes_json({{"Rows", sizeof(RobocacheLiveRows)},
                                    {"Options", sizeof(RobocacheLiveOptions)},
                                    {"Array", sizeof(RobocacheLiveArray)},
                                    {"Key", sizeof(RobocacheLiveKey)},
                                    {"Ticket", sizeof(RobocacheLiveTicket)},
                                    {"Stats", sizeof(RobocacheLiveStats)}});
  return layout.c_str();
}

/// Builds an aligner. `text`: a policy spec, which errors call `name`; `rows`: one per stream of
/// the spec.
ROBOCACHE_C_API int robocache_live_open(const char* text, std::int64_t bytes, const char* name,
                                        const RobocacheLiveOptions* options,
                                        const RobocacheLiveRows* rows, LiveAligner** aligner) {
  return status_of([&] {
    robocache::PolicySpec spec =
        robocache::parse_policy_spec(std::string_view(text, static_cast<std::size_t>(bytes)), name);
    for (std::size_t i = 0; i < spec.streams.size(); ++i) {
      spec.streams[i].buffer_rows = rows[i].buffer_rows;
      spec.streams[i].ring_rows = rows[i].ring_rows;
    }
    robocache::LiveOptions live;
    live.robots = options->robots;
    live.query_every_ns = options->query_every_ns;
    live.max_future_ns = options->max_future_ns;
    live.kept_queries = options->kept_queries;
    live.cuda_slots = static_cast<int>(options->cuda_slots);
    live.encode_images = options->encode_images != 0;
    *aligner = new LiveAligner(spec, live);
  });
}

ROBOCACHE_C_API void robocache_live_close(LiveAligner* aligner) { delete aligner; }

/// The capacities for the rows of the spec's stream `stream`.
ROBOCACHE_C_API void robocache_live_rows(const LiveAligner* aligner, std::int64_t stream,
                                         RobocacheLiveRows* rows) {
  const robocache::LiveStream& of_stream = aligner->streams()[static_cast<std::size_t>(stream)];
  *rows = {of_stream.buffer_rows, of_stream.ring_rows};
}

ROBOCACHE_C_API std::int64_t robocache_live_output_count(const LiveAligner* aligner) {
  return static_cast<std::int64_t>(aligner->outputs().size());
}

ROBOCACHE_C_API std::int64_t robocache_live_output_bytes(const LiveAligner* aligner) {
  return static_cast<std::int64_t>(aligner->output_bytes());
}

ROBOCACHE_C_API void robocache_live_output(const LiveAligner* aligner, std::int64_t index,
                                           RobocacheLiveArray* array) {
  const robocache::LiveArray& of_index = aligner->outputs()[static_cast<std::size_t>(index)];
  *array = {of_index.key.c_str(), static_cast<std::int64_t>(of_index.dtype),
            static_cast<std::int64_t>(of_index.shape.size()), of_index.shape.data(),
            of_index.offset};
}

ROBOCACHE_C_API std::int64_t robocache_live_key_count(const LiveAligner* aligner) {
  return static_cast<std::int64_t>(aligner->keys().size());
}

ROBOCACHE_C_API void robocache_live_key(const LiveAligner* aligner, std::int64_t index,
                                        RobocacheLiveKey* key) {
  const robocache::LiveKey& of_index = aligner->keys()[static_cast<std::size_t>(index)];
  *key = {of_index.name.c_str(), static_cast<std::int64_t>(of_index.shape.size()),
          static_cast<std::int64_t>(of_index.aligned.size()), of_index.shape.data(),
          of_index.aligned.data()};
}

ROBOCACHE_C_API std::int32_t robocache_live_push(LiveAligner* aligner, std::int64_t stream,
                                                 std::int64_t time_ns, const void* values,
                                                 std::int64_t bytes, std::int64_t robot,
                                                 std::int32_t is_valid) {
  return number_of(aligner->push(stream, time_ns, values, static_cast<std::size_t>(bytes), robot,
                                 is_valid != 0));
}

/// Pushes an image as a JPEG file of `size` bytes.
ROBOCACHE_C_API std::int32_t robocache_live_push_jpeg(LiveAligner* aligner, std::int64_t stream,
                                                      std::int64_t time_ns, const void* bytes,
                                                      std::int64_t size, std::int64_t robot,
                                                      std::int32_t is_valid) {
  return number_of(aligner->push_jpeg(stream, time_ns, bytes, static_cast<std::size_t>(size), robot,
                                      is_valid != 0));
}

/// Writes the index in a message of each of the stream's channels to `indices`, by the names of the
/// message's `count` elements.
ROBOCACHE_C_API int robocache_live_channel_order(const LiveAligner* aligner, std::int64_t stream,
                                                 const char* const* names, std::int64_t count,
                                                 std::int64_t* indices) {
  return status_of([&] {
    const robocache::ChannelOrder order = aligner->channel_order(stream, {names, names + count});
    std::copy(order.indices().begin(), order.indices().end(), indices);
  });
}

/// Pushes `count` contiguous rows of `bytes` bytes each. `robots`: the robot of each row, or null:
/// all rows belong to `robot`. `valid`: the mask of the rows, or null: all are valid. Stops at the
/// first row that is refused, and returns its status.
ROBOCACHE_C_API std::int32_t robocache_live_push_many(
    LiveAligner* aligner, std::int64_t stream, std::int64_t count, const std::int64_t* times_ns,
    const void* values, std::int64_t bytes, std::int64_t robot, const std::int64_t* robots,
    const bool* valid) {
  const auto* row = static_cast<const std::byte*>(values);
  for (std::int64_t i = 0; i < count; ++i, row += bytes) {
    const robocache::LiveStatus status =
        aligner->push(stream, times_ns[i], row, static_cast<std::size_t>(bytes),
                      robots == nullptr ? robot : robots[i], valid == nullptr || valid[i]);
    if (status != robocache::LiveStatus::kOk) return number_of(status);
  }
  return number_of(robocache::LiveStatus::kOk);
}

/// Whether every stream of a robot has a row. `robot`: -1 for all robots.
ROBOCACHE_C_API std::int32_t robocache_live_ready(const LiveAligner* aligner, std::int64_t robot) {
  return (robot < 0 ? aligner->ready() : aligner->ready(robot)) ? 1 : 0;
}

/// Selects keys of the batches by their names. The client that makes a selection must close it.
ROBOCACHE_C_API int robocache_live_select(const LiveAligner* aligner, const char* const* keys,
                                          std::int64_t count, LiveSelection** selection) {
  return status_of([&] {
    *selection = new LiveSelection(aligner->select(std::vector<std::string>(keys, keys + count)));
  });
}

ROBOCACHE_C_API void robocache_live_close_selection(LiveSelection* selection) { delete selection; }

/// Queries all robots. `stream`: -1, or the stream whose newest row is now; else `times_ns`,
/// [robots], or if that is null `time_ns`. `selection`: null for all keys.
ROBOCACHE_C_API std::int32_t robocache_live_query(LiveAligner* aligner, std::int64_t stream,
                                                  const std::int64_t* times_ns,
                                                  std::int64_t time_ns, void* out,
                                                  const LiveSelection* selection,
                                                  RobocacheLiveTicket* ticket) {
  const LiveNow now = now_of(stream, times_ns, time_ns);
  return take_ticket(
      selection == nullptr ? aligner->query(now, out) : aligner->query(now, out, *selection),
      ticket);
}

ROBOCACHE_C_API std::int32_t robocache_live_query_on_cuda(LiveAligner* aligner, std::int64_t stream,
                                                          const std::int64_t* times_ns,
                                                          std::int64_t time_ns, void* device_out,
                                                          void* cuda_stream,
                                                          const LiveSelection* selection,
                                                          RobocacheLiveTicket* ticket) {
  const LiveNow now = now_of(stream, times_ns, time_ns);
  auto* const to = static_cast<CUstream_st*>(cuda_stream);
  return take_ticket(selection == nullptr ? aligner->query_on_cuda(now, device_out, to)
                                          : aligner->query_on_cuda(now, device_out, to, *selection),
                     ticket);
}

ROBOCACHE_C_API std::int32_t robocache_live_wait_on_cuda(LiveAligner* aligner) {
  return number_of(aligner->wait_on_cuda());
}

/// The status of a stream in a robot's last query.
ROBOCACHE_C_API std::int32_t robocache_live_status(const LiveAligner* aligner, std::int64_t stream,
                                                   std::int64_t robot) {
  return number_of(aligner->status(stream, robot));
}

ROBOCACHE_C_API std::int64_t robocache_live_now(const LiveAligner* aligner, std::int64_t robot) {
  return aligner->now_ns(robot);
}

/// Inverts the transforms of a key. `sequence`: of the ticket; 0 for none. `values`:
/// [robots,rows,shape...], `out`: [robots,rows,aligned...], float64 or else float32.
ROBOCACHE_C_API std::int32_t robocache_live_undo(LiveAligner* aligner, std::int64_t sequence,
                                                 std::int64_t number, const void* values,
                                                 std::int64_t rows, void* out,
                                                 std::int32_t is_float64) {
  const robocache::LiveTicket ticket{sequence, 0};
  const robocache::LiveKey& key = aligner->keys()[static_cast<std::size_t>(number)];
  if (is_float64 != 0) {
    return number_of(aligner->undo(ticket, key, static_cast<const double*>(values), rows,
                                   static_cast<double*>(out)));
  }
  return number_of(aligner->undo(ticket, key, static_cast<const float*>(values), rows,
                                 static_cast<float*>(out)));
}

/// Drops all rows of a robot. `robot`: -1 for all robots.
ROBOCACHE_C_API void robocache_live_reset(LiveAligner* aligner, std::int64_t robot) {
  if (robot < 0) {
    aligner->reset();
  } else {
    static_cast<void>(aligner->reset(robot));  // the client validates the index
  }
}

ROBOCACHE_C_API void robocache_live_stats(const LiveAligner* aligner, std::int64_t stream,
                                          std::int64_t robot, RobocacheLiveStats* stats) {
  const robocache::LiveStats of = aligner->stats(stream, robot);
  *stats = {of.pushed,    of.overwritten, of.refused,  of.taken,     of.clock_back,
            of.late,      of.too_late,    of.repeated, of.early,     of.future,
            of.outdated,  of.forgotten,   of.held,     of.newest_ns, of.short_windows,
            of.period_ns, of.wrong_rate};
}
}
