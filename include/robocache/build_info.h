// The configuration of this build of the library, and whether CUDA is usable on this machine.
#pragma once

#include <string>

#include "robocache/export.h"

namespace robocache {

/// A JSON object: version, cuda (bool), cuda_version, cuda_architectures, compiler, cpu_targets
/// (the instruction sets compiled in), cpu_target (the one chosen on this machine), methods and
/// outsides (their names, in the order of their numbers).
ROBOCACHE_API const std::string& build_info();

/// Returns why CUDA cannot be used on `device`, and what to do about it; empty if it can. Each call
/// makes a few calls of the CUDA runtime, so keep the result.
ROBOCACHE_API std::string cuda_problem(int device);

}  // namespace robocache
