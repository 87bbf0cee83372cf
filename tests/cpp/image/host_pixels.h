// process_images one pixel after the other, by the code that CUDA's threads run for unusual frames.
#pragma once

#include "image/backends.h"

namespace robocache::testing {

void process_pixels(const ImageCall& call);

}  // namespace robocache::testing
