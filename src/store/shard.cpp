#include "store/shard.h"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <limits>
#include <utility>

#include "robocache/jpeg.h"
#include "store/json.h"
#include "store/safetensors.h"
#include "store/stream_values.h"

namespace robocache::store {
namespace {

std::string text_of(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) text += (text.size() > 1 ? "," : "") + std::to_string(size);
  return text + "]";
}

/// The tensors of a shard, taken by name; a tensor that remains is an error.
class Tensors {
 public:
  Tensors(const std::byte* file, std::size_t size, const std::string& path)
      : file_(file),
        path_(path),
        entries_(parse_header(file, size, path)),
        taken_(entries_.size()) {}

  bool has(const std::string& name) const { return find(name) < entries_.size(); }

  /// Takes a tensor of a type and shape; a first size of -1 accepts any, and `rows` returns it.
  const std::byte* take(const std::string& name, DataType dtype, std::vector<std::int64_t> shape,
                        std::int64_t* rows = nullptr) {
    const std::size_t number = find(name);
    if (number == entries_.size()) {
      throw_store_error(path_, "a tensor " + quote(name), "none of that name");
    }
    const TensorEntry& entry = entries_[number];
    taken_[number] = true;
    const bool is_any = shape[0] < 0;
    if (is_any && !entry.shape.empty()) shape[0] = entry.shape[0];
    if (entry.dtype != dtype || entry.shape != shape) {
      std::string expected = text_of(shape);
      if (is_any && entry.shape.empty()) expected.replace(1, 2, "N");
      throw_store_error(path_ + ": " + quote(name), type_text(dtype) + " " + expected,
                        type_text(entry.dtype) + " " + text_of(entry.shape));
    }
    if (rows != nullptr) *rows = shape[0];
    return file_ + entry.offset;
  }

  template <typename Element>
  const Element* take_array(const std::string& name, DataType dtype, std::int64_t size) {
    // `parse_header` has checked the alignment.
    return reinterpret_cast<const Element*>(take(name, dtype, {size}));
  }

  /// Takes offsets of any number of rows, and returns that number.
  std::int64_t take_offsets(const std::string& name, const std::int64_t** offsets) {
    std::int64_t size = 0;
    *offsets = reinterpret_cast<const std::int64_t*>(take(name, DataType::kInt64, {-1}, &size));
    if (size == 0) throw_store_error(path_ + ": " + quote(name), "I64 [N+1]", "I64 [0]");
    return size - 1;
  }

  void expect_none_left() const {
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (taken_[i]) continue;
      throw_store_error(path_ + ": " + quote(entries_[i].name), "tensors of the manifest's streams",
                        "another one");
    }
  }

 private:
  /// The index of a tensor; the number of tensors if no tensor has the name.
  std::size_t find(const std::string& name) const {
    const auto at = std::lower_bound(
        entries_.begin(), entries_.end(), name,
        [](const TensorEntry& entry, const std::string& wanted) { return entry.name < wanted; });
    const bool is_there = at != entries_.end() && at->name == name;
    return is_there ? static_cast<std::size_t>(at - entries_.begin()) : entries_.size();
  }

  const std::byte* file_;
  const std::string& path_;
  std::vector<TensorEntry> entries_;  // in order of their names
  std::vector<bool> taken_;
};

ConstTensorView vector_view(const void* data, DataType type, std::int64_t size) {
  return data == nullptr ? ConstTensorView() : ConstTensorView(data, type, {size});
}

/// The number of elements of one row; of one item of a ragged row.
std::int64_t row_elements(const StreamInfo& info) {
  std::int64_t elements = 1;
  for (const std::int64_t size : info.shape) elements *= size;
  return elements;
}

ConstTensorView values_view(const std::byte* data, const StreamInfo& info, std::int64_t items) {
  ConstTensorView view;
  view.data = data;
  view.dtype = info.dtype;
  view.rank = static_cast<int>(info.shape.size()) + 1;
  std::int64_t stride = 1;
  for (int axis = view.rank - 1; axis >= 0; --axis) {
    view.shape[axis] = axis == 0 ? items : info.shape[static_cast<std::size_t>(axis - 1)];
    view.strides[axis] = stride;
    stride *= view.shape[axis];
  }
  return view;
}

/// Whether [begin, end) is a range of an array of `size` elements.
bool is_range(std::int64_t begin, std::int64_t end, std::int64_t size) {
  return 0 <= begin && begin <= end && end <= size;
}

[[noreturn]] void throw_range(const std::string& name, std::int64_t item,
                              const std::int64_t* offsets, std::int64_t size) {
  throw_store_error(name + "[" + std::to_string(item) + "]",
                    "a range within " + std::to_string(size),
                    text_of({offsets[item], offsets[item + 1]}));
}

/// The name of an episode's metadata in messages.
std::string name_of_fact(const std::string& path, const char* array, std::int64_t episode) {
  return path + ": \"episode/" + array + "\"[" + std::to_string(episode) + "]";
}

/// Throws unless the offsets of the episodes or rows from `begin` to `end` are ranges of `size`
/// elements.
void check_ranges(const std::int64_t* offsets, std::int64_t begin, std::int64_t end,
                  std::int64_t size, const std::string& name) {
  for (std::int64_t i = begin; i < end; ++i) {
    if (!is_range(offsets[i], offsets[i + 1], size)) throw_range(name, i, offsets, size);
  }
}

/// Throws unless the offsets of `count` episodes or rows split `size` elements into ranges.
void check_all_offsets(const std::int64_t* offsets, std::int64_t count, std::int64_t size,
                       const std::string& name) {
  if (offsets[0] != 0) throw_store_error(name, "0 first", std::to_string(offsets[0]));
  check_ranges(offsets, 0, count, size, name);
  if (offsets[count] != size) {
    throw_store_error(name, std::to_string(size) + " last", std::to_string(offsets[count]));
  }
}

/// Whether the JSON library accepts a text, which must be UTF-8.
bool is_utf8(std::string_view text) {
  try {
    (void)Json(text).dump();
  } catch (const Json::exception&) {
    return false;
  }
  return true;
}

}  // namespace

Shard::Shard(const std::byte* file, std::size_t size, const ShardEntry& entry,
             const Manifest& manifest, const std::string& path)
    : episodes_(entry.episodes) {
  Tensors tensors(file, size, path);
  const std::int64_t count = episodes_;
  start_ns_ = tensors.take_array<std::int64_t>("episode/start_ns", DataType::kInt64, count);
  end_ns_ = tensors.take_array<std::int64_t>("episode/end_ns", DataType::kInt64, count);
  length_ = tensors.take_array<std::int64_t>("episode/length", DataType::kInt64, count);
  task_ = tensors.take_array<std::int32_t>("episode/task", DataType::kInt32, count);
  subsets_ = tensors.take_array<std::uint64_t>("episode/subsets", DataType::kUInt64, count);
  source_offsets_ =
      tensors.take_array<std::int64_t>("episode/source_offsets", DataType::kInt64, count + 1);
  source_ = reinterpret_cast<const char*>(
      tensors.take("episode/source", DataType::kUInt8, {-1}, &source_bytes_));

  streams_.resize(manifest.streams.size());
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    const StreamInfo& info = manifest.streams[i];
    StreamPlace& place = streams_[i];
    const auto name = [&](const char* part) { return info.name + "/" + part; };
    if (!tensors.has(name("values"))) continue;  // its other tensors remain: an error
    std::vector<std::int64_t> shape = {-1};
    shape.insert(shape.end(), info.shape.begin(), info.shape.end());
    place.values = tensors.take(name("values"), info.dtype, std::move(shape), &place.items);
    place.rows = info.is_ragged ? tensors.take_offsets(name("row_offsets"), &place.row_offsets)
                                : place.items;
    const std::int64_t rows = place.rows;
    place.times = tensors.take_array<std::int64_t>(name("times"), DataType::kInt64, rows);
    place.offsets = tensors.take_array<std::int64_t>(name("offsets"), DataType::kInt64, count + 1);
    if (tensors.has(name("received"))) {
      place.received = tensors.take_array<std::int64_t>(name("received"), DataType::kInt64, rows);
    }
    if (tensors.has(name("valid"))) {
      place.valid = tensors.take(name("valid"), DataType::kBool, {rows});
    }
    if (info.encoding == Encoding::kJpeg) {
      place.entries = reinterpret_cast<const std::uint64_t*>(
          tensors.take(name("entries"), DataType::kUInt64, {-1}, &place.entry_count));
      place.entry_offsets =
          tensors.take_array<std::int64_t>(name("entry_offsets"), DataType::kInt64, rows + 1);
      place.scan_bits =
          tensors.take_array<std::uint32_t>(name("scan_bits"), DataType::kUInt32, rows);
    }
  }
  tensors.expect_none_left();
}

StreamRows Shard::views_of(const StreamPlace& place, const StreamInfo& info, Range rows,
                           Range items, Range entries) {
  const std::int64_t count = rows.end - rows.begin;
  const auto at = [&](const std::int64_t* array, std::int64_t size) {
    return vector_view(array == nullptr ? nullptr : array + rows.begin, DataType::kInt64, size);
  };
  StreamRows view;
  // A stream that the shard lacks has a null pointer, to which no offset may be added.
  const std::byte* values =
      place.values == nullptr
          ? nullptr
          : place.values + items.begin * row_elements(info) * size_of(info.dtype);
  view.values = values_view(values, info, items.end - items.begin);
  view.times = ConstTensorView(place.times == nullptr ? nullptr : place.times + rows.begin,
                               DataType::kInt64, {count});
  view.received = at(place.received, count);
  view.valid = vector_view(place.valid == nullptr ? nullptr : place.valid + rows.begin,
                           DataType::kBool, count);
  view.row_offsets = at(place.row_offsets, count + 1);
  view.entry_offsets = at(place.entry_offsets, count + 1);
  if (place.entries != nullptr) {
    view.entries =
        vector_view(place.entries + entries.begin, DataType::kUInt64, entries.end - entries.begin);
    view.scan_bits = vector_view(place.scan_bits + rows.begin, DataType::kUInt32, count);
  }
  return view;
}

ShardStream Shard::stream(std::size_t stream, const StreamInfo& info) const {
  const StreamPlace& place = streams_[stream];
  return {views_of(place, info, {0, place.rows}, {0, place.items}, {0, place.entry_count}),
          vector_view(place.offsets, DataType::kInt64, episodes_ + 1)};
}

StreamRows Shard::episode_rows(std::int64_t episode, std::size_t stream, const StreamInfo& info,
                               const std::string& path) const {
  const StreamPlace& place = streams_[stream];
  if (place.offsets == nullptr) return views_of(place, info, {}, {}, {});
  const Range rows{place.offsets[episode], place.offsets[episode + 1]};
  if (!is_range(rows.begin, rows.end, place.rows)) {
    throw_range(path + ": " + quote(info.name + "/offsets"), episode, place.offsets, place.rows);
  }
  // The range of a part of the rows in an array of `size` elements that `offsets` split.
  const auto range_of = [&](const std::int64_t* offsets, std::int64_t size, const char* part) {
    if (rows.begin == rows.end) return Range{};
    check_ranges(offsets, rows.begin, rows.end, size, path + ": " + quote(info.name + part));
    return Range{offsets[rows.begin], offsets[rows.end]};
  };
  const Range items = place.row_offsets == nullptr
                          ? rows
                          : range_of(place.row_offsets, place.items, "/row_offsets");
  const Range entries = place.entry_offsets == nullptr
                            ? Range{}
                            : range_of(place.entry_offsets, place.entry_count, "/entry_offsets");
  return views_of(place, info, rows, items, entries);
}

EpisodeInfo Shard::numbers(std::int64_t episode, const ShardEntry& entry,
                           const std::string& path) const {
  const auto name = [&](const char* array) { return name_of_fact(path, array, episode); };
  EpisodeInfo info;
  info.index_in_shard = episode;
  info.start_ns = start_ns_[episode];
  info.end_ns = end_ns_[episode];
  if (info.end_ns < info.start_ns) {
    throw_store_error(name("end_ns"), std::to_string(info.start_ns) + " or later",
                      std::to_string(info.end_ns));
  }
  info.length = length_[episode];
  if (info.length < 1) throw_store_error(name("length"), "1 or more", std::to_string(info.length));
  const std::int64_t task = task_[episode];
  const auto tasks = static_cast<std::int64_t>(entry.tasks.size());
  if (task < -1 || task >= tasks) {
    throw_store_error(name("task"),
                      "-1 or the number of one of " + std::to_string(tasks) + " tasks",
                      std::to_string(task));
  }
  if (task >= 0) info.task = entry.tasks[static_cast<std::size_t>(task)];
  return info;
}

EpisodeInfo Shard::episode(std::int64_t episode, const ShardEntry& entry,
                           const std::string& path) const {
  EpisodeInfo info = numbers(episode, entry, path);
  const std::uint64_t bits = subsets_[episode];
  const std::size_t count = entry.subsets.size();
  for (std::size_t bit = 0; bit < count; ++bit) {
    if ((bits >> bit & 1u) != 0) info.subsets.push_back(entry.subsets[bit]);
  }
  if (count < 64 && bits >> count != 0) {
    throw_store_error(name_of_fact(path, "subsets", episode),
                      "bits of " + std::to_string(count) + " subsets", std::to_string(bits));
  }

  const std::int64_t begin = source_offsets_[episode];
  const std::int64_t end = source_offsets_[episode + 1];
  if (!is_range(begin, end, source_bytes_)) {
    throw_range(path + ": \"episode/source_offsets\"", episode, source_offsets_, source_bytes_);
  }
  info.source = {source_ + begin, static_cast<std::size_t>(end - begin)};
  if (!is_utf8(info.source)) {
    throw_store_error(name_of_fact(path, "source", episode), "UTF-8", quote(info.source));
  }
  return info;
}

void Shard::check_offsets(std::size_t stream, const StreamInfo& info,
                          const std::string& path) const {
  const StreamPlace& place = streams_[stream];
  if (place.offsets == nullptr) return;
  const auto check = [&](const std::int64_t* offsets, std::int64_t count, std::int64_t size,
                         const char* part) {
    check_all_offsets(offsets, count, size, path + ": " + quote(info.name + part));
  };
  check(place.offsets, episodes_, place.rows, "/offsets");
  if (place.row_offsets != nullptr) {
    check(place.row_offsets, place.rows, place.items, "/row_offsets");
  }
  if (place.entry_offsets != nullptr) {
    check(place.entry_offsets, place.rows, place.entry_count, "/entry_offsets");
  }
}

void Shard::check_frames(const StreamPlace& place, const StreamInfo& info,
                         const std::string& path) {
  for (std::int64_t row = 0; row < place.rows; ++row) {
    const auto refuse = [&](const std::string& expected, const std::string& got) {
      throw_store_error(path + ": " + quote(info.name + "/values") + " row " + std::to_string(row),
                        expected, got);
    };
    const std::int64_t entries = place.entry_offsets[row + 1] - place.entry_offsets[row];
    if (entries == 0) {
      if (place.valid == nullptr || place.valid[row] != std::byte{0}) {
        refuse("a frame with an index, or a row that is not valid", "a valid row without index");
      }
      continue;
    }
    const std::byte* file = place.values + place.row_offsets[row];
    const auto size = static_cast<std::size_t>(place.row_offsets[row + 1] - place.row_offsets[row]);
    JpegHeader header;
    const JpegStatus parsed = parse_jpeg(file, size, header);
    if (parsed != JpegStatus::kOk) refuse("baseline JPEG", describe(parsed));
    const std::vector<std::int64_t> shape = {header.height, header.width, header.components};
    if (shape != info.decoded_shape) {
      refuse("a frame of shape " + text_of(info.decoded_shape), text_of(shape));
    }
    const JpegStatus status =
        verify_jpeg_index(file, size, static_cast<std::int32_t>(info.mcus_per_entry),
                          place.entries + place.entry_offsets[row], entries, place.scan_bits[row]);
    if (status != JpegStatus::kOk && status != JpegStatus::kDamaged) {
      refuse("an index of the frame's bytes", describe(status));
    }
  }
}

void Shard::check_data(const ShardEntry& entry, const Manifest& manifest,
                       const std::string& path) const {
  check_all_offsets(source_offsets_, episodes_, source_bytes_,
                    path + ": \"episode/source_offsets\"");
  for (std::size_t i = 0; i < streams_.size(); ++i) check_offsets(i, manifest.streams[i], path);

  for (std::int64_t e = 0; e < episodes_; ++e) {
    const EpisodeInfo info = episode(e, entry, path);
    const auto name = [&] { return path + ": episode " + std::to_string(e) + " of the shard: "; };
    std::int64_t first = std::numeric_limits<std::int64_t>::max();
    std::int64_t last = std::numeric_limits<std::int64_t>::min();
    std::int64_t longest = 0;
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      const StreamPlace& place = streams_[i];
      if (place.offsets == nullptr) continue;
      const std::int64_t* begin = place.times + place.offsets[e];
      const std::int64_t* end = place.times + place.offsets[e + 1];
      if (begin == end) continue;
      const std::int64_t* descent = std::adjacent_find(begin, end, std::greater<>());
      if (descent != end) {
        throw_store_error(
            name() + quote(manifest.streams[i].name + "/times"), "ascending times",
            text_of({descent[0], descent[1]}) + " at row " + std::to_string(descent - begin));
      }
      first = std::min(first, *begin);
      last = std::max(last, end[-1]);
      longest = std::max(longest, end - begin);
    }
    const auto expect = [&](const char* fact, std::int64_t expected, std::int64_t got) {
      if (expected == got) return;
      throw_store_error(name() + fact, std::to_string(expected) + ", as its rows say",
                        std::to_string(got));
    };
    expect("length", longest, info.length);
    expect("start_ns", first, info.start_ns);
    expect("end_ns", last, info.end_ns);
  }

  for (std::size_t i = 0; i < streams_.size(); ++i) {
    const StreamPlace& place = streams_[i];
    const auto check_flags = [&](const std::byte* flags, std::int64_t count, const char* part) {
      const auto* end = flags + count;
      const auto* wrong =
          std::find_if(flags, end, [](std::byte flag) { return std::to_integer<int>(flag) > 1; });
      if (wrong == end) return;
      throw_store_error(path + ": " + quote(manifest.streams[i].name + "/" + part), "0 or 1",
                        std::to_string(std::to_integer<int>(*wrong)) + " at element " +
                            std::to_string(wrong - flags));
    };
    if (place.valid != nullptr) check_flags(place.valid, place.rows, "valid");
    if (manifest.streams[i].encoding == Encoding::kJpeg && place.values != nullptr) {
      check_frames(place, manifest.streams[i], path);
    }
    if (manifest.streams[i].dtype == DataType::kBool && place.values != nullptr) {
      check_flags(place.values, place.items * row_elements(manifest.streams[i]), "values");
    }
  }
}

}  // namespace robocache::store
