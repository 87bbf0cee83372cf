// Whether the tensors of a call fit each other: types and shapes, one argument after another.
#pragma once

#include <cstdint>
#include <string>

#include "core/check.h"
#include "robocache/align.h"

namespace robocache {

inline constexpr char kValueTypes[] = "float16, bfloat16, float32, float64 or uint8";

bool is_value_type(DataType type);

/// A tensor argument under the name that messages call it by.
///
/// A call that is right makes no text: names are put together, and what was expected is described, on
/// failure only.
struct Argument {
  std::string prefix;  // of a stream's arguments, where there are several streams
  const char* label;
  ConstTensorView view;

  std::string name() const { return prefix + label; }

  void expect_type(bool accepted, const char* expected) const {
    if (!accepted) throw_type_error(name(), expected, name_of(view.dtype));
  }
  void expect_shape(bool accepted, const char* expected) const {
    if (!accepted) throw_value_error(name(), expected, shape_text(view));
  }
  /// `describe()` says what was expected.
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

/// Dimensions as they become known; -1 until then.
struct Sizes {
  std::int64_t batch = -1;
  std::int64_t targets = -1;
};

/// One stream's arguments and its own dimensions.
struct CheckedStream {
  Argument values, times, lengths, begins, valid, subtract, multiply;
  std::string prefix, method_name;
  std::int64_t rows = 0;
  std::int64_t channels = 0;
};

/// "[B=4,S,D]", of dimensions as `dimension` writes them.
std::string bracket(std::initializer_list<std::string> dimensions);

/// Checks the types and shapes of a stream against those seen so far, which it adds to. `prefix` names
/// the stream where there are several.
CheckedStream check_stream(const Stream& stream, const std::string& prefix, const Argument& targets,
                           const ArgumentNames& names, DataType out_type, Sizes& sizes);

}  // namespace robocache
