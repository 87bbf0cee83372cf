// process_images as a flat C API, which python/robocache/image/library.py declares to ctypes.
//
// A function that can fail returns a Status; robocache_error() has the message. On CUDA the caller
// makes the device current and passes the stream.
#include "robocache/image.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "c_api.h"
#include "robocache/augment.h"
#include "tensors.h"

using robocache::DataType;
using robocache::DeviceType;
using robocache::c_api::status_of;

// The client declares structures of the same layout to ctypes.
extern "C" {

/// A robocache::ImageWindow of contiguous arrays.
struct RobocacheImageWindow {
  double center;
  double subtract[4], multiply[4];
  const void* augment;  // a robocache::AugmentPlan, or null
  const void* frames;   // [samples * frames_per_sample, height, width, channels]
  const bool* is_pad;
  void* out;
  std::int64_t frames_per_sample;
  std::int64_t dataset_index;
  std::int32_t size[2];  // of the output in the spec: 0, 0 for that of the crop
  std::int32_t crop[4];  // top, left, height, width
  std::int32_t mode, filter;
  std::int32_t height, width, channels;
  std::int32_t dtype, out_dtype;  // DataType's numbers
  std::int32_t out_height, out_width;
  std::int32_t channels_first;
};

/// A robocache::ImageSamples.
struct RobocacheImageSamples {
  const std::int64_t* dataset_index;
  const std::int64_t* episode_index;
  const std::int64_t* frame_index;
  const std::int64_t* epoch;
};

}  // extern "C"

namespace {

robocache::ImageWindow window_of(const RobocacheImageWindow& from, std::int64_t batch,
                                 DeviceType device) {
  robocache::ImageWindow window;
  robocache::ImageSpec& spec = window.spec;
  spec.height = from.size[0];
  spec.width = from.size[1];
  spec.mode = static_cast<robocache::ResizeMode>(from.mode);
  spec.filter = static_cast<robocache::ResizeFilter>(from.filter);
  spec.crop_top = from.crop[0];
  spec.crop_left = from.crop[1];
  spec.crop_height = from.crop[2];
  spec.crop_width = from.crop[3];
  spec.center = from.center;
  window.augment = static_cast<const robocache::AugmentPlan*>(from.augment);
  const std::int64_t count = batch * from.frames_per_sample;
  window.frames = {from.frames,
                   static_cast<DataType>(from.dtype),
                   {count, from.height, from.width, from.channels},
                   device};
  window.is_pad = from.is_pad;
  window.frames_per_sample = from.frames_per_sample;
  window.dataset_index = from.dataset_index;
  for (int c = 0; c < 4; ++c) {
    window.subtract[c] = from.subtract[c];
    window.multiply[c] = from.multiply[c];
  }
  window.channels_first = from.channels_first != 0;
  const auto out_type = static_cast<DataType>(from.out_dtype);
  if (window.channels_first) {
    window.out = {
        from.out, out_type, {count, from.channels, from.out_height, from.out_width}, device};
  } else {
    window.out = {
        from.out, out_type, {count, from.out_height, from.out_width, from.channels}, device};
  }
  return window;
}

std::vector<robocache::ImageWindow> windows_of(const RobocacheImageWindow* windows,
                                               std::int32_t count, std::int64_t batch,
                                               DeviceType device) {
  std::vector<robocache::ImageWindow> made;
  made.reserve(static_cast<std::size_t>(count));
  for (std::int32_t i = 0; i < count; ++i) made.push_back(window_of(windows[i], batch, device));
  return made;
}

DeviceType device_of(std::int32_t is_cuda) {
  return is_cuda != 0 ? DeviceType::kCuda : DeviceType::kCpu;
}

}  // namespace

extern "C" {

/// The sizes of the structures above in bytes.
ROBOCACHE_C_API const char* robocache_images_layout() {
  static const std::string layout =
      robocache::c_api::sizes_json({{"ImageWindow", sizeof(RobocacheImageWindow)},
                                    {"ImageSamples", sizeof(RobocacheImageSamples)}});
  return layout.c_str();
}

/// The size of the workspace for a batch of `batch` samples.
ROBOCACHE_C_API int robocache_images_workspace(const RobocacheImageWindow* windows,
                                               std::int32_t count, std::int64_t batch,
                                               std::int32_t is_cuda, std::int64_t* bytes) {
  return status_of([&] {
    const DeviceType device = device_of(is_cuda);
    *bytes = static_cast<std::int64_t>(robocache::process_images_workspace_bytes(
        windows_of(windows, count, batch, device), device));
  });
}

/// Processes the images of a batch's windows.
ROBOCACHE_C_API int robocache_process_images(const RobocacheImageWindow* windows,
                                             std::int32_t count, std::int64_t batch,
                                             const RobocacheImageSamples* samples, void* workspace,
                                             std::int64_t workspace_bytes, std::int32_t is_cuda,
                                             void* cuda_stream) {
  return status_of([&] {
    const robocache::ExecutionContext context =
        is_cuda != 0 ? robocache::on_cuda(static_cast<CUstream_st*>(cuda_stream))
                     : robocache::torch_binding::on_torch_threads();
    robocache::process_images(
        windows_of(windows, count, batch, device_of(is_cuda)), batch,
        {samples->dataset_index, samples->episode_index, samples->frame_index, samples->epoch},
        {workspace, static_cast<std::size_t>(workspace_bytes)}, context);
  });
}
}
