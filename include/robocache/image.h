// Images as policies take them: crop, resize, augmentation, normalization and cast of a batch's
// frames, in one pass. docs/images.md defines every option.
//
// Shapes: B samples of K frames each, N = B * K frames; source frames [H,W,C], output frames
// [h,w,C], or [C,h,w] with channels first.
//
// The arithmetic is float32 without fused multiply-add, in a stated order, and shared by host and
// device: CPU and CUDA give the same bits. Values of uint8 images are 0 to 255 until the last
// step, (x - subtract) * multiply in float64, rounded once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "robocache/execution.h"
#include "robocache/export.h"
#include "robocache/tensor_view.h"

namespace robocache {

/// How a source rectangle fills an output of another aspect ratio.
enum class ResizeMode : std::uint8_t {
  kStretch,  // each side is scaled by itself
  kPad,      // the whole rectangle, centered, with black at two sides: openpi's resize_with_pad
  kCrop,     // the centered part of the rectangle that fills the output
};

/// How source pixels combine into an output pixel.
enum class ResizeFilter : std::uint8_t {
  kBilinear,  // a triangle as wide as an output pixel, and at least as a source pixel: antialiased
  kNearest,   // the source pixel that contains the center of the output pixel: for labels, depth
  kMasked,    // as kBilinear, over pixels that are finite and not 0; 0 where there are none: depth
};

/// The deterministic geometry of a window's images. It is part of the policy spec.
struct ImageSpec {
  std::int32_t height = 0, width = 0;  // of the output; 0: of the crop
  ResizeMode mode = ResizeMode::kStretch;
  ResizeFilter filter = ResizeFilter::kBilinear;
  // The rectangle of the source that is used, in pixels; zero height and width: the whole image.
  std::int32_t crop_top = 0, crop_left = 0, crop_height = 0, crop_width = 0;
  // The share of the output's height and width, at its center, that is enlarged to fill it: the
  // deterministic counterpart of a random crop. 1: all.
  double center = 1.0;
};

/// A step that changes the colors of a pixel. Values are 0 to 1, and clamped to it after each step.
enum class ColorStep : std::uint8_t {
  kNone,
  kBrightness,  // x * factor
  kContrast,    // m + (x - m) * factor, where m is the mean luma of the image
  kSaturation,  // g + (x - g) * factor, where g is the luma of the pixel
  kHue,         // turned by `factor` of the circle, -0.5 to 0.5
  kGamma,       // x ^ factor
  kGrayscale,   // the luma of the pixel in all channels
  kShift,       // x + factor: the brightness of tf.image
};

/// The most color steps of a frame.
inline constexpr int kMaxColorSteps = 8;

/// The transformation of one frame, after all random draws: host and device compute it alike.
struct ImageParameters {
  // The source position of the center of output pixel (column u, row v), in pixels from the top
  // left corner: x = map[0] * (u + 0.5) + map[1] * (v + 0.5) + map[2], y = map[3] * (u + 0.5) +
  // map[4] * (v + 0.5) + map[5].
  float map[6];
  // The rectangle of the source that exists: left, top, right, bottom. Output pixels whose centers
  // lie outside are black.
  float bounds[4];
  // Color steps in their order; kNone ends them.
  ColorStep colors[kMaxColorSteps];
  float factors[kMaxColorSteps];
  float means[kMaxColorSteps];  // of kContrast: m, which `process_images` computes
  float sharpness;              // 1: unchanged; 0: smoothed; 2: sharpened. Before color steps.
  float noise;  // the standard deviation of Gaussian noise after color steps; 0: none
  std::uint64_t noise_key;
  // A rectangle of the output that is erased, after all else: top, left, height, width.
  std::int32_t erase[4];
  float erase_value[3];    // 0 to 1, per channel
  std::uint32_t is_black;  // 1: the camera was dropped, all pixels are 0
};

/// The most random steps of a window.
inline constexpr int kMaxAugmentSteps = 16;

/// Random steps of a window: robocache/augment.h.
struct AugmentPlan;

/// The samples of a batch, by which random parameters are drawn: [B] each, in the context's memory.
struct ImageSamples {
  const std::int64_t* dataset_index = nullptr;  // optional: 0
  const std::int64_t* episode_index = nullptr;
  const std::int64_t* frame_index = nullptr;
  const std::int64_t* epoch = nullptr;  // [1]; null: no augmentation, but its centered counterpart
};

/// A window of images of a batch.
struct ImageWindow {
  ImageSpec spec;
  const AugmentPlan* augment = nullptr;  // in host memory; null: none
  ConstTensorView frames;                // [N,H,W,C], contiguous: uint8, uint16, float16 or float32
  // Optional, [N], in the context's memory: frames that are padding are not augmented.
  const bool* is_pad = nullptr;
  std::int64_t frames_per_sample = 1;  // K
  // In a mixture, the data set whose samples this window has: the outputs of others are not
  // written. Negative: all samples.
  std::int64_t dataset_index = -1;
  double subtract[4] = {0, 0, 0, 0};  // per channel
  double multiply[4] = {1, 1, 1, 1};
  bool channels_first = false;
  TensorView out;  // [N,h,w,C] or [N,C,h,w], contiguous: uint8, float16, bfloat16, float32, or of
                   // the source's type
};

/// The size of the workspace of `process_images`.
ROBOCACHE_API std::size_t process_images_workspace_bytes(const std::vector<ImageWindow>& windows,
                                                         DeviceType device);

/// Processes the images of some windows of a batch of B samples, to the same bits on every device.
///
/// On CUDA it enqueues a kernel that draws the parameters, and kernels that write the outputs; it
/// allocates nothing and does not wait, so that it can be captured in a CUDA graph.
///
/// Throws ValueError or TypeError, whose message names the window's number, before it writes
/// anything, and DeviceError if a launch fails.
ROBOCACHE_API void process_images(const std::vector<ImageWindow>& windows, std::int64_t batch,
                                  const ImageSamples& samples, const Workspace& workspace,
                                  const ExecutionContext& context);

}  // namespace robocache
