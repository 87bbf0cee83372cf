// Transforms of one row of a key and their inverses: the arithmetic of src/transform, on rows that
// come one after the other.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "robocache/batch_transform.h"
#include "robocache/tensor_view.h"

namespace robocache {

/// A transform of one key's rows. Numbers are passed as float64, which holds those of every type;
/// they are computed in float32 if neither they nor the reference are float64, and rounded to their
/// type.
class RowTransform {
 public:
  virtual ~RowTransform() = default;

  /// Begins a window. `type`: of its numbers; `reference_type`: of the numbers of the reference
  /// row, which is null for transforms without a reference, and else must outlive the window.
  virtual void begin(DataType type, DataType reference_type, const double* reference) = 0;
  /// Transforms the next row, or inverts it; `out` must not overlap `x`.
  virtual void apply(const double* x, double* out) = 0;
  virtual void undo(const double* x, double* out) = 0;
};

/// The shape of a scale without its leading axes of size 1, so that it aligns with the end of a
/// row's shape.
std::vector<std::int64_t> without_leading_ones(const std::vector<std::int64_t>& shape);

/// Builds a planned transform for rows of a shape; one that normalizes has one scale.
std::unique_ptr<RowTransform> make_row_transform(const BatchTransform& transform,
                                                 const std::vector<std::int64_t>& shape);

/// Convert `count` numbers of a floating type to float64, and back.
void load_numbers(DataType type, const void* from, std::int64_t count, double* numbers);
void store_numbers(DataType type, const double* numbers, std::int64_t count, void* to);

}  // namespace robocache
