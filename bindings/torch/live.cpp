// The LiveAligner as a flat C API, which python/robocache/live/library.py declares to ctypes.
//
// What builds an aligner returns a Status; robocache_error() has the message. Everything else
// that can fail returns a LiveStatus's number. On CUDA the caller makes the device current and
// gives the stream. Whoever opens an aligner closes it.
#include "robocache/live.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "c_api.h"
#include "robocache/policy_spec.h"

using robocache::LiveAligner;
using robocache::LiveNow;
using robocache::c_api::status_of;

// The structures are as ctypes lays them out.
extern "C" {

/// How much room there is for a stream's rows; 0: as the aligner reckons.
struct RobocacheLiveRows {
  std::int64_t buffer_rows, ring_rows;
};

struct RobocacheLiveOptions {
  std::int64_t robots;
  std::int64_t max_future_ns;
  std::int64_t cuda_slots;
};

/// Lives as long as the aligner.
struct RobocacheLiveArray {
  const char* key;
  std::int64_t dtype;  // DataType's number
  std::int64_t rank;
  const std::int64_t* shape;
  std::int64_t offset;
};

/// Lives as long as the aligner: the shapes of a row as batches have it, and as undo gives it.
struct RobocacheLiveKey {
  const char* name;
  std::int64_t rank, aligned_rank;
  const std::int64_t *shape, *aligned;
};

/// robocache::LiveStats.
struct RobocacheLiveStats {
  std::int64_t pushed, dropped_full, refused, taken, clock_back, late, too_late, repeated, early,
      future, outdated, forgotten, held, newest_ns, short_windows;
};

}  // extern "C"

namespace {

std::int32_t number_of(robocache::LiveStatus status) { return static_cast<std::int32_t>(status); }

/// Of a query's three ways to say when: at the newest row of a stream, at a time for each robot, at
/// one for all.
LiveNow now_of(std::int64_t stream, const std::int64_t* times_ns, std::int64_t time_ns) {
  if (stream >= 0) return LiveNow::newest_of(stream);
  return times_ns != nullptr ? LiveNow::each(times_ns) : LiveNow::at(time_ns);
}

}  // namespace

extern "C" {

/// The sizes of the structures above in bytes, which the client compares with its own.
ROBOCACHE_C_API const char* robocache_live_layout() {
  static const std::string layout =
      "{\"Rows\": " + std::to_string(sizeof(RobocacheLiveRows)) +
      ", \"Options\": " + std::to_string(sizeof(RobocacheLiveOptions)) +
      ", \"Array\": " + std::to_string(sizeof(RobocacheLiveArray)) +
      ", \"Key\": " + std::to_string(sizeof(RobocacheLiveKey)) +
      ", \"Stats\": " + std::to_string(sizeof(RobocacheLiveStats)) + "}";
  return layout.c_str();
}

/// `text`: a policy spec, which errors call `name`; `rows`: for each of its streams.
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
    live.max_future_ns = options->max_future_ns;
    live.cuda_slots = static_cast<int>(options->cuda_slots);
    *aligner = new LiveAligner(spec, live);
  });
}

ROBOCACHE_C_API void robocache_live_close(LiveAligner* aligner) { delete aligner; }

/// How many rows there is room for: those of the spec's stream of this number.
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

/// `count` rows of `bytes` each, one after the other. `robots`: of each which, or null: all of
/// `robot`. `valid`: which are real, or null: all. Rows that there is no room for are dropped;
/// returns how many there was room for.
ROBOCACHE_C_API std::int64_t robocache_live_push_many(
    LiveAligner* aligner, std::int64_t stream, std::int64_t count, const std::int64_t* times_ns,
    const void* values, std::int64_t bytes, std::int64_t robot, const std::int64_t* robots,
    const bool* valid) {
  const auto* row = static_cast<const std::byte*>(values);
  std::int64_t taken = 0;
  for (std::int64_t i = 0; i < count; ++i, row += bytes) {
    const robocache::LiveStatus status =
        aligner->push(stream, times_ns[i], row, static_cast<std::size_t>(bytes),
                      robots == nullptr ? robot : robots[i], valid == nullptr || valid[i]);
    taken += status == robocache::LiveStatus::kOk ? 1 : 0;
  }
  return taken;
}

/// `stream`: -1, or that whose newest row is now; else `times_ns` [robots], or if null `time_ns`.
ROBOCACHE_C_API std::int32_t robocache_live_query(LiveAligner* aligner, std::int64_t stream,
                                                  const std::int64_t* times_ns,
                                                  std::int64_t time_ns, void* out) {
  return number_of(aligner->query(now_of(stream, times_ns, time_ns), out));
}

ROBOCACHE_C_API std::int32_t robocache_live_query_on_cuda(LiveAligner* aligner, std::int64_t stream,
                                                          const std::int64_t* times_ns,
                                                          std::int64_t time_ns, void* device_out,
                                                          void* cuda_stream) {
  return number_of(aligner->query_on_cuda(now_of(stream, times_ns, time_ns), device_out,
                                          static_cast<CUstream_st*>(cuda_stream)));
}

ROBOCACHE_C_API std::int32_t robocache_live_wait_on_cuda(LiveAligner* aligner) {
  return number_of(aligner->wait_on_cuda());
}

ROBOCACHE_C_API std::int64_t robocache_live_now(const LiveAligner* aligner, std::int64_t robot) {
  return aligner->now_ns(robot);
}

/// `values`: [robots,rows,shape...], `out`: [robots,rows,aligned...], of float64, or else float32.
ROBOCACHE_C_API std::int32_t robocache_live_undo(LiveAligner* aligner, std::int64_t number,
                                                 const void* values, std::int64_t rows, void* out,
                                                 std::int32_t is_float64) {
  const robocache::LiveKey& key = aligner->keys()[static_cast<std::size_t>(number)];
  if (is_float64 != 0) {
    return number_of(
        aligner->undo(key, static_cast<const double*>(values), rows, static_cast<double*>(out)));
  }
  return number_of(
      aligner->undo(key, static_cast<const float*>(values), rows, static_cast<float*>(out)));
}

/// `robot`: -1 for all of them.
ROBOCACHE_C_API void robocache_live_reset(LiveAligner* aligner, std::int64_t robot) {
  if (robot < 0) {
    aligner->reset();
  } else {
    aligner->reset(robot);
  }
}

ROBOCACHE_C_API void robocache_live_stats(const LiveAligner* aligner, std::int64_t stream,
                                          std::int64_t robot, RobocacheLiveStats* stats) {
  const robocache::LiveStats of = aligner->stats(stream, robot);
  *stats = {of.pushed,   of.dropped_full, of.refused,  of.taken,     of.clock_back,
            of.late,     of.too_late,     of.repeated, of.early,     of.future,
            of.outdated, of.forgotten,    of.held,     of.newest_ns, of.short_windows};
}
}
