// Variables of the environment.
#pragma once

#include <cstdlib>
#include <string>

namespace robocache::testing {

/// Empty if it is not set. (secure_getenv, as POSIX does not promise getenv to threads.)
inline std::string environment(const char* name) {
  const char* const value = secure_getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace robocache::testing
