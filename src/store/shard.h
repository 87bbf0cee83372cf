// A shard: the addresses of each stream and of the episodes' metadata in the mapped file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "robocache/store.h"
#include "store/manifest.h"

namespace robocache::store {

/// A validated shard. Its views point into `file`, which must outlive them.
class Shard {
 public:
  /// Checks a shard's header against its entry in the manifest, without reading the data. Throws
  /// StoreError; `path` is for messages.
  Shard(const std::byte* file, std::size_t size, const ShardEntry& entry, const Manifest& manifest,
        const std::string& path);

  std::int64_t episodes() const { return episodes_; }
  /// The number of a stream's rows in all the shard's episodes.
  std::int64_t rows(std::size_t stream) const { return streams_[stream].rows; }

  /// All arrays of a stream.
  ShardStream stream(std::size_t stream, const StreamInfo& info) const;

  /// The rows of an episode. Throws StoreError where its offsets are out of bounds.
  StreamRows episode_rows(std::int64_t episode, std::size_t stream, const StreamInfo& info,
                          const std::string& path) const;

  /// The metadata of an episode; `task` and `subsets` are numbers of the manifest's tables. Throws
  /// StoreError if they are invalid. `numbers` omits subsets and source, and is fast.
  EpisodeInfo numbers(std::int64_t episode, const ShardEntry& entry, const std::string& path) const;
  EpisodeInfo episode(std::int64_t episode, const ShardEntry& entry, const std::string& path) const;

  /// Throws StoreError unless the offsets of a stream begin at 0, do not descend and end at N, and
  /// those of ragged rows end at the number of items.
  void check_offsets(std::size_t stream, const StreamInfo& info, const std::string& path) const;

  /// Checks every episode and every row, as EpisodeStore::verify_shard documents.
  void check_data(const ShardEntry& entry, const Manifest& manifest, const std::string& path) const;

 private:
  // A store may have a hundred thousand of these: store addresses only, and build views on demand.
  struct StreamPlace {
    const std::byte* values = nullptr;
    const std::int64_t* times = nullptr;
    const std::int64_t* offsets = nullptr;      // null if the shard lacks the stream
    const std::int64_t* received = nullptr;     // or null
    const std::byte* valid = nullptr;           // or null
    const std::int64_t* row_offsets = nullptr;  // null unless the stream is ragged
    std::int64_t rows = 0;
    std::int64_t items = 0;  // the first size of `values`: `rows`, unless the stream is ragged
    // The index of JPEG frames, or null.
    const std::uint64_t* entries = nullptr;
    const std::int64_t* entry_offsets = nullptr;
    const std::uint32_t* scan_bits = nullptr;
    std::int64_t entry_count = 0;
  };

  /// The views of a range of rows, which has ranges of the items and of the index's entries.
  struct Range {
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };
  static StreamRows views_of(const StreamPlace& place, const StreamInfo& info, Range rows,
                             Range items, Range entries);

  /// Throws StoreError unless each JPEG frame has the stream's shape, and the index of its bytes.
  static void check_frames(const StreamPlace& place, const StreamInfo& info,
                           const std::string& path);

  std::vector<StreamPlace> streams_;  // in the manifest's order
  std::int64_t episodes_ = 0;
  const std::int64_t* start_ns_ = nullptr;
  const std::int64_t* end_ns_ = nullptr;
  const std::int64_t* length_ = nullptr;
  const std::int32_t* task_ = nullptr;
  const std::uint64_t* subsets_ = nullptr;
  const std::int64_t* source_offsets_ = nullptr;
  const char* source_ = nullptr;
  std::int64_t source_bytes_ = 0;
};

}  // namespace robocache::store
