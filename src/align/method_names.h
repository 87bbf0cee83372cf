// The names of methods and of the values of `outside`, which error messages, the store's manifest,
// policy specs and Python (through `build_info`) share.
#pragma once

#include <string_view>
#include <utility>

#include "robocache/align.h"

namespace robocache {

inline constexpr std::pair<std::string_view, Method> kMethodNames[] = {
    {"linear", Method::kLinear},
    {"previous", Method::kPrevious},
    {"nearest", Method::kNearest},
    {"slerp_xyzw", Method::kSlerpXyzw},
    {"slerp_wxyz", Method::kSlerpWxyz},
    {"angle", Method::kAngle},
    {"mean", Method::kMean},
    {"sum", Method::kSum},
};

inline constexpr std::pair<std::string_view, Outside> kOutsideNames[] = {
    {"hold", Outside::kHold},
    {"zero", Outside::kZero},
    {"nan", Outside::kNan},
    {"extrapolate", Outside::kExtrapolate},
};

/// The name of a value in its list; "unknown" for invalid values.
template <typename T, std::size_t kCount>
constexpr std::string_view name_in(const std::pair<std::string_view, T> (&names)[kCount], T value) {
  for (const auto& [name, each] : names) {
    if (each == value) return name;
  }
  return "unknown";
}

/// Whether a list has a name for a value.
template <typename T, std::size_t kCount>
constexpr bool is_named(const std::pair<std::string_view, T> (&names)[kCount], T value) {
  for (const auto& [name, each] : names) {
    if (each == value) return true;
  }
  return false;
}

/// Whether a method copies rows unchanged. Only such methods apply to rows of bytes.
constexpr bool copies_rows(Method method) {
  return method == Method::kPrevious || method == Method::kNearest;
}

}  // namespace robocache
