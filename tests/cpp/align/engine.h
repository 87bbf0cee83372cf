// Everything that can run an alignment here, behind one face: the CPU backend as the library runs
// it, each instruction set's kernels by themselves, and the CUDA backend. All take host memory; the
// CUDA engine copies it to the device and back, gaps between elements included.
#pragma once

#include <string>
#include <vector>

#include "robocache/align.h"

namespace robocache::testing {

class Engine {
 public:
  explicit Engine(std::string name) : name_(std::move(name)) {}
  virtual ~Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const std::string& name() const { return name_; }

  /// Why it cannot run on this machine; empty if it can.
  virtual std::string problem() const { return ""; }

  /// `age_out` may be absent.
  virtual void align(const std::vector<Stream>& streams, const ConstTensorView& target_times,
                     const AlignOptions& options, const TensorView& values_out,
                     const TensorView& valid_out, const TensorView& age_out = {}) const = 0;

  /// The gradient of one stream; finds its own workspace.
  virtual void align_backward(const Stream& stream, const ConstTensorView& target_times,
                              const AlignOptions& options, const ConstTensorView& grad_output,
                              const TensorView& grad_values) const = 0;

 private:
  std::string name_;
};

/// All engines of this build, whether they can run here or not: "cpu" first.
const std::vector<const Engine*>& engines();

const Engine& engine(const std::string& name);

}  // namespace robocache::testing
