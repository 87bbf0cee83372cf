#include "live/selection.h"

#include <set>
#include <utility>

#include "core/check.h"
#include "live/buffer_rows.h"
#include "window/windows.h"

namespace robocache {
namespace {

std::size_t bytes_of(const LiveArray& array) {
  std::int64_t bytes = size_of(array.dtype);
  for (const std::int64_t size : array.shape) bytes *= size;
  return static_cast<std::size_t>(bytes);
}

/// The ranges of arrays by their keys; arrays that are adjacent share one.
std::vector<Selection::Range> ranges_of(const OutputLayout& layout,
                                        const std::set<std::string>& arrays) {
  std::vector<Selection::Range> ranges;
  bool is_adjacent = false;
  for (const LiveArray& array : layout.arrays) {
    const bool is_selected = arrays.count(array.key) > 0;
    if (is_selected) {
      const auto begin = static_cast<std::size_t>(array.offset);
      if (!is_adjacent) ranges.push_back({begin, 0});
      ranges.back().bytes = begin + bytes_of(array) - ranges.back().begin;
    }
    is_adjacent = is_selected;
  }
  return ranges;
}

/// Completes a selection of which `keys` is set.
Selection complete(const std::vector<LiveStream>& streams, const LiveBatch& batch,
                   const OutputLayout& layout, Selection selection) {
  selection.streams.resize(streams.size());
  std::set<std::string> arrays{"dataset_index"};
  for (std::size_t i = 0; i < batch.keys.size(); ++i) {
    if (selection.keys[i] == 0) continue;
    selection.names.push_back(batch.keys[i].name);
    arrays.insert(batch.keys[i].name);
    for (const std::size_t stream : batch.keys[i].streams) {
      selection.streams[stream] = 1;
      const std::string& key = key_of(streams[stream]);
      for (const char* const ending : {"_is_pad", "_age", "_dim_is_pad"}) {
        arrays.insert(key + ending);
      }
    }
  }
  selection.ranges = ranges_of(layout, arrays);
  selection.sources = selection.streams;
  for (const LiveStream& stream : streams) {
    const LiveStream* const reference = find_stream(streams, stream.relative_to);
    if (reference == nullptr) continue;
    selection.sources[static_cast<std::size_t>(reference - streams.data())] = 1;
  }
  for (std::size_t i = 0; i < streams.size(); ++i) {
    if (streams[i].is_missing) selection.sources[i] = 0;
  }
  return selection;
}

bool has_output(const std::vector<LiveStream>& streams, const BatchKey& key) {
  return is_live(streams[key.streams[0]]);
}

}  // namespace

Selection select_all(const std::vector<LiveStream>& streams, const LiveBatch& batch,
                     const OutputLayout& layout) {
  Selection selection;
  for (const BatchKey& key : batch.keys) {
    selection.keys.push_back(has_output(streams, key) ? 1 : 0);
  }
  selection = complete(streams, batch, layout, std::move(selection));
  // The masks of dimensions of keys that a policy predicts, too.
  selection.streams.assign(streams.size(), 1);
  selection.ranges = {{0, layout.bytes}};
  return selection;
}

Selection select_keys(const std::vector<LiveStream>& streams, const LiveBatch& batch,
                      const OutputLayout& layout, const std::vector<std::string>& names) {
  if (names.empty()) throw_value_error("keys", "one key or more", "none");
  Selection selection;
  selection.keys.resize(batch.keys.size());
  std::string known;
  for (const BatchKey& key : batch.keys) {
    if (has_output(streams, key)) known += (known.empty() ? "" : ", ") + key.name;
  }
  for (const std::string& name : names) {
    std::size_t found = 0;
    while (found < batch.keys.size() && batch.keys[found].name != name) ++found;
    if (found == batch.keys.size() || !has_output(streams, batch.keys[found])) {
      throw_value_error("keys", "keys that a query returns (" + known + ")", quoted(name));
    }
    selection.keys[found] = 1;
  }
  for (const KeyTransform& transform : batch.transforms) {
    if (transform.reference) selection.keys[transform.reference->key] = 1;
  }
  return complete(streams, batch, layout, std::move(selection));
}

}  // namespace robocache
