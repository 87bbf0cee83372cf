// Calls of process_images.
#include <algorithm>

#include "core/check.h"
#include "core/workspace.h"
#include "image/backends.h"
#include "image/checks.h"
#include "image/process_cpu_kernels.h"
#include "robocache/build_info.h"
#include "robocache/image.h"

namespace robocache {
namespace {

/// The samples of a window's frames, for calls without a batch of their own.
std::int64_t batch_of(const ImageWindow& window) {
  return window.frames_per_sample < 1 ? 0 : window.frames.shape[0] / window.frames_per_sample;
}

std::size_t workspace_bytes(const std::vector<ImageWindow>& windows, DeviceType device) {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const ImageWindow& window = windows[i];
    const ImageCall call = check_image_window(window, static_cast<std::int64_t>(i),
                                              batch_of(window), {}, window.frames.device);
    if (device == DeviceType::kCpu) {
      bytes = std::max(bytes, image_workspace_on_cpu(call.plan));
    } else {
      bytes += static_cast<std::size_t>(call.plan.count) * kRecipeBytes;
    }
  }
  return bytes;
}

}  // namespace

std::size_t process_images_workspace_bytes(const std::vector<ImageWindow>& windows,
                                           DeviceType device) {
  return workspace_bytes(windows, device);
}

void process_images(const std::vector<ImageWindow>& windows, std::int64_t batch,
                    const ImageSamples& samples, const Workspace& workspace,
                    const ExecutionContext& context) {
  const auto count = static_cast<std::int64_t>(windows.size());
  const auto check = [&](std::int64_t i) {
    return check_image_window(windows[static_cast<std::size_t>(i)], i, batch, samples,
                              context.device);
  };
  for (std::int64_t i = 0; i < count; ++i) {  // before anything is written
    const ImageCall call = check(i);
    const bool is_of_data_set = call.draw.dataset_index >= 0 && call.plan.count > 0;
    if (is_of_data_set && samples.dataset_index == nullptr) {
      throw_value_error("samples", "dataset_index for windows of a data set", "null");
    }
  }
#if !defined(ROBOCACHE_HAS_CUDA)
  if (context.device == DeviceType::kCuda) {
    throw DeviceError("context: expected the CPU, got CUDA in " + cuda_problem(0));
  }
#endif
  void* const memory =
      check_workspace(workspace, workspace_bytes(windows, context.device), context.device);
  if (context.device == DeviceType::kCpu) {
    for (std::int64_t i = 0; i < count; ++i) {
      const ImageCall call = check(i);
      if (call.plan.count > 0) process_images_on_cpu(call, memory, context);
    }
    return;
  }
#if defined(ROBOCACHE_HAS_CUDA)
  ImageCall calls[kMaxImageLaunch];
  char* recipes = static_cast<char*>(memory);
  for (std::int64_t i = 0; i < count;) {
    int in_launch = 0;
    std::int64_t frames = 0;
    for (; i < count && in_launch < kMaxImageLaunch; ++i) {
      calls[in_launch] = check(i);
      if (calls[in_launch].plan.count == 0) continue;
      frames += calls[in_launch++].plan.count;
    }
    if (in_launch == 0) continue;
    process_images_on_cuda(calls, in_launch, recipes, context.stream);
    recipes += frames * static_cast<std::int64_t>(kRecipeBytes);
  }
#endif
}

}  // namespace robocache
