#include "live/transform_chain.h"

#include <algorithm>
#include <utility>

#include "window/windows.h"

namespace robocache {

TransformChain::TransformChain(const std::vector<LiveStream>& streams, const LiveBatch& batch,
                               const OutputLayout& layout, const LiveOptions& options)
    : streams_(streams),
      keys_(batch.keys),
      layout_(layout),
      robots_(options.robots),
      works_(batch.keys.size()),
      references_of_(batch.keys.size()) {
  std::vector<std::int64_t> widest(keys_.size());  // elements of the widest intermediate row
  for (const KeyTransform& each : batch.transforms) {
    Link& link = links_.emplace_back();
    link.plan = &each;
    link.rows = make_row_transform(each.transform, each.shape);
    widest[each.key] = std::max({widest[each.key], each.row_before, each.row_after});
    if (!each.reference) continue;
    const auto count = static_cast<std::size_t>(options.kept_queries * robots_);
    link.references.resize(count * static_cast<std::size_t>(each.reference->row));
    link.is_reference_padded.resize(count);
    references_of_[each.key].push_back(each.reference->key);
  }
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    if (widest[i] == 0 || !is_live(streams_[keys_[i].streams[0]])) continue;
    Work& work = works_[i];
    const std::int64_t bytes = keys_[i].row_elements() * size_of(keys_[i].type);
    work.made = make_aligned(static_cast<std::size_t>(steps_of(i) * bytes));
    work.now.resize(static_cast<std::size_t>(steps_of(i) * widest[i]));
    work.next.resize(work.now.size());
  }
  row_.resize(static_cast<std::size_t>(*std::max_element(widest.begin(), widest.end())));
  other_row_.resize(row_.size());
}

std::int64_t TransformChain::steps_of(std::size_t key) const {
  return static_cast<std::int64_t>(streams_[keys_[key].streams[0]].offsets.size());
}

std::byte* TransformChain::window_of(std::size_t stream) const {
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    std::int64_t columns = 0;
    for (const std::size_t member : keys_[i].streams) {
      if (member == stream) {
        return is_made(i) ? works_[i].made.get() + columns * size_of(keys_[i].type) : nullptr;
      }
      columns += width_of(streams_[member]);
    }
  }
  return nullptr;
}

void TransformChain::apply(const Selection& selection, std::int64_t slot, std::int64_t robot,
                           std::byte* out) {
  const std::int64_t row = slot * robots_ + robot;
  const auto is_changed = [&](std::size_t key) { return is_made(key) && selection.keys[key] != 0; };
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    if (!is_changed(i)) continue;
    load_numbers(keys_[i].type, works_[i].made.get(), steps_of(i) * keys_[i].row_elements(),
                 works_[i].now.data());
  }
  for (Link& link : links_) {
    const KeyTransform& plan = *link.plan;
    if (plan.reference) keep_reference(link, *plan.reference, row, robot, out);
    if (!is_changed(plan.key)) continue;
    begin(link, row, keys_[plan.key].type);
    Work& work = works_[plan.key];
    for (std::int64_t k = 0; k < steps_of(plan.key); ++k) {
      link.rows->apply(work.now.data() + k * plan.row_before,
                       work.next.data() + k * plan.row_after);
    }
    std::swap(work.now, work.next);
    pad(link, row, robot, out);
  }
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    if (!is_changed(i)) continue;
    const std::int64_t count = steps_of(i) * keys_[i].shape_elements();
    store_numbers(keys_[i].type, works_[i].now.data(), count,
                  out + layout_.values[i] + robot * count * size_of(keys_[i].type));
  }
}

void TransformChain::begin(Link& link, std::int64_t row, DataType type) const {
  if (!link.plan->reference) return link.rows->begin(type, type, nullptr);
  const KeyTransform::Reference& reference = *link.plan->reference;
  link.rows->begin(type, keys_[reference.key].type, link.references.data() + row * reference.row);
}

void TransformChain::keep_reference(Link& link, const KeyTransform::Reference& reference,
                                    std::int64_t row, std::int64_t robot, std::byte* out) const {
  // A reference without a mask counts as valid.
  const bool* const mask = mask_of(reference.key, robot, out);
  link.is_reference_padded[static_cast<std::size_t>(row)] =
      mask != nullptr && mask[reference.step] ? 1 : 0;
  double* const kept = link.references.data() + row * reference.row;
  if (is_made(reference.key)) {
    std::copy_n(works_[reference.key].now.data() + reference.step * reference.row, reference.row,
                kept);
    return;
  }
  const DataType type = keys_[reference.key].type;
  const std::int64_t step = robot * steps_of(reference.key) + reference.step;
  load_numbers(type, out + layout_.values[reference.key] + step * reference.row * size_of(type),
               reference.row, kept);
}

bool* TransformChain::mask_of(std::size_t key, std::int64_t robot, std::byte* out) const {
  if (keys_[key].is_group) return nullptr;
  const WindowPlace& place = layout_.window_of(keys_[key].streams[0]);
  return reinterpret_cast<bool*>(out + place.is_pad) + robot * steps_of(key);
}

void TransformChain::pad(const Link& link, std::int64_t row, std::int64_t robot,
                         std::byte* out) const {
  const KeyTransform& transform = *link.plan;
  bool* const mask = mask_of(transform.key, robot, out);
  if (mask == nullptr || !transform.reference) return;
  const bool is_reference_padded = link.is_reference_padded[static_cast<std::size_t>(row)] != 0;
  bool is_last_padded = is_reference_padded;
  for (std::int64_t k = 0; k < steps_of(transform.key); ++k) {
    const bool was_padded = mask[k];
    switch (transform.pad_rule) {
      case PadRule::kStays:
        break;
      case PadRule::kWithReference:
        mask[k] = was_padded || is_reference_padded;
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

bool TransformChain::changes(std::size_t key) const {
  return std::any_of(links_.begin(), links_.end(),
                     [&](const Link& link) { return link.plan->key == key; });
}

bool TransformChain::is_reference_padded(std::size_t key, std::int64_t slot,
                                         std::int64_t robot) const {
  const auto row = static_cast<std::size_t>(slot * robots_ + robot);
  return std::any_of(links_.begin(), links_.end(), [&](const Link& link) {
    return link.plan->key == key && link.plan->reference && link.is_reference_padded[row] != 0;
  });
}

void TransformChain::begin_undo(std::size_t key, std::int64_t slot, std::int64_t robot,
                                DataType type) {
  for (Link& link : links_) {
    if (link.plan->key == key) begin(link, slot * robots_ + robot, type);
  }
}

const double* TransformChain::undo_row(std::size_t key) {
  for (std::size_t i = links_.size(); i-- > 0;) {
    if (links_[i].plan->key != key) continue;
    links_[i].rows->undo(row_.data(), other_row_.data());
    std::swap(row_, other_row_);
  }
  return row_.data();
}

}  // namespace robocache
