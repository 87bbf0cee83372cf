// Error reporting and sizes of structures, which the flat C APIs of both libraries share.
#pragma once

#include <cstddef>
#include <exception>
#include <initializer_list>
#include <new>
#include <string>
#include <utility>

#include "robocache/error.h"

#define ROBOCACHE_C_API __attribute__((visibility("default")))

namespace robocache::c_api {

/// Status codes of functions that can fail; `Status` in python/robocache/core/library.py mirrors
/// them.
enum Status : int {
  kOk,
  kValueError,
  kTypeError,
  kStoreError,
  kDeviceError,
  kOutOfMemory,
  kOtherError
};

/// The sizes of structures in bytes, as a JSON object.
inline std::string sizes_json(
    std::initializer_list<std::pair<const char*, std::size_t>> structures) {
  std::string text;
  for (const auto& [name, bytes] : structures) {
    text += (text.empty() ? "{\"" : ", \"") + std::string(name) + "\": " + std::to_string(bytes);
  }
  return text + "}";
}

/// The message of this thread's last failure. Each library stores one.
inline thread_local std::string error_message;

/// Runs `body`, and converts its exceptions to a Status and a message: no exception may cross the C
/// API.
template <typename Body>
int status_of(const Body& body) noexcept {
  const auto failed = [](Status status, const std::exception& error) {
    error_message = error.what();
    return status;
  };
  try {
    try {
      body();
      return kOk;
    } catch (const ValueError& error) {
      return failed(kValueError, error);
    } catch (const TypeError& error) {
      return failed(kTypeError, error);
    } catch (const StoreError& error) {
      return failed(kStoreError, error);
    } catch (const DeviceError& error) {
      return failed(kDeviceError, error);
    } catch (const std::bad_alloc&) {
      error_message = "out of memory";  // fits the string's internal buffer: needs no memory
      return kOutOfMemory;
    } catch (const std::exception& error) {
      return failed(kOtherError, error);
    }
  } catch (...) {  // no memory for the message
    return kOutOfMemory;
  }
}

}  // namespace robocache::c_api
