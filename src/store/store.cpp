#include "robocache/store.h"

#include <algorithm>
#include <cstddef>
#include <unordered_map>
#include <utility>

#include "core/check.h"
#include "store/crc32.h"
#include "store/file.h"
#include "store/json.h"
#include "store/manifest.h"
#include "store/safetensors.h"
#include "store/shard.h"

namespace robocache {
namespace {

/// Checks an index, and converts it to std::size_t.
std::size_t checked_index(const char* name, std::int64_t index, std::size_t count) {
  if (index < 0 || index >= static_cast<std::int64_t>(count)) {
    throw_value_error(name, "an index below " + std::to_string(count), std::to_string(index));
  }
  return static_cast<std::size_t>(index);
}

}  // namespace

struct EpisodeStore::Contents {
  explicit Contents(const std::string& folder_path) : path(folder_path), folder(folder_path) {
    if (!folder.has(store::kManifestFile)) {
      store::throw_store_error(path, "the folder of an episode store",
                               std::string("one without ") + store::kManifestFile);
    }
    text = folder.read(store::kManifestFile, store::kMaxManifestBytes);
    const std::string manifest_path = folder.path_of(store::kManifestFile);
    store::check_manifest_checksum(text, manifest_path);
    manifest = store::parse_manifest(text, manifest_path);
    for (std::size_t i = 0; i < manifest.streams.size(); ++i) {
      stream_of_name.emplace(manifest.streams[i].name, static_cast<std::int64_t>(i));
    }
    for (const store::ShardEntry& entry : manifest.shards) open_shard(entry);
  }

  void open_shard(const store::ShardEntry& entry) {
    const std::string& path_of_shard = shard_paths.emplace_back(folder.path_of(entry.file));
    store::MappedFile file = folder.map(entry.file, entry.bytes);
    const std::size_t header = store::header_bytes(file.data(), file.size(), path_of_shard);
    const std::uint32_t checksum = store::crc32(file.data(), header);
    if (checksum != entry.header_crc32) {
      store::throw_store_error(
          path_of_shard + ": header",
          "crc32 " + store::checksum_text(entry.header_crc32) + ", as the manifest says",
          store::checksum_text(checksum));
    }
    shards.emplace_back(file.data(), file.size(), entry, manifest, path_of_shard);
    files.push_back(std::move(file));
    first_episode.push_back(first_episode.back() + entry.episodes);
  }

  /// The shard of an episode, and the episode's index in it.
  std::pair<std::size_t, std::int64_t> find(std::int64_t episode) const {
    checked_index("episode", episode, static_cast<std::size_t>(first_episode.back()));
    const auto next = std::upper_bound(first_episode.begin(), first_episode.end(), episode);
    const auto shard = static_cast<std::size_t>(next - first_episode.begin()) - 1;
    return {shard, episode - first_episode[shard]};
  }

  std::size_t stream_index(std::int64_t stream) const {
    return checked_index("stream", stream, manifest.streams.size());
  }
  std::size_t shard_index(std::int64_t shard) const {
    return checked_index("shard", shard, shards.size());
  }

  std::string path;
  store::Folder folder;
  std::string text;
  store::Manifest manifest;
  std::unordered_map<std::string_view, std::int64_t> stream_of_name;
  std::vector<std::string> shard_paths;  // for messages
  std::vector<store::MappedFile> files;
  std::vector<store::Shard> shards;
  std::vector<std::int64_t> first_episode = {0};  // per shard, then the number of episodes
};

EpisodeStore::EpisodeStore(const std::string& path)
    : contents_(std::make_shared<const Contents>(path)) {}

const std::string& EpisodeStore::path() const { return contents_->path; }
const std::string& EpisodeStore::manifest() const { return contents_->text; }
const std::vector<StreamInfo>& EpisodeStore::streams() const { return contents_->manifest.streams; }
const std::vector<std::string>& EpisodeStore::tasks() const { return contents_->manifest.tasks; }
const std::vector<std::string>& EpisodeStore::subsets() const {
  return contents_->manifest.subsets;
}

std::optional<std::int64_t> EpisodeStore::find_stream(std::string_view name) const {
  const auto found = contents_->stream_of_name.find(name);
  if (found == contents_->stream_of_name.end()) return std::nullopt;
  return found->second;
}

std::int64_t EpisodeStore::episodes() const { return contents_->first_episode.back(); }
std::int64_t EpisodeStore::shards() const {
  return static_cast<std::int64_t>(contents_->shards.size());
}

std::int64_t EpisodeStore::rows(std::int64_t stream) const {
  const std::size_t index = contents_->stream_index(stream);
  std::int64_t rows = 0;
  for (const store::Shard& shard : contents_->shards) rows += shard.rows(index);
  return rows;
}

EpisodeInfo EpisodeStore::episode(std::int64_t episode) const {
  const auto [shard, index] = contents_->find(episode);
  EpisodeInfo info = contents_->shards[shard].episode(index, contents_->manifest.shards[shard],
                                                      contents_->shard_paths[shard]);
  info.shard = static_cast<std::int64_t>(shard);
  return info;
}

std::int64_t EpisodeStore::shard_of(std::int64_t episode) const {
  return static_cast<std::int64_t>(contents_->find(episode).first);
}

void EpisodeStore::episode_columns(std::int64_t* lengths, std::int64_t* starts_ns,
                                   std::int64_t* ends_ns, std::int64_t* tasks) const {
  std::size_t next = 0;
  for (std::size_t i = 0; i < contents_->shards.size(); ++i) {
    const store::Shard& shard = contents_->shards[i];
    for (std::int64_t e = 0; e < shard.episodes(); ++e, ++next) {
      const EpisodeInfo info =
          shard.numbers(e, contents_->manifest.shards[i], contents_->shard_paths[i]);
      if (lengths != nullptr) lengths[next] = info.length;
      if (starts_ns != nullptr) starts_ns[next] = info.start_ns;
      if (ends_ns != nullptr) ends_ns[next] = info.end_ns;
      if (tasks != nullptr) tasks[next] = info.task;
    }
  }
}

StreamRows EpisodeStore::rows(std::int64_t episode, std::int64_t stream) const {
  const auto [shard, index] = contents_->find(episode);
  const std::size_t number = contents_->stream_index(stream);
  return contents_->shards[shard].episode_rows(index, number, contents_->manifest.streams[number],
                                               contents_->shard_paths[shard]);
}

ShardView EpisodeStore::shard(std::int64_t shard) const {
  const std::size_t index = contents_->shard_index(shard);
  const store::MappedFile& file = contents_->files[index];
  return {contents_->manifest.shards[index].file, file.data(),
          static_cast<std::int64_t>(file.size()), contents_->first_episode[index],
          contents_->shards[index].episodes()};
}

ShardStream EpisodeStore::shard_stream(std::int64_t shard, std::int64_t stream) const {
  const std::size_t number = contents_->stream_index(stream);
  return contents_->shards[contents_->shard_index(shard)].stream(
      number, contents_->manifest.streams[number]);
}

void EpisodeStore::check_offsets(std::int64_t shard, std::int64_t stream) const {
  const std::size_t index = contents_->shard_index(shard);
  const std::size_t number = contents_->stream_index(stream);
  contents_->shards[index].check_offsets(number, contents_->manifest.streams[number],
                                         contents_->shard_paths[index]);
}

void EpisodeStore::verify_shard(std::int64_t shard) const {
  const std::size_t index = contents_->shard_index(shard);
  const store::ShardEntry& entry = contents_->manifest.shards[index];
  const std::uint32_t checksum = contents_->folder.checksum(entry.file, entry.bytes);
  const std::string& path = contents_->shard_paths[index];
  if (checksum != entry.crc32) {
    store::throw_store_error(
        path, "crc32 " + store::checksum_text(entry.crc32) + ", as the manifest says",
        store::checksum_text(checksum) + ": the file was altered");
  }
  contents_->shards[index].check_data(entry, contents_->manifest, path);
}

void EpisodeStore::verify_statistics() const {
  if (!contents_->manifest.statistics) return;
  const store::FileEntry& entry = *contents_->manifest.statistics;
  // The next manifest names another file, and its writer removes this one.
  if (!contents_->folder.has(entry.file) &&
      contents_->folder.read(store::kManifestFile, store::kMaxManifestBytes) != contents_->text) {
    return;
  }
  const std::uint32_t checksum = contents_->folder.checksum(entry.file, entry.bytes);
  if (checksum != entry.crc32) {
    store::throw_store_error(
        contents_->folder.path_of(entry.file),
        "crc32 " + store::checksum_text(entry.crc32) + ", as the manifest says",
        store::checksum_text(checksum) + ": the file was altered");
  }
}

}  // namespace robocache
