// Random augmentation of images: the steps of a camera, and the parameters that are drawn from
// them. docs/augmentation.md defines every step.
//
// A draw is a function of the seed, the epoch, the sample (data set, episode, frame) and the camera
// alone: it does not depend on the rank, the batch, the device or earlier draws.
#pragma once

#include <cstdint>
#include <string>

#include "robocache/execution.h"
#include "robocache/export.h"
#include "robocache/image.h"

namespace robocache {

/// A random step. The comments name the ranges of an AugmentStep that it draws from, uniformly.
enum class AugmentKind : std::int32_t {
  kNone,
  // Steps that change the geometry, from the output's view without them to the output. Sides are
  // those of the output, w and h.
  kCrop,         // [0]: the share of both sides that is enlarged to fill the output
  kResizedCrop,  // [0]: the share of the area; [1]: the logarithm of width / height, in pixels
  kFlip,         // left and right change places
  kRotation,     // [0]: radians, counterclockwise, about the center
  // About the center, as torchvision's affine. [0]: radians, clockwise; [1], [2]: the translation
  // over w, over h; [3]: the scale; [4], [5]: the shears along x and y in radians
  kAffine,
  // Steps that change the colors: see ColorStep.
  kJitter,     // [0] brightness, [1] contrast, [2] saturation, [3] hue, in random order
  kShift,      // [0]: the value that is added
  kGamma,      // [0]: the logarithm of the exponent
  kGrayscale,  // no range
  // Others: at most one of each kind in a plan.
  kSharpness,  // [0]: the factor
  kNoise,      // [0]: the standard deviation
  kErase,    // [0]: the share of the area; [1]: the logarithm of height / width; low[2] to low[4]:
             // the values of the channels
  kDropout,  // the camera is black; of all cameras of a plan, one is never
  kSubset,   // some of the steps that follow
};
inline constexpr int kAugmentKinds = static_cast<int>(AugmentKind::kSubset) + 1;

/// The most ranges of a step.
inline constexpr int kAugmentRanges = 6;

/// A random step and the ranges that it draws from.
struct AugmentStep {
  AugmentKind kind = AugmentKind::kNone;
  // kJitter: the steps that are part of it, bit i for range i.
  std::int32_t mask = 0;
  // kSubset: `count` of the next `size` steps are applied, which are no subsets: drawn one after
  // the other without replacement, by weight. They are applied in the plan's order or, with
  // `random_order`, in the order of the draws.
  std::int32_t count = 0, size = 0;
  std::int32_t random_order = 0;
  float weight = 1;       // of a step in a subset, above 0
  float probability = 1;  // that the step is applied
  float low[kAugmentRanges] = {}, high[kAugmentRanges] = {};
};

/// The deterministic geometry that a plan's steps apply to; `process_images` sets it.
struct AugmentGeometry {
  // As ImageParameters::map and ::bounds, of the window's ImageSpec with `center` 1.
  double map[6] = {1, 0, 0, 0, 1, 0};
  float bounds[4] = {0, 0, 0, 0};
  std::int32_t height = 0, width = 0;  // of the output
};

/// The random steps of a window, in their order: plain data, which can be a kernel's parameter.
struct AugmentPlan {
  AugmentGeometry geometry;
  std::uint64_t seed = 0;
  std::uint64_t camera = 0;                    // a hash of the camera's name
  std::int32_t camera_index = 0, cameras = 1;  // kDropout: the number among cameras that may drop
  std::int32_t per_frame = 0;                  // 1: each frame of a window has draws of its own
  std::int32_t step_count = 0;
  AugmentStep steps[kMaxAugmentSteps];
};

/// Checks a plan's steps; not its geometry. Throws ValueError, whose message begins with `name`.
ROBOCACHE_API void check_augment_plan(const AugmentPlan& plan, const std::string& name);

/// Sets a plan's geometry to that of a window's spec for source images of a size. Throws
/// ValueError, whose message begins with "spec", where the spec does not fit them.
ROBOCACHE_API void set_augment_geometry(AugmentPlan& plan, const ImageSpec& spec,
                                        std::int64_t height, std::int64_t width);

/// Draws the parameters of B samples of K frames each: `parameters` [B,K], in the context's memory.
///
/// On CUDA it enqueues one kernel. Throws ValueError where the plan's steps or its geometry are
/// invalid or `samples` lacks an array, before it writes anything, and DeviceError if the launch
/// fails or this build does not support the context's device.
ROBOCACHE_API void draw_augmentation(const AugmentPlan& plan, std::int64_t batch,
                                     std::int64_t frames_per_sample, const ImageSamples& samples,
                                     ImageParameters* parameters, const ExecutionContext& context);

}  // namespace robocache
