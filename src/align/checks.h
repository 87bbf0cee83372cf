// Validation of the tensors of a call: types and shapes, one argument after another.
#pragma once

#include <cstdint>

#include "core/argument.h"
#include "robocache/align.h"

namespace robocache {

/// The dimensions of a call; -1 while unknown.
struct Sizes {
  std::int64_t batch = -1;
  std::int64_t targets = -1;
};

/// The dimensions of one stream, and its number in error messages.
struct CheckedStream {
  StreamNumber number;
  std::int64_t rows = 0;
  std::int64_t channels = 0;
};

/// Checks the types and shapes of a stream against `sizes`, and sets the sizes that were unknown.
CheckedStream check_stream(const Stream& stream, StreamNumber number, const Argument& targets,
                           const ArgumentNames& names, DataType out_type, Sizes& sizes);

/// Checks that all of a stream's tensors are on a device.
void check_device(const Stream& stream, const CheckedStream& checked, const ArgumentNames& names,
                  DeviceType device);

}  // namespace robocache
