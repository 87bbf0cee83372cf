// What `align` and its gradient are to give: docs/meaning.md, one target after another, in loops
// that can be checked by reading them. Nothing here is shared with src/align.
//
// Rows come from a linear scan, integer times are subtracted in 128 bits, and values are combined
// in the compute type, one operation after another. Slerp and the wrap of angles are worked in
// extended precision, so of these runs the reference tells a range: 4 units in the last place of 1
// either way, or of the largest angle on the way to the result where that is larger.
#pragma once

#include <cstdint>
#include <vector>

#include "robocache/align.h"
#include "support/tensor.h"

namespace robocache::testing {

/// What a call of `align` may write.
struct Expected {
  // Every element, in row-major order over [B,T,sum of D]: the least and the greatest that will do,
  // which are one for all methods but slerp and angle.
  std::vector<double> low, high;
  std::vector<bool> valid;  // [B,T,streams]
  Tensor age;               // [B*T*streams], of the times' type
};

/// `holds_newest`: as in a causal window of the loader, whose rows are those that had arrived.
Expected expected_alignment(const std::vector<Stream>& streams, const ConstTensorView& target_times,
                            Outside outside, DataType out_type, bool holds_newest = false);

/// The gradient of `align`, for one stream: what each target gives to its rows is added to theirs,
/// in the order that `align_backward` documents. Elements of the values in row-major order; those
/// of slerp runs are worked by differences, to about 1e-8.
std::vector<double> expected_gradient(const Stream& stream, const ConstTensorView& target_times,
                                      Outside outside, const ConstTensorView& grad_output);

}  // namespace robocache::testing
