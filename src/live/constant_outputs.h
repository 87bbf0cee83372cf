// The outputs of a policy trained on a mixture that no row determines: padded elements, missing
// streams, masks of dimensions and the data set's index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "live/output_layout.h"
#include "live/selection.h"
#include "live/transform_chain.h"
#include "robocache/live.h"

namespace robocache {

/// Writes what is the same in every query, and nothing for streams of a single data set. Allocates
/// nothing after construction.
class ConstantOutputs {
 public:
  /// Values that pass through `chain` are left to it: its input is zeros there.
  ConstantOutputs(const std::vector<LiveStream>& streams, const OutputLayout& layout,
                  const TransformChain& chain, std::optional<std::int64_t> dataset_index);

  /// Writes a robot's constants of the selected streams to an output, before the transforms, and
  /// the data set's index.
  void write(const Selection& selection, std::int64_t robot, std::byte* out) const;

 private:
  /// Bytes that are written once or at every step.
  struct Constant {
    std::int64_t stream;      // -1: of every query
    std::int64_t offset;      // of the first robot's, in bytes
    std::int64_t step_bytes;  // from step to step
    std::int64_t steps;       // of a robot
    std::vector<std::byte> bytes;
  };

  void add_values(const LiveStream& stream, const WindowPlace& place);

  std::vector<Constant> constants_;
};

}  // namespace robocache
