// What a policy was trained on: the streams of a loader's batch, their windows and how they were
// aligned and normalized. A file of JSON, policy_spec.json, which `loader.spec().save(path)` writes
// in Python; docs/live.md says what each field means, docs/policy_spec.schema.json what it may be.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "robocache/batch_transform.h"
#include "robocache/export.h"
#include "robocache/live.h"

namespace robocache {

/// Everything that a policy's batches were made by.
///
///     const PolicySpec spec = read_policy_spec("policy_spec.json");
///     LiveAligner aligner(spec);
struct PolicySpec {
  std::string library;         // the version that wrote it
  std::string anchor;          // the stream whose rows were anchors; empty: they had a rate
  std::optional<double> rate;  // that rate, in Hz
  bool with_age = false;       // whether batches had ages

  // In the order of the batch. Windows that reach into the future are here too: what a policy gives
  // in their place is undone. `rate` is the most rows that the recordings had in a second.
  std::vector<LiveStream> streams;
  std::vector<LiveGroup> concat;

  std::vector<BatchTransform> transforms;  // what batches went through, in order
};

/// The spec in a text of JSON. `name` is what errors call it.
///
/// Throws ValueError, whose message names the field: `policy_spec.json: streams[0].dtype: expected
/// BOOL, U8, ... or F64, got "F31"`. A field that is missing, unknown or of another version is one.
ROBOCACHE_API PolicySpec parse_policy_spec(std::string_view text, const std::string& name);

/// The spec in a file. Throws as `parse_policy_spec` does, also for one that can't be read.
ROBOCACHE_API PolicySpec read_policy_spec(const std::string& path);

}  // namespace robocache
