// A shard: where each stream and each fact of its episodes is in the mapped file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "robocache/store.h"
#include "store/manifest.h"

namespace robocache::store {

/// The views below point into `file`, which outlives them.
class Shard {
 public:
  /// Checks a shard's header against its entry in the manifest; of the data it reads nothing.
  /// Throws StoreError; `path` is the file's, for messages.
  Shard(const std::byte* file, std::size_t size, const ShardEntry& entry, const Manifest& manifest,
        const std::string& path);

  std::int64_t episodes() const { return episodes_; }
  /// Rows of a stream in all the shard's episodes.
  std::int64_t rows(std::size_t stream) const { return streams_[stream].rows; }

  /// Everything that there is of a stream.
  ShardStream stream(std::size_t stream, const StreamInfo& info) const;

  /// The rows of an episode. Throws StoreError where its offsets are out of bounds.
  StreamRows episode_rows(std::int64_t episode, std::size_t stream, const StreamInfo& info,
                          const std::string& path) const;

  /// What the shard says of an episode; `task` and `subsets` are already the manifest's. Throws
  /// StoreError where that can't be. `numbers` leaves out subsets and source, and is quick.
  EpisodeInfo numbers(std::int64_t episode, const ShardEntry& entry, const std::string& path) const;
  EpisodeInfo episode(std::int64_t episode, const ShardEntry& entry, const std::string& path) const;

  /// Throws StoreError unless the offsets of a stream begin at 0, do not descend and end at N.
  void check_offsets(std::size_t stream, const StreamInfo& info, const std::string& path) const;

  /// Checks every episode and every row, as EpisodeStore::verify_shard says.
  void check_data(const ShardEntry& entry, const Manifest& manifest, const std::string& path) const;

 private:
  // A store may have a hundred thousand of these: addresses alone, of which views are made.
  struct StreamPlace {
    const std::byte* values = nullptr;
    const std::int64_t* times = nullptr;
    const std::int64_t* offsets = nullptr;   // null where the shard has no such stream
    const std::int64_t* received = nullptr;  // or null
    const std::byte* valid = nullptr;        // or null
    std::int64_t rows = 0;
  };

  StreamRows rows_between(const StreamPlace& place, const StreamInfo& info, std::int64_t begin,
                          std::int64_t end) const;

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
