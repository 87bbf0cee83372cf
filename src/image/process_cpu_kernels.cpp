// The CPU kernels. The build compiles this file once per instruction set, each time into the
// namespace that ROBOCACHE_CPU_TARGET names; core/target.h lists the restrictions on such code.
#include "image/process_cpu_kernels.h"

#include "core/dispatch.h"
#include "image/recipe.h"
#include "image/sample_row_cpu.h"

namespace robocache::ROBOCACHE_TARGET {
namespace {

static_assert(sizeof(FrameRecipe) <= kRecipeBytes);

/// Planes of a row, [channels][width].
struct PlaneRow {
  float* values;
  std::int32_t width, channels;

  float* plane(std::int32_t c) const { return values + std::int64_t{c} * width; }
};

void change_colors(const PreparedStep& step, const PlaneRow& row) {
  float* __restrict const r = row.plane(0);
  float* __restrict const g = row.plane(row.channels == 1 ? 0 : 1);
  float* __restrict const b = row.plane(row.channels == 1 ? 0 : 2);
  with_kind(step.kind, [&](auto kind) {
    constexpr ColorStep kKind = decltype(kind)::kValue;
    if (row.channels == 1) {
      for (std::int32_t u = 0; u < row.width; ++u)
        r[u] = changed<kKind>(step, {r[u], r[u], r[u]}).r;
      return;
    }
    for (std::int32_t u = 0; u < row.width; ++u) {
      const Rgb x = changed<kKind>(step, {r[u], g[u], b[u]});
      r[u] = x.r;
      g[u] = x.g;
      b[u] = x.b;
    }
  });
}

/// The sums of lumas of the grid, for the mean of step `step`.
float mean_before(const ImagePlan& plan, const FrameRecipe& recipe, const std::uint8_t* frame,
                  std::int32_t step) {
  const std::int32_t columns = grid_size(plan.out_width);
  const std::int32_t rows = grid_size(plan.out_height);
  float values[3 * kMeanGrid];
  const PlaneRow row{values, columns, 3};
  std::uint32_t sum = 0;
  for (std::int32_t i = 0; i < rows; ++i) {
    const std::int32_t v = grid_pixel(i, rows, plan.out_height);
    for (std::int32_t k = 0; k < columns; ++k) {
      const std::int32_t u = grid_pixel(k, columns, plan.out_width);
      const Rgb x = nearest_color(plan, frame, recipe.sampling, u, v);
      row.plane(0)[k] = x.r;
      row.plane(1)[k] = x.g;
      row.plane(2)[k] = x.b;
    }
    for (std::int32_t s = 0; s < step; ++s) change_colors(recipe.colors[s], row);
    for (std::int32_t k = 0; k < columns; ++k) {
      const Rgb x{row.plane(0)[k], row.plane(1)[k], row.plane(2)[k]};
      sum += fixed_luma(x, plan.channels == 1);
    }
  }
  return mean_of(sum, rows * columns);
}

void prepare(const ImagePlan& plan, const ImageDrawPlan& draw, std::int64_t begin, std::int64_t end,
             void* recipes) {
  for (std::int64_t n = begin; n < end; ++n) {
    ImageParameters parameters;
    draw_frame(draw, n, parameters);
    FrameRecipe recipe = make_recipe(plan, parameters);
    const auto* const frame =
        static_cast<const std::uint8_t*>(plan.frames) + n * plan.frame_elements();
    for (std::int32_t i = 0; i < recipe.steps; ++i) {
      if (recipe.colors[i].kind != ColorStep::kContrast) continue;
      recipe.colors[i] = prepare_step(ColorStep::kContrast, recipe.colors[i].factor,
                                      mean_before(plan, recipe, frame, i));
    }
    __builtin_memcpy(static_cast<char*>(recipes) + n * static_cast<std::int64_t>(kRecipeBytes),
                     &recipe, sizeof recipe);
  }
}

/// Blends a row with the mean of its 3 by 3 neighbors, of which the pixel itself counts 5 times.
void sharpen(float sharpness, const float* above, const float* row, const float* below,
             std::int32_t width, float* __restrict out) {
  const float rest = 1 - sharpness;
  out[0] = row[0];
  for (std::int32_t u = 1; u + 1 < width; ++u) {
    out[u] = sharpened(sharpness, rest, above + u, row + u, below + u);
  }
  out[width - 1] = row[width - 1];
}

template <typename Out>
void write_row(const ImagePlan& plan, const FrameRecipe& recipe, std::int64_t n, std::int32_t v,
               const PlaneRow& row) {
  Out* const image = static_cast<Out*>(plan.out) + n * plan.pixels() * plan.channels;
  for (std::int32_t c = 0; c < plan.channels; ++c) {
    const float* __restrict const plane = row.plane(c);
    const double subtract = plan.subtract[c];
    const double multiply = plan.multiply[c];
    const double unit = recipe.unit;
    if (plan.channels_first || plan.channels == 1) {
      Out* __restrict const out = image + c * plan.pixels() + std::int64_t{v} * row.width;
      for (std::int32_t u = 0; u < row.width; ++u) {
        out[u] = finished<Out>(plane[u], unit, subtract, multiply);
      }
    } else {
      Out* __restrict const out = image + std::int64_t{v} * row.width * plan.channels + c;
      for (std::int32_t u = 0; u < row.width; ++u) {
        out[std::int64_t{u} * plan.channels] = finished<Out>(plane[u], unit, subtract, multiply);
      }
    }
  }
}

void add_noise(const FrameRecipe& recipe, std::int32_t v, const PlaneRow& row) {
  const auto channels = static_cast<std::uint32_t>(row.channels);
  for (std::int32_t c = 0; c < row.channels; ++c) {
    float* __restrict const plane = row.plane(c);
    const auto first =
        static_cast<std::uint32_t>(v * row.width) * channels + static_cast<std::uint32_t>(c);
    for (std::int32_t u = 0; u < row.width; ++u) {
      const std::uint32_t index = first + static_cast<std::uint32_t>(u) * channels;
      plane[u] = noisy(recipe, plane[u], index);
    }
  }
}

void erase(const FrameRecipe& recipe, std::int32_t v, const PlaneRow& row) {
  if (v < recipe.erase[0] || v >= recipe.erase[2]) return;
  const std::int32_t begin = clamp_int(recipe.erase[1], 0, row.width);
  const std::int32_t end = clamp_int(recipe.erase[3], 0, row.width);
  for (std::int32_t c = 0; c < row.channels; ++c) {
    float* const plane = row.plane(c);
    for (std::int32_t u = begin; u < end; ++u) plane[u] = recipe.erase_value[c];
  }
}

template <typename Source>
void process_rows(const ImagePlan& plan, const FrameRecipe& recipe, std::int64_t n,
                  std::int32_t begin, std::int32_t end, void* scratch) {
  RowSampler<Source> sampler(plan, recipe, n, scratch);
  const std::int64_t size = std::int64_t{plan.out_width} * plan.channels;
  const PlaneRow row{sampler.rest(), plan.out_width, plan.channels};
  float* const ring = sampler.rest() + size;  // three rows before sharpening
  const bool is_sharpened = is_sharpened_frame(recipe, plan);
  std::int32_t sampled = begin;  // rows before this are in the ring
  if (is_sharpened && begin > 0) sampled = begin - 1;
  for (std::int32_t v = begin; v < end; ++v) {
    if (recipe.is_black != 0) {
      for (std::int64_t i = 0; i < size; ++i) row.values[i] = 0;
    } else {
      if (is_sharpened) {
        const auto in_ring = [&](std::int32_t r) { return ring + r % 3 * size; };
        for (; sampled < plan.out_height && sampled <= v + 1; ++sampled) {
          sampler.sample_row(sampled, in_ring(sampled));
        }
        if (v == 0 || v + 1 == plan.out_height) {
          __builtin_memcpy(row.values, in_ring(v), static_cast<std::size_t>(size) * sizeof(float));
        } else {
          for (std::int32_t c = 0; c < plan.channels; ++c) {
            const std::int64_t at = std::int64_t{c} * plan.out_width;
            sharpen(recipe.sharpness, in_ring(v - 1) + at, in_ring(v) + at, in_ring(v + 1) + at,
                    plan.out_width, row.plane(c));
          }
        }
      } else {
        sampler.sample_row(v, row.values);
      }
      for (std::int32_t i = 0; i < recipe.steps; ++i) change_colors(recipe.colors[i], row);
      if (recipe.noise > 0) add_noise(recipe, v, row);
      erase(recipe, v, row);
    }
    switch (plan.out_type) {
      case DataType::kUInt8:
        write_row<std::uint8_t>(plan, recipe, n, v, row);
        break;
      case DataType::kUInt16:
        write_row<UInt16>(plan, recipe, n, v, row);
        break;
      case DataType::kFloat16:
        write_row<Float16>(plan, recipe, n, v, row);
        break;
      case DataType::kBFloat16:
        write_row<BFloat16>(plan, recipe, n, v, row);
        break;
      default:
        write_row<float>(plan, recipe, n, v, row);
    }
  }
}

void process(const ImagePlan& plan, const void* recipe, std::int64_t n, std::int32_t begin,
             std::int32_t end, void* scratch) {
  FrameRecipe own;
  __builtin_memcpy(&own, recipe, sizeof own);
  if (own.is_black == kSkippedFrame) return;
  switch (plan.type) {
    case DataType::kUInt8:
      return process_rows<std::uint8_t>(plan, own, n, begin, end, scratch);
    case DataType::kUInt16:
      return process_rows<std::uint16_t>(plan, own, n, begin, end, scratch);
    case DataType::kFloat16:
      return process_rows<Float16>(plan, own, n, begin, end, scratch);
    default:
      return process_rows<float>(plan, own, n, begin, end, scratch);
  }
}

}  // namespace

const ImageCpuKernels& image_cpu_kernels() {
  static constexpr ImageCpuKernels kKernels{prepare, process};
  return kKernels;
}

}  // namespace robocache::ROBOCACHE_TARGET
