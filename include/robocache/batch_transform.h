// Transforms that a batch goes through after alignment and normalization: the transforms of a
// policy spec, `rc.transforms` in Python. docs/transforms.md defines each, and its effect on masks.
//
// A key is the name of a stream, or of a group of concatenated streams. Its values are floating
// point; a row of it is [...,D].
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "robocache/transform.h"

namespace robocache {

/// Converts the rotations that start at column `at` to another form. The width of a row changes by
/// the difference of the forms' widths; all other columns stay as they are.
struct RotationTransform {
  std::string key;
  RotationForm source = RotationForm::kQuaternionXyzw;
  RotationForm target = RotationForm::kQuaternionXyzw;
  std::int64_t at = 0;
};

/// Makes the poses that start at column `at` of rows [D] relative to a pose of the key `to`, which
/// starts at its column `to_at`.
struct RelativePoseTransform {
  std::string key, to;
  RotationForm form = RotationForm::kQuaternionXyzw;
  std::int64_t at = 0, to_at = 0;
  // The step of `to` with the reference pose: the one at offset 0, the anchor's. A negative number
  // counts from the last step.
  std::int64_t step = -1;
};

/// Converts rows [D] to differences from the preceding row, or back. The first row's predecessor is
/// a row of the key `start`.
struct DeltaTransform {
  std::string key, start;
  DeltaDirection direction = DeltaDirection::kToAbsolute;
  std::optional<double> time_step;  // seconds between rows; with it, deltas are velocities
  std::int64_t step = -1;           // the step of `start`, as in RelativePoseTransform
};

/// Computes (x - subtract) * multiply for each key. Ignores keys that the batch does not have.
struct NormalizeTransform {
  struct Scale {
    std::vector<std::int64_t> shape;         // broadcast against the last axes of a row
    std::vector<double> subtract, multiply;  // row-major; no multiply is 0
  };
  std::map<std::string, Scale> normalization;
};

using BatchTransform =
    std::variant<RotationTransform, RelativePoseTransform, DeltaTransform, NormalizeTransform>;

}  // namespace robocache
