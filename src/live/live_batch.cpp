#include "live/live_batch.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "core/argument.h"
#include "core/check.h"
#include "live/buffer_rows.h"
#include "live/row_transform.h"
#include "window/windows.h"

namespace robocache {
namespace {

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += (text.empty() ? "" : ",") + std::to_string(size);
  return "[" + text + "]";
}

/// Plans and validates the transforms of a list, one after the other.
class Planner {
 public:
  Planner(const std::vector<LiveStream>& streams, std::vector<BatchKey>* keys)
      : streams_(streams), keys_(*keys) {}

  void add(const BatchTransform& transform, std::string name) {
    name_ = std::move(name);
    std::visit([this](const auto& each) { add_one(each); }, transform);
  }

  std::vector<KeyTransform> take() { return std::move(made_); }

 private:
  void add_one(const RotationTransform& transform) {
    const std::int64_t width = checked_width("source", transform.source);
    const std::int64_t made = checked_width("target", transform.target);
    BatchKey& key = floating_key("key", transform.key);
    if (key.shape.empty()) refuse("key", "rows [...,D]", "numbers of " + quoted(key.name));
    check_columns("key", key, "at", transform.at, width);
    KeyTransform planned = planned_of(key, transform);
    key.shape.back() += made - width;
    planned.row_after = key.shape_elements();
    if (planned.row_after > kMaxRowElements) {
      refuse("target", "rows of at most " + std::to_string(kMaxRowElements) + " elements",
             std::to_string(planned.row_after));
    }
    made_.push_back(std::move(planned));
  }

  void add_one(const RelativePoseTransform& transform) {
    const std::int64_t width = 3 + checked_width("form", transform.form);
    const BatchKey& key = vector_key("key", transform.key);
    const BatchKey& to = vector_key("to", transform.to);
    check_columns("key", key, "at", transform.at, width);
    check_columns("to", to, "to_at", transform.to_at, width);
    KeyTransform planned = planned_of(key, transform);
    planned.pad_rule = PadRule::kWithReference;
    planned.reference = reference_at("to", to, transform.step);
    made_.push_back(std::move(planned));
  }

  void add_one(const DeltaTransform& transform) {
    if (transform.direction > DeltaDirection::kToDelta) {
      refuse("direction", "a DeltaDirection",
             std::to_string(static_cast<int>(transform.direction)));
    }
    const BatchKey& key = vector_key("key", transform.key);
    const BatchKey& start = vector_key("start", transform.start);
    if (transform.time_step) {
      const double seconds = as_computed(key, *transform.time_step);
      if (!(seconds > 0) || !std::isfinite(seconds)) {
        refuse("time_step", "a positive finite number of seconds", text_of(*transform.time_step));
      }
    }
    if (!first_of(key).has_axis) {
      refuse("key", "one with an axis of steps", quoted(key.name));
    }
    if (start.shape != key.shape) {
      refuse("start", "rows " + shape_text(key.shape) + " like " + quoted(key.name),
             shape_text(start.shape) + " of " + quoted(start.name));
    }
    KeyTransform planned = planned_of(key, transform);
    planned.pad_rule = transform.direction == DeltaDirection::kToAbsolute ? PadRule::kAfterPadded
                                                                          : PadRule::kWithNeighbor;
    planned.reference = reference_at("start", start, transform.step);
    made_.push_back(std::move(planned));
  }

  /// Adds one transform per key of the normalization that the batch has.
  void add_one(const NormalizeTransform& transform) {
    std::string missing;
    const std::size_t before = made_.size();
    for (const auto& [name, scale] : transform.normalization) {
      check_scale(name, scale);
      missing += (missing.empty() ? "" : ", ") + quoted(name);
      if (find_key(name) == nullptr) continue;
      const BatchKey& key = floating_key("normalization", name);
      check_scale_of(key, scale);
      NormalizeTransform one;
      one.normalization.emplace(name, scale);
      made_.push_back(planned_of(key, std::move(one)));
    }
    if (made_.size() == before && !missing.empty()) {
      refuse("normalization", "a key of the batch, or several", missing);
    }
  }

  KeyTransform planned_of(const BatchKey& key, BatchTransform transform) const {
    const std::int64_t row = key.shape_elements();
    return {static_cast<std::size_t>(&key - keys_.data()),
            std::move(transform),
            key.shape,
            row,
            row,
            PadRule::kStays,
            std::nullopt};
  }

  // ---- scales

  void check_scale(const std::string& key, const NormalizeTransform::Scale& scale) const {
    const std::string name = "normalization[" + quoted(key) + "]";
    double elements = 1;
    for (const std::int64_t size : scale.shape) elements *= static_cast<double>(size);
    for (const auto& [part, numbers] :
         {std::pair{".subtract", &scale.subtract}, std::pair{".multiply", &scale.multiply}}) {
      const auto count = static_cast<double>(numbers->size());
      if (count != elements) {
        refuse(name + part, shape_text(scale.shape) + " numbers", std::to_string(numbers->size()));
      }
      for (const double number : *numbers) {
        if (!std::isfinite(number)) {
          refuse(name + part, "finite numbers", text_of(number));
        }
      }
    }
  }

  /// Checks that a scale fits a key's rows, and is invertible in the type in which they are
  /// computed.
  void check_scale_of(const BatchKey& key, const NormalizeTransform::Scale& scale) const {
    const std::string name = "normalization[" + quoted(key.name) + "]";
    const std::vector<std::int64_t> axes = without_leading_ones(scale.shape);
    bool fits = axes.size() <= key.shape.size();
    for (std::size_t i = 1; fits && i <= axes.size(); ++i) {
      const std::int64_t size = axes[axes.size() - i];
      fits = size == 1 || size == key.shape[key.shape.size() - i];
    }
    if (!fits) {
      refuse(name, "a shape that fits the end of rows " + shape_text(key.shape),
             shape_text(scale.shape));
    }
    for (const double number : scale.multiply) {
      const double computed = as_computed(key, number);
      if (computed == 0 || !std::isfinite(computed)) {
        refuse(name + ".multiply",
               std::string("numbers that ") + name_of(key.type) + " is computed with, other than 0",
               text_of(number));
      }
    }
  }

  /// A number rounded to the type in which a key's values are computed.
  static double as_computed(const BatchKey& key, double number) {
    return key.type == DataType::kFloat64 ? number
                                          : static_cast<double>(static_cast<float>(number));
  }

  // ---- keys

  BatchKey* find_key(const std::string& name) const {
    const auto found = std::find_if(keys_.begin(), keys_.end(),
                                    [&](const BatchKey& key) { return key.name == name; });
    return found == keys_.end() ? nullptr : &*found;
  }

  BatchKey& floating_key(const char* field, const std::string& name) const {
    BatchKey* const key = find_key(name);
    if (key == nullptr) refuse(field, "a key of the batch", quoted(name));
    if (!is_floating_type(key->type)) {
      refuse(field, "one of floats", std::string(name_of(key->type)) + " of " + quoted(name));
    }
    return *key;
  }

  BatchKey& vector_key(const char* field, const std::string& name) const {
    BatchKey& key = floating_key(field, name);
    if (key.shape.size() != 1) {
      refuse(field, "rows that are vectors", shape_text(key.shape) + " of " + quoted(name));
    }
    return key;
  }

  const LiveStream& first_of(const BatchKey& key) const { return streams_[key.streams[0]]; }

  KeyTransform::Reference reference_at(const char* field, const BatchKey& key,
                                       std::int64_t step) const {
    const LiveStream& stream = first_of(key);
    if (!is_live(stream)) refuse(field, "a key whose steps are all 0 or less", quoted(key.name));
    const auto count = static_cast<std::int64_t>(stream.offsets.size());
    const std::int64_t asked = stream.has_axis ? step : 0;
    const std::int64_t found = asked < 0 ? count + asked : asked;
    if (found < 0 || found >= count || stream.offsets[static_cast<std::size_t>(found)] != 0) {
      refuse("step", "the step of " + quoted(key.name) + " at offset 0", std::to_string(step));
    }
    return {static_cast<std::size_t>(&key - keys_.data()), found, key.shape_elements()};
  }

  // ---- fields

  std::int64_t checked_width(const char* field, RotationForm form) const {
    const std::int64_t width = width_of(form);
    if (width == 0) refuse(field, "a RotationForm", std::to_string(static_cast<int>(form)));
    return width;
  }

  void check_columns(const char* key_field, const BatchKey& key, const char* field, std::int64_t at,
                     std::int64_t width) const {
    const std::int64_t last = key.shape.back();
    if (at >= 0 && last >= width && at <= last - width) return;
    if (last < width) {
      refuse(key_field, "rows [...," + std::to_string(width) + "] or wider",
             shape_text(key.shape) + " of " + quoted(key.name));
    }
    refuse(field, "a column from 0 to " + std::to_string(last - width) + " of " + quoted(key.name),
           std::to_string(at));
  }

  [[noreturn]] void refuse(const std::string& field, const std::string& expected,
                           const std::string& got) const {
    throw_value_error(name_ + "." + field, expected, got);
  }

  const std::vector<LiveStream>& streams_;
  std::vector<BatchKey>& keys_;
  std::vector<KeyTransform> made_;
  std::string name_;
};

}  // namespace

LiveBatch plan_live_batch(const std::vector<LiveStream>& streams,
                          const std::vector<LiveGroup>& groups,
                          const std::vector<BatchTransform>& transforms, bool has_dataset_index,
                          const std::string& prefix) {
  LiveBatch plan{batch_keys(streams, groups, has_dataset_index, prefix), {}};
  Planner planner(streams, &plan.keys);
  for (std::size_t i = 0; i < transforms.size(); ++i) {
    planner.add(transforms[i], prefix + "transforms[" + std::to_string(i) + "]");
  }
  plan.transforms = planner.take();
  return plan;
}

}  // namespace robocache
