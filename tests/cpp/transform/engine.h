// A transform and its gradient on the CPU or on CUDA, behind one face, and random ones to try. All
// take host memory; that of CUDA is copied to the device and back.
#pragma once

#include <cstdint>
#include <string>

#include "robocache/transform.h"
#include "support/tensor.h"

namespace robocache::testing {

struct TransformCall {
  enum class Kind : std::uint8_t { kRotation, kPose, kDelta };

  Kind kind = Kind::kRotation;
  RotationForm source = RotationForm::kMatrix;  // of poses too
  RotationForm target = RotationForm::kMatrix;  // of rotations only
  bool is_back = false;                         // to absolute poses; to deltas
  double duration = 1;
  Tensor x;         // [N,width], [N,K,P] or [N,K,D]
  Tensor row;       // the anchor or the start, [N,...]
  Tensor times;     // absent, [N,K+1] or [K+1]
  Tensor grad_out;  // as the result

  std::string text() const;
};

struct TransformResult {
  Tensor out, grad_x, grad_row;
};

/// On "cpu", "cpu_backwards" (parts of uneven size, the last first) or "cuda".
TransformResult run_transform(const std::string& engine, const TransformCall& call);

/// Why an engine cannot run here; empty if it can.
std::string transform_engine_problem(const std::string& engine);

/// Any kind, forms, types, sizes and strides; numbers that are no rotations as they stand, zeros
/// and NaN.
TransformCall random_transform(std::uint64_t seed);

}  // namespace robocache::testing
