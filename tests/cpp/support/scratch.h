// The workspace of a call under test.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>

#include "robocache/execution.h"

namespace robocache::testing {

/// Exactly as much as was asked for, and not zeros: a sanitizer sees one byte too far.
class Scratch {
 public:
  explicit Scratch(std::size_t bytes) : memory_(new unsigned char[bytes]), bytes_(bytes) {
    std::fill_n(memory_.get(), bytes, static_cast<unsigned char>(0xA5));
  }

  operator Workspace() const { return {memory_.get(), bytes_}; }

 private:
  std::unique_ptr<unsigned char[]> memory_;
  std::size_t bytes_;
};

}  // namespace robocache::testing
