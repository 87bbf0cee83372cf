// The CUDA backend behind `frames.cpp`: it receives validated calls only.
#pragma once

#include <cstdint>

#include "jpeg/plan.h"
#include "robocache/jpeg.h"

namespace robocache {

/// The most index entries of one frame, and the most that suffice for few frames, whose tasks a
/// block of samples_kernel runs. More share the copy of the frame's tables.
inline constexpr std::int32_t kMaxBlockEntries = 128;
inline constexpr std::int32_t kMinBlockEntries = 64;

/// A validated call of decode_jpeg_frames.
struct JpegCall {
  JpegFrames frames;
  JpegLayout layout;
  JpegPlan plan;
  std::int64_t count;
  std::int32_t blocks_per_frame;  // of samples_kernel
  std::int32_t block_entries;     // index entries of a block
  std::uint8_t* samples;          // workspace: JpegPlan::plane_bytes of each frame
  std::uint8_t* block_status;     // workspace: a JpegStatus per block
  void* out;
  std::uint8_t* status;
};

// In a build without CUDA, this is not called.
void decode_jpeg_frames_on_cuda(const JpegCall& call, const JpegConversion& conversion,
                                CUstream_st* stream);

}  // namespace robocache
