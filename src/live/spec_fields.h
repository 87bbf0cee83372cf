// What all parts of a policy spec are read with.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string>

#include "store/json.h"

namespace robocache {

inline constexpr std::int64_t kPolicySpecVersion = 1;
inline constexpr std::int64_t kHighestInteger = std::numeric_limits<std::int64_t>::max();

/// That an object has no other members than these.
template <std::size_t kCount>
void check_members(const store::Value& value, const char* const (&known)[kCount]) {
  for (const auto& member : value.object()) {
    const bool is_known = std::any_of(std::begin(known), std::end(known),
                                      [&](const char* name) { return member.first == name; });
    if (!is_known) {
      value.entry(member).refuse("no such field in version " + std::to_string(kPolicySpecVersion));
    }
  }
}

}  // namespace robocache
