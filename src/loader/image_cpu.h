// Writes images channels first, on the CPU.
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

/// Writes the images of one stream.
template <typename Compute, typename Out>
class ImageWriter {
 public:
  explicit ImageWriter(const WindowPlan& window)
      : plan_(window.align), colors_(window.colors), pixels_(plan_.channels / window.colors) {
    for (std::int32_t color = 0; color < colors_; ++color) {
      const ColorScale scale = scale_of_color(plan_, color);
      for (int x = 0; x < 256; ++x) {
        table_[color][x] = scale_color<Out>(scale, static_cast<Compute>(x));
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
    const RowPair rows = positions_of(plan_, target, location.lo, picked);
    const std::uint8_t* const values = static_cast<const std::uint8_t*>(plan_.values);
    const std::uint8_t* const a = values + rows.a;
    for (std::int32_t color = 0; color < colors_; ++color) {
      Out* const plane = out + color * pixels_;
      if (picked.is_pair) {
        lerp_plane(a, values + rows.b, location.weight, color, plane);
      } else {
        const Out* const table = table_[color];
        for (std::int64_t p = 0; p < pixels_; ++p) plane[p] = table[a[p * colors_ + color]];
      }
    }
  }

 private:
  void lerp_plane(const std::uint8_t* a, const std::uint8_t* b, Compute w, std::int32_t color,
                  Out* __restrict plane) const {
    const ColorScale scale = scale_of_color(plan_, color);
    for (std::int64_t p = 0; p < pixels_; ++p) {
      const std::int64_t i = p * colors_ + color;
      plane[p] =
          scale_color<Out>(scale, lerp(static_cast<Compute>(a[i]), static_cast<Compute>(b[i]), w));
    }
  }

  const StreamPlan& plan_;
  std::int32_t colors_;
  std::int64_t pixels_;
  Out table_[kMaxColors][256];  // the output value of each byte of a copied row
};

}  // namespace robocache::ROBOCACHE_TARGET
