#include "store/builder.h"

#include <stdlib.h>

#include <cstddef>
#include <cstdio>
#include <fstream>
#include <stdexcept>

namespace robocache::testing {
namespace {

using Json = nlohmann::json;

/// CRC-32, bit by bit, as its definition has it.
std::string checksum_of(const std::string& bytes) {
  std::uint32_t remainder = 0xFFFFFFFFu;
  for (const char byte : bytes) {
    remainder ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) {
      remainder = (remainder & 1u) != 0 ? remainder >> 1 ^ 0xEDB88320u : remainder >> 1;
    }
  }
  char text[9];
  std::snprintf(text, sizeof(text), "%08x", remainder ^ 0xFFFFFFFFu);
  return text;
}

std::size_t header_size(const std::string& file) {
  std::uint64_t length = 0;
  file.copy(reinterpret_cast<char*>(&length), sizeof(length));
  return sizeof(length) + length;
}

std::string shard_name(std::size_t number) {
  char name[48];
  std::snprintf(name, sizeof(name), "shard-%05zu.safetensors", number);
  return name;
}

}  // namespace

std::string safetensors_header(const std::vector<FileTensor>& tensors) {
  Json header;
  std::size_t begin = 0;
  for (const FileTensor& tensor : tensors) {
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", {begin, begin + tensor.bytes.size()}}};
    begin += tensor.bytes.size();
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

std::string safetensors_file(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + header + data;
}

std::string safetensors_file(const std::vector<FileTensor>& tensors) {
  std::string data;
  for (const FileTensor& tensor : tensors) data += tensor.bytes;
  return safetensors_file(safetensors_header(tensors), data);
}

std::vector<FileTensor> example_shard() {
  using Int64 = std::vector<std::int64_t>;
  return {
      {"action/times", "I64", {3}, bytes_of(Int64{10, 20, 10})},
      {"action/offsets", "I64", {3}, bytes_of(Int64{0, 2, 3})},
      {"flag/times", "I64", {1}, bytes_of(Int64{15})},
      {"flag/offsets", "I64", {3}, bytes_of(Int64{0, 0, 1})},
      {"flag/received", "I64", {1}, bytes_of(Int64{16})},
      {"episode/start_ns", "I64", {2}, bytes_of(Int64{10, 10})},
      {"episode/end_ns", "I64", {2}, bytes_of(Int64{20, 15})},
      {"episode/length", "I64", {2}, bytes_of(Int64{2, 1})},
      {"episode/subsets", "U64", {2}, bytes_of(Int64{1, 0})},
      {"episode/source_offsets", "I64", {3}, bytes_of(Int64{0, 3, 6})},
      {"action/values", "F32", {3, 2}, bytes_of(std::vector<float>{0, 1, 2, 3, 4, 5})},
      {"episode/task", "I32", {2}, bytes_of(std::vector<std::int32_t>{1, -1})},
      {"flag/values", "BOOL", {1}, std::string("\1", 1)},
      {"flag/valid", "BOOL", {1}, std::string("\0", 1)},
      {"episode/source", "U8", {6}, "a#1b#2"},
  };
}

std::vector<FileTensor> ragged_shard() {
  using Int64 = std::vector<std::int64_t>;
  std::vector<FileTensor> tensors = {
      {"cloud/times", "I64", {3}, bytes_of(Int64{11, 12, 13})},
      {"cloud/offsets", "I64", {3}, bytes_of(Int64{0, 2, 3})},
      {"cloud/row_offsets", "I64", {4}, bytes_of(Int64{0, 2, 2, 3})},
  };
  for (FileTensor& tensor : example_shard()) {
    if (tensor.name == "action/values") {
      const std::vector<float> points = {0, 1, 2, 3, 4, 5, 6, 7, 8};
      tensors.push_back({"cloud/values", "F32", {3, 3}, bytes_of(points)});
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

Json ragged_manifest(const std::vector<std::string>& shards) {
  Json manifest = example_manifest(shards);
  manifest["version"] = 2;
  manifest["streams"].push_back(Json::parse(R"(
      {"name": "cloud", "dtype": "F32", "shape": [null, 3], "method": "previous", "units": "m",
       "channels": ["x", "y", "z"], "rate": null, "timeline": "time", "source": null})"));
  return manifest;
}

Json example_manifest(const std::vector<std::string>& shards) {
  Json manifest = Json::parse(R"({
    "format": "robocache-store", "version": 1,
    "streams": [
      {"name": "action", "dtype": "F32", "shape": [2], "method": [["linear", 1], ["angle", 1]],
       "units": "rad", "channels": ["a", "b"], "rate": 100.5, "timeline": "rows", "source": "x"},
      {"name": "flag", "dtype": "BOOL", "shape": [], "method": "previous",
       "units": null, "channels": null, "rate": null, "timeline": "time", "source": null}],
    "tasks": ["pick", "place"], "subsets": ["train"], "shards": [],
    "statistics": {"file": "statistics-00003.safetensors", "bytes": 9, "crc32": "cbf43926",
     "streams": {
      "action": {"count": [3, 3], "mean": [2, null], "std": [1.5, 1], "min": [0, 1], "max": [4, 5],
                 "quantiles": {"0.5": [2, 3], "0.99": [4, 5]}, "exact_quantiles": true}}}})");
  for (const std::string& bytes : shards) {
    manifest["shards"].push_back(
        {{"file", shard_name(manifest["shards"].size())},
         {"bytes", bytes.size()},
         {"header_crc32", checksum_of(bytes.substr(0, header_size(bytes)))},
         {"crc32", checksum_of(bytes)},
         {"episodes", 2},
         {"tasks", {1, 0}},
         {"subsets", {0}}});
  }
  return manifest;
}

std::string sealed(const Json& manifest) {
  std::string text = manifest.dump(1);
  text.resize(text.rfind('}'));
  return text + ",\"crc32\":\"" + checksum_of(text) + "\"}\n";
}

StoreFolder::StoreFolder(int shards) {
  std::string name = (std::filesystem::temp_directory_path() / "robocache-store-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error(name + ": can't be made");
  path_ = name;
  const std::vector<std::string> files(static_cast<std::size_t>(shards),
                                       safetensors_file(example_shard()));
  for (std::size_t i = 0; i < files.size(); ++i) write(shard_name(i), files[i]);
  write("statistics-00003.safetensors", "123456789");
  write("manifest.json", sealed(example_manifest(files)));
}

StoreFolder::~StoreFolder() { std::filesystem::remove_all(path_); }

void StoreFolder::write(const std::string& file, const std::string& bytes) const {
  std::ofstream stream(path_ / file, std::ios::binary);
  stream << bytes;
  if (!stream.flush()) throw std::runtime_error(path_of(file) + ": can't be written");
}

}  // namespace robocache::testing
