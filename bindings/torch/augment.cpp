// Random augmentation as a flat C API, which python/robocache/image/plan.py declares to ctypes.
//
// A function that can fail returns a Status; robocache_error() has the message.
#include "robocache/augment.h"

#include <cstdint>
#include <string>

#include "c_api.h"
#include "tensors.h"

using robocache::AugmentGeometry;
using robocache::AugmentPlan;
using robocache::AugmentStep;
using robocache::ImageParameters;
using robocache::c_api::status_of;

extern "C" {

/// The sizes of the structures that Python declares.
ROBOCACHE_C_API const char* robocache_augment_layout() {
  static const std::string text =
      robocache::c_api::sizes_json({{"AugmentGeometry", sizeof(AugmentGeometry)},
                                    {"AugmentStep", sizeof(AugmentStep)},
                                    {"AugmentPlan", sizeof(AugmentPlan)},
                                    {"ImageParameters", sizeof(ImageParameters)}});
  return text.c_str();
}

/// Checks a plan's steps; messages begin with `name`.
ROBOCACHE_C_API int robocache_check_augment(const AugmentPlan* plan, const char* name) {
  return status_of([&] { check_augment_plan(*plan, name); });
}

/// Sets a plan's geometry: robocache::set_augment_geometry. `size` and `crop` are zeros where the
/// spec has none.
ROBOCACHE_C_API int robocache_set_augment_geometry(AugmentPlan* plan, const std::int32_t* size,
                                                   std::int32_t mode, const std::int32_t* crop,
                                                   std::int64_t height, std::int64_t width) {
  return status_of([&] {
    robocache::ImageSpec spec;
    spec.height = size[0];
    spec.width = size[1];
    spec.mode = static_cast<robocache::ResizeMode>(mode);
    spec.crop_top = crop[0];
    spec.crop_left = crop[1];
    spec.crop_height = crop[2];
    spec.crop_width = crop[3];
    set_augment_geometry(*plan, spec, height, width);
  });
}

/// Draws the parameters [batch, frames_per_sample] of samples on the CPU. `dataset_index` may be
/// null.
ROBOCACHE_C_API int robocache_draw_augmentation(const AugmentPlan* plan, std::int64_t batch,
                                                std::int64_t frames_per_sample,
                                                const std::int64_t* dataset_index,
                                                const std::int64_t* episode_index,
                                                const std::int64_t* frame_index, std::int64_t epoch,
                                                ImageParameters* parameters) {
  return status_of([&] {
    draw_augmentation(*plan, batch, frames_per_sample,
                      {dataset_index, episode_index, frame_index, &epoch}, parameters,
                      robocache::torch_binding::on_torch_threads());
  });
}
}
