// Everything that can make the loader's batches here, behind one face: the CPU backend as the
// library runs it, each instruction set's kernels by themselves, and the CUDA backend. All take
// host memory; the CUDA engine copies it to the device and back, gaps between elements included.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "loader/problem.h"

namespace robocache::testing {

class LoaderEngine {
 public:
  explicit LoaderEngine(std::string name) : name_(std::move(name)) {}
  virtual ~LoaderEngine() = default;
  LoaderEngine(const LoaderEngine&) = delete;
  LoaderEngine& operator=(const LoaderEngine&) = delete;

  const std::string& name() const { return name_; }

  /// Why it cannot run on this machine; empty if it can.
  virtual std::string problem() const { return ""; }

  virtual BatchResult gather(const LoaderProblem& problem,
                             const std::vector<std::int64_t>& indices) const = 0;

  /// The next batches, of these sizes, one after the other. `state` moves on.
  virtual std::vector<BatchResult> next(const LoaderProblem& problem,
                                        std::vector<std::int64_t>& state,
                                        const std::vector<std::int64_t>& sizes) const = 0;

 private:
  std::string name_;
};

/// All engines of this build, whether they can run here or not: "cpu" first.
const std::vector<const LoaderEngine*>& loader_engines();

const LoaderEngine& loader_engine(const std::string& name);

}  // namespace robocache::testing
