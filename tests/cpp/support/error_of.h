// Helpers for tests of error messages.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>

#include "robocache/error.h"
#include "robocache/tensor_view.h"

namespace robocache::testing {

/// The byte that fills outputs; a refused call must leave it unchanged.
inline constexpr unsigned char kUntouched = 0x5A;

/// A view of a type and shape, of memory that a refused call must not read.
inline TensorView any_view(DataType type, std::initializer_list<std::int64_t> shape) {
  static std::int64_t memory[4096];
  return {memory, type, shape};
}

/// The error that `call` throws: its class and its message.
inline std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const ValueError& error) {
    return std::string("ValueError ") + error.what();
  } catch (const TypeError& error) {
    return std::string("TypeError ") + error.what();
  } catch (const DeviceError& error) {
    return std::string("DeviceError ") + error.what();
  }
  return "no error";
}

}  // namespace robocache::testing
