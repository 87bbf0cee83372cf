// Small episode stores made by hand, for tests and as seeds of the fuzzers: what docs/store.md
// says, written a second time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace robocache::testing {

/// A tensor of a safetensors file.
struct FileTensor {
  std::string name;
  std::string dtype;  // "F32"
  std::vector<std::int64_t> shape;
  std::string bytes;
};

/// The bytes of numbers, one after the other.
template <typename T>
std::string bytes_of(const std::vector<T>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)};
}

/// The header of a file with these tensors one after the other, padded with spaces to 8 bytes.
std::string safetensors_header(const std::vector<FileTensor>& tensors);

/// A file of the header's length, a header and data.
std::string safetensors_file(const std::string& header, const std::string& data);
std::string safetensors_file(const std::vector<FileTensor>& tensors);

/// A shard of two episodes, larger elements first. "action", F32 rows of [2]: rows 0 and 1, then
/// row 2. "flag", BOOL numbers, with `received` and `valid`: one row, of the second episode.
std::vector<FileTensor> example_shard();

/// The example with a third stream of ragged rows: "cloud", F32 points [3]. The first episode has a
/// row of two points and a row without points, the second a row of one point.
std::vector<FileTensor> ragged_shard();

/// The manifest of the example: its streams, two tasks, a subset, statistics, and shards of these
/// bytes, each with two episodes.
nlohmann::json example_manifest(const std::vector<std::string>& shards);

/// The manifest, of version 2, of shards with a ragged stream.
nlohmann::json ragged_manifest(const std::vector<std::string>& shards);

/// A manifest's text with its checksum.
std::string sealed(const nlohmann::json& manifest);

/// A folder that is removed in the end, and a store in it.
class StoreFolder {
 public:
  /// With `shards` shards, each the example's.
  explicit StoreFolder(int shards = 1);
  ~StoreFolder();
  StoreFolder(const StoreFolder&) = delete;
  StoreFolder& operator=(const StoreFolder&) = delete;

  std::string path() const { return path_.string(); }
  std::string path_of(const std::string& file) const { return (path_ / file).string(); }
  void write(const std::string& file, const std::string& bytes) const;

 private:
  std::filesystem::path path_;
};

}  // namespace robocache::testing
