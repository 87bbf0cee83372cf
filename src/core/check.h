// Error messages, `name: expected X, got Y`, and their parts.
#pragma once

#include <cstdint>
#include <string>

#include "robocache/error.h"
#include "robocache/tensor_view.h"

namespace robocache {

[[noreturn]] inline void throw_value_error(const std::string& name, const std::string& expected,
                                           const std::string& got) {
  throw ValueError(name + ": expected " + expected + ", got " + got);
}

[[noreturn]] inline void throw_type_error(const std::string& name, const std::string& expected,
                                          const std::string& got) {
  throw TypeError(name + ": expected " + expected + ", got " + got);
}

/// A view's shape: "[4,100]".
std::string shape_text(const ConstTensorView& view);

/// A dimension with its name: dimension("B", 4) is "B=4"; "B" alone if the size is unknown (-1).
std::string dimension(const char* name, std::int64_t size);

const char* device_name(DeviceType device);

}  // namespace robocache
