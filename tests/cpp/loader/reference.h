// What a batch of the loader is to hold, one sample after another. A window by time is what the
// reference of alignment gives for the rows that exist; everything else is told here in loops that
// can be checked by reading them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loader/problem.h"

namespace robocache::testing {

/// What a sample's window of a stream may be, in the order in which it is written.
struct ExpectedWindow {
  std::vector<double> low, high;   // [K,D]: the least and the greatest that will do
  std::vector<bool> is_pad;        // [K]
  std::vector<std::int64_t> ages;  // [K]
};

/// Of stream `number`, at an anchor in an episode that it is of.
ExpectedWindow expected_window(const std::vector<WindowStream>& streams, std::size_t number,
                               const Anchor& anchor);

/// The samples of this rank's batch at an epoch's position, by their anchors.
std::vector<std::int64_t> expected_samples(const LoaderProblem& problem, std::int64_t epoch,
                                           std::int64_t position);

/// Where a drawing stands.
struct Progress {
  std::int64_t epoch = 0, position = 0;
};

/// Where it goes on after the batch at a place.
Progress expected_progress(const LoaderProblem& problem, const Progress& before);

/// What is wrong with a batch of so many samples, and empty if nothing is.
std::string check_batch(const LoaderProblem& problem, const std::vector<std::int64_t>& indices,
                        BatchResult& result);

}  // namespace robocache::testing
