// The walk over one frame that computes its index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "jpeg/plain_scan.h"
#include "jpeg/plan.h"
#include "jpeg/scan_walker.h"
#include "robocache/jpeg.h"

namespace robocache {

/// Computes the index of a frame: `begin`, a walk over each segment, `finish`. Its memory is used
/// again for the next frame.
class FrameWalk {
 public:
  /// Begins a frame. `tables`: those of its header, which must stay until `finish`. Returns kOk or
  /// the reason why it cannot be indexed.
  JpegStatus begin(const void* bytes, std::size_t size, const JpegHeader& header,
                   std::int32_t every, const WalkTables& tables);

  /// The walk over the next segment between restart markers; none after the last one.
  std::optional<WalkLane> next_segment();

  /// Writes the entries, `jpeg_index_size` of them, after the walk over all segments. Returns the
  /// status of `index_jpeg`; entries are unspecified unless it is kOk or kDamaged.
  JpegStatus finish(std::uint64_t* entries, std::uint32_t& scan_bits) const;

 private:
  class Entries;

  int blocks_per_mcu() const { return plan_.luma_blocks() + plan_.chroma_blocks; }

  PlainScan scan_;
  JpegPlan plan_{};
  std::int32_t restart_interval_ = 0;
  std::unique_ptr<const WalkBlocks> blocks_;  // of an MCU
  std::unique_ptr<std::uint32_t[]> ends_;     // of each block, a position in the plain scan
  std::size_t capacity_ = 0;
  std::int32_t walked_mcus_ = 0;  // of segments that `next_segment` returned
  std::size_t next_segment_ = 0;
};

}  // namespace robocache
