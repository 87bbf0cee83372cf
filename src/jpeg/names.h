// The names of chroma samplings, as JPEG's users write them.
#pragma once

#include <string_view>
#include <utility>

#include "robocache/jpeg.h"

namespace robocache {

inline constexpr std::pair<std::string_view, JpegSampling> kJpegSamplingNames[] = {
    {"4:0:0", JpegSampling::kGray}, {"4:4:4", JpegSampling::k444}, {"4:2:2", JpegSampling::k422},
    {"4:4:0", JpegSampling::k440},  {"4:2:0", JpegSampling::k420},
};

}  // namespace robocache
