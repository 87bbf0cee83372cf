// The transforms of a policy spec.
#pragma once

#include "robocache/batch_transform.h"
#include "store/json.h"

namespace robocache {

/// What a transform's `to_dict` wrote in Python. Throws StoreError for what is none; whether it
/// fits the spec's keys is for `plan_live_batch`.
BatchTransform read_transform(const store::Value& value);

}  // namespace robocache
