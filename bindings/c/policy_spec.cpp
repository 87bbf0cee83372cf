// Whether a policy spec is one, as a flat C API, which python/robocache/loader/policy_spec.py
// declares to ctypes; robocache_store_error() has the message.
#include "robocache/policy_spec.h"

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "c_api.h"

extern "C" {

/// `name`: what errors call it.
ROBOCACHE_C_API int robocache_policy_spec_check(const char* text, std::int64_t bytes,
                                                const char* name) {
  return robocache::c_api::status_of([&] {
    robocache::parse_policy_spec(std::string_view(text, static_cast<std::size_t>(bytes)), name);
  });
}
}
