// Problems made at random from a seed.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "align/problem.h"
#include "support/random.h"

namespace robocache::testing {

/// Requirements for a random problem; all other properties are random.
struct Wanted {
  std::optional<DataType> value_type, out_type, time_type;
  std::optional<Method> method;  // without a layout
  std::optional<bool> is_ragged;
  bool is_differentiable = false;  // no uint8, no NaN, and one stream
  // Contiguous arrays whose rows the CUDA backend moves 16 bytes at a time, or cannot.
  std::optional<bool> is_vectorized;
  bool is_wide = false;  // up to 4096 channels beside single ones
  int streams = 1;
};

Problem random_problem(std::uint64_t seed, const Wanted& wanted = {});

/// A tensor of random strides: contiguous, with gaps, with its dimensions in any order in memory,
/// backwards, or expanded. An output keeps its last stride 1 and no element twice.
Tensor random_tensor(DataType type, const std::vector<std::int64_t>& shape, Random& random,
                     bool is_output = false);

/// Runs of any method that sum to so many channels.
std::vector<Run> random_layout(std::int64_t channels, Random& random);

/// Numbers that suit each run: quaternions some of which are zero, angles some of which are far
/// from (-pi, pi], and anything at all elsewhere, but for `is_plain`.
void fill_values(Tensor& values, const std::vector<Run>& runs, bool is_plain, Random& random);

/// Random numbers of a tensor's type.
void fill_at_random(Tensor& tensor, Random& random, double magnitude);

}  // namespace robocache::testing
