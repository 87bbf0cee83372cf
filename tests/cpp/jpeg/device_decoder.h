// Frames decoded by decode_jpeg_frames on a GPU.
#pragma once

#include <cstdint>
#include <vector>

#include "jpeg/frames.h"
#include "robocache/jpeg.h"

namespace robocache::testing {

/// Frames of one layout in host memory, as a store would hold them.
struct Batch {
  JpegLayout layout;
  std::vector<std::uint32_t> scans, tables;
  std::vector<std::uint64_t> indices;
  std::vector<JpegFrame> frames;
  std::vector<std::int64_t> numbers;  // of the frames to decode, from 1 on; empty: all
};

/// Appends a frame; false if it has no index.
bool append_frame(Batch& batch, const Bytes& bytes);

struct DeviceDecoded {
  Bytes out;  // the elements' bytes, of all frames
  Bytes status;
  std::int64_t damaged = 0;
};

/// The bytes of the elements of frame `i`.
Bytes image_of(const DeviceDecoded& decoded, std::size_t i);

/// The conversion that keeps bytes, channels last: 3 for RGB, 1 for luma.
JpegConversion bytes_of(int channels);

/// Decodes a batch, by a call or by the replay of a graph that has captured it.
DeviceDecoded decode_on_device(const Batch& batch, const JpegConversion& conversion,
                               bool captured = false);

}  // namespace robocache::testing
