// The policy that the node runs.
#pragma once

#include <cstddef>
#include <vector>

#include "robocache/live.h"

namespace robocache_policy {

/// Computes actions [K, D] from the windows of a query, of which `aligner.outputs()` lists the
/// arrays; empty: none, a dry run. Replace policy.cpp by an ONNX Runtime or TensorRT session.
std::vector<float> run_policy(const robocache::LiveAligner& aligner, const std::byte* windows);

}  // namespace robocache_policy
