// The operators that the extension gives torch, and the flat C API that Python reaches by ctypes.
#include <torch/csrc/stable/library.h>

#include <string>

#include "c_api.h"
#include "operators.h"
#include "robocache/build_info.h"

using robocache::torch_binding::align;
using robocache::torch_binding::align_backward;
using robocache::torch_binding::convert_delta;
using robocache::torch_binding::convert_delta_backward;
using robocache::torch_binding::convert_pose;
using robocache::torch_binding::convert_pose_backward;
using robocache::torch_binding::convert_rotation;
using robocache::torch_binding::convert_rotation_backward;
using robocache::torch_binding::voxelize;
using robocache::torch_binding::voxelize_backward;
using robocache::torch_binding::voxelize_dropped;
using robocache::torch_binding::voxelize_sparse;
using robocache::torch_binding::voxelize_sparse_backward;

// python/robocache/align/options.py, voxel/options.py and transform/ops.py pack `options`. A string
// argument leaks in torch 2.11, so names travel as integers.
STABLE_TORCH_LIBRARY(robocache, library) {
  // Optional tensors of streams are in `tensors` where they are there.
  library.def(
      "align(Tensor[] tensors, Tensor target_times, int[] streams, int options) -> Tensor[]");
  library.def(
      "align_backward(Tensor grad, Tensor? values, Tensor[] tensors, Tensor target_times, "
      "int[] stream, int options, SymInt[] values_shape) -> Tensor");
#define ROBOCACHE_VOXELIZE_ARGUMENTS                   \
  "Tensor points, Tensor? features, Tensor? offsets, " \
  "SymInt[] grid_size, float[] geometry, int options)"
  library.def("voxelize(" ROBOCACHE_VOXELIZE_ARGUMENTS " -> Tensor");
  library.def("voxelize_dropped(" ROBOCACHE_VOXELIZE_ARGUMENTS " -> (Tensor, Tensor)");
  library.def("voxelize_backward(Tensor grad, " ROBOCACHE_VOXELIZE_ARGUMENTS " -> Tensor");
#undef ROBOCACHE_VOXELIZE_ARGUMENTS
  library.def(
      "voxelize_sparse(Tensor points, Tensor? features, Tensor? offsets, float[] geometry, "
      "int options) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)");
  library.def(
      "voxelize_sparse_backward(Tensor grad, Tensor? features, Tensor point_to_voxel, "
      "Tensor counts, int options) -> Tensor");
  library.def("convert_rotation(Tensor x, int options) -> Tensor");
  library.def("convert_rotation_backward(Tensor grad, Tensor x, int options) -> Tensor");
  library.def("convert_pose(Tensor poses, Tensor anchor, int options) -> Tensor");
  library.def(
      "convert_pose_backward(Tensor grad, Tensor poses, Tensor anchor, int options) -> Tensor[]");
  library.def(
      "convert_delta(Tensor x, Tensor start, Tensor? times, float duration, int options) -> "
      "Tensor");
  library.def(
      "convert_delta_backward(Tensor grad, Tensor? times, float duration, int options) "
      "-> (Tensor, Tensor)");
}

namespace {

/// One implementation for both devices: it asks the tensors where they are.
template <typename Library>
void implement(Library& library) {
  library.impl("align", TORCH_BOX(&align));
  library.impl("align_backward", TORCH_BOX(&align_backward));
  library.impl("convert_rotation", TORCH_BOX(&convert_rotation));
  library.impl("convert_rotation_backward", TORCH_BOX(&convert_rotation_backward));
  library.impl("convert_pose", TORCH_BOX(&convert_pose));
  library.impl("convert_pose_backward", TORCH_BOX(&convert_pose_backward));
  library.impl("convert_delta", TORCH_BOX(&convert_delta));
  library.impl("convert_delta_backward", TORCH_BOX(&convert_delta_backward));
  library.impl("voxelize", TORCH_BOX(&voxelize));
  library.impl("voxelize_dropped", TORCH_BOX(&voxelize_dropped));
  library.impl("voxelize_backward", TORCH_BOX(&voxelize_backward));
  library.impl("voxelize_sparse", TORCH_BOX(&voxelize_sparse));
  library.impl("voxelize_sparse_backward", TORCH_BOX(&voxelize_sparse_backward));
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(robocache, CPU, library) { implement(library); }
STABLE_TORCH_LIBRARY_IMPL(robocache, CUDA, library) { implement(library); }

extern "C" {

/// What the last failure of this library's C API in this thread was.
__attribute__((visibility("default"))) const char* robocache_error() {
  return robocache::c_api::error_message.c_str();
}

/// JSON; see robocache::build_info. Lives as long as the process.
__attribute__((visibility("default"))) const char* robocache_build_info() {
  return robocache::build_info().c_str();
}

/// Why CUDA cannot be used on `device`, in words that stay until this thread's next call; null if
/// it can.
__attribute__((visibility("default"))) const char* robocache_cuda_problem(int device) {
  static thread_local std::string problem;
  problem = robocache::cuda_problem(device);
  return problem.empty() ? nullptr : problem.c_str();
}
}
