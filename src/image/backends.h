// The backends of process_images.
#pragma once

#include <cstddef>

#include "image/plan.h"
#include "robocache/execution.h"

namespace robocache {

/// A validated window.
struct ImageCall {
  ImagePlan plan;
  ImageDrawPlan draw;
};

std::size_t image_workspace_on_cpu(const ImagePlan& plan);

/// `workspace` has the bytes of `image_workspace_on_cpu`.
void process_images_on_cpu(const ImageCall& call, void* workspace, const ExecutionContext& context);

/// The most windows of a launch.
inline constexpr int kMaxImageLaunch = 8;

/// `recipes` has `kRecipeBytes` for each frame of the windows, one window's after the other's.
void process_images_on_cuda(const ImageCall* calls, int count, void* recipes, CUstream_st* stream);

}  // namespace robocache
