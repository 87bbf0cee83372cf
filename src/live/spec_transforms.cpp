#include "live/spec_transforms.h"

#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "store/stream_values.h"
#include "window/fields.h"

namespace robocache {
namespace {

using store::Value;

constexpr std::size_t kMostAxes = 8;

constexpr std::pair<std::string_view, RotationForm> kForms[] = {
    {"quaternion_xyzw", RotationForm::kQuaternionXyzw},
    {"quaternion_wxyz", RotationForm::kQuaternionWxyz},
    {"matrix", RotationForm::kMatrix},
    {"rotation_6d", RotationForm::k6d},
    {"rotation_vector", RotationForm::kRotationVector},
};

RotationForm read_form(const Value& value) { return store::choice(value, kForms); }

std::int64_t read_column(const Value& value) {
  return value.integer(std::numeric_limits<std::int64_t>::max());
}

BatchTransform read_rotation(const Value& value, int version) {
  check_members(value, {"type", "key", "source", "target", "at"}, version);
  RotationTransform read;
  read.key = value.member("key").text();
  read.source = read_form(value.member("source"));
  read.target = read_form(value.member("target"));
  read.at = read_column(value.member("at"));
  return read;
}

BatchTransform read_pose(const Value& value, int version) {
  check_members(value, {"type", "key", "to", "form", "at", "to_at", "step"}, version);
  RelativePoseTransform read;
  read.key = value.member("key").text();
  read.to = value.member("to").text();
  read.form = read_form(value.member("form"));
  read.at = read_column(value.member("at"));
  read.to_at = read_column(value.member("to_at"));
  read.step = value.member("step").signed_integer();
  return read;
}

BatchTransform read_delta(const Value& value, int version, DeltaDirection direction) {
  check_members(value, {"type", "key", "start", "time_step", "step"}, version);
  DeltaTransform read;
  read.key = value.member("key").text();
  read.start = value.member("start").text();
  read.direction = direction;
  const Value time_step = value.member("time_step");
  if (time_step.json() == nullptr || !time_step.is_null()) read.time_step = time_step.number();
  read.step = value.member("step").signed_integer();
  return read;
}

/// Parses nested lists of numbers, all as deep as the first.
void read_nested(const Value& value, std::size_t axis, std::vector<std::int64_t>* shape,
                 std::vector<double>* numbers) {
  const store::Json* const json = value.json();
  if (json != nullptr && json->is_array() && axis < kMostAxes) {
    const std::vector<Value> items = value.items();
    const auto count = static_cast<std::int64_t>(items.size());
    if (axis == shape->size() && numbers->empty()) shape->push_back(count);
    if (axis < shape->size() && (*shape)[axis] == count) {
      for (const Value& item : items) read_nested(item, axis + 1, shape, numbers);
      return;
    }
    value.refuse("lists of one length");
  }
  if (axis != shape->size()) value.refuse("a list, as beside it");
  numbers->push_back(value.number());
}

NormalizeTransform::Scale read_scale(const Value& value, int version) {
  check_members(value, {"subtract", "multiply"}, version);
  NormalizeTransform::Scale read;
  std::vector<std::int64_t> shape;
  read_nested(value.member("subtract"), 0, &read.shape, &read.subtract);
  const Value multiply = value.member("multiply");
  read_nested(multiply, 0, &shape, &read.multiply);
  if (shape != read.shape) multiply.refuse("as many numbers as to subtract");
  return read;
}

BatchTransform read_normalize(const Value& value, int version) {
  check_members(value, {"type", "normalization"}, version);
  NormalizeTransform read;
  const Value scales = value.member("normalization");
  for (const auto& member : scales.object()) {
    read.normalization.emplace(member.first, read_scale(scales.entry(member), version));
  }
  return read;
}

}  // namespace

BatchTransform read_transform(const Value& value, int version) {
  value.object();
  const Value type = value.member("type");
  const std::string name = type.is_text() ? type.text() : "";
  if (name == "convert_rotation") return read_rotation(value, version);
  if (name == "relative_pose") return read_pose(value, version);
  if (name == "delta_to_absolute") return read_delta(value, version, DeltaDirection::kToAbsolute);
  if (name == "absolute_to_delta") return read_delta(value, version, DeltaDirection::kToDelta);
  if (name == "normalize") return read_normalize(value, version);
  type.refuse(
      "one of convert_rotation, relative_pose, delta_to_absolute, absolute_to_delta, normalize");
}

}  // namespace robocache
