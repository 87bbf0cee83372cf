// Random choices for problems and their data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <random>

namespace robocache::testing {

/// Random choices that are the same on every machine, which the standard library's distributions
/// are not.
class Random {
 public:
  explicit Random(std::uint64_t seed) : bits_(seed) {}

  std::int64_t below(std::int64_t count) {
    return static_cast<std::int64_t>(bits_() % static_cast<std::uint64_t>(count));
  }
  bool one_in(std::int64_t count) { return below(count) == 0; }
  double between(double low, double high) {
    return low + (high - low) * (static_cast<double>(bits_() >> 11) * 0x1p-53);
  }
  template <typename T, std::size_t kCount>
  T pick(const T (&choices)[kCount]) {
    return choices[below(static_cast<std::int64_t>(kCount))];
  }
  template <typename T>
  T pick(std::initializer_list<T> choices) {
    return choices.begin()[below(static_cast<std::int64_t>(choices.size()))];
  }

 private:
  std::mt19937_64 bits_;
};

}  // namespace robocache::testing
