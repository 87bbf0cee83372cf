#include "image/checks.h"

#include <string>

#include "core/argument.h"
#include "core/check.h"
#include "image/geometry.h"
#include "image/spec.h"

namespace robocache {
namespace {

constexpr std::int64_t kMaxChannels = 4;
constexpr std::int64_t kMaxFrameElements = std::int64_t{1} << 31;

bool is_source_type(DataType type) {
  return type == DataType::kUInt8 || type == DataType::kUInt16 || type == DataType::kFloat16 ||
         type == DataType::kFloat32;
}

/// Refuses steps that a window's images cannot take: colors are those of bytes.
void check_steps(const AugmentPlan& plan, const std::string& name, DataType type,
                 std::int64_t channels) {
  for (std::int32_t i = 0; i < plan.step_count; ++i) {
    const AugmentStep& step = plan.steps[i];
    bool is_gray_too = false;
    switch (step.kind) {
      case AugmentKind::kJitter:
        is_gray_too = (step.mask & ~3) == 0;  // brightness and contrast
        break;
      case AugmentKind::kShift:
      case AugmentKind::kGamma:
      case AugmentKind::kSharpness:
      case AugmentKind::kNoise:
        is_gray_too = true;
        break;
      case AugmentKind::kGrayscale:
        break;
      default:
        continue;
    }
    if (type == DataType::kUInt8 && (channels == 3 || (channels == 1 && is_gray_too))) continue;
    throw_value_error(name + ".augment.steps[" + std::to_string(i) + "]",
                      is_gray_too ? "uint8 images of 1 or 3 channels for a step of colors"
                                  : "uint8 images of 3 channels for a step of colors",
                      std::string(name_of(type)) + " images of " + std::to_string(channels));
  }
}

}  // namespace

ImageCall check_image_window(const ImageWindow& window, std::int64_t index, std::int64_t batch,
                             const ImageSamples& samples, DeviceType device) {
  const std::string name = "windows[" + std::to_string(index) + "]";
  const ConstTensorView& frames = window.frames;
  if (!is_source_type(frames.dtype)) {
    throw_type_error(name + ".frames", "uint8, uint16, float16 or float32", name_of(frames.dtype));
  }
  const bool is_out_type =
      window.out.dtype == DataType::kUInt8 || window.out.dtype == DataType::kFloat16 ||
      window.out.dtype == DataType::kBFloat16 || window.out.dtype == DataType::kFloat32;
  if (!is_out_type && window.out.dtype != frames.dtype) {
    throw_type_error(name + ".out", "uint8, float16, bfloat16, float32 or the type of the frames",
                     name_of(window.out.dtype));
  }
  if (window.frames_per_sample < 1) {
    throw_value_error(name + ".frames_per_sample", "1 or more",
                      std::to_string(window.frames_per_sample));
  }
  const bool is_product = batch <= INT64_MAX / window.frames_per_sample;
  const std::int64_t count = is_product ? batch * window.frames_per_sample : -1;
  const bool has_shape = frames.rank == 4 && frames.shape[0] == count && frames.shape[1] >= 1 &&
                         frames.shape[2] >= 1 && frames.shape[3] >= 1 &&
                         frames.shape[3] <= kMaxChannels && is_contiguous(frames);
  if (!has_shape) {
    throw_value_error(
        name + ".frames",
        "contiguous " + bracket({dimension("N", count), "H", "W", "C"}) + " of 1 to 4 channels",
        shape_text(frames));
  }
  const ImageSize source{frames.shape[1], frames.shape[2]};
  const std::int64_t channels = frames.shape[3];
  if (source.height > kMaxFrameElements / source.width / channels) {
    throw_value_error(name + ".frames", "frames of at most 2^31 elements", shape_text(frames));
  }
  check_image_spec(name + ".spec", window.spec, source);
  const ImageSize out = output_size(window.spec, source);
  const std::string expected =
      window.channels_first ? bracket({dimension("N", count), dimension("C", channels),
                                       dimension("h", out.height), dimension("w", out.width)})
                            : bracket({dimension("N", count), dimension("h", out.height),
                                       dimension("w", out.width), dimension("C", channels)});
  const int axis = window.channels_first ? 1 : 0;
  const bool fits =
      window.out.rank == 4 && window.out.shape[0] == count &&
      window.out.shape[1 + axis] == out.height && window.out.shape[2 + axis] == out.width &&
      window.out.shape[window.channels_first ? 1 : 3] == channels && is_contiguous(window.out);
  if (!fits) throw_value_error(name + ".out", "contiguous " + expected, shape_text(window.out));
  Argument{(name + ".frames").c_str(), frames}.expect_device(device);
  Argument{(name + ".out").c_str(), window.out}.expect_device(device);

  ImageCall call{};
  ImagePlan& plan = call.plan;
  plan.frames = frames.data;
  plan.count = count;
  plan.height = static_cast<std::int32_t>(source.height);
  plan.width = static_cast<std::int32_t>(source.width);
  plan.channels = static_cast<std::int32_t>(channels);
  plan.out_height = static_cast<std::int32_t>(out.height);
  plan.out_width = static_cast<std::int32_t>(out.width);
  plan.type = frames.dtype;
  plan.out_type = window.out.dtype;
  plan.filter = window.spec.filter;
  plan.channels_first = window.channels_first;
  plan.out = window.out.data;
  for (std::int64_t c = 0; c < channels; ++c) {
    plan.subtract[c] = window.subtract[c];
    plan.multiply[c] = window.multiply[c];
  }
  call.draw.fixed = fixed_parameters(window.spec, source, out);
  call.draw.samples = samples;
  call.draw.frames_per_sample = window.frames_per_sample;
  call.draw.dataset_index = window.dataset_index;
  call.draw.is_pad = window.is_pad;
  if (window.augment != nullptr) {
    check_augment_plan(*window.augment, name + ".augment");
    check_steps(*window.augment, name, frames.dtype, channels);
    call.draw.is_augmented = true;
    call.draw.augment = *window.augment;
    set_augment_geometry(call.draw.augment, window.spec, source.height, source.width);
    if (samples.epoch != nullptr && count > 0 &&
        (samples.episode_index == nullptr || samples.frame_index == nullptr)) {
      throw_value_error("samples", "episode_index and frame_index beside epoch", "null");
    }
  }
  return call;
}

}  // namespace robocache
