// The one validator of windows: for plans of the loader, policy specs and LiveAligners alike.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "robocache/window.h"

namespace robocache {

/// What messages call the fields of windows: `offsets['joints']` of a call's, and
/// `policy_spec.json: streams[0].offsets` of a file's, whose version has names of its own.
struct WindowNames {
  std::string prefix;  // "policy_spec.json: "; empty: of a call
  int version = 2;

  std::string field(const std::vector<const WindowSpec*>& windows, std::size_t window,
                    const std::string& path) const;
};

/// Who makes the windows: a policy's are those that a robot can make or invert.
enum class WindowUse { kPlan, kPolicy };

/// Throws ValueError or TypeError for fields that contradict each other, in one window or between
/// them. Reads no data.
void check_windows(const std::vector<const WindowSpec*>& windows, const WindowNames& names,
                   WindowUse use);

/// The windows of streams, for `check_windows`.
template <typename Stream, typename Window>
std::vector<const WindowSpec*> windows_of(const std::vector<Stream>& streams,
                                          const Window& window) {
  std::vector<const WindowSpec*> windows;
  windows.reserve(streams.size());
  for (const Stream& stream : streams) windows.push_back(window(stream));
  return windows;
}

/// The number of the window that another is relative to. It is one of them.
std::size_t reference_of(const std::vector<const WindowSpec*>& windows, const WindowSpec& window);

}  // namespace robocache
