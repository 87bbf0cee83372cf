// Policy specs and the fields of windows, as a flat C API, which
// python/robocache/store/library.py declares to ctypes; robocache_store_error() has the message.
#include "robocache/policy_spec.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "c_api.h"
#include "robocache/window.h"
#include "window/check_windows.h"

extern "C" {

/// The fields of a WindowSpec as JSON: {"windows": [a window with the defaults], "schema": the JSON
/// schema of a window}. The text lives as long as the process.
ROBOCACHE_C_API const char* robocache_window_fields() {
  static const std::string fields = [] {
    std::string text = robocache::windows_json({robocache::WindowSpec()});
    text.pop_back();  // the object's end
    return text + ", \"schema\": " + robocache::window_schema() + "}";
  }();
  return fields.c_str();
}

/// Parses a policy spec, which errors call `name`. `windows` returns its streams' windows as JSON
/// of version 2, whatever version the spec has; the text is valid until this thread's next call.
ROBOCACHE_C_API int robocache_policy_spec_windows(const char* text, std::int64_t bytes,
                                                  const char* name, const char** windows) {
  static thread_local std::string json;
  return robocache::c_api::status_of([&] {
    const robocache::PolicySpec spec =
        robocache::parse_policy_spec(std::string_view(text, static_cast<std::size_t>(bytes)), name);
    json = robocache::windows_json({spec.streams.begin(), spec.streams.end()});
    *windows = json.c_str();
  });
}

/// Validates the windows of a batch as a plan does; `parse_windows` defines their JSON.
ROBOCACHE_C_API int robocache_windows_check(const char* text, std::int64_t bytes) {
  return robocache::c_api::status_of([&] {
    const std::vector<robocache::WindowSpec> windows = robocache::parse_windows(
        std::string_view(text, static_cast<std::size_t>(bytes)), "windows");
    robocache::check_windows(robocache::windows_of(windows), {}, robocache::WindowUse::kPlan);
  });
}

/// Validates that windows can be concatenated under one key, which errors call `name`.
ROBOCACHE_C_API int robocache_window_group_check(const char* text, std::int64_t bytes,
                                                 const char* name) {
  return robocache::c_api::status_of([&] {
    const std::vector<robocache::WindowSpec> windows = robocache::parse_windows(
        std::string_view(text, static_cast<std::size_t>(bytes)), "windows");
    robocache::check_group(robocache::windows_of(windows), name);
  });
}
}
