// The reference of the loader's batches, one sample after another. Windows by time are those of the
// reference of alignment on the rows that exist; loops that a reader can check compute the rest.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loader/problem.h"

namespace robocache::testing {

/// The accepted window of a sample and stream, in the order of the output.
struct ExpectedWindow {
  std::vector<double> low, high;   // [K,D]: the least and the greatest accepted values
  std::vector<bool> is_pad;        // [K]
  std::vector<std::int64_t> ages;  // [K]
};

/// The window of stream `number` at an anchor, in an episode that the stream covers.
ExpectedWindow expected_window(const std::vector<WindowStream>& streams, std::size_t number,
                               const Anchor& anchor);

/// The samples of this rank's batch at an epoch's position, by their anchors.
std::vector<std::int64_t> expected_samples(const LoaderProblem& problem, std::int64_t epoch,
                                           std::int64_t position);

/// A sampler state.
struct Progress {
  std::int64_t epoch = 0, position = 0;
};

/// The sampler state after the batch at `before`.
Progress expected_progress(const LoaderProblem& problem, const Progress& before);

/// Compares a batch of these indices with the reference; returns the first difference, or "".
std::string check_batch(const LoaderProblem& problem, const std::vector<std::int64_t>& indices,
                        BatchResult& result);

}  // namespace robocache::testing
