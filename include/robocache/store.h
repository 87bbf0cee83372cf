// The episode store: a folder of recordings, memory-mapped for reading, in which each stream has
// its timestamps. docs/store.md specifies the format.
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

/// Whether a stream is indexed by time or by row. Streams by row come from recordings without
/// timestamps; their times are computed from their rate.
enum class Timeline : std::uint8_t { kTime, kRows };

/// The encoding of a ragged row.
enum class Encoding : std::uint8_t {
  kNone,  // items of the stream's type
  kJpeg,  // a JPEG file: baseline, 8 bits
};

/// The frames of a JPEG stream that a conversion encoded; others are files of the recording.
struct EncodedFrames {
  std::int64_t frames = 0;              // their number
  std::optional<std::int64_t> quality;  // 1 to 100; absent if they differ
  std::optional<std::string> chroma;    // "4:2:0", "4:4:4" or "gray"; absent if they differ
  std::int64_t measured = 0;            // frames that were compared with the pixels encoded
  std::optional<double> psnr;           // of these together, in dB; absent without a difference
  std::optional<double> lowest_psnr;    // of the frame with the largest difference
};

/// The description of a stream in a store.
struct StreamInfo {
  std::string name;
  DataType dtype = DataType::kFloat32;
  std::vector<std::int64_t> shape;  // of one row: empty for a number, [H,W,C] for an image; of one
                                    // item of a ragged row
  bool is_ragged = false;           // rows have different numbers of items: a row is [n, shape...]
  Encoding encoding = Encoding::kNone;
  std::vector<std::int64_t> decoded_shape;  // of an encoded row: [H,W,C]
  std::int64_t mcus_per_entry = 0;          // of the index of JPEG frames: robocache/jpeg.h
  std::optional<EncodedFrames> encoded;     // absent if all frames are files of the recording
  Method method = Method::kLinear;          // how alignment combines rows by default
  std::vector<Run> layout;  // runs in place of `method`; their sum is the row's elements
  std::optional<std::string> units;
  std::vector<std::string> channels;  // channel names, one for each element of a row, or empty
  std::optional<double> rate;         // nominal, in Hz
  Timeline timeline = Timeline::kTime;
  std::optional<std::string> source;  // where the recording has the stream, in words
};

/// Views of rows of one stream in the mapped file: contiguous, in order of their times.
///
/// The rows of a ragged stream have different numbers of items, which follow each other in `values`
/// (row i has the items row_offsets[i] - row_offsets[0] up to row_offsets[i+1] - row_offsets[0]):
///
///     row_offsets   7         9             14   14          the shard's: the first may be above 0
///     values        | row 0   | row 1       |    | row 3 ...  (row 2 has no items)
struct StreamRows {
  ConstTensorView values;       // [N, the row's shape...]; [items, shape...] of a ragged stream
  ConstTensorView times;        // [N] int64 ns
  ConstTensorView received;     // when each row arrived: [N] int64 ns; absent where not recorded
  ConstTensorView valid;        // which rows are real: [N] bool; absent where all are
  ConstTensorView row_offsets;  // [N+1] int64; absent unless the stream is ragged
  // The index of JPEG frames (robocache/jpeg.h), absent in other streams. Frame i has the entries
  // entry_offsets[i] - entry_offsets[0] up to entry_offsets[i+1] - entry_offsets[0]; none if the
  // frame has no index.
  ConstTensorView entries;        // [K] uint64
  ConstTensorView entry_offsets;  // [N+1] int64
  ConstTensorView scan_bits;      // [N] uint32
};

/// All rows of one stream in a shard.
struct ShardStream {
  StreamRows rows;          // the rows of all episodes, concatenated; N is 0 without the stream
  ConstTensorView offsets;  // [E+1] int64: episode e has rows offsets[e] to offsets[e+1]; absent
                            // where the shard has no rows of the stream
};

/// A file of whole episodes, mapped into memory.
struct ShardView {
  std::string file;                // its name in the folder
  const void* data = nullptr;      // the whole file
  std::int64_t bytes = 0;          // its size
  std::int64_t first_episode = 0;  // the index in the store of its first episode
  std::int64_t episodes = 0;       // E
};

/// The metadata of an episode.
struct EpisodeInfo {
  std::int64_t start_ns = 0;          // the earliest time of any stream
  std::int64_t end_ns = 0;            // the latest
  std::int64_t length = 0;            // rows of the longest stream
  std::int64_t task = -1;             // an index into tasks(), or -1
  std::vector<std::int64_t> subsets;  // indices into subsets()
  std::string_view source;            // the original recording; valid as long as the store lives
  std::int64_t shard = 0;             // the shard that contains the episode
  std::int64_t index_in_shard = 0;
};

/// An episode store, opened for reading.
///
/// The object is a snapshot: it shows the manifest that the constructor read, also while a writer
/// appends. Copies are cheap and share the files' maps, which live as long as any copy. Threads may
/// call all functions concurrently. Do not truncate a mapped shard (the library never does):
/// reading past its end raises SIGBUS.
class ROBOCACHE_API EpisodeStore {
 public:
  /// Opens the store in a folder.
  ///
  /// Validates the whole manifest, and the size and header of every shard. Each access validates
  /// the data that it reads, which keeps opening fast.
  ///
  /// Throws StoreError, which names the file.
  explicit EpisodeStore(const std::string& path);

  /// The folder, as passed to the constructor.
  const std::string& path() const;

  /// The JSON text of the manifest that the constructor read.
  const std::string& manifest() const;

  const std::vector<StreamInfo>& streams() const;
  const std::vector<std::string>& tasks() const;
  const std::vector<std::string>& subsets() const;

  /// The index of the stream with this name; nullopt if the store has no such stream.
  std::optional<std::int64_t> find_stream(std::string_view name) const;

  /// The number of episodes, and of shards.
  std::int64_t episodes() const;
  std::int64_t shards() const;

  /// The number of rows of a stream in all episodes.
  std::int64_t rows(std::int64_t stream) const;

  /// The metadata of an episode. Throws ValueError for an index out of range and StoreError where
  /// the shard's arrays contradict each other or the manifest.
  EpisodeInfo episode(std::int64_t episode) const;

  /// The shard that contains an episode. Throws ValueError for an index out of range.
  std::int64_t shard_of(std::int64_t episode) const;

  /// Writes metadata of all episodes as columns. Each argument is an array of `episodes()`
  /// elements, or null to skip that column. Throws StoreError as `episode` does.
  void episode_columns(std::int64_t* lengths, std::int64_t* starts_ns, std::int64_t* ends_ns,
                       std::int64_t* tasks) const;

  /// An episode's rows of a stream, possibly none; the offsets of ragged rows are valid. Throws as
  /// `episode` does.
  StreamRows rows(std::int64_t episode, std::int64_t stream) const;

  /// The map of a shard, and its rows of a stream: for callers that copy whole shards. They check
  /// the number of the offsets only; `check_offsets` checks their values. Both throw ValueError for
  /// an index out of range.
  ShardView shard(std::int64_t shard) const;
  ShardStream shard_stream(std::int64_t shard, std::int64_t stream) const;

  /// Checks that a shard's offsets of a stream begin at 0, do not descend and end at N, and that
  /// those of ragged rows end at the number of items. Throws StoreError, and ValueError for an
  /// index out of range.
  void check_offsets(std::int64_t shard, std::int64_t stream) const;

  /// Reads every byte of a shard's file again and compares its checksum with the manifest's; then
  /// checks everything that the constructor skips: offsets, the order of times, that flags are 0 or
  /// 1, and the episodes' metadata. Throws as `check_offsets` does.
  void verify_shard(std::int64_t shard) const;

  /// Compares the checksum of the statistics file, if there is one, with the manifest's. A file
  /// that a writer has replaced since is not an error.
  void verify_statistics() const;

 private:
  struct Contents;
  std::shared_ptr<const Contents> contents_;
};

}  // namespace robocache
