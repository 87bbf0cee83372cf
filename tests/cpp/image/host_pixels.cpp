// The build compiles this file into the namespace `image_host`.
#include "image/host_pixels.h"

#include "image/pixel.h"
#include "support/numbers.h"

namespace robocache::testing {
namespace {

namespace target = ROBOCACHE_TARGET;

/// The recipe of a frame, with the means of its contrasts.
target::FrameRecipe recipe_of(const ImageCall& call, std::int64_t n) {
  const ImagePlan& plan = call.plan;
  ImageParameters parameters;
  target::draw_frame(call.draw, n, parameters);
  target::FrameRecipe recipe = target::make_recipe(plan, parameters);
  const auto* const frame =
      static_cast<const std::uint8_t*>(plan.frames) + n * plan.frame_elements();
  const std::int32_t columns = target::grid_size(plan.out_width);
  const std::int32_t rows = target::grid_size(plan.out_height);
  for (std::int32_t i = 0; i < recipe.steps; ++i) {
    if (recipe.colors[i].kind != ColorStep::kContrast) continue;
    std::uint32_t sum = 0;
    for (std::int32_t k = 0; k < rows * columns; ++k) {
      target::Rgb x = target::nearest_color(
          plan, frame, recipe.sampling, target::grid_pixel(k % columns, columns, plan.out_width),
          target::grid_pixel(k / columns, rows, plan.out_height));
      for (std::int32_t s = 0; s < i; ++s) {
        target::with_kind(recipe.colors[s].kind, [&](auto kind) {
          x = target::changed<decltype(kind)::kValue>(recipe.colors[s], x);
        });
      }
      sum += target::fixed_luma(x, plan.channels == 1);
    }
    recipe.colors[i] = target::prepare_step(ColorStep::kContrast, recipe.colors[i].factor,
                                            target::mean_of(sum, rows * columns));
  }
  return recipe;
}

template <typename Source>
void process(const ImageCall& call) {
  const ImagePlan& plan = call.plan;
  for (std::int64_t n = 0; n < plan.count; ++n) {
    const target::FrameRecipe recipe = recipe_of(call, n);
    const target::SourceFrame<Source> frame{
        static_cast<const Source*>(plan.frames) + n * plan.frame_elements(), plan.height,
        plan.width, plan.channels};
    for (std::int32_t v = 0; v < plan.out_height; ++v) {
      for (std::int32_t u = 0; u < plan.out_width; ++u) {
        const target::Pixel pixel = target::processed_pixel(plan, recipe, frame, u, v);
        const std::int64_t place = std::int64_t{v} * plan.out_width + u;
        for (std::int32_t c = 0; c < plan.channels; ++c) {
          const double x = (static_cast<double>(pixel.values[c]) * recipe.unit - plan.subtract[c]) *
                           plan.multiply[c];
          store_number(
              plan.out, plan.out_type,
              n * plan.pixels() * plan.channels +
                  (plan.channels_first ? c * plan.pixels() + place : place * plan.channels + c),
              x);
        }
      }
    }
  }
}

}  // namespace

void process_pixels(const ImageCall& call) {
  switch (call.plan.type) {
    case DataType::kUInt8:
      return process<std::uint8_t>(call);
    case DataType::kUInt16:
      return process<std::uint16_t>(call);
    case DataType::kFloat16:
      return process<target::Float16>(call);
    default:
      return process<float>(call);
  }
}

}  // namespace robocache::testing
