#include "live/output_layout.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/argument.h"
#include "core/check.h"
#include "live/check_streams.h"
#include "live/memory.h"

namespace robocache {
namespace {

constexpr std::size_t kNoGroup = SIZE_MAX;

/// The group of each stream; kNoGroup of those that stand alone.
std::vector<std::size_t> groups_of(const std::vector<LiveStream>& streams,
                                   const std::vector<LiveGroup>& groups) {
  std::vector<std::size_t> group_of(streams.size(), kNoGroup);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const std::string name = "concat[" + quoted(groups[g].key) + "]";
    if (groups[g].streams.empty()) throw_value_error(name, "one stream or more", "none");
    const LiveStream* first = nullptr;
    for (const std::string& member : groups[g].streams) {
      const LiveStream* const found = find_stream(streams, member);
      if (found == nullptr) throw_value_error(name, "names of streams", quoted(member));
      std::size_t& group = group_of[static_cast<std::size_t>(found - streams.data())];
      if (group != kNoGroup) {
        throw_value_error(name, "each stream once",
                          quoted(member) + ", which " + quoted(groups[group].key) + " has");
      }
      group = g;
      if (first == nullptr) first = found;
      if (found->shape.size() > 1) {
        throw_value_error(
            name, "rows that are vectors",
            quoted(member) + " of " + std::to_string(found->shape.size()) + " dimensions");
      }
      if (found->out_type != first->out_type) {
        throw_value_error(name,
                          std::string(name_of(first->out_type)) + " like " + quoted(first->name),
                          std::string(name_of(found->out_type)) + " of " + quoted(member));
      }
      if (found->steps != first->steps || found->timeline != first->timeline ||
          found->has_step_axis != first->has_step_axis) {
        throw_value_error(name, "the steps of " + quoted(first->name),
                          "others of " + quoted(member));
      }
    }
  }
  return group_of;
}

/// Bytes of an element in the output.
std::int64_t element_bytes(const LiveStream& stream) { return size_of(stream.out_type); }

class Builder {
 public:
  Builder(const std::vector<LiveStream>& streams, const LiveOptions& options)
      : streams_(streams), options_(options), group_of_(groups_of(streams, options.concat)) {}

  OutputLayout build() {
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      if (!is_live(streams_[i])) continue;
      layout_.windows.push_back({static_cast<std::int64_t>(i), -1, 0, 0, 0});
    }
    for (const WindowPlace& window : layout_.windows) {
      if (window.values < 0) add_values(static_cast<std::size_t>(window.stream));
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
  WindowPlace& place_of(std::size_t stream) {
    return *std::find_if(layout_.windows.begin(), layout_.windows.end(), [&](const auto& window) {
      return window.stream == static_cast<std::int64_t>(stream);
    });
  }

  /// The values of a stream, or of its whole group.
  void add_values(std::size_t stream) {
    const LiveStream& first = streams_[stream];
    std::vector<std::int64_t> shape = leading_shape(first);
    if (group_of_[stream] == kNoGroup) {
      const std::int64_t elements = elements_of(first);
      if (first.channels_first) {
        shape.insert(shape.end(), {first.shape[2], first.shape[0], first.shape[1]});
      } else {
        shape.insert(shape.end(), first.shape.begin(), first.shape.end());
      }
      WindowPlace& place = place_of(stream);
      place.row_stride = elements;
      place.values = add(first.name, first.out_type, shape);
      return;
    }
    const LiveGroup& group = options_.concat[group_of_[stream]];
    std::int64_t columns = 0;
    std::vector<std::pair<std::size_t, std::int64_t>> members;  // and the columns before it
    for (const std::string& name : group.streams) {
      const LiveStream* const found = find_stream(streams_, name);
      members.emplace_back(static_cast<std::size_t>(found - streams_.data()), columns);
      columns += elements_of(*found);
    }
    shape.push_back(columns);
    const std::int64_t offset = add(group.key, first.out_type, shape);
    for (const auto& [member, before] : members) {
      WindowPlace& place = place_of(member);
      place.row_stride = columns;
      place.values = offset + before * element_bytes(first);
    }
  }

  std::int64_t add_of_steps(const WindowPlace& window, const char* ending, DataType type) {
    const LiveStream& stream = streams_[static_cast<std::size_t>(window.stream)];
    return add(stream.name + ending, type, leading_shape(stream));
  }

  std::int64_t add(const std::string& key, DataType type, const std::vector<std::int64_t>& shape) {
    for (const LiveArray& other : layout_.arrays) {
      if (other.key == key) {
        throw_value_error("streams", "keys of the output that differ", quoted(key) + " twice");
      }
    }
    std::int64_t bytes = size_of(type);
    for (const std::int64_t size : shape) bytes *= size;
    const auto offset = static_cast<std::int64_t>(layout_.bytes);
    layout_.arrays.push_back({key, type, shape, offset});
    layout_.bytes += round_up(static_cast<std::size_t>(bytes), kOutputAlignment);
    return offset;
  }

  /// [R,K], or [R] without an axis of steps.
  std::vector<std::int64_t> leading_shape(const LiveStream& stream) const {
    std::vector<std::int64_t> shape{options_.robots};
    if (stream.has_step_axis) shape.push_back(static_cast<std::int64_t>(stream.steps.size()));
    return shape;
  }

  const std::vector<LiveStream>& streams_;
  const LiveOptions& options_;
  std::vector<std::size_t> group_of_;
  OutputLayout layout_;
};

}  // namespace

OutputLayout lay_out(const std::vector<LiveStream>& streams, const LiveOptions& options) {
  return Builder(streams, options).build();
}

}  // namespace robocache
