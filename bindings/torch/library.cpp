// The torch operators, and the flat C API that Python reaches by ctypes.
#include <torch/csrc/stable/library.h>

#include <string>

#include "align_fields.h"
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
using robocache::torch_binding::sample_farthest;
using robocache::torch_binding::voxelize;
using robocache::torch_binding::voxelize_backward;
using robocache::torch_binding::voxelize_dropped;
using robocache::torch_binding::voxelize_sparse;
using robocache::torch_binding::voxelize_sparse_backward;

// Names and dtypes travel as the numbers of the library's enums: a string argument leaks in torch
// 2.11, and a ScalarType costs a call 0.8 us. `streams` and `options` of align are bit fields of
// align_fields.h: on an H200 a call takes 13 us, and a scalar argument adds 0.2, a list 0.5.
STABLE_TORCH_LIBRARY(robocache, library) {
  library.def(
      "align(Tensor[] tensors, Tensor target_times, int[] streams, int options) -> Tensor[]");
  library.def(
      "align_backward(Tensor grad, Tensor? values, Tensor[] tensors, Tensor target_times, "
      "int[] stream, int outside, int values_dtype, SymInt[] values_shape) -> Tensor");
#define ROBOCACHE_CLOUDS "Tensor points, Tensor? features, Tensor? offsets, "
#define ROBOCACHE_GRID ROBOCACHE_CLOUDS "SymInt[] grid_size, float[] geometry, int mode, "
  library.def("voxelize(" ROBOCACHE_GRID "int out_dtype) -> Tensor");
  library.def("voxelize_dropped(" ROBOCACHE_GRID "int out_dtype) -> (Tensor, Tensor)");
  library.def("voxelize_backward(Tensor grad, " ROBOCACHE_GRID "int features_dtype) -> Tensor");
  library.def("voxelize_sparse(" ROBOCACHE_CLOUDS
              "float[] geometry, int mode) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)");
#undef ROBOCACHE_GRID
#undef ROBOCACHE_CLOUDS
  library.def(
      "voxelize_sparse_backward(Tensor grad, Tensor? features, Tensor point_to_voxel, "
      "Tensor counts, int mode, int features_dtype) -> Tensor");
  library.def("sample_farthest(Tensor points, Tensor? offsets, SymInt n, int start) -> Tensor");
  library.def("convert_rotation(Tensor x, int source_form, int target_form) -> Tensor");
  library.def(
      "convert_rotation_backward(Tensor grad, Tensor x, int source_form, int target_form) "
      "-> Tensor");
  library.def("convert_pose(Tensor poses, Tensor anchor, int form, bool inverse) -> Tensor");
  library.def(
      "convert_pose_backward(Tensor grad, Tensor poses, Tensor anchor, int form, bool inverse, "
      "bool needs_grad_poses, bool needs_grad_anchor) -> Tensor[]");
  library.def(
      "convert_delta(Tensor x, Tensor start, Tensor? times, float duration, bool inverse) -> "
      "Tensor");
  library.def(
      "convert_delta_backward(Tensor grad, Tensor? times, float duration, bool inverse) "
      "-> (Tensor, Tensor)");
}

namespace {

/// Registers one implementation for both devices; it reads the device from the tensors.
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
  library.impl("sample_farthest", TORCH_BOX(&sample_farthest));
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

/// The message of this thread's last failure in the library's C API.
ROBOCACHE_C_API const char* robocache_error() { return robocache::c_api::error_message.c_str(); }

/// The JSON of robocache::build_info. The text is static.
ROBOCACHE_C_API const char* robocache_build_info() { return robocache::build_info().c_str(); }

/// The bit fields of operator align's integers: JSON of [shift, bits] by name. The text is static.
ROBOCACHE_C_API const char* robocache_align_fields() {
  static const std::string text = robocache::torch_binding::align_fields_json();
  return text.c_str();
}

/// The reason why CUDA cannot be used on `device`; null if it can. The text is valid until this
/// thread's next call.
ROBOCACHE_C_API const char* robocache_cuda_problem(int device) {
  static thread_local std::string problem;
  problem = robocache::cuda_problem(device);
  return problem.empty() ? nullptr : problem.c_str();
}
}
