// Everything that can run a voxelization here, behind one face: the CPU backend on all cores, the
// CPU backend on threads that share work out in an odd way, and the CUDA backend. All take host
// memory; the CUDA engine copies it to the device and back. Each finds its own workspace.
#pragma once

#include <string>
#include <vector>

#include "robocache/execution.h"
#include "voxel/problem.h"

namespace robocache::testing {

class VoxelEngine {
 public:
  explicit VoxelEngine(std::string name) : name_(std::move(name)) {}
  virtual ~VoxelEngine() = default;
  VoxelEngine(const VoxelEngine&) = delete;
  VoxelEngine& operator=(const VoxelEngine&) = delete;

  const std::string& name() const { return name_; }

  /// Why it cannot run on this machine; empty if it can.
  virtual std::string problem() const { return ""; }

  virtual DenseResult dense(const VoxelProblem& problem) const = 0;
  virtual Tensor dense_gradient(const VoxelProblem& problem, const Tensor& grad_output) const = 0;
  virtual SparseResult sparse(const VoxelProblem& problem) const = 0;
  virtual Tensor sparse_gradient(const VoxelProblem& problem, const SparseResult& forward,
                                 const Tensor& grad_output) const = 0;

 private:
  std::string name_;
};

/// All engines of this build, whether they can run here or not: "cpu" first.
const std::vector<const VoxelEngine*>& voxel_engines();

const VoxelEngine& voxel_engine(const std::string& name);

}  // namespace robocache::testing
