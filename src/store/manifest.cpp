#include "store/manifest.h"

#include <charconv>
#include <cstddef>
#include <limits>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include "robocache/jpeg.h"
#include "store/crc32.h"
#include "store/json.h"
#include "store/stream_values.h"

namespace robocache::store {
namespace {

constexpr std::int64_t kHighest = std::numeric_limits<std::int64_t>::max();
// Version 2 has streams of ragged rows.
constexpr std::int64_t kVersion = 2;
constexpr std::int64_t kVersionOfRaggedRows = 2;
// A safetensors file has at least the 8 bytes of its header's length.
constexpr std::int64_t kSmallestFile = 8;
// The number of bits of an episode's subsets.
constexpr std::size_t kMaxSubsetsInShard = 64;

constexpr std::string_view kChecksumBegins = ",\"crc32\":\"";
constexpr std::string_view kChecksumEnds = "\"}\n";

/// The name of a file in the store's folder: PREFIX, at least five digits, ".safetensors". Other
/// names are refused, so no name leads out of the folder.
std::string file_name(const Value& value, std::string_view prefix) {
  constexpr std::string_view kSuffix = ".safetensors";
  constexpr std::size_t kDigits = 5;
  const std::string expected = std::string(prefix) + "NNNNN" + std::string(kSuffix);
  if (!value.is_text()) value.refuse(expected);
  const std::string& name = value.text();
  const std::string_view view = name;
  bool is_good = view.size() >= prefix.size() + kDigits + kSuffix.size() && view.size() <= 255 &&
                 view.substr(0, prefix.size()) == prefix &&
                 view.substr(view.size() - kSuffix.size()) == kSuffix;
  for (std::size_t i = prefix.size(); is_good && i < view.size() - kSuffix.size(); ++i) {
    is_good = view[i] >= '0' && view[i] <= '9';
  }
  if (!is_good) value.refuse(expected);
  return name;
}

/// A number that may be null.
std::optional<double> optional_number(const Value& value) {
  if (value.is_null()) return std::nullopt;
  return value.number();
}

/// Reads the record of the frames that a conversion encoded.
EncodedFrames read_encoded(const Value& value) {
  constexpr std::int64_t kBestQuality = 100;
  EncodedFrames encoded;
  const Value frames = value.member("frames");
  encoded.frames = frames.integer(kHighest);
  if (encoded.frames == 0) frames.refuse("1 or more");
  const Value quality = value.member("quality");
  if (!quality.is_null()) {
    encoded.quality = quality.integer(kBestQuality);
    if (*encoded.quality == 0) quality.refuse("1 to 100");
  }
  const Value chroma = value.member("chroma");
  encoded.chroma = chroma.optional_text();
  if (encoded.chroma && *encoded.chroma != "4:2:0" && *encoded.chroma != "4:4:4" &&
      *encoded.chroma != "gray") {
    chroma.refuse("4:2:0, 4:4:4 or gray");
  }
  encoded.measured = value.member("measured").integer(encoded.frames);
  encoded.psnr = optional_number(value.member("psnr"));
  encoded.lowest_psnr = optional_number(value.member("lowest_psnr"));
  return encoded;
}

/// Reads the encoding of a stream of bytes.
void read_encoding(const Value& value, StreamInfo& stream) {
  constexpr std::pair<std::string_view, Encoding> kEncodings[] = {{"jpeg", Encoding::kJpeg}};
  stream.encoding = choice(value.member("name"), kEncodings);
  if (!stream.is_ragged || stream.dtype != DataType::kUInt8 || !stream.shape.empty()) {
    value.refuse("null: a stream with an encoding has dtype U8 and shape [null]");
  }
  const Value shape = value.member("shape");
  stream.decoded_shape = row_shape(shape).shape;
  const std::vector<std::int64_t>& sizes = stream.decoded_shape;
  const bool is_image = sizes.size() == 3 && sizes[0] <= kMaxJpegSide && sizes[1] <= kMaxJpegSide &&
                        (sizes[2] == 1 || sizes[2] == 3);
  if (!is_image) {
    shape.refuse("[H,W,C] of at most " + std::to_string(kMaxJpegSide) +
                 " pixels and 1 or 3 colors");
  }
  const Value mcus = value.member("mcus_per_entry");
  stream.mcus_per_entry = mcus.integer(kMaxJpegEvery);
  if (stream.mcus_per_entry == 0) mcus.refuse("1 or more");
  const Value encoded = value.member("encoded");
  if (!encoded.is_null()) stream.encoded = read_encoded(encoded);
}

StreamInfo read_stream(const Value& value, std::int64_t version) {
  StreamInfo stream;
  stream.name = stream_name(value.member("name"));
  stream.dtype = element_type(value.member("dtype"));
  RowShape row = row_shape(value.member("shape"), version >= kVersionOfRaggedRows);
  stream.is_ragged = row.is_ragged;
  stream.shape = std::move(row.shape);
  const std::int64_t elements = row.elements;
  const Value method = value.member("method");
  std::tie(stream.method, stream.layout) = read_method(method, elements);
  const bool selects = stream.layout.empty() &&
                       (stream.method == Method::kPrevious || stream.method == Method::kNearest);
  if (stream.is_ragged && !selects) {
    method.refuse("previous or nearest: rows of different sizes can't be combined");
  }
  const Value encoding = value.member("encoding");
  if (version >= kVersionOfRaggedRows && !encoding.is_null()) read_encoding(encoding, stream);
  stream.units = value.member("units").optional_text();
  const Value channels = value.member("channels");
  if (!channels.is_null()) {
    stream.channels = channels.texts();
    if (static_cast<std::int64_t>(stream.channels.size()) != elements) {
      channels.refuse("null or " + std::to_string(elements) + " names");
    }
  }
  stream.rate = optional_rate(value.member("rate"));
  stream.timeline = choice(value.member("timeline"), kTimelineNames);
  stream.source = value.member("source").optional_text();
  return stream;
}

FileEntry read_file(const Value& value, std::string_view prefix) {
  FileEntry entry;
  entry.file = file_name(value.member("file"), prefix);
  const Value bytes = value.member("bytes");
  entry.bytes = bytes.integer(kHighest);
  if (entry.bytes < kSmallestFile) bytes.refuse(std::to_string(kSmallestFile) + " or more");
  entry.crc32 = value.member("crc32").checksum();
  return entry;
}

/// Indices into a table.
std::vector<std::int64_t> read_indices(const Value& value, const std::vector<std::string>& table,
                                       const char* table_name) {
  std::vector<std::int64_t> indices;
  for (const Value& item : value.items()) {
    const std::int64_t index = item.integer(kHighest);
    if (index >= static_cast<std::int64_t>(table.size())) {
      item.refuse("the number of one of " + std::to_string(table.size()) + " " + table_name);
    }
    indices.push_back(index);
  }
  return indices;
}

ShardEntry read_shard(const Value& value, const Manifest& manifest) {
  ShardEntry shard;
  static_cast<FileEntry&>(shard) = read_file(value, "shard-");
  shard.header_crc32 = value.member("header_crc32").checksum();
  shard.episodes = value.member("episodes").integer(kHighest - 1);
  shard.tasks = read_indices(value.member("tasks"), manifest.tasks, "tasks");
  const Value subsets = value.member("subsets");
  shard.subsets = read_indices(subsets, manifest.subsets, "subsets");
  if (shard.subsets.size() > kMaxSubsetsInShard) {
    subsets.refuse("at most " + std::to_string(kMaxSubsetsInShard) + " subsets");
  }
  return shard;
}

/// Checks a list of `count` numbers, of which null stands for one that is not finite.
void check_numbers(const Value& value, std::size_t count) {
  if (value.json() == nullptr || !value.json()->is_array() || value.json()->size() != count) {
    value.refuse("a list of " + std::to_string(count) + " numbers");
  }
  for (const Json& number : *value.json()) {
    const bool is_good = number.is_number() || number.is_null();
    if (!is_good) value.refuse("numbers or null");
  }
}

/// Checks the form of the statistics' summary; only Python uses its contents.
void check_summary(const Value& value) {
  const std::vector<Value> counts = value.member("count").items();
  for (const Value& count : counts) count.integer(kHighest);
  for (const char* key : {"mean", "std", "min", "max"}) {
    check_numbers(value.member(key), counts.size());
  }
  const Value quantiles = value.member("quantiles");
  for (const auto& member : quantiles.object()) {
    const std::string& key = member.first;
    double quantile = -1;
    const char* end = key.data() + key.size();
    const auto parsed = std::from_chars(key.data(), end, quantile);
    const bool is_quantile = quantile >= 0 && quantile <= 1;  // false for NaN
    if (parsed.ec != std::errc() || parsed.ptr != end || !is_quantile) {
      throw_store_error(quantiles.name(), "quantiles from 0 to 1", quote(key));
    }
    check_numbers(quantiles.entry(member), counts.size());
  }
  const Value is_exact = value.member("exact_quantiles");
  if (is_exact.json() == nullptr || !is_exact.json()->is_boolean())
    is_exact.refuse("true or false");
}

FileEntry read_statistics(const Value& value, const std::set<std::string>& streams) {
  FileEntry entry = read_file(value, "statistics-");
  const Value summaries = value.member("streams");
  for (const auto& member : summaries.object()) {
    if (streams.count(member.first) == 0) {
      throw_store_error(summaries.name(), "streams of the store", quote(member.first));
    }
    check_summary(summaries.entry(member));
  }
  return entry;
}

}  // namespace

void check_manifest_checksum(std::string_view text, const std::string& path) {
  constexpr std::size_t kSuffix = kChecksumBegins.size() + 8 + kChecksumEnds.size();
  const std::size_t size = text.size() < kSuffix ? 0 : text.size() - kSuffix;
  const std::string_view suffix = text.substr(size);
  std::optional<std::uint32_t> expected;
  if (suffix.size() == kSuffix && suffix.substr(0, kChecksumBegins.size()) == kChecksumBegins &&
      suffix.substr(kChecksumBegins.size() + 8) == kChecksumEnds) {
    expected = parse_checksum(suffix.substr(kChecksumBegins.size(), 8));
  }
  if (!expected) {
    throw_store_error(path, "the manifest of an episode store, which ends in its checksum",
                      text.empty() ? "an empty file" : "a file that is cut short or another one");
  }
  const std::uint32_t got = crc32(text.data(), size);
  if (got != *expected) {
    throw_store_error(path, "crc32 " + checksum_text(*expected) + ", as it says at its end",
                      checksum_text(got) + ": the file was altered");
  }
}

Manifest parse_manifest(std::string_view text, const std::string& path) {
  const Json json = parse_object(text, path);
  const Value root(json, path);
  const Value format = root.member("format");
  if (!format.is_text() || format.text() != "robocache-store") {
    format.refuse("\"robocache-store\"");
  }
  const Value version = root.member("version");
  const std::int64_t number = version.integer(kHighest);
  if (number < 1 || number > kVersion) {
    version.refuse("1 or 2, which this version of robocache reads");
  }

  Manifest manifest;
  std::set<std::string> names;
  for (const Value& item : root.member("streams").items()) {
    manifest.streams.push_back(read_stream(item, number));
    if (!names.insert(manifest.streams.back().name).second) {
      item.member("name").refuse("each stream once");
    }
  }
  manifest.tasks = root.member("tasks").texts();
  manifest.subsets = root.member("subsets").texts();
  std::set<std::string> files;
  for (const Value& item : root.member("shards").items()) {
    manifest.shards.push_back(read_shard(item, manifest));
    if (!files.insert(manifest.shards.back().file).second) {
      item.member("file").refuse("each shard once");
    }
  }
  const Value statistics = root.member("statistics");
  if (!statistics.is_null()) manifest.statistics = read_statistics(statistics, names);
  return manifest;
}

}  // namespace robocache::store
