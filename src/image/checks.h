// Validation of the windows of process_images.
#pragma once

#include <cstdint>

#include "image/backends.h"
#include "robocache/image.h"

namespace robocache {

/// Validates window number `index` of a batch of `batch` samples. Throws ValueError or TypeError.
ImageCall check_image_window(const ImageWindow& window, std::int64_t index, std::int64_t batch,
                             const ImageSamples& samples, DeviceType device);

}  // namespace robocache
