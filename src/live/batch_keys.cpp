#include "live/batch_keys.h"

#include <algorithm>
#include <set>

#include "core/check.h"
#include "live/buffer_rows.h"
#include "window/check_windows.h"
#include "window/windows.h"

namespace robocache {
namespace {

constexpr std::size_t kNoGroup = SIZE_MAX;

/// The group of each stream; kNoGroup for streams without a group.
std::vector<std::size_t> groups_of(const std::vector<LiveStream>& streams,
                                   const std::vector<LiveGroup>& groups,
                                   const std::string& prefix) {
  std::vector<std::size_t> group_of(streams.size(), kNoGroup);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::string name = prefix + "concat[" + quoted(groups[g].key) + "]";
    if (groups[g].streams.empty()) throw_value_error(name, "one stream or more", "none");
    std::vector<const WindowSpec*> members;
    for (const std::string& member : groups[g].streams) {
      const LiveStream* const found = find_stream(streams, member);
      if (found == nullptr) throw_value_error(name, "names of streams", quoted(member));
      std::size_t& group = group_of[static_cast<std::size_t>(found - streams.data())];
      if (group != kNoGroup) {
        throw_value_error(name, "each stream once",
                          quoted(member) + ", which " + quoted(groups[group].key) + " has");
      }
      group = g;
      members.push_back(found);
    }
    check_group(members, name);
  }
  return group_of;
}

/// Checks what a spec says about a stream of a mixture.
void check_mixture(const LiveStream& stream, const std::vector<LiveStream>& streams,
                   const std::string& prefix) {
  const bool is_padded = stream.padded_width != 0;
  const std::string of_stream = "[" + quoted(stream.name) + "]";
  const std::string width = prefix.empty() ? "padded_width" : prefix + "mixture.padded_widths";
  const std::string missing = prefix.empty() ? "is_missing" : prefix + "mixture.missing";
  if (is_padded && stream.shape.size() != 1) {
    throw_value_error(width + of_stream, "none for rows that are no vectors",
                      std::to_string(stream.padded_width));
  }
  if (is_padded &&
      (stream.padded_width < stream.shape[0] || stream.padded_width > kMaxRowElements)) {
    throw_value_error(width + of_stream, std::to_string(stream.shape[0]) + " elements to 2^26",
                      std::to_string(stream.padded_width));
  }
  if (!stream.is_missing) return;
  const auto refuse = [&](const std::string& expected, const std::string& got) {
    throw_value_error(missing + of_stream, expected, got);
  };
  if (!stream.subtract.empty() || !stream.multiply.empty()) {
    refuse("a stream without normalization", "one with it");
  }
  if (!stream.relative_to.empty()) {
    refuse("a stream that is not relative", "one relative to " + quoted(stream.relative_to));
  }
  for (const LiveStream& other : streams) {
    if (other.relative_to != stream.name) continue;
    refuse("a stream that no other is relative to", quoted(other.name) + ", which is");
  }
}

BatchKey key_of_group(const std::vector<LiveStream>& streams, const LiveGroup& group) {
  BatchKey key{group.key, {}, true, DataType::kFloat32, {}, {}, {}};
  std::int64_t columns = 0, unpadded = 0;
  for (const std::string& name : group.streams) {
    const LiveStream* const found = find_stream(streams, name);
    key.streams.push_back(static_cast<std::size_t>(found - streams.data()));
    columns += width_of(*found);
    if (!found->is_missing) unpadded += elements_of(*found);
    key.type = found->out_dtype;
  }
  key.row = key.shape = {columns};
  key.unpadded = {unpadded};
  return key;
}

BatchKey key_of_stream(const LiveStream& stream, std::size_t number) {
  BatchKey key{key_of(stream), {number}, false, stream.out_dtype, stream.shape, {}, {}};
  if (stream.channels_first) key.row = {stream.shape[2], stream.shape[0], stream.shape[1]};
  key.unpadded = key.row;
  if (stream.padded_width > 0) key.row = {stream.padded_width};
  if (stream.is_missing) key.unpadded = {0};
  key.shape = key.row;
  return key;
}

/// Checks that the names of all arrays of a batch differ.
void check_names(const std::vector<BatchKey>& keys, const std::vector<LiveStream>& streams,
                 bool has_dataset_index, const std::string& prefix) {
  std::set<std::string> names;
  const auto take = [&](const std::string& name) {
    if (!names.insert(name).second) {
      throw_value_error(prefix + "streams", "keys of the output that differ",
                        quoted(name) + " twice");
    }
  };
  for (const BatchKey& key : keys) {
    if (key.name.empty()) throw_value_error(prefix + "concat", "keys with a name", "''");
    take(key.name);
  }
  for (const LiveStream& stream : streams) {
    take(key_of(stream) + "_is_pad");
    take(key_of(stream) + "_age");
    if (stream.padded_width > 0) take(key_of(stream) + "_dim_is_pad");
  }
  if (has_dataset_index) take("dataset_index");
}

}  // namespace

const std::string& key_of(const LiveStream& stream) {
  return stream.key.empty() ? stream.name : stream.key;
}

std::int64_t width_of(const LiveStream& stream) {
  return stream.padded_width > 0 ? stream.padded_width : elements_of(stream);
}

std::int64_t BatchKey::row_elements() const { return elements_of(row); }
std::int64_t BatchKey::shape_elements() const { return elements_of(shape); }

std::vector<BatchKey> batch_keys(const std::vector<LiveStream>& streams,
                                 const std::vector<LiveGroup>& groups, bool has_dataset_index,
                                 const std::string& prefix) {
  for (const LiveStream& stream : streams) check_mixture(stream, streams, prefix);
  const std::vector<std::size_t> group_of = groups_of(streams, groups, prefix);
  std::vector<BatchKey> keys;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    const std::size_t group = group_of[i];
    if (group == kNoGroup) {
      keys.push_back(key_of_stream(streams[i], i));
    } else if (std::find(group_of.begin(), group_of.begin() + static_cast<std::ptrdiff_t>(i),
                         group) == group_of.begin() + static_cast<std::ptrdiff_t>(i)) {
      keys.push_back(key_of_group(streams, groups[group]));
    }
  }
  check_names(keys, streams, has_dataset_index, prefix);
  return keys;
}

}  // namespace robocache
