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

/// Whether ROBOCACHE_TEST_BACKENDS, a list of names between commas, has this engine: it must then
/// be able to run, where it would be left out otherwise.
inline bool is_required(const std::string& engine) {
  const std::string list = "," + environment("ROBOCACHE_TEST_BACKENDS") + ",";
  return list.find("," + engine + ",") != std::string::npos;
}

}  // namespace robocache::testing
