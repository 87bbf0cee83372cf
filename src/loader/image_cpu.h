// Writing images on the CPU, colours first.
#pragma once

#include <cstdint>

#include "align/combine.h"
#include "align/combine_cpu.h"
#include "align/locate.h"
#include "core/number.h"
#include "core/target.h"
#include "loader/image.h"
#include "loader/plan.h"

namespace robocache::ROBOCACHE_TARGET {

/// Writes images of one stream.
template <typename Compute, typename Out>
class ImageWriter {
 public:
  explicit ImageWriter(const WindowPlan& window)
      : plan_(window.align), colours_(window.colours), pixels_(plan_.channels / window.colours) {
    for (std::int32_t colour = 0; colour < colours_; ++colour) {
      const ColourScale scale = scale_of_colour(plan_, colour);
      for (int x = 0; x < 256; ++x) {
        table_[colour][x] = scale_colour<Out>(scale, static_cast<Compute>(x));
      }
    }
  }

  void write(const LocatedTarget<Compute>& target) const {
    const Location<Compute>& location = target.location;
    Out* const out = static_cast<Out*>(plan_.out) + target.b * plan_.out_batch_stride +
                     target.t * plan_.out_target_stride;
    if (is_literal(location.source)) {
      const Out literal =
          location.source == Source::kZero ? Round<Out>::from(Compute(0)) : not_a_number<Out>();
      for (std::int64_t i = 0; i < plan_.channels; ++i) out[i] = literal;
      return;
    }
    const MethodRows picked = rows_for(plan_.method, location);
    const std::uint8_t* const a = static_cast<const std::uint8_t*>(plan_.values) + target.values +
                                  (location.lo + picked.step) * plan_.values_row_stride;
    for (std::int32_t colour = 0; colour < colours_; ++colour) {
      Out* const plane = out + colour * pixels_;
      if (picked.is_pair) {
        lerp_plane(a, a + plan_.values_row_stride, location.weight, colour, plane);
      } else {
        const Out* const table = table_[colour];
        for (std::int64_t p = 0; p < pixels_; ++p) plane[p] = table[a[p * colours_ + colour]];
      }
    }
  }

 private:
  void lerp_plane(const std::uint8_t* a, const std::uint8_t* b, Compute w, std::int32_t colour,
                  Out* __restrict plane) const {
    const ColourScale scale = scale_of_colour(plan_, colour);
    for (std::int64_t p = 0; p < pixels_; ++p) {
      const std::int64_t i = p * colours_ + colour;
      plane[p] =
          scale_colour<Out>(scale, lerp(static_cast<Compute>(a[i]), static_cast<Compute>(b[i]), w));
    }
  }

  const StreamPlan& plan_;
  std::int32_t colours_;
  std::int64_t pixels_;
  Out table_[kMaxColours][256];  // what each byte of a row that is copied becomes
};

}  // namespace robocache::ROBOCACHE_TARGET
