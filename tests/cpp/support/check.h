// A problem run and compared with the reference.
#pragma once

#include <cstdint>
#include <string>

#include "align/engine.h"
#include "align/problem.h"

namespace robocache::testing {

/// Runs the problem: what is wrong with the output, and empty if nothing is. Everything around the
/// elements of the outputs must stay as it was.
std::string check_alignment(const Engine& engine, Problem& problem);

/// Likewise the gradient of a problem of one stream, for a random gradient of the output.
std::string check_gradient(const Engine& engine, const Problem& problem, std::uint64_t seed);

}  // namespace robocache::testing
