// Contexts and gradients that are refused; and that a refusal leaves no trace.
#include <gtest/gtest.h>

#include <string>

#include "align/engine.h"
#include "align/errors_call.h"
#include "align/random_problem.h"
#include "robocache/build_info.h"
#include "support/check.h"
#if defined(ROBOCACHE_HAS_CUDA)
#include <cuda_runtime_api.h>
#endif

namespace robocache::testing {
namespace {

TEST(Errors, TheCallThatIsSpoiledIsRight) {
  Call call;
  EXPECT_EQ(error_of([&] { call.align(); }), "no error");
  EXPECT_EQ(error_of([&] { call.align_backward(); }), "no error");
  EXPECT_FALSE(call.is_untouched());
}

TEST(Errors, Workspace) {
  Call call;
  const std::size_t needed =
      align_backward_workspace_bytes(call.streams[0], call.target_times, call.context);
  call.workspace.bytes = needed - 1;
  EXPECT_EQ(error_of([&] { call.align_backward(); }),
            "ValueError workspace: expected " + std::to_string(needed) +
                " bytes aligned to 8, got " + std::to_string(needed - 1) + " bytes");
  call.workspace = {};
  EXPECT_EQ(
      error_of([&] { call.align_backward(); }),
      "ValueError workspace: expected " + std::to_string(needed) + " bytes aligned to 8, got none");
  EXPECT_TRUE(call.is_untouched());
}

TEST(Errors, Backward) {
  expect_backward_error(
      "TypeError grad_output: expected float16, bfloat16, float32 or float64, got uint8",
      [](Call& call) { call.grad_output_view.dtype = DataType::kUInt8; });
  expect_backward_error(
      "ValueError grad_output: expected [B=2,T=4,D=2], got [2,4,3]",
      [](Call& call) { call.grad_output_view = any_view(DataType::kFloat32, {2, 4, 3}); });
  expect_backward_error("ValueError grad_output: expected device cpu, got cuda",
                        [](Call& call) { call.grad_output_view.device = DeviceType::kCuda; });
  expect_backward_error("TypeError grad_values: expected float32, got float64",
                        [](Call& call) { call.grad_values_view.dtype = DataType::kFloat64; });
  expect_backward_error(
      "ValueError grad_values: expected contiguous [2,3,2], got [3,2]",
      [](Call& call) { call.grad_values_view = any_view(DataType::kFloat32, {3, 2}); });
  expect_backward_error("ValueError grad_values: expected contiguous [2,3,2], got [2,3,2]",
                        [](Call& call) { call.grad_values_view.strides[1] = 4; });
  expect_backward_error("ValueError grad_values: expected device cpu, got cuda",
                        [](Call& call) { call.grad_values_view.device = DeviceType::kCuda; });
  expect_backward_error(
      "TypeError values: expected float16, bfloat16, float32, float64 or uint8, got bool",
      [](Call& call) { call.streams[0].values.dtype = DataType::kBool; });
  expect_backward_error("ValueError times: expected [B=2,S=3], got [2,4]", [](Call& call) {
    call.streams[0].times = any_view(DataType::kInt64, {2, 4});
  });
}

TEST(Errors, ABuildWithoutCudaSaysSo) {
  Call call;
  call.context = on_cuda(nullptr);
  const std::string error = error_of([&] { call.align(); });
  const std::string backward_error = error_of([&] { call.align_backward(); });
#if defined(ROBOCACHE_HAS_CUDA)
  EXPECT_EQ(error, "ValueError values: expected device cuda, got cpu");
  EXPECT_EQ(backward_error, error);
#else
  EXPECT_EQ(error, "DeviceError context: expected the CPU, got CUDA in " + cuda_problem(0));
  EXPECT_EQ(backward_error, error);
  EXPECT_NE(error.find("a build without CUDA; install nvcc"), std::string::npos) << error;
#endif
  EXPECT_TRUE(call.is_untouched());
}

#if defined(ROBOCACHE_HAS_CUDA)
TEST(Errors, AMachineWithoutAUsableGpuIsADeviceError) {
  if (cuda_problem(0).empty()) GTEST_SKIP() << "this machine has a usable GPU";
  Call call;
  call.context = on_cuda(nullptr);
  for (TensorView* view : {&call.values_out, &call.valid_out, &call.age_out})
    view->device = DeviceType::kCuda;
  call.streams[0].values.device = DeviceType::kCuda;
  call.streams[0].times.device = DeviceType::kCuda;
  call.target_times.device = DeviceType::kCuda;
  const std::string error = error_of([&] { call.align(); });
  EXPECT_EQ(error.rfind("DeviceError ", 0), 0U) << error;
  EXPECT_TRUE(call.is_untouched());
}

TEST(Errors, TheCudaContextStaysUsable) {
  const Engine& cuda = engine("cuda");
  if (!cuda.problem().empty()) GTEST_SKIP() << cuda.problem();
  EXPECT_NE(cuda_problem(12345), "");
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "left behind by a device that is not there";
  Call call;
  call.streams[0].layout = {{Method::kSlerpXyzw, 2}};
  EXPECT_EQ(error_of([&] {
              cuda.align(call.streams, call.target_times, call.options, call.values_out,
                         call.valid_out);
            }),
            "ValueError method: expected a run of 4 channels for slerp_xyzw, got 2");
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_TRUE(call.is_untouched());
  Problem problem = random_problem(84'000);
  EXPECT_EQ(check_alignment(cuda, problem), "");
}
#endif

}  // namespace
}  // namespace robocache::testing
