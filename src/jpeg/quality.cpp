// The quality of a frame, from its quantization tables.
#include <algorithm>
#include <cstdint>

#include "align/method_names.h"
#include "jpeg/names.h"
#include "robocache/jpeg.h"

namespace robocache {
namespace {

constexpr std::int32_t kMostQuality = 100;

// The tables of ITU T.81, annex K.1, which libjpeg scales: of luma and of chroma.
constexpr std::uint8_t kStandardSteps[2][kJpegBlockSize] = {
    {16, 11, 10, 16, 24,  40,  51,  61,  12, 12, 14, 19, 26,  58,  60,  55,
     14, 13, 16, 24, 40,  57,  69,  56,  14, 17, 22, 29, 51,  87,  80,  62,
     18, 22, 37, 56, 68,  109, 103, 77,  24, 35, 55, 64, 81,  104, 113, 92,
     49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99},
    {17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99, 24, 26, 56, 99, 99, 99,
     99, 99, 47, 66, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
     99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99},
};

/// The steps of a quality, as jpeg_set_quality computes those of baseline frames.
std::int32_t scaled_step(std::int32_t step, std::int32_t quality) {
  const std::int32_t percent = quality < 50 ? 5000 / quality : 200 - 2 * quality;
  return std::clamp((step * percent + 50) / 100, 1, 255);
}

bool has_quality(const JpegHeader& header, std::int32_t quality) {
  for (std::int32_t component = 0; component < header.components; ++component) {
    const std::uint8_t* const standard = kStandardSteps[component == 0 ? 0 : 1];
    for (int i = 0; i < kJpegBlockSize; ++i) {
      if (header.quantization[component].steps[i] != scaled_step(standard[i], quality)) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace

std::int32_t find_jpeg_quality(const JpegHeader& header) {
  for (std::int32_t quality = 1; quality <= kMostQuality; ++quality) {
    if (has_quality(header, quality)) return quality;
  }
  return 0;
}

const char* name_of(JpegSampling sampling) { return name_in(kJpegSamplingNames, sampling).data(); }

}  // namespace robocache
