// The episode store as a flat C API, which python/robocache/store/library.py declares to ctypes.
//
// A function that can fail returns a Status; robocache_store_error() has the message. The client
// that opens a store must close it, after all views of its data are released.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "c_api.h"
#include "robocache/store.h"
#include "store/crc32.h"
#include "store/statistics.h"

using robocache::EpisodeStore;
using robocache::c_api::error_message;
using robocache::c_api::status_of;

// The client declares structures of the same layout to ctypes.
extern "C" {

struct RobocacheShard {
  const void* data;  // the mapped file
  std::int64_t bytes;
  std::int64_t first_episode;
  std::int64_t episodes;
};

struct RobocacheEpisode {
  std::int64_t start_ns;
  std::int64_t end_ns;
  std::int64_t length;
  std::int64_t task;  // -1: none
  const char* source;
  std::int64_t source_bytes;
  std::int64_t subset_count;
  std::int64_t subsets[64];
};

/// Locations of rows: offsets in a shard's file in bytes, -1 for absent arrays.
struct RobocacheRows {
  std::int64_t shard;
  std::int64_t rows;
  std::int64_t values;
  std::int64_t items;  // the first size of `values`: `rows`, unless the stream is ragged
  std::int64_t times;
  std::int64_t received;
  std::int64_t valid;
  std::int64_t row_offsets;
  std::int64_t entries;
  std::int64_t entry_count;
  std::int64_t entry_offsets;
  std::int64_t scan_bits;
};

}  // extern "C"

namespace {

RobocacheRows place_of(const EpisodeStore& store, std::int64_t shard,
                       const robocache::StreamRows& rows) {
  const auto* file = static_cast<const std::byte*>(store.shard(shard).data);
  const auto offset = [&](const robocache::ConstTensorView& view) -> std::int64_t {
    return view.data == nullptr ? -1 : static_cast<const std::byte*>(view.data) - file;
  };
  return {shard,
          rows.times.shape[0],
          offset(rows.values),
          rows.values.shape[0],
          offset(rows.times),
          offset(rows.received),
          offset(rows.valid),
          offset(rows.row_offsets),
          offset(rows.entries),
          rows.entries.present() ? rows.entries.shape[0] : 0,
          offset(rows.entry_offsets),
          offset(rows.scan_bits)};
}

}  // namespace

extern "C" {

/// The message of this thread's last failure.
ROBOCACHE_C_API const char* robocache_store_error() { return error_message.c_str(); }

/// The sizes of the structures above in bytes, which the client compares with its own.
ROBOCACHE_C_API const char* robocache_store_layout() {
  static const std::string layout =
      robocache::c_api::sizes_json({{"Shard", sizeof(RobocacheShard)},
                                    {"Episode", sizeof(RobocacheEpisode)},
                                    {"Rows", sizeof(RobocacheRows)}});
  return layout.c_str();
}

ROBOCACHE_C_API int robocache_store_open(const char* path, EpisodeStore** store) {
  return status_of([&] { *store = new EpisodeStore(path); });
}

ROBOCACHE_C_API void robocache_store_close(EpisodeStore* store) { delete store; }

/// The manifest's text; it lives as long as the store.
ROBOCACHE_C_API const char* robocache_store_manifest(const EpisodeStore* store,
                                                     std::int64_t* bytes) {
  *bytes = static_cast<std::int64_t>(store->manifest().size());
  return store->manifest().data();
}

ROBOCACHE_C_API std::int64_t robocache_store_episodes(const EpisodeStore* store) {
  return store->episodes();
}

ROBOCACHE_C_API int robocache_store_shard(const EpisodeStore* store, std::int64_t shard,
                                          RobocacheShard* out) {
  return status_of([&] {
    const robocache::ShardView view = store->shard(shard);
    *out = {view.data, view.bytes, view.first_episode, view.episodes};
  });
}

/// The number of a stream's rows in all episodes.
ROBOCACHE_C_API int robocache_store_stream_rows(const EpisodeStore* store, std::int64_t stream,
                                                std::int64_t* rows) {
  return status_of([&] { *rows = store->rows(stream); });
}

ROBOCACHE_C_API int robocache_store_episode(const EpisodeStore* store, std::int64_t episode,
                                            RobocacheEpisode* out) {
  return status_of([&] {
    const robocache::EpisodeInfo info = store->episode(episode);
    *out = {info.start_ns,
            info.end_ns,
            info.length,
            info.task,
            info.source.data(),
            static_cast<std::int64_t>(info.source.size()),
            static_cast<std::int64_t>(info.subsets.size()),
            {}};
    std::copy(info.subsets.begin(), info.subsets.end(), out->subsets);
  });
}

/// Arrays with one element per episode, or null.
ROBOCACHE_C_API int robocache_store_columns(const EpisodeStore* store, std::int64_t* lengths,
                                            std::int64_t* starts_ns, std::int64_t* ends_ns,
                                            std::int64_t* tasks) {
  return status_of([&] { store->episode_columns(lengths, starts_ns, ends_ns, tasks); });
}

/// The location of an episode's rows of a stream.
ROBOCACHE_C_API int robocache_store_rows(const EpisodeStore* store, std::int64_t episode,
                                         std::int64_t stream, RobocacheRows* out) {
  return status_of([&] {
    const robocache::StreamRows rows = store->rows(episode, stream);
    *out = place_of(*store, store->shard_of(episode), rows);
  });
}

/// The location of all rows of a stream in a shard.
ROBOCACHE_C_API int robocache_store_shard_rows(const EpisodeStore* store, std::int64_t shard,
                                               std::int64_t stream, RobocacheRows* out) {
  return status_of(
      [&] { *out = place_of(*store, shard, store->shard_stream(shard, stream).rows); });
}

ROBOCACHE_C_API int robocache_store_verify_shard(const EpisodeStore* store, std::int64_t shard) {
  return status_of([&] { store->verify_shard(shard); });
}

ROBOCACHE_C_API int robocache_store_verify_statistics(const EpisodeStore* store) {
  return status_of([&] { store->verify_statistics(); });
}

/// The CRC-32 of `size` bytes that follow data with the checksum `before`, 0 for none.
ROBOCACHE_C_API std::uint32_t robocache_store_crc32(const void* data, std::int64_t size,
                                                    std::uint32_t before) {
  return robocache::store::crc32(data, static_cast<std::size_t>(size), before);
}

/// Adds `count` rows of `channels` bytes to a histogram [channels, 256].
ROBOCACHE_C_API void robocache_store_count_bytes(const std::uint8_t* rows, std::int64_t count,
                                                 std::int64_t channels, std::int64_t* histogram) {
  robocache::store::count_bytes(rows, count, channels, histogram);
}

/// The moments of the finite elements of each of C channels of `count` rows, 1 or more: their
/// number, mean, sum of squared differences from the mean, least and greatest, each [C].
ROBOCACHE_C_API int robocache_store_moments_f32(const float* rows, std::int64_t count,
                                                std::int64_t channels, std::int64_t* finite,
                                                double* mean, double* squares, double* lowest,
                                                double* highest) {
  return status_of([&] {
    robocache::store::compute_moments(rows, count, channels,
                                      {finite, mean, squares, lowest, highest});
  });
}

/// The moments of rows of doubles, as robocache_store_moments_f32.
ROBOCACHE_C_API int robocache_store_moments_f64(const double* rows, std::int64_t count,
                                                std::int64_t channels, std::int64_t* finite,
                                                double* mean, double* squares, double* lowest,
                                                double* highest) {
  return status_of([&] {
    robocache::store::compute_moments(rows, count, channels,
                                      {finite, mean, squares, lowest, highest});
  });
}
}
