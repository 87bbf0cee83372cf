// Draws the parameters of augmentation on the GPU: a thread for each frame.
#include <cuda_runtime.h>

#include "core/launch.cuh"
#include "image/draw_call.h"

namespace robocache {
namespace cuda {
namespace {

__global__ void __launch_bounds__(kThreads)
    draw_kernel(const __grid_constant__ DrawCall call, std::int64_t count) {
  wait_for_stream();
  const std::int64_t i = thread_index();
  if (i < count) draw_frame(call, i);
}

}  // namespace
}  // namespace cuda

void draw_augmentation_on_cuda(const DrawCall& call, CUstream_st* stream) {
  const std::int64_t count = call.batch * call.frames_per_sample;
  cuda::launch("draw_augmentation", cuda::draw_kernel, cuda::blocks_for(count), stream, call,
               count);
}

}  // namespace robocache
