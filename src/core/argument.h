// A tensor argument with its name in error messages, and helpers for checks of shapes.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "core/check.h"

namespace robocache {

/// The number of an argument's stream, where streams are numbered.
struct StreamNumber {
  std::int64_t value = -1;  // -1: an argument of the call, or of its only stream

  /// "streams[2].times", or "times" alone.
  std::string name(const char* label) const {
    return value < 0 ? label : "streams[" + std::to_string(value) + "]." + label;
  }
};

/// A tensor argument with its name. It builds names and descriptions for messages on failure only.
struct Argument {
  const char* label;
  const ConstTensorView& view;  // must outlive this; a temporary in the initializer does
  StreamNumber stream = {};

  std::string name() const { return stream.name(label); }

  void expect_type(bool accepted, const char* expected) const {
    if (!accepted) throw_type_error(name(), expected, name_of(view.dtype));
  }
  void expect_shape(bool accepted, const char* expected) const {
    if (!accepted) throw_value_error(name(), expected, shape_text(view));
  }
  /// `describe()` returns the description of the expected shape.
  template <typename Describe>
  void expect_shape(bool accepted, const Describe& describe) const {
    if (!accepted) throw_value_error(name(), describe(), shape_text(view));
  }
  void expect_device(DeviceType device) const {
    if (view.device != device) {
      throw_value_error(name(), std::string("device ") + device_name(device),
                        device_name(view.device));
    }
  }
};

inline constexpr char kValueTypes[] = "float16, bfloat16, float32, float64 or uint8";

inline constexpr char kFloatingTypes[] = "float16, bfloat16, float32 or float64";

inline bool is_value_type(DataType type) {
  return is_floating_type(type) || type == DataType::kUInt8;
}

/// "[B=4,N]" of "B=4" and "N".
inline std::string bracket(std::initializer_list<std::string> dimensions) {
  std::string text = "[";
  for (const std::string& dimension : dimensions) {
    if (text.size() > 1) text += ",";
    text += dimension;
  }
  return text + "]";
}

inline bool has_no_elements(const ConstTensorView& view) {
  for (int axis = 0; axis < view.rank; ++axis) {
    if (view.shape[axis] == 0) return true;
  }
  return false;
}

/// The stride along an axis, counted from the last, which is 1. It is 0 where the argument has no
/// such axis, and where it has no elements: its pointer may be null then, and must not be offset.
inline std::int64_t stride_along(const ConstTensorView& view, int axis_from_last) {
  if (has_no_elements(view)) return 0;
  return axis_from_last <= view.rank ? view.strides[view.rank - axis_from_last] : 0;
}

/// Whether elements lie one after another in row-major order.
inline bool is_contiguous(const ConstTensorView& view) {
  if (has_no_elements(view)) return true;
  std::int64_t stride = 1;
  for (int axis = view.rank - 1; axis >= 0; --axis) {
    if (view.shape[axis] != 1 && view.strides[axis] != stride) return false;
    if (axis > 0) stride *= view.shape[axis];  // the product of all sizes might overflow
  }
  return true;
}

}  // namespace robocache
