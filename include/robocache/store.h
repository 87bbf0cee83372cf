// The episode store: a folder of recordings, each stream with its own times, read by memory map.
// What the folder holds is in docs/store.md.
//
// Shapes: E episodes of a shard, N rows of one stream.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "robocache/align.h"
#include "robocache/error.h"
#include "robocache/export.h"
#include "robocache/tensor_view.h"

namespace robocache {

/// Whether a stream's times were recorded, or made from its rate where the recording has none.
enum class Timeline : std::uint8_t { kTime, kRows };

/// What a store says of one of its streams.
struct StreamInfo {
  std::string name;
  DataType dtype = DataType::kFloat32;
  std::vector<std::int64_t> shape;  // of one row: empty for a number, [H,W,C] for an image
  Method method = Method::kLinear;  // how alignment combines rows by default
  std::vector<Run> layout;          // in place of `method` where channels differ; sums to them all
  std::optional<std::string> units;
  std::vector<std::string> channels;  // their names, one for each element of a row, or empty
  std::optional<double> rate;         // nominal, in Hz
  Timeline timeline = Timeline::kTime;
  std::optional<std::string> source;  // where the recording has it, in words
};

/// Rows of one stream, in place in the mapped file: contiguous, in order of their times.
struct StreamRows {
  ConstTensorView values;    // [N, the row's shape...]
  ConstTensorView times;     // [N] int64 ns
  ConstTensorView received;  // when each row arrived: [N] int64 ns; absent where not recorded
  ConstTensorView valid;     // which rows are real: [N] bool; absent where all are
};

/// Everything that a shard has of one stream.
struct ShardStream {
  StreamRows rows;          // of all its episodes, one after the other; N is 0 without the stream
  ConstTensorView offsets;  // [E+1] int64: episode e has rows offsets[e] to offsets[e+1]; absent
                            // where the shard has no rows of the stream
};

/// A file of whole episodes, mapped into memory.
struct ShardView {
  std::string file;                // its name in the folder
  const void* data = nullptr;      // the whole file
  std::int64_t bytes = 0;          // its size
  std::int64_t first_episode = 0;  // the index in the store of its first
  std::int64_t episodes = 0;       // E
};

/// What a store says of one episode.
struct EpisodeInfo {
  std::int64_t start_ns = 0;          // the earliest time of any stream
  std::int64_t end_ns = 0;            // the latest
  std::int64_t length = 0;            // rows of the longest stream
  std::int64_t task = -1;             // an index into tasks(), or -1
  std::vector<std::int64_t> subsets;  // indices into subsets()
  std::string_view source;            // the recording that it is from; lives as long as the store
  std::int64_t shard = 0;             // where it is
  std::int64_t index_in_shard = 0;
};

/// An episode store, opened for reading.
///
/// What the constructor finds stays as it is while others append: it is the store of one manifest.
/// Copies are cheap and share the files' maps, which live as long as any of them. All functions may
/// be called by many threads at once. A shard must not be cut short under its map (nothing here
/// does): reading past its end raises SIGBUS.
class ROBOCACHE_API EpisodeStore {
 public:
  /// Opens the store in a folder.
  ///
  /// Checks the manifest whole, and size and header of every shard; of the data only what is
  /// accessed, then and there, which keeps opening fast.
  ///
  /// Throws StoreError, which names the file.
  explicit EpisodeStore(const std::string& path);

  /// The folder, as it was given.
  const std::string& path() const;

  /// The text of the manifest that was opened: JSON.
  const std::string& manifest() const;

  const std::vector<StreamInfo>& streams() const;
  const std::vector<std::string>& tasks() const;
  const std::vector<std::string>& subsets() const;

  /// The index of a stream; nothing where there is none of that name.
  std::optional<std::int64_t> find_stream(std::string_view name) const;

  /// How many there are.
  std::int64_t episodes() const;
  std::int64_t shards() const;

  /// Rows that a stream has in all episodes together.
  std::int64_t rows(std::int64_t stream) const;

  /// What the store says of an episode. Throws ValueError for an index out of range and StoreError
  /// where the shard's arrays contradict each other or the manifest.
  EpisodeInfo episode(std::int64_t episode) const;

  /// The shard that has an episode. Throws ValueError for an index out of range.
  std::int64_t shard_of(std::int64_t episode) const;

  /// The numbers of all episodes at once, for each an array of as many elements, or null where it
  /// is not wanted. Throws StoreError as `episode` does.
  void episode_columns(std::int64_t* lengths, std::int64_t* starts_ns, std::int64_t* ends_ns,
                       std::int64_t* tasks) const;

  /// An episode's rows of a stream, possibly none. Throws as `episode` does.
  StreamRows rows(std::int64_t episode, std::int64_t stream) const;

  /// A shard as it is mapped, and all it has of a stream: to copy it elsewhere whole. Of the
  /// offsets only the number is checked here; `check_offsets` looks at them. Throw ValueError for
  /// an index out of range.
  ShardView shard(std::int64_t shard) const;
  ShardStream shard_stream(std::int64_t shard, std::int64_t stream) const;

  /// Checks that a shard's offsets of a stream begin at 0, do not descend and end at N. Throws
  /// StoreError, and ValueError for an index out of range.
  void check_offsets(std::int64_t shard, std::int64_t stream) const;

  /// Reads every byte of a shard's file again, and compares with the manifest's checksum; then
  /// checks all that opening leaves out: offsets, the order of times, flags that are 0 or 1,
  /// metadata of the episodes. Throws as `check_offsets` does.
  void verify_shard(std::int64_t shard) const;

  /// Compares the statistics' file with its checksum, if there is one. A file that a writer has
  /// replaced since is no error.
  void verify_statistics() const;

 private:
  struct Contents;
  std::shared_ptr<const Contents> contents_;
};

}  // namespace robocache
