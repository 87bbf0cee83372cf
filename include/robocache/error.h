// What the library throws. Every message names the argument, what was expected and what came:
// `source_times: expected [B=4,S=100], got [4,99]`.
#pragma once

#include <stdexcept>

#include "robocache/export.h"

namespace robocache {

/// An argument of the right type whose shape, device or content is not acceptable.
class ROBOCACHE_API ValueError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
  ~ValueError() override;
};

/// An argument of a data type that the operation does not take.
class ROBOCACHE_API TypeError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
  ~TypeError() override;
};

/// The device refused: no usable driver, no kernel for this GPU, a launch that failed. The CUDA
/// error has been taken off the context, so that later calls are not blamed for it.
class ROBOCACHE_API DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  ~DeviceError() override;
};

/// An episode store that cannot be read: a file that is missing, cut short, altered or foreign. The
/// message names it: `/data/store/manifest.json: streams[0].dtype: expected F32, ..., got "F31"`.
class ROBOCACHE_API StoreError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  ~StoreError() override;
};

}  // namespace robocache
