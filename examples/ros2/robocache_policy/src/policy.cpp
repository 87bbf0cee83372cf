#include "robocache_policy/policy.h"

namespace robocache_policy {

// A dry run: the node queries windows and warns about sensors, and commands nothing.
std::vector<float> run_policy(const robocache::LiveAligner&, const std::byte*) { return {}; }

}  // namespace robocache_policy
