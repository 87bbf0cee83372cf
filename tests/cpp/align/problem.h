// Calls of `align` with all that they need.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "robocache/align.h"
#include "support/tensor.h"

namespace robocache::testing {

inline constexpr DataType kValueTypes[] = {DataType::kFloat16, DataType::kBFloat16,
                                           DataType::kFloat32, DataType::kFloat64,
                                           DataType::kUInt8};
inline constexpr DataType kTimeTypes[] = {DataType::kInt64, DataType::kFloat32, DataType::kFloat64};
inline constexpr Method kMethods[] = {Method::kLinear,    Method::kPrevious,  Method::kNearest,
                                      Method::kSlerpXyzw, Method::kSlerpWxyz, Method::kAngle,
                                      Method::kMean,      Method::kSum};

inline bool is_slerp(Method method) {
  return method == Method::kSlerpXyzw || method == Method::kSlerpWxyz;
}

/// A stream and the memory of its arguments.
struct StreamData {
  Tensor values, times, lengths, begins, valid, subtract, multiply;
  Method method = Method::kLinear;
  std::vector<Run> layout;
  std::optional<Duration> max_gap, tolerance, mean_window, clock_offset;

  Stream stream() const;
  std::vector<Run> runs() const;
  bool has(Method method) const;
  bool has_slerp() const;
};

struct Problem {
  std::vector<StreamData> streams;
  Tensor target_times;
  AlignOptions options;
  Tensor values_out, valid_out, age_out;  // the last two may be absent

  std::vector<Stream> views() const;
  std::string text() const;
};

}  // namespace robocache::testing
