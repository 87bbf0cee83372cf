// The parsed and validated manifest of a store. docs/store.md describes the file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "robocache/store.h"
#include "robocache/tensor_view.h"

namespace robocache::store {

inline constexpr char kManifestFile[] = "manifest.json";
// Enough for a store with millions of tasks; a larger manifest is refused.
inline constexpr std::int64_t kMaxManifestBytes = std::int64_t{256} << 20;

/// A file that the manifest names.
struct FileEntry {
  std::string file;
  std::int64_t bytes = 0;
  std::uint32_t crc32 = 0;  // of the whole file
};

struct ShardEntry : FileEntry {
  std::uint32_t header_crc32 = 0;  // of the header and the 8 bytes of its length
  std::int64_t episodes = 0;
  // Maps the shard's numbers of tasks and subsets to the manifest's tables.
  std::vector<std::int64_t> tasks;
  std::vector<std::int64_t> subsets;
};

struct Manifest {
  std::vector<StreamInfo> streams;
  std::vector<std::string> tasks;
  std::vector<std::string> subsets;
  std::vector<ShardEntry> shards;
  std::optional<FileEntry> statistics;
};

/// Checks the checksum at the end of a manifest's text. Throws StoreError; `path` is for messages.
void check_manifest_checksum(std::string_view text, const std::string& path);

/// Parses the text of a manifest without checking its checksum. Throws StoreError.
Manifest parse_manifest(std::string_view text, const std::string& path);

}  // namespace robocache::store
