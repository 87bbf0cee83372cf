// The transforms of a policy spec.
#pragma once

#include "robocache/batch_transform.h"
#include "store/json.h"

namespace robocache {

/// A transform as its `to_dict` wrote it in Python, in a spec of a version. Throws StoreError for
/// other JSON; whether it fits the spec's keys is for `plan_live_batch`.
BatchTransform read_transform(const store::Value& value, int version);

}  // namespace robocache
