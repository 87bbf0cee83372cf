// What a transform does to one row of a key, and how it is taken back: the arithmetic of
// src/transform, on rows that come one after the other.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "robocache/batch_transform.h"
#include "robocache/tensor_view.h"

namespace robocache {

/// A transform of one key's rows. Numbers are float64, which holds those of every type: computed in
/// float32 where neither they nor the anchor's row are of float64, and rounded to their type.
class RowTransform {
 public:
  virtual ~RowTransform() = default;

  /// A window begins. `type`: of its numbers, and of those of the anchor's row, which is null for
  /// transforms that have none and else outlives the window.
  virtual void begin(DataType type, DataType anchor_type, const double* anchor) = 0;
  /// The next row; `out` is apart from `x`.
  virtual void apply(const double* x, double* out) = 0;
  virtual void undo(const double* x, double* out) = 0;
};

/// Rows of `row` numbers, of which a last axis has `last`.
std::unique_ptr<RowTransform> rotate_rows(const RotationTransform& transform, std::int64_t row,
                                          std::int64_t last);
std::unique_ptr<RowTransform> relate_rows(const PoseTransform& transform, std::int64_t row);
std::unique_ptr<RowTransform> step_rows(const DeltaTransform& transform, std::int64_t row);
/// `subtract`, `multiply`: a number for each of the row.
std::unique_ptr<RowTransform> scale_rows(std::vector<double> subtract,
                                         std::vector<double> multiply);

}  // namespace robocache
