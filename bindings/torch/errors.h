// Translation of exceptions for Python.
#pragma once

#include <stdexcept>
#include <string>

#include "robocache/error.h"

namespace robocache::torch_binding {

/// Runs `body`, and converts its exceptions to an std::runtime_error whose message names the Python
/// exception to raise: how an exception of another class surfaces depends on torch's version.
template <typename Body>
auto translate_errors(const Body& body) {
  try {
    return body();
  } catch (const TypeError& error) {
    throw std::runtime_error(std::string("robocache.TypeError: ") + error.what());
  } catch (const ValueError& error) {
    throw std::runtime_error(std::string("robocache.ValueError: ") + error.what());
  } catch (const DeviceError& error) {
    throw std::runtime_error(std::string("robocache.RuntimeError: ") + error.what());
  }
}

}  // namespace robocache::torch_binding
