// What this build of the library is made of, and whether its CUDA part can run here.
#pragma once

#include <string>

#include "robocache/export.h"

namespace robocache {

/// A JSON object: version, cuda (bool), cuda_version, cuda_architectures, compiler, cpu_targets
/// (the instruction sets compiled in), cpu_target (the one chosen on this machine), methods and
/// outsides (their names, in the order of their numbers).
ROBOCACHE_API const std::string& build_info();

/// Why CUDA cannot be used on `device`, with the way out; empty if it can. Costs a few calls of
/// the CUDA runtime, so keep the answer.
ROBOCACHE_API std::string cuda_problem(int device);

}  // namespace robocache
