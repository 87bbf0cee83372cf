// The library's exceptions. Every message names the argument, the expected and the actual value:
// `source_times: expected [B=4,S=100], got [4,99]`.
#pragma once

#include <stdexcept>

#include "robocache/export.h"

namespace robocache {

/// An argument of an accepted type whose shape, device or content is not accepted.
class ROBOCACHE_API ValueError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
  ~ValueError() override;
};

/// An argument of a data type that the operation does not accept.
class ROBOCACHE_API TypeError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
  ~TypeError() override;
};

/// A failure of the device: no usable driver, no kernel for this GPU, or a failed launch. The
/// library has cleared the CUDA error, so that later calls do not report it again.
class ROBOCACHE_API DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  ~DeviceError() override;
};

/// An episode store that cannot be read: a file is missing, truncated, altered or of another
/// format. The message names the file:
/// `/data/store/manifest.json: streams[0].dtype: expected F32, ..., got "F31"`.
class ROBOCACHE_API StoreError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  ~StoreError() override;
};

}  // namespace robocache
