#include "live/ordered_rows.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "core/argument.h"
#include "core/check.h"
#include "core/number.h"
#include "live/buffer_rows.h"
#include "window/windows.h"

namespace robocache {
namespace {

using namespace ROBOCACHE_TARGET;

constexpr std::size_t kListedNames = 8;

/// Names for a message, the first eight of them.
std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kListedNames); ++i) {
    text += (i == 0 ? "" : ", ") + quoted(names[i]);
  }
  return names.size() > kListedNames ? text + ", ..." : text;
}

/// The index of each name. Throws ValueError, which begins with `what`, if one is there twice.
std::map<std::string, std::int64_t> indices_of(const std::vector<std::string>& names,
                                               const std::string& what) {
  std::map<std::string, std::int64_t> indices;
  for (const std::string& name : names) {
    if (indices.emplace(name, static_cast<std::int64_t>(indices.size())).second) continue;
    throw_value_error(what, "each name once", quoted(name) + " twice");
  }
  return indices;
}

/// Copies elements of kBytes bytes each.
template <std::size_t kBytes>
void copy(const std::byte* values, const std::vector<std::int64_t>& indices, std::byte* row) {
  for (const std::int64_t index : indices) {
    std::memcpy(row, values + static_cast<std::size_t>(index) * kBytes, kBytes);
    row += kBytes;
  }
}

void copy(std::int64_t bytes, const std::byte* values, const std::vector<std::int64_t>& indices,
          std::byte* row) {
  switch (bytes) {
    case 1:
      return copy<1>(values, indices, row);
    case 2:
      return copy<2>(values, indices, row);
    case 4:
      return copy<4>(values, indices, row);
    default:
      return copy<8>(values, indices, row);
  }
}

template <typename Number>
void round(const void* values, const std::vector<std::int64_t>& indices, DataType to, void* row) {
  for (std::size_t i = 0; i < indices.size(); ++i) {
    store_as(to, row, static_cast<std::int64_t>(i), static_cast<const Number*>(values)[indices[i]]);
  }
}

bool is_half(DataType type) { return type == DataType::kFloat16 || type == DataType::kBFloat16; }

}  // namespace

std::vector<std::int64_t> find_channels(const LiveStream& stream,
                                        const std::vector<std::string>& names) {
  const std::string of = "[" + quoted(stream.name) + "]";
  if (stream.channels.empty()) {
    throw_value_error("channels" + of, "a name for each of the stream's elements",
                      "none (the spec has the store's: StoreWriter.declare takes them)");
  }
  indices_of(stream.channels, "channels" + of);
  const std::map<std::string, std::int64_t> known = indices_of(names, "names" + of);
  std::vector<std::int64_t> indices;
  std::vector<std::string> missing;
  for (const std::string& channel : stream.channels) {
    const auto found = known.find(channel);
    if (found == known.end()) {
      missing.push_back(channel);
    } else {
      indices.push_back(found->second);
    }
  }
  if (missing.empty()) return indices;
  const std::string others = names.empty() ? "no names" : listed(names);
  throw_value_error("names" + of, "all of the stream's channels",
                    "none named " + listed(missing) + " (the message has " + others + ")");
}

OrderedRows::OrderedRows(const std::vector<LiveStream>& streams, std::int64_t robots) {
  for (const LiveStream& stream : streams) {
    const bool has_names = !stream.channels.empty() && takes_rows(stream, streams);
    const std::int64_t bytes = has_names ? elements_of(stream) * size_of(stream.dtype) : 0;
    const std::size_t stride = round_up(static_cast<std::size_t>(bytes), kCacheLine);
    streams_.push_back(
        {stream.dtype, stride, make_aligned(stride * static_cast<std::size_t>(robots))});
  }
}

const std::byte* OrderedRows::order(std::int64_t stream, std::int64_t robot, const void* values,
                                    DataType type, const std::vector<std::int64_t>& indices) const {
  const Stream& of = streams_[static_cast<std::size_t>(stream)];
  std::byte* const row = of.rows.get() + static_cast<std::size_t>(robot) * of.stride;
  if (type == (is_half(of.dtype) ? DataType::kUInt16 : of.dtype)) {
    copy(size_of(type), static_cast<const std::byte*>(values), indices, row);
  } else if (!is_floating_type(of.dtype)) {
    return nullptr;
  } else if (type == DataType::kFloat32) {
    round<float>(values, indices, of.dtype, row);
  } else if (type == DataType::kFloat64) {
    round<double>(values, indices, of.dtype, row);
  } else {
    return nullptr;
  }
  return row;
}

}  // namespace robocache
