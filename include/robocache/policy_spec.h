// The policy spec: the streams, windows, alignment and normalization of the batches that a policy
// was trained on. It is a JSON file, policy_spec.json, which `loader.spec().save(path)` writes in
// Python. docs/live.md defines each field; docs/policy_spec.schema.json is its schema.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "robocache/batch_transform.h"
#include "robocache/export.h"
#include "robocache/live.h"

namespace robocache {

/// The options that determine a policy's batches.
///
///     const PolicySpec spec = read_policy_spec("policy_spec.json");
///     LiveAligner aligner(spec);
struct PolicySpec {
  std::string library;         // the version of RoboCache that wrote the spec
  std::string anchor;          // the stream whose rows were anchors; empty: anchors had a rate
  std::optional<double> rate;  // the anchors' rate, in Hz
  bool with_age = false;       // whether batches had ages

  // In the order of the batch. Includes windows that reach into the future, which a policy
  // predicts: `LiveAligner::undo` inverts its predictions. `rate` is the largest number of rows
  // per second in the recordings.
  std::vector<LiveStream> streams;
  std::vector<LiveGroup> concat;

  std::vector<BatchTransform> transforms;  // the batches' transforms, in order

  // The index of the streams' data set in the mixture that the policy was trained on, which batches
  // have as `dataset_index`; none: they have none.
  std::optional<std::int64_t> dataset_index;
};

/// Parses a spec from JSON. `name` names the text in error messages.
///
/// Throws ValueError, whose message names the field: `policy_spec.json: streams[0].dtype: expected
/// BOOL, U8, ... or F64, got "F31"`. Fields that are missing, unknown or of another version are
/// errors.
ROBOCACHE_API PolicySpec parse_policy_spec(std::string_view text, const std::string& name);

/// Reads a spec from a file. Throws as `parse_policy_spec` does, and where the file can't be read.
ROBOCACHE_API PolicySpec read_policy_spec(const std::string& path);

}  // namespace robocache
