// What tests of errors have in common.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>

#include "robocache/error.h"
#include "robocache/tensor_view.h"

namespace robocache::testing {

/// What outputs are filled with, that a call which is refused must leave as it is.
inline constexpr unsigned char kUntouched = 0x5A;

/// A view of a type and shape, of some memory that nobody is to look at.
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
