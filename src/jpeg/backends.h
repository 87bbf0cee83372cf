// The backends behind `frames.cpp`: each receives validated calls only.
#pragma once

#include <cstdint>

#include "jpeg/plan.h"
#include "robocache/execution.h"
#include "robocache/jpeg.h"

namespace robocache {

/// The most index entries whose tasks a block of samples_kernel runs: they share the block's copy
/// of the frame's tables. In calls of few frames, blocks have fewer entries, so that more
/// multiprocessors work: a frame is divided into at most entries / kMinBlockEntries blocks, rounded
/// up.
inline constexpr std::int32_t kMaxBlockEntries = 128;
inline constexpr std::int32_t kMinBlockEntries = 64;

/// The most outputs of one launch, and the most frames, which bounds the workspace.
inline constexpr int kMaxCallOutputs = 16;
inline constexpr std::int64_t kMaxCallFrames = 2048;

/// A part of a JpegOutput: the frames of a call from `begin` on, up to those of the next output.
struct JpegCallOutput {
  const std::int64_t* numbers;
  void* values;
  bool* is_pad;          // may be null
  std::uint8_t* status;  // may be null
  std::int64_t begin;
  std::int32_t first_stream, stream_count;
};

/// A validated call of decode_jpeg_frames, or a part of one.
struct JpegCall {
  const JpegStream* streams;
  JpegCallOutput outputs[kMaxCallOutputs];
  std::int32_t output_count;
  std::int64_t count;  // frames of all outputs
  JpegLayout layout;
  JpegPlan plan;
  JpegPixels pixels;
  std::int64_t* damaged;          // may be null
  std::int32_t blocks_per_frame;  // of samples_kernel
  std::int32_t block_entries;     // index entries of a block
  std::uint8_t* samples;          // workspace: JpegPlan::plane_bytes of each frame
  std::uint8_t* block_status;     // workspace: a JpegStatus per block
  std::int32_t* stream_of;        // workspace: the stream of each frame
};

/// The output of frame `n` of a call.
ROBOCACHE_CONSTEXPR const JpegCallOutput& output_of(const JpegCallOutput* outputs,
                                                    std::int32_t count, std::int64_t n) {
  std::int32_t i = 0;
  while (i + 1 < count && n >= outputs[i + 1].begin) ++i;
  return outputs[i];
}

/// The stream that has frame `number`, or -1.
ROBOCACHE_CONSTEXPR std::int32_t stream_of_number(const JpegStream* streams,
                                                  const JpegCallOutput& output, std::int64_t number,
                                                  bool is_cuda) {
  for (std::int32_t i = output.first_stream; i < output.first_stream + output.stream_count; ++i) {
    const std::int64_t count = is_cuda ? streams[i].frames.count : streams[i].files.count;
    const std::int64_t first = streams[i].first_number;
    if (number >= first && number - first < count) return i;
  }
  return -1;
}

void decode_jpeg_frames_on_cpu(const JpegCall& call, const ExecutionContext& context);
// In a build without CUDA, this is not called.
void decode_jpeg_frames_on_cuda(const JpegCall& call, CUstream_st* stream);

}  // namespace robocache
