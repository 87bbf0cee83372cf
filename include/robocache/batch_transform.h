// What a batch goes through after it was aligned and normalized: a policy spec's transforms, which
// are `rc.transforms` in Python. docs/transforms.md says what each does, and what it does to masks.
//
// A key is a stream's name, or that of a group whose streams stand side by side. Its values are
// floats, [...,D] in a row of it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "robocache/transform.h"

namespace robocache {

/// Rotations in another form, from column `at` on. Rows become wider or narrower by it; the columns
/// before and after stay.
struct RotationTransform {
  std::string key;
  RotationForm source = RotationForm::kQuaternionXyzw;
  RotationForm target = RotationForm::kQuaternionXyzw;
  std::int64_t at = 0;
};

/// Poses, from column `at` of rows [D], relative to that of another key, from its column `to_at`.
struct RelativePoseTransform {
  std::string key, to;
  RotationForm form = RotationForm::kQuaternionXyzw;
  std::int64_t at = 0, to_at = 0;
  std::int64_t step = -1;  // of `to`, from its last one where it is negative: the anchor's, at 0
};

/// Rows [D] as steps from the one before, or back; the first is from a row of another key.
struct DeltaTransform {
  std::string key, start;
  DeltaDirection direction = DeltaDirection::kToAbsolute;
  std::optional<double> time_step;  // seconds between rows: the steps are velocities
  std::int64_t step = -1;           // of `start`, as above
};

/// (x - subtract) * multiply, by key; of those that batches do not have, nothing.
struct NormalizeTransform {
  struct Scale {
    std::vector<std::int64_t> shape;         // against the last axes of a row; 1 matches any size
    std::vector<double> subtract, multiply;  // row-major; no multiply is 0
  };
  std::map<std::string, Scale> normalization;
};

using BatchTransform =
    std::variant<RotationTransform, RelativePoseTransform, DeltaTransform, NormalizeTransform>;

}  // namespace robocache
