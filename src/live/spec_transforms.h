// The transforms of a policy spec.
#pragma once

#include "robocache/batch_transform.h"
#include "store/json.h"

namespace robocache {

/// Parses a transform as its Python `to_dict` wrote it, in a spec of the given version. Throws
/// StoreError for other JSON; `plan_live_batch` checks that it fits the spec's keys.
BatchTransform read_transform(const store::Value& value, int version);

}  // namespace robocache
