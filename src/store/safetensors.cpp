#include "store/safetensors.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string_view>
#include <tuple>
#include <utility>

#include "store/json.h"
#include "store/stream_values.h"

namespace robocache::store {
namespace {

constexpr std::int64_t kHighest = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t kLengthBytes = sizeof(std::uint64_t);
constexpr std::uint64_t kLongestHeader = 100'000'000;

struct Extent {
  std::int64_t begin;  // offset in the data, which follow the header
  std::int64_t end;
};

/// A tensor's entry of the header; the caller sets its `offset`.
TensorEntry read_entry(const Value& value, const std::string& name, std::int64_t data_bytes,
                       Extent* extent) {
  TensorEntry entry;
  entry.name = name;
  const Value dtype = value.member("dtype");
  const auto type = dtype.is_text() ? type_of(dtype.text()) : std::nullopt;
  if (!type) dtype.refuse("a type that a store holds");
  entry.dtype = *type;

  const Value shape = value.member("shape");
  std::optional<std::int64_t> elements = 1;
  for (const Value& item : shape.items()) {
    entry.shape.push_back(item.integer(kHighest));
    if (elements) elements = product(*elements, entry.shape.back());
  }
  const auto bytes = elements ? product(*elements, size_of(entry.dtype)) : std::nullopt;
  if (!bytes) shape.refuse("at most " + std::to_string(kHighest) + " bytes");

  const Value offsets = value.member("data_offsets");
  const std::vector<Value> ends = offsets.items();
  if (ends.size() != 2) offsets.refuse("a begin and an end");
  *extent = {ends[0].integer(data_bytes), ends[1].integer(data_bytes)};
  if (extent->end - extent->begin != *bytes) {
    offsets.refuse(std::to_string(*bytes) + " bytes, as the shape says");
  }
  return entry;
}

}  // namespace

std::size_t header_bytes(const std::byte* file, std::size_t size, const std::string& path) {
  std::uint64_t length = 0;
  if (size < kLengthBytes) {
    throw_store_error(path, "a safetensors file", std::to_string(size) + " bytes");
  }
  std::memcpy(&length, file, kLengthBytes);
  const std::uint64_t longest = std::min<std::uint64_t>(size - kLengthBytes, kLongestHeader);
  if (length > longest) {
    throw_store_error(path, "a safetensors header of at most " + std::to_string(longest) + " bytes",
                      std::to_string(length));
  }
  return kLengthBytes + length;
}

std::vector<TensorEntry> parse_header(const std::byte* file, std::size_t size,
                                      const std::string& path) {
  const std::size_t data = header_bytes(file, size, path);
  const std::string_view text(reinterpret_cast<const char*>(file) + kLengthBytes,
                              data - kLengthBytes);
  const Json json = parse_object(text, path + ": header");
  const Value root(json, path);

  const auto data_bytes = static_cast<std::int64_t>(size - data);
  std::vector<TensorEntry> tensors;
  std::vector<std::pair<Extent, std::size_t>> extents;  // with the index of the tensor
  for (const auto& member : root.object()) {
    const Value value = root.entry(member);
    if (member.first == "__metadata__") {  // notes for human readers
      for (const auto& note : value.object()) {
        if (!note.second.is_string()) value.refuse("texts");
      }
      continue;
    }
    Extent extent{};
    tensors.push_back(read_entry(value, member.first, data_bytes, &extent));
    extents.emplace_back(extent, tensors.size() - 1);
  }
  // A tensor without elements comes before the one that begins at the same byte.
  std::sort(extents.begin(), extents.end(), [](const auto& a, const auto& b) {
    return std::tuple(a.first.begin, a.first.end, a.second) <
           std::tuple(b.first.begin, b.first.end, b.second);
  });

  std::int64_t end = 0;
  for (const auto& [extent, number] : extents) {
    TensorEntry& entry = tensors[number];
    if (extent.begin != end) {
      throw_store_error(path + ": " + quote(entry.name),
                        "data from byte " + std::to_string(end) + " on, where the ones before end",
                        std::to_string(extent.begin));
    }
    end = extent.end;
    entry.offset = data + static_cast<std::size_t>(extent.begin);
    if (entry.offset % static_cast<std::size_t>(size_of(entry.dtype)) != 0) {
      throw_store_error(path + ": " + quote(entry.name),
                        "data at a multiple of " + std::to_string(size_of(entry.dtype)),
                        "byte " + std::to_string(entry.offset) + " of the file");
    }
  }
  if (end != data_bytes) {
    throw_store_error(path,
                      "tensors of " + std::to_string(data_bytes) + " bytes, to the file's end",
                      std::to_string(end));
  }
  return tensors;
}

}  // namespace robocache::store
