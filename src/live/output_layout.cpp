#include "live/output_layout.h"

#include <algorithm>
#include <string>
#include <utility>

#include "live/memory.h"
#include "window/windows.h"

namespace robocache {
namespace {

class Builder {
 public:
  Builder(const std::vector<LiveStream>& streams, const std::vector<BatchKey>& keys,
          std::int64_t robots)
      : streams_(streams), keys_(keys), robots_(robots) {}

  OutputLayout build(bool has_dataset_index) {
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      if (is_live(streams_[i])) {
        layout_.windows.push_back({static_cast<std::int64_t>(i), 0, 0, 0, 0});
      }
    }
    for (const BatchKey& key : keys_) add_values(key);
    for (const LiveStream& stream : streams_) {
      const std::int64_t width = stream.padded_width;
      layout_.dim_is_pad.push_back(
          width > 0 ? add(key_of(stream) + "_dim_is_pad", DataType::kBool, {robots_, width}) : -1);
    }
    if (has_dataset_index) {
      layout_.dataset_index = add("dataset_index", DataType::kInt64, {robots_});
    }
    for (WindowPlace& window : layout_.windows) {
      window.is_pad = add_of_steps(window, "_is_pad", DataType::kBool);
    }
    for (WindowPlace& window : layout_.windows) {
      window.age = add_of_steps(window, "_age", DataType::kInt64);
    }
    return std::move(layout_);
  }

 private:
  /// Adds the values of a stream, or of a whole group.
  void add_values(const BatchKey& key) {
    const LiveStream& first = streams_[key.streams[0]];
    layout_.values.push_back(-1);
    if (!is_live(first)) return;
    std::vector<std::int64_t> shape = leading_shape(first);
    shape.insert(shape.end(), key.shape.begin(), key.shape.end());
    std::int64_t offset = layout_.values.back() = add(key.name, key.type, shape);
    for (const std::size_t member : key.streams) {
      WindowPlace& place = place_of(member);
      place.row_stride = key.row_elements();
      place.values = offset;
      offset += width_of(streams_[member]) * size_of(key.type);
    }
  }

  WindowPlace& place_of(std::size_t stream) {
    return *std::find_if(layout_.windows.begin(), layout_.windows.end(), [&](const auto& window) {
      return window.stream == static_cast<std::int64_t>(stream);
    });
  }

  std::int64_t add_of_steps(const WindowPlace& window, const char* ending, DataType type) {
    const LiveStream& stream = streams_[static_cast<std::size_t>(window.stream)];
    return add(key_of(stream) + ending, type, leading_shape(stream));
  }

  std::int64_t add(const std::string& key, DataType type, const std::vector<std::int64_t>& shape) {
    std::int64_t bytes = size_of(type);
    for (const std::int64_t size : shape) bytes *= size;
    const auto offset = static_cast<std::int64_t>(layout_.bytes);
    layout_.arrays.push_back({key, type, shape, offset});
    layout_.bytes += round_up(static_cast<std::size_t>(bytes), kOutputAlignment);
    return offset;
  }

  /// [R,K], or [R] for a stream without an axis of steps.
  std::vector<std::int64_t> leading_shape(const LiveStream& stream) const {
    std::vector<std::int64_t> shape{robots_};
    if (stream.has_axis) shape.push_back(static_cast<std::int64_t>(stream.offsets.size()));
    return shape;
  }

  const std::vector<LiveStream>& streams_;
  const std::vector<BatchKey>& keys_;
  std::int64_t robots_;
  OutputLayout layout_;
};

}  // namespace

const WindowPlace& OutputLayout::window_of(std::size_t stream) const {
  return *std::find_if(windows.begin(), windows.end(), [&](const WindowPlace& window) {
    return window.stream == static_cast<std::int64_t>(stream);
  });
}

OutputLayout lay_out(const std::vector<LiveStream>& streams, const std::vector<BatchKey>& keys,
                     std::int64_t robots, bool has_dataset_index) {
  return Builder(streams, keys, robots).build(has_dataset_index);
}

}  // namespace robocache
