// What a transform does to one row of a key, and how it is taken back: the arithmetic of
// src/transform, on rows that come one after the other.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "robocache/batch_transform.h"
#include "robocache/tensor_view.h"

namespace robocache {

/// A transform of one key's rows. Numbers are float64, which holds those of every type; they are
/// computed in float32 if neither they nor the reference are float64, and rounded to their type.
class RowTransform {
 public:
  virtual ~RowTransform() = default;

  /// A window begins. `type`: of its numbers, and of those of the row that it is relative to, which
  /// is null for transforms that have none and else outlives the window.
  virtual void begin(DataType type, DataType reference_type, const double* reference) = 0;
  /// The next row; `out` is apart from `x`.
  virtual void apply(const double* x, double* out) = 0;
  virtual void undo(const double* x, double* out) = 0;
};

/// The shape of a scale as it lies against the end of a row's.
std::vector<std::int64_t> without_leading_ones(const std::vector<std::int64_t>& shape);

/// Of a planned transform, for rows of a shape; one that normalizes has one scale.
std::unique_ptr<RowTransform> make_row_transform(const BatchTransform& transform,
                                                 const std::vector<std::int64_t>& shape);

/// So many numbers of a floating type, and back.
void load_numbers(DataType type, const void* from, std::int64_t count, double* numbers);
void store_numbers(DataType type, const double* numbers, std::int64_t count, void* to);

}  // namespace robocache
