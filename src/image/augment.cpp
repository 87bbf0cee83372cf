// Validates random augmentation, and draws its parameters on the CPU.
#include "robocache/augment.h"

#include <cmath>
#include <string>

#include "core/check.h"
#include "core/parallel.h"
#include "image/draw_call.h"
#include "image/geometry.h"
#include "robocache/build_info.h"

namespace robocache {

#if !defined(ROBOCACHE_HAS_CUDA)
// Never called: the checks throw first. With it, the dispatch below reads alike in every build.
void draw_augmentation_on_cuda(const DrawCall&, CUstream_st*) {}
#endif

namespace {

constexpr float kLargest = 1e4F;
constexpr float kSmallest = 1e-4F;
constexpr float kLargestLogarithm = 16;  // e^16 is 9 million
constexpr float kLargestShear = 1.57F;   // below a quarter turn, which has no inverse

struct RangeLimits {
  float low, high;
};

/// The valid values of a kind's ranges, and whether a plan has at most one step of it.
struct KindRules {
  int ranges;
  RangeLimits limits[kAugmentRanges];
  bool is_single;
};

KindRules rules_of(AugmentKind kind) {
  constexpr RangeLimits kShare = {0, 1};
  constexpr RangeLimits kLogarithm = {-kLargestLogarithm, kLargestLogarithm};
  constexpr RangeLimits kAny = {-kLargest, kLargest};
  constexpr RangeLimits kFactor = {0, kLargest};
  constexpr RangeLimits kScale = {1e-3F, kLargest};
  constexpr RangeLimits kShear = {-kLargestShear, kLargestShear};
  switch (kind) {
    case AugmentKind::kCrop:
      return {1, {{1e-3F, 1}}, false};
    case AugmentKind::kResizedCrop:
      return {2, {{1e-3F, 1}, kLogarithm}, false};
    case AugmentKind::kRotation:
      return {1, {kAny}, false};
    case AugmentKind::kAffine:
      return {6, {kAny, kAny, kAny, kScale, kShear, kShear}, false};
    case AugmentKind::kJitter:
      return {4, {kFactor, kFactor, kFactor, {-0.5F, 0.5F}}, false};
    case AugmentKind::kShift:
      return {1, {{-1, 1}}, false};
    case AugmentKind::kGamma:
      return {1, {kLogarithm}, false};
    case AugmentKind::kSharpness:
    case AugmentKind::kNoise:
      return {1, {kFactor}, true};
    case AugmentKind::kErase:
      return {5, {kShare, kLogarithm, kShare, kShare, kShare}, true};
    case AugmentKind::kDropout:
      return {0, {}, true};
    default:
      return {0, {}, false};
  }
}

/// The number of color steps that a step adds.
int color_steps_of(const AugmentStep& step) {
  switch (step.kind) {
    case AugmentKind::kJitter:
      return (step.mask & 1) + (step.mask >> 1 & 1) + (step.mask >> 2 & 1) + (step.mask >> 3 & 1);
    case AugmentKind::kShift:
    case AugmentKind::kGamma:
    case AugmentKind::kGrayscale:
      return 1;
    default:
      return 0;
  }
}

/// False for NaN.
bool is_within(float x, float low, float high) { return x >= low && x <= high; }

void check_ranges(const AugmentStep& step, const std::string& name) {
  const KindRules rules = rules_of(step.kind);
  for (int i = 0; i < rules.ranges; ++i) {
    if (step.kind == AugmentKind::kJitter && (step.mask >> i & 1) == 0) continue;
    const RangeLimits limits = rules.limits[i];
    const float low = step.low[i];
    const float high = step.high[i];
    if (low >= limits.low && low <= high && high <= limits.high) continue;
    throw_value_error(
        name + ".low[" + std::to_string(i) + "]",
        "a range within " + std::to_string(limits.low) + " to " + std::to_string(limits.high),
        std::to_string(low) + " to " + std::to_string(high));
  }
}

void check_step(const AugmentStep& step, const std::string& name) {
  const auto kind = static_cast<std::int32_t>(step.kind);
  if (kind <= 0 || kind >= kAugmentKinds) {
    throw_value_error(name + ".kind", "an AugmentKind", std::to_string(kind));
  }
  if (!is_within(step.probability, 0, 1)) {
    throw_value_error(name + ".probability", "0 to 1", std::to_string(step.probability));
  }
  if (!is_within(step.weight, kSmallest, kLargest)) {
    throw_value_error(name + ".weight", "0.0001 to 10000", std::to_string(step.weight));
  }
  check_ranges(step, name);
}

/// Checks a subset, whose first step is number `first` of the plan.
void check_subset(const AugmentPlan& plan, std::int32_t first, const std::string& name) {
  const AugmentStep& subset = plan.steps[first - 1];
  if (subset.size < 1 || subset.size > plan.step_count - first) {
    throw_value_error(name + ".size", "1 to " + std::to_string(plan.step_count - first),
                      std::to_string(subset.size));
  }
  if (subset.count < 1 || subset.count > subset.size) {
    throw_value_error(name + ".count", "1 to " + std::to_string(subset.size),
                      std::to_string(subset.count));
  }
  for (std::int32_t i = first; i < first + subset.size; ++i) {
    const AugmentKind kind = plan.steps[i].kind;
    if (kind == AugmentKind::kSubset || kind == AugmentKind::kDropout) {
      throw_value_error(name, "steps other than subsets and camera dropout", "one of them");
    }
  }
}

/// Checks the steps together.
void check_kinds(const AugmentPlan& plan, const std::string& name) {
  int counts[kAugmentKinds] = {};
  int colors = 0;
  for (std::int32_t i = 0; i < plan.step_count; ++i) {
    const AugmentStep& step = plan.steps[i];
    colors += color_steps_of(step);
    if (++counts[static_cast<int>(step.kind)] > 1 && rules_of(step.kind).is_single) {
      throw_value_error(name, "at most one step of sharpness, noise, erasing and camera dropout",
                        "two of one");
    }
  }
  if (colors > kMaxColorSteps) {
    throw_value_error(name, "at most " + std::to_string(kMaxColorSteps) + " color steps",
                      std::to_string(colors));
  }
}

void check_geometry(const AugmentGeometry& geometry, const std::string& name) {
  bool is_finite = true;
  for (const double each : geometry.map) is_finite = is_finite && std::isfinite(each);
  if (!is_finite) throw_value_error(name + ".geometry.map", "finite numbers", "others");
  if (geometry.height < 1 || geometry.width < 1) {
    throw_value_error(name + ".geometry", "a height and width of 1 or more",
                      std::to_string(geometry.height) + " and " + std::to_string(geometry.width));
  }
}

void check_draw(const DrawCall& call, const ExecutionContext& context) {
#if defined(ROBOCACHE_HAS_CUDA)
  static_cast<void>(context);
#else
  if (context.device == DeviceType::kCuda) {
    throw DeviceError("context: expected the CPU, got CUDA in " + cuda_problem(0));
  }
#endif
  check_augment_plan(call.plan, "plan");
  check_geometry(call.plan.geometry, "plan");
  if (call.batch < 0) throw_value_error("batch", "0 or more", std::to_string(call.batch));
  if (call.frames_per_sample < 1) {
    throw_value_error("frames_per_sample", "1 or more", std::to_string(call.frames_per_sample));
  }
  if (call.batch > 0 && (call.samples.episode_index == nullptr ||
                         call.samples.frame_index == nullptr || call.samples.epoch == nullptr)) {
    throw_value_error("samples", "episode_index, frame_index and epoch", "a null pointer");
  }
}

void draw_augmentation_on_cpu(const DrawCall& call, const ExecutionContext& context) {
  const std::int64_t count = call.batch * call.frames_per_sample;
  parallel_for(context, count, 256, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      ROBOCACHE_TARGET::draw_frame(call, i);
    }
  });
}

}  // namespace

void check_augment_plan(const AugmentPlan& plan, const std::string& name) {
  if (plan.step_count < 0 || plan.step_count > kMaxAugmentSteps) {
    throw_value_error(name, "at most " + std::to_string(kMaxAugmentSteps) + " steps",
                      std::to_string(plan.step_count));
  }
  if (plan.cameras < 1 || plan.camera_index < 0 || plan.camera_index >= plan.cameras) {
    throw_value_error(name + ".camera_index", "0 to " + std::to_string(plan.cameras - 1),
                      std::to_string(plan.camera_index));
  }
  for (std::int32_t i = 0; i < plan.step_count; ++i) {
    const std::string step = name + ".steps[" + std::to_string(i) + "]";
    check_step(plan.steps[i], step);
    if (plan.steps[i].kind == AugmentKind::kSubset) check_subset(plan, i + 1, step);
  }
  check_kinds(plan, name);
}

void set_augment_geometry(AugmentPlan& plan, const ImageSpec& spec, std::int64_t height,
                          std::int64_t width) {
  const ImageSize source{height, width};
  check_image_spec("spec", spec, source);
  const ImageSize out = output_size(spec, source);
  const ImageGeometry geometry = compose_geometry(spec, source, out);
  for (int i = 0; i < 6; ++i) plan.geometry.map[i] = geometry.map[i];
  for (int i = 0; i < 4; ++i) plan.geometry.bounds[i] = static_cast<float>(geometry.bounds[i]);
  plan.geometry.height = static_cast<std::int32_t>(out.height);
  plan.geometry.width = static_cast<std::int32_t>(out.width);
}

void draw_augmentation(const AugmentPlan& plan, std::int64_t batch, std::int64_t frames_per_sample,
                       const ImageSamples& samples, ImageParameters* parameters,
                       const ExecutionContext& context) {
  const DrawCall call{plan, samples, batch, frames_per_sample, parameters};
  check_draw(call, context);
  if (batch == 0) return;
  if (context.device == DeviceType::kCuda) {
    draw_augmentation_on_cuda(call, context.stream);
  } else {
    draw_augmentation_on_cpu(call, context);
  }
}

}  // namespace robocache
