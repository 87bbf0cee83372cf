#include "voxel/engine.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <stdexcept>

#include "robocache/build_info.h"
#include "support/scratch.h"
#if defined(ROBOCACHE_HAS_CUDA)
#include "support/device.h"
#endif

namespace robocache::testing {
namespace {

SparseResult make_sparse(const VoxelProblem& problem) {
  SparseResult result;
  result.point_to_voxel = problem.make_point_to_voxel();
  result.offsets = Tensor(DataType::kInt64, {problem.batch() + 1});
  result.dropped = problem.make_dropped();
  return result;
}

/// The outputs of the second step, once the number of voxels is known.
void make_voxels(const VoxelProblem& problem, SparseResult& result) {
  result.coordinates = Tensor(DataType::kInt32, {result.voxels, 3});
  result.counts = Tensor(DataType::kInt32, {result.voxels});
  if (problem.features.present()) {
    result.features = Tensor(problem.out_type, {result.voxels, problem.channels()});
  }
}

class CpuVoxelEngine : public VoxelEngine {
 public:
  CpuVoxelEngine(const std::string& name, ParallelFor parallel_for)
      : VoxelEngine(name), context_(on_cpu(parallel_for)) {}

  DenseResult dense(const VoxelProblem& problem) const override {
    DenseResult result{problem.make_grid(), problem.make_dropped()};
    result.grid.fill_bytes(0x5A);
    result.dropped.fill_bytes(0x5A);
    const Scratch workspace(voxelize_workspace_bytes(problem.cloud(), problem.grid, problem.mode,
                                                     problem.out_type, context_));
    voxelize(problem.cloud(), problem.grid, problem.mode, result.grid.view(), result.dropped.view(),
             workspace, context_);
    return result;
  }

  Tensor dense_gradient(const VoxelProblem& problem, const Tensor& grad_output) const override {
    Tensor gradient(problem.features.type(), problem.features.shape());
    gradient.fill_bytes(0x5A);
    const Scratch workspace(
        voxelize_backward_workspace_bytes(problem.cloud(), problem.grid, problem.mode, context_));
    voxelize_backward(problem.cloud(), problem.grid, problem.mode, grad_output.view(),
                      gradient.view(), workspace, context_);
    return gradient;
  }

  SparseResult sparse(const VoxelProblem& problem) const override {
    SparseResult result = make_sparse(problem);
    const PointCloud cloud = problem.cloud();
    const VoxelGeometry& geometry = problem.grid.geometry;
    const Scratch workspace(voxelize_sparse_workspace_bytes(cloud, geometry, context_));
    result.voxels =
        voxelize_sparse_index(cloud, geometry, result.point_to_voxel.view(), result.offsets.view(),
                              result.dropped.view(), workspace, context_);
    make_voxels(problem, result);
    voxelize_sparse_write(cloud, geometry, problem.mode, result.voxels, result.coordinates.view(),
                          result.counts.view(), result.features.view(), workspace, context_);
    return result;
  }

  Tensor sparse_gradient(const VoxelProblem& problem, const SparseResult& forward,
                         const Tensor& grad_output) const override {
    Tensor gradient(problem.features.type(), problem.features.shape());
    gradient.fill_bytes(0x5A);
    const SparseAssignment assignment{forward.point_to_voxel.view(), forward.counts.view()};
    const ConstTensorView features = problem.features.view();
    const Scratch workspace(
        voxelize_sparse_backward_workspace_bytes(features, assignment, problem.mode, context_));
    voxelize_sparse_backward(features, assignment, problem.mode, grad_output.view(),
                             gradient.view(), workspace, context_);
    return gradient;
  }

 private:
  ExecutionContext context_;
};

/// Parts of uneven size, the last first.
void backwards(void* /*pool*/, std::int64_t count, std::int64_t grain, ParallelBody body,
               void* body_data) {
  std::int64_t end = count;
  for (std::int64_t parts = 1; end > 0; ++parts) {
    const std::int64_t begin =
        std::max<std::int64_t>(0, end - std::max<std::int64_t>(1, grain) * parts / 2 - 1);
    body(body_data, begin, end);
    end = begin;
  }
}

#if defined(ROBOCACHE_HAS_CUDA)

class CudaVoxelEngine : public VoxelEngine {
 public:
  CudaVoxelEngine() : VoxelEngine("cuda") {}

  std::string problem() const override { return cuda_problem(0); }

  DenseResult dense(const VoxelProblem& problem) const override {
    DenseResult result{problem.make_grid(), problem.make_dropped()};
    result.grid.fill_bytes(0x5A);
    result.dropped.fill_bytes(0x5A);
    const DeviceCloud cloud(problem);
    const DeviceCopy<void> grid(result.grid.view());
    const DeviceCopy<void> dropped(result.dropped.view());
    const CudaStream stream;
    const ExecutionContext context = on_cuda(stream.get());
    const DeviceScratch workspace(voxelize_workspace_bytes(cloud.cloud, problem.grid, problem.mode,
                                                           problem.out_type, context));
    voxelize(cloud.cloud, problem.grid, problem.mode, grid.view(), dropped.view(), workspace,
             context);
    stream.wait();
    grid.copy_back();
    dropped.copy_back();
    return result;
  }

  Tensor dense_gradient(const VoxelProblem& problem, const Tensor& grad_output) const override {
    Tensor gradient(problem.features.type(), problem.features.shape());
    gradient.fill_bytes(0x5A);
    const DeviceCloud cloud(problem);
    const DeviceCopy<const void> grad(grad_output.view());
    const DeviceCopy<void> result(gradient.view());
    const CudaStream stream;
    const ExecutionContext context = on_cuda(stream.get());
    const DeviceScratch workspace(
        voxelize_backward_workspace_bytes(cloud.cloud, problem.grid, problem.mode, context));
    voxelize_backward(cloud.cloud, problem.grid, problem.mode, grad.view(), result.view(),
                      workspace, context);
    stream.wait();
    result.copy_back();
    return gradient;
  }

  SparseResult sparse(const VoxelProblem& problem) const override {
    SparseResult result = make_sparse(problem);
    const VoxelGeometry& geometry = problem.grid.geometry;
    const DeviceCloud cloud(problem);
    const DeviceCopy<void> point_to_voxel(result.point_to_voxel.view());
    const DeviceCopy<void> offsets(result.offsets.view());
    const DeviceCopy<void> dropped(result.dropped.view());
    const CudaStream stream;
    const ExecutionContext context = on_cuda(stream.get());
    const DeviceScratch workspace(voxelize_sparse_workspace_bytes(cloud.cloud, geometry, context));
    result.voxels = voxelize_sparse_index(cloud.cloud, geometry, point_to_voxel.view(),
                                          offsets.view(), dropped.view(), workspace, context);
    make_voxels(problem, result);
    const DeviceCopy<void> coordinates(result.coordinates.view());
    const DeviceCopy<void> counts(result.counts.view());
    const DeviceCopy<void> features(result.features.view());
    voxelize_sparse_write(cloud.cloud, geometry, problem.mode, result.voxels, coordinates.view(),
                          counts.view(), features.view(), workspace, context);
    stream.wait();
    for (const DeviceCopy<void>* copy :
         {&point_to_voxel, &offsets, &dropped, &coordinates, &counts, &features}) {
      copy->copy_back();
    }
    return result;
  }

  Tensor sparse_gradient(const VoxelProblem& problem, const SparseResult& forward,
                         const Tensor& grad_output) const override {
    Tensor gradient(problem.features.type(), problem.features.shape());
    gradient.fill_bytes(0x5A);
    const DeviceCopy<const void> features(problem.features.view());
    const DeviceCopy<const void> point_to_voxel(forward.point_to_voxel.view());
    const DeviceCopy<const void> counts(forward.counts.view());
    const DeviceCopy<const void> grad(grad_output.view());
    const DeviceCopy<void> result(gradient.view());
    const CudaStream stream;
    const ExecutionContext context = on_cuda(stream.get());
    const SparseAssignment assignment{point_to_voxel.view(), counts.view()};
    const DeviceScratch workspace(voxelize_sparse_backward_workspace_bytes(
        features.view(), assignment, problem.mode, context));
    voxelize_sparse_backward(features.view(), assignment, problem.mode, grad.view(), result.view(),
                             workspace, context);
    stream.wait();
    result.copy_back();
    return gradient;
  }

 private:
  struct DeviceCloud {
    DeviceCopy<const void> points, features, offsets;
    PointCloud cloud;

    explicit DeviceCloud(const VoxelProblem& problem)
        : points(problem.points.view()),
          features(problem.features.view()),
          offsets(problem.offsets.view()),
          cloud{points.view(), features.view(), offsets.view()} {}
  };
};

#else

/// Stands in where the build has no CUDA, so that tests say why they skip.
class CudaVoxelEngine : public VoxelEngine {
 public:
  CudaVoxelEngine() : VoxelEngine("cuda") {}
  std::string problem() const override { return cuda_problem(0); }
  DenseResult dense(const VoxelProblem&) const override { throw std::logic_error(problem()); }
  Tensor dense_gradient(const VoxelProblem&, const Tensor&) const override {
    throw std::logic_error(problem());
  }
  SparseResult sparse(const VoxelProblem&) const override { throw std::logic_error(problem()); }
  Tensor sparse_gradient(const VoxelProblem&, const SparseResult&, const Tensor&) const override {
    throw std::logic_error(problem());
  }
};

#endif

}  // namespace

const std::vector<const VoxelEngine*>& voxel_engines() {
  static const CpuVoxelEngine cpu("cpu", parallel_for_threads);
  static const CpuVoxelEngine cpu_backwards("cpu_backwards", backwards);
  static const CudaVoxelEngine cuda;
  static const std::vector<const VoxelEngine*> all{&cpu, &cpu_backwards, &cuda};
  return all;
}

const VoxelEngine& voxel_engine(const std::string& name) {
  for (const VoxelEngine* candidate : voxel_engines()) {
    if (candidate->name() == name) return *candidate;
  }
  throw std::logic_error("there is no engine " + name);
}

}  // namespace robocache::testing
