// Calls of `align` with all that they need: made at random from a seed, or by hand, and checked
// against the reference.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "engine.h"
#include "robocache/align.h"
#include "tensor.h"

namespace robocache::testing {

inline constexpr DataType kValueTypes[] = {DataType::kFloat16, DataType::kBFloat16,
                                           DataType::kFloat32, DataType::kFloat64,
                                           DataType::kUInt8};
inline constexpr DataType kTimeTypes[] = {DataType::kInt64, DataType::kFloat32, DataType::kFloat64};
inline constexpr Method kMethods[] = {Method::kLinear,    Method::kPrevious,  Method::kNearest,
                                      Method::kSlerpXyzw, Method::kSlerpWxyz, Method::kAngle};

/// Random choices that are the same on every machine, which the standard library's distributions are
/// not.
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

/// A stream and the memory of its arguments.
struct StreamData {
  Tensor values, times, lengths, begins, valid, subtract, multiply;
  Method method = Method::kLinear;
  std::vector<Run> layout;
  std::optional<Duration> max_gap, tolerance;

  Stream stream() const;
  std::vector<Run> runs() const;
  bool has_slerp() const;
};

struct Problem {
  std::vector<StreamData> streams;
  Tensor target_times;
  AlignOptions options;
  Tensor values_out, valid_out;

  std::vector<Stream> views() const;
  std::string text() const;
};

/// What a random problem must be; the rest is left to chance.
struct Wanted {
  std::optional<DataType> value_type, out_type, time_type;
  std::optional<Method> method;  // without a layout
  std::optional<bool> is_ragged;
  bool is_differentiable = false;  // no uint8, no NaN, and one stream
  // Contiguous arrays whose rows the CUDA backend moves 16 bytes at a time, or cannot.
  std::optional<bool> is_vectorized;
  int streams = 1;
};

Problem random_problem(std::uint64_t seed, const Wanted& wanted = {});

/// Random numbers of a tensor's type.
void fill_at_random(Tensor& tensor, Random& random, double magnitude);

/// Runs the problem: what is wrong with the output, and empty if nothing is. Everything around the
/// elements of the outputs must stay as it was.
std::string check_alignment(const Engine& engine, Problem& problem);

/// Likewise the gradient of a problem of one stream, for a random gradient of the output.
std::string check_gradient(const Engine& engine, const Problem& problem, std::uint64_t seed);

}  // namespace robocache::testing
