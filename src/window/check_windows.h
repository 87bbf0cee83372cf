// The validator of windows, for loader plans, policy specs and LiveAligners.
#pragma once

#include <cstddef>
#include <string>
#include <type_traits>
#include <vector>

#include "robocache/window.h"

namespace robocache {

/// The names of windows' fields in error messages: `offsets['joints']` for the arguments of a call,
/// `policy_spec.json: streams[0].offsets` for a file, with the names of the file's version.
struct WindowNames {
  std::string prefix;  // "policy_spec.json: "; empty for a call
  int version = 2;

  std::string field(const std::vector<const WindowSpec*>& windows, std::size_t window,
                    const std::string& path) const;
};

/// The use of windows: kPolicy allows only windows that a robot can compute live, or invert.
enum class WindowUse { kPlan, kPolicy };

/// Validates windows: throws ValueError or TypeError for fields out of range, and for fields that
/// contradict each other, in one window or between windows. Reads no data.
void check_windows(const std::vector<const WindowSpec*>& windows, const WindowNames& names,
                   WindowUse use);

/// Validates that windows can be concatenated under one key: vectors of one output type, at the
/// same offsets. Throws ValueError; `name` names the group in its message.
void check_group(const std::vector<const WindowSpec*>& windows, const std::string& name);

/// The windows of streams, as `check_windows` takes them. A stream is a WindowSpec, or has one as
/// its member `spec`.
template <typename Stream>
std::vector<const WindowSpec*> windows_of(const std::vector<Stream>& streams) {
  std::vector<const WindowSpec*> windows;
  windows.reserve(streams.size());
  for (const Stream& stream : streams) {
    if constexpr (std::is_base_of_v<WindowSpec, Stream>) {
      windows.push_back(&stream);
    } else {
      windows.push_back(&stream.spec);
    }
  }
  return windows;
}

/// The index of the window that `window` is relative to; `windows.size()` if there is none.
std::size_t reference_of(const std::vector<const WindowSpec*>& windows, const WindowSpec& window);

}  // namespace robocache
