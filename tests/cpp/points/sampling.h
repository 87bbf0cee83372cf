// A farthest-point sampling on the CPU or on CUDA, a plain reference, and random calls. All take
// host memory; that of CUDA is copied to the device and back.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "robocache/points.h"
#include "support/tensor.h"

namespace robocache::testing {

struct Sampling {
  Tensor points;   // [B,N,3] or [P,3]
  Tensor offsets;  // absent, or [B+1]
  std::int64_t n = 1;
  std::int64_t start = 0;

  std::int64_t clouds() const;
  std::string text() const;
};

/// The indices of all clouds, one cloud after another, on "cpu", "cpu_backwards" (parts of uneven
/// size, the last first) or "cuda".
std::vector<std::int64_t> run_sampling(const std::string& engine, const Sampling& call);

/// The reference: a loop over points for each sample.
std::vector<std::int64_t> reference_sampling(const Sampling& call);

/// The reason why an engine cannot run here; empty if it can.
std::string sampling_engine_problem(const std::string& engine);

/// The first difference between indices; empty if they are equal.
std::string difference_of(const std::vector<std::int64_t>& expected,
                          const std::vector<std::int64_t>& got);

/// Clouds of `points` points each, of which some are equal, on a lattice, NaN or infinite.
Sampling random_sampling(std::uint64_t seed, std::int64_t clouds, std::int64_t points,
                         DataType type);

/// Any sizes, types, strides and offsets, of up to some hundred points.
Sampling random_sampling(std::uint64_t seed);

}  // namespace robocache::testing
