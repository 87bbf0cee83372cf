// Streams of numbers for tests of the LiveAligner: one row is pushed, one window seen.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "live/reference.h"

namespace robocache::testing {

inline constexpr std::int64_t kMs = 1'000'000;

/// A number at 1 kHz, with a window at these offsets.
inline LiveStream scalar(const std::vector<std::int64_t>& offsets_ms,
                         const std::string& name = "force") {
  LiveStream stream;
  stream.name = name;
  stream.rate = 1000;
  stream.offsets.clear();
  for (const std::int64_t offset : offsets_ms) stream.offsets.push_back(offset * kMs);
  return stream;
}

/// The answer of an aligner of one robot for a stream of numbers.
struct Seen {
  std::vector<float> values;
  std::vector<bool> is_pad;
  std::vector<std::int64_t> age;
  LiveStatus status;

  static Seen of(LiveAligner& aligner, const LiveNow& now, const std::string& name = "force") {
    Bytes out(aligner.output_bytes(), LiveReference::kGap);
    Seen seen;
    seen.status = aligner.query(now, out.data());
    for (const LiveArray& array : aligner.outputs()) {
      std::int64_t count = 1;
      for (const std::int64_t size : array.shape) count *= size;
      const unsigned char* const at = out.data() + array.offset;
      for (std::int64_t i = 0; i < count; ++i) {
        if (array.key == name) {
          seen.values.emplace_back();
          std::memcpy(&seen.values.back(), at + 4 * i, 4);
        } else if (array.key == name + "_is_pad") {
          seen.is_pad.push_back(at[i] != 0);
        } else if (array.key == name + "_age") {
          seen.age.emplace_back();
          std::memcpy(&seen.age.back(), at + 8 * i, 8);
        }
      }
    }
    return seen;
  }
};

inline void push(LiveAligner& aligner, std::int64_t time_ms, float value, std::int64_t stream = 0,
                 std::int64_t robot = 0) {
  EXPECT_EQ(aligner.push(stream, time_ms * kMs, &value, sizeof value, robot), LiveStatus::kOk);
}

using Values = std::vector<float>;
using Flags = std::vector<bool>;
using Ages = std::vector<std::int64_t>;

}  // namespace robocache::testing
