// The bit fields of the integers that operator align takes. Python packs them by the same
// definitions, which it reads from robocache_align_fields() (python: align/packing.py).
#pragma once

#include <cstdint>
#include <string>

namespace robocache::torch_binding {

/// `bits` bits of an integer, from bit `shift` on.
struct BitField {
  const char* name;
  int shift;
  int bits;

  constexpr std::int64_t of(std::int64_t packed) const {
    return packed >> shift & ((std::int64_t{1} << bits) - 1);
  }
};

namespace align_fields {

// `options`: of a call.
inline constexpr BitField kOutside{"outside", 0, 2};  // the number of an Outside
inline constexpr BitField kReturnValid{"return_valid", 2, 1};
inline constexpr BitField kReturnAge{"return_age", 3, 1};
inline constexpr BitField kIsFusion{"is_fusion", 4, 1};  // else resample_trajectories
inline constexpr BitField kOutDtype{"out_dtype", 8, 4};  // the number of a DataType + 1; 0: default

// `streams`: for each stream these flags, then the durations it has in this order, then its layout:
// method, channels, method, channels, ... A duration is nanoseconds for int64 times, the bits of a
// float64 of seconds for floating ones.
inline constexpr BitField kMethod{"method", 0, 4};  // the number of a Method, without a layout
inline constexpr BitField kLengths{"lengths", 4, 1};
inline constexpr BitField kValid{"valid", 5, 1};
inline constexpr BitField kSubtract{"subtract", 6, 1};
inline constexpr BitField kMultiply{"multiply", 7, 1};
inline constexpr BitField kMaxGap{"max_gap", 8, 1};
inline constexpr BitField kTolerance{"tolerance", 9, 1};
inline constexpr BitField kMeanWindow{"mean_window", 10, 1};
inline constexpr BitField kClockOffset{"clock_offset", 11, 1};
inline constexpr BitField kRuns{"runs", 16, 32};  // of the layout

inline constexpr BitField kAll[] = {kOutside, kReturnValid, kReturnAge,  kIsFusion,    kOutDtype,
                                    kMethod,  kLengths,     kValid,      kSubtract,    kMultiply,
                                    kMaxGap,  kTolerance,   kMeanWindow, kClockOffset, kRuns};

}  // namespace align_fields

/// The bit fields as JSON: {"name": [shift, bits], ...}.
inline std::string align_fields_json() {
  std::string text;
  for (const BitField& field : align_fields::kAll) {
    text += text.empty() ? "{" : ", ";
    text += std::string("\"") + field.name + "\": [" + std::to_string(field.shift) + ", " +
            std::to_string(field.bits) + "]";
  }
  return text + "}";
}

}  // namespace robocache::torch_binding
