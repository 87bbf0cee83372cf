// Whether the tensors of a call fit each other: types and shapes, one argument after another.
#pragma once

#include <cstdint>
#include <string>

#include "core/argument.h"
#include "robocache/align.h"

namespace robocache {

/// Dimensions as they become known; -1 until then.
struct Sizes {
  std::int64_t batch = -1;
  std::int64_t targets = -1;
};

/// One stream's own dimensions, and what stands before the names of its arguments in messages.
struct CheckedStream {
  std::string prefix;
  std::int64_t rows = 0;
  std::int64_t channels = 0;

  std::string method_name() const { return prefix + "method"; }
};

/// Checks the types and shapes of a stream against those seen so far, which it adds to. `prefix` names
/// the stream where there are several.
CheckedStream check_stream(const Stream& stream, std::string prefix, const Argument& targets,
                           const ArgumentNames& names, DataType out_type, Sizes& sizes);

/// Checks that all of a stream's tensors are on a device.
void check_device(const Stream& stream, const CheckedStream& checked, const ArgumentNames& names,
                  DeviceType device);

}  // namespace robocache
