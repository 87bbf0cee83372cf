#include "live/transform_chain.h"

#include <algorithm>
#include <utility>

#include "core/number.h"
#include "live/check_streams.h"

namespace robocache {

TransformChain::TransformChain(const std::vector<LiveStream>& streams, const LiveBatch& plan,
                               const OutputLayout& layout, std::int64_t robots)
    : streams_(streams),
      keys_(plan.keys),
      transforms_(plan.transforms),
      layout_(layout),
      works_(plan.keys.size()),
      anchors_(plan.transforms.size()) {
  std::vector<std::int64_t> widest(keys_.size());
  for (std::size_t i = 0; i < keys_.size(); ++i) widest[i] = keys_[i].shape_elements();
  for (const KeyTransform& each : transforms_) {
    widest[each.key] = std::max({widest[each.key], each.row_before, each.row_after});
  }
  for (const KeyTransform& each : transforms_) {
    Work& work = works_[each.key];
    if (!is_live(streams_[keys_[each.key].streams[0]]) || work.made != nullptr) continue;
    const BatchKey& key = keys_[each.key];
    const std::int64_t steps = steps_of(each.key);
    work.made =
        make_aligned(static_cast<std::size_t>(steps * key.row_elements() * size_of(key.type)));
    work.now.resize(static_cast<std::size_t>(steps * widest[each.key]));
    work.next.resize(work.now.size());
  }
  for (std::size_t i = 0; i < transforms_.size(); ++i) {
    if (!transforms_[i].anchor) continue;
    anchors_[i].values.resize(static_cast<std::size_t>(robots * transforms_[i].anchor->row));
    anchors_[i].has_rows.resize(static_cast<std::size_t>(robots));
  }
  row_.resize(static_cast<std::size_t>(*std::max_element(widest.begin(), widest.end())));
  other_row_.resize(row_.size());
}

std::int64_t TransformChain::steps_of(std::size_t key) const {
  return static_cast<std::int64_t>(streams_[keys_[key].streams[0]].steps.size());
}

std::byte* TransformChain::window_of(std::size_t stream) const {
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    std::int64_t columns = 0;
    for (const std::size_t member : keys_[i].streams) {
      if (member == stream) {
        return is_made(i) ? works_[i].made.get() + columns * size_of(keys_[i].type) : nullptr;
      }
      columns += elements_of(streams_[member]);
    }
  }
  return nullptr;
}

bool* TransformChain::mask_of(std::size_t key, std::int64_t robot, std::byte* out) const {
  if (keys_[key].is_group) return nullptr;
  const WindowPlace& place = layout_.window_of(keys_[key].streams[0]);
  return reinterpret_cast<bool*>(out + place.is_pad) + robot * steps_of(key);
}

void TransformChain::apply(std::int64_t robot, std::byte* out) {
  // Masks change on the way: whether there was a row is asked first. Before a first one a window is
  // padded, at age 0; one that is held is padded too, but has an age.
  for (std::size_t i = 0; i < transforms_.size(); ++i) {
    if (!transforms_[i].anchor) continue;
    const KeyTransform::Anchor& anchor = *transforms_[i].anchor;
    bool has_rows = true;
    for (const std::size_t stream : keys_[anchor.key].streams) {
      const WindowPlace& place = layout_.window_of(stream);
      const std::int64_t at = robot * steps_of(anchor.key) + anchor.step;
      const bool is_pad = reinterpret_cast<const bool*>(out + place.is_pad)[at];
      const std::int64_t age = reinterpret_cast<const std::int64_t*>(out + place.age)[at];
      has_rows = has_rows && !(is_pad && age == 0);
    }
    anchors_[i].has_rows[static_cast<std::size_t>(robot)] = has_rows ? 1 : 0;
  }
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    if (!is_made(i)) continue;
    const std::int64_t count = steps_of(i) * keys_[i].row_elements();
    for (std::int64_t n = 0; n < count; ++n) {
      works_[i].now[static_cast<std::size_t>(n)] =
          ROBOCACHE_TARGET::load_as<double>(keys_[i].type, works_[i].made.get(), n);
    }
  }
  for (std::size_t i = 0; i < transforms_.size(); ++i) {
    const KeyTransform& each = transforms_[i];
    if (each.anchor) keep_anchor(i, robot, out);
    if (!is_made(each.key)) continue;
    begin(i, robot, keys_[each.key].type);
    Work& work = works_[each.key];
    for (std::int64_t k = 0; k < steps_of(each.key); ++k) {
      each.rows->apply(work.now.data() + k * each.row_before,
                       work.next.data() + k * each.row_after);
    }
    std::swap(work.now, work.next);
    pad(each, robot, out);
  }
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    if (!is_made(i)) continue;
    const std::int64_t count = steps_of(i) * keys_[i].shape_elements();
    for (std::int64_t n = 0; n < count; ++n) {
      ROBOCACHE_TARGET::store_as<double>(keys_[i].type, out + layout_.values[i], robot * count + n,
                                         works_[i].now[static_cast<std::size_t>(n)]);
    }
  }
}

/// A window, or an answer, of a robot begins.
void TransformChain::begin(std::size_t number, std::int64_t robot, DataType type) {
  const KeyTransform& each = transforms_[number];
  if (!each.anchor) return each.rows->begin(type, type, nullptr);
  each.rows->begin(type, keys_[each.anchor->key].type,
                   anchors_[number].values.data() + robot * each.anchor->row);
}

void TransformChain::keep_anchor(std::size_t number, std::int64_t robot, const std::byte* out) {
  const KeyTransform::Anchor& anchor = *transforms_[number].anchor;
  double* const kept = anchors_[number].values.data() + robot * anchor.row;
  if (is_made(anchor.key)) {
    std::copy_n(works_[anchor.key].now.data() + anchor.step * anchor.row, anchor.row, kept);
    return;
  }
  const std::int64_t at = (robot * steps_of(anchor.key) + anchor.step) * anchor.row;
  for (std::int64_t i = 0; i < anchor.row; ++i) {
    kept[i] = ROBOCACHE_TARGET::load_as<double>(keys_[anchor.key].type,
                                                out + layout_.values[anchor.key], at + i);
  }
}

void TransformChain::pad(const KeyTransform& transform, std::int64_t robot, std::byte* out) const {
  bool* const mask = mask_of(transform.key, robot, out);
  if (mask == nullptr || !transform.anchor) return;
  const bool* const of_anchor = mask_of(transform.anchor->key, robot, out);
  // Without a mask it is taken for real.
  const bool is_anchor_padded = of_anchor != nullptr && of_anchor[transform.anchor->step];
  bool is_last_padded = is_anchor_padded;
  for (std::int64_t k = 0; k < steps_of(transform.key); ++k) {
    const bool was_padded = mask[k];
    switch (transform.pad_rule) {
      case PadRule::kStays:
        break;
      case PadRule::kWithAnchor:
        mask[k] = was_padded || is_anchor_padded;
        break;
      case PadRule::kAfterPadded:
        mask[k] = is_last_padded = was_padded || is_last_padded;
        break;
      case PadRule::kWithNeighbor:
        mask[k] = was_padded || is_last_padded;
        is_last_padded = was_padded;
        break;
    }
  }
}

bool TransformChain::has_anchor(std::size_t key) const {
  return std::any_of(transforms_.begin(), transforms_.end(),
                     [&](const KeyTransform& each) { return each.key == key && each.anchor; });
}

bool TransformChain::has_rows(std::size_t key, std::int64_t robot) const {
  for (std::size_t i = 0; i < transforms_.size(); ++i) {
    if (transforms_[i].key != key || !transforms_[i].anchor) continue;
    if (anchors_[i].has_rows[static_cast<std::size_t>(robot)] == 0) return false;
  }
  return true;
}

void TransformChain::begin_undo(std::size_t key, std::int64_t robot, DataType type) {
  for (std::size_t i = 0; i < transforms_.size(); ++i) {
    if (transforms_[i].key == key) begin(i, robot, type);
  }
}

const double* TransformChain::undo_row(std::size_t key) {
  for (std::size_t i = transforms_.size(); i-- > 0;) {
    if (transforms_[i].key != key) continue;
    transforms_[i].rows->undo(row_.data(), other_row_.data());
    std::swap(row_, other_row_);
  }
  return row_.data();
}

}  // namespace robocache
