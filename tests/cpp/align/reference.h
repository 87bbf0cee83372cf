// The reference of `align` and of its gradient: docs/meaning.md, one target after another, in loops
// that a reader can check. It shares no code with src/align.
//
// A linear scan locates rows, integer times are subtracted in 128 bits, and values are combined in
// the compute type, one operation after another. Slerp and the wrap of angles are computed in
// extended precision, so the reference of these runs is a range: 4 units in the last place of 1
// either way, or of the largest intermediate angle where that is larger.
#pragma once

#include <cstdint>
#include <vector>

#include "robocache/align.h"
#include "support/tensor.h"

namespace robocache::testing {

/// The outputs that `align` may write.
struct Expected {
  // The least and the greatest accepted value of every element, in row-major order over
  // [B,T,sum of D]; equal for all methods except slerp and angle.
  std::vector<double> low, high;
  std::vector<bool> valid;  // [B,T,streams]
  Tensor age;               // [B*T*streams], of the times' type
};

/// `holds_newest`: as in a causal window of the loader, whose rows are those that had arrived.
Expected expected_alignment(const std::vector<Stream>& streams, const ConstTensorView& target_times,
                            Outside outside, DataType out_type, bool holds_newest = false);

/// The gradient of `align` for one stream's values, in row-major order: each target's contributions
/// are added to its rows, in the order that `align_backward` documents. Elements of slerp runs are
/// difference quotients, accurate to about 1e-8.
std::vector<double> expected_gradient(const Stream& stream, const ConstTensorView& target_times,
                                      Outside outside, const ConstTensorView& grad_output);

}  // namespace robocache::testing
