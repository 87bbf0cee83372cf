// Rows of samples on the CPU: the sums of image/sample.h, with the weights of columns and rows
// computed once where the map is parallel to the axes.
#pragma once

#include <cstdint>

#include "core/target.h"
#include "image/plan.h"
#include "image/process_cpu_kernels.h"
#include "image/recipe.h"
#include "image/sample.h"

namespace robocache::ROBOCACHE_TARGET {

using Float4 = float __attribute__((vector_size(16)));

/// Four bytes as numbers.
ROBOCACHE_HOST_DEVICE Float4 widen_bytes(const std::uint8_t* from) {
  using Bytes = unsigned char __attribute__((vector_size(16)));
  using Words = std::uint32_t __attribute__((vector_size(16)));
  using Ints = std::int32_t __attribute__((vector_size(16)));
  std::uint32_t word;
  __builtin_memcpy(&word, from, 4);
  const Bytes none{};
  const Bytes bytes = reinterpret_cast<Bytes>(Words{word, 0, 0, 0});
  const Bytes low =
      __builtin_shufflevector(bytes, none, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const Bytes wide =
      __builtin_shufflevector(low, none, 0, 1, 16, 17, 2, 3, 18, 19, 4, 5, 20, 21, 6, 7, 22, 23);
  return __builtin_convertvector(reinterpret_cast<Ints>(wide), Float4);
}

/// Computes rows of samples of a frame, one after another. Rows are planes, [channels][width].
template <typename Source>
class RowSampler {
 public:
  RowSampler(const ImagePlan& plan, const FrameRecipe& recipe, std::int64_t n, void* scratch)
      : plan_(plan),
        sampling_(recipe.sampling),
        scale_(recipe.scale),
        width_(plan.out_width),
        channels_(plan.channels),
        stride_(plan.channels < 3 ? plan.channels : 4),
        frame_{static_cast<const Source*>(plan.frames) + n * plan.frame_elements(), plan.height,
               plan.width, plan.channels} {
    const ImageScratchSizes sizes(plan);
    auto* floats = static_cast<float*>(scratch);
    const auto cut = [&](std::int64_t count) {
      float* const begin = floats;
      floats += count;
      return begin;
    };
    ring_ = cut(ImageScratchSizes::kRingRows * sizes.sums);
    total_ = cut(sizes.sums);
    weights_ = cut(sizes.weights);
    column_weights_ = cut(sizes.columns);
    begins_ = reinterpret_cast<std::int32_t*>(cut(sizes.columns));
    ends_ = reinterpret_cast<std::int32_t*>(cut(sizes.columns));
    padded_row_ = reinterpret_cast<std::uint8_t*>(cut(sizes.padded_row));
    rest_ = floats;
    capacity_ = sizes.weights;
    sums_size_ = sizes.sums;
    for (std::int32_t& row : rows_in_ring_) row = -1;
    const bool is_straight = sampling_.map[1] == 0 && sampling_.map[3] == 0;
    is_separable_ =
        is_straight &&
        (sampling_.kind == SampleKind::kFixed || sampling_.kind == SampleKind::kWeighted) &&
        prepare_columns();
  }

  /// The scratch after that of the sampler.
  float* rest() const { return rest_; }

  void sample_row(std::int32_t v, float* out) {
    if (is_separable_) return separable_row(v, out);
    if constexpr (sizeof(Source) == 1) {
      if (sampling_.kind == SampleKind::kTurned && channels_ == 3) return turned_row(v, out);
      if (sampling_.kind == SampleKind::kWeighted && channels_ == 3 && weighted_row(v, out)) return;
    }
    if (channels_ == 3) return any_row<3>(v, out);
    for (std::int32_t c = 0; c < channels_; ++c) {
      any_row<1>(v, out + std::int64_t{c} * width_, c);
    }
  }

 private:
  template <int kCount>
  void any_row(std::int32_t v, float* __restrict out, std::int32_t c = 0) const {
    for (std::int32_t u = 0; u < width_; ++u) {
      const float x = position(sampling_.map, u, v);
      const float y = position(sampling_.map + 3, u, v);
      ChannelSums<kCount> sums{};
      if (is_on(sampling_.x, x) && is_on(sampling_.y, y)) {
        sums = sample<kCount>(sampling_, frame_, x, y, c);
      }
      for (int k = 0; k < kCount; ++k) {
        out[std::int64_t{k} * width_ + u] = sums.sums[k] * scale_;
      }
    }
  }

  /// Four bytes at an offset of the frame, as numbers. The last pixel of three bytes has no byte
  /// after it: its word begins one byte early.
  Float4 load_word(std::int64_t offset) const {
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(frame_.pixels);
    const std::int64_t last = std::int64_t{frame_.height} * frame_.width * 3 - 4;
    if (offset <= last) return widen_bytes(bytes + offset);
    const Float4 early = widen_bytes(bytes + last);
    return Float4{early[1], early[2], early[3], 0};
  }

  /// Bilinear samples of 2 by 2 pixels of three bytes; all sums are exact. Places and weights of
  /// the row come first, in a loop that vectorizes.
  void turned_row(std::int32_t v, float* __restrict out) const {
    auto* __restrict const offsets = reinterpret_cast<std::int32_t*>(ring_);
    float* __restrict const rights = ring_ + sums_size_;
    float* __restrict const bottoms = rights + sums_size_;
    for (std::int32_t u = 0; u < width_; ++u) {
      const float x = position(sampling_.map, u, v);
      const float y = position(sampling_.map + 3, u, v);
      const TurnedTap j = turned_tap(sampling_.x, x);
      const TurnedTap i = turned_tap(sampling_.y, y);
      const std::int32_t offset = (i.first * frame_.width + j.first) * 3;
      const auto is_inside =
          static_cast<std::int32_t>(is_on(sampling_.x, x)) & std::int32_t{is_on(sampling_.y, y)};
      offsets[u] = is_inside != 0 ? offset : -1;
      rights[u] = static_cast<float>(j.weight);
      bottoms[u] = static_cast<float>(i.weight);
    }
    const std::int64_t row = std::int64_t{frame_.width} * 3;
    const float scale = scale_;
    for (std::int32_t u = 0; u < width_; ++u) {
      Float4 sum{};
      if (offsets[u] >= 0) {
        const std::int64_t above = offsets[u];
        const float right = rights[u];
        const float bottom = bottoms[u];
        sum =
            (load_word(above) * (255 - right) + load_word(above + 3) * right) * (255 - bottom) +
            (load_word(above + row) * (255 - right) + load_word(above + row + 3) * right) * bottom;
      }
      for (int c = 0; c < 3; ++c) out[std::int64_t{c} * width_ + u] = sum[c] * scale;
    }
  }

  /// Filtered samples of pixels of three bytes where the map is not parallel to the axes. Returns
  /// false for filters of too many taps.
  bool weighted_row(std::int32_t v, float* __restrict out) const {
    constexpr std::int32_t kMaxTaps = 64;
    if (sampling_.x.width > 30 || std::int64_t{frame_.height} * frame_.width < 2) return false;
    for (std::int32_t u = 0; u < width_; ++u) {
      const float x = position(sampling_.map, u, v);
      const float y = position(sampling_.map + 3, u, v);
      Float4 total{};
      if (is_on(sampling_.x, x) && is_on(sampling_.y, y)) {
        const TapRange across = taps_at(sampling_.x, x);
        const TapRange down = taps_at(sampling_.y, y);
        float weights[kMaxTaps];
        const std::int32_t count = across.end - across.begin;
        for (std::int32_t k = 0; k < count; ++k) {
          weights[k] = tap_weight(sampling_.x, x, across.begin + k);
        }
        for (std::int32_t i = down.begin; i < down.end; ++i) {
          Float4 row{};
          const std::int64_t first = (std::int64_t{i} * frame_.width + across.begin) * 3;
          for (std::int32_t k = 0; k < count; ++k) {
            row = row + load_word(first + std::int64_t{3} * k) * weights[k];
          }
          total = total + row * tap_weight(sampling_.y, y, i);
        }
        total =
            total / (sum_of_weights(sampling_.x, x, across) * sum_of_weights(sampling_.y, y, down));
      }
      for (int c = 0; c < 3; ++c) out[std::int64_t{c} * width_ + u] = total[c] * scale_;
    }
    return true;
  }

  /// Computes the taps and weights of all columns. Returns whether they fit the scratch.
  bool prepare_columns() {
    std::int64_t used = 0;
    for (std::int32_t u = 0; u < width_; ++u) {
      const float x = position(sampling_.map, u, 0);
      begins_[u] = ends_[u] = 0;
      if (!is_on(sampling_.x, x)) continue;
      const TapRange taps = taps_at(sampling_.x, x);
      begins_[u] = taps.begin;
      ends_[u] = taps.end;
      if (used + taps.end - taps.begin > capacity_) return false;
      float* const weights = weights_ + used;
      used += taps.end - taps.begin;
      if (sampling_.kind == SampleKind::kFixed) {
        for_each_fixed_weight(sampling_.x, x, taps, [&](std::int32_t j, std::int32_t weight) {
          weights[j - taps.begin] = static_cast<float>(weight);
        });
      } else {
        for (std::int32_t j = taps.begin; j < taps.end; ++j) {
          weights[j - taps.begin] = tap_weight(sampling_.x, x, j);
        }
        column_weights_[u] = sum_of_weights(sampling_.x, x, taps);
      }
    }
    return true;
  }

  void separable_row(std::int32_t v, float* __restrict out) {
    const std::int64_t size = std::int64_t{width_} * stride_;
    const float y = position(sampling_.map + 3, 0, v);
    if (!is_on(sampling_.y, y)) {
      for (std::int64_t i = 0; i < std::int64_t{width_} * channels_; ++i) out[i] = 0;
      return;
    }
    const TapRange taps = taps_at(sampling_.y, y);
    const float sum = sum_of_weights(sampling_.y, y, taps);
    const bool is_fixed = sampling_.kind == SampleKind::kFixed;
    float* __restrict const total = total_;
    for (std::int32_t i = taps.begin; i < taps.end; ++i) {
      const float raw = tap_weight(sampling_.y, y, i);
      const float weight = is_fixed ? fixed_row_weight(raw, sum) : raw;
      const float* __restrict const row = column_sums_of(i);
      if (i == taps.begin) {
        for (std::int64_t k = 0; k < size; ++k) total[k] = 0.0f + row[k] * weight;
      } else {
        for (std::int64_t k = 0; k < size; ++k) total[k] = total[k] + row[k] * weight;
      }
    }
    for (std::int32_t c = 0; c < channels_; ++c) {
      float* __restrict const plane = out + std::int64_t{c} * width_;
      if (is_fixed) {
        for (std::int32_t u = 0; u < width_; ++u) plane[u] = total[u * stride_ + c] * scale_;
        continue;
      }
      for (std::int32_t u = 0; u < width_; ++u) {
        const float value = total[u * stride_ + c] / (column_weights_[u] * sum);
        plane[u] = begins_[u] < ends_[u] ? value * scale_ : 0.0f;
      }
    }
  }

  /// The sums over columns of a row of the source, [width][stride].
  const float* column_sums_of(std::int32_t row) {
    const std::int32_t slot = row % ImageScratchSizes::kRingRows;
    float* const sums = ring_ + slot * sums_size_;
    if (rows_in_ring_[slot] == row) return sums;
    rows_in_ring_[slot] = row;
    const Source* const pixels = frame_.at(row, 0);
    if constexpr (sizeof(Source) == 1) {
      if (channels_ == 4) return add_words<4>(pixels, sums);
      if (channels_ == 3) {
        if (row + 1 < frame_.height) return add_words<3>(pixels, sums);
        // The last pixel has no byte after it.
        __builtin_memcpy(padded_row_, pixels, static_cast<std::size_t>(frame_.width) * 3);
        return add_words<3>(padded_row_, sums);
      }
    }
    if (channels_ == 1) return add_values<1>(pixels, sums);
    if (channels_ == 2) return add_values<2>(pixels, sums);
    if (channels_ == 3) return add_values<3>(pixels, sums);
    return add_values<4>(pixels, sums);
  }

  /// Pixels of three or four bytes, four at once.
  template <int kChannels>
  const float* add_words(const std::uint8_t* row, float* __restrict sums) const {
    const float* weights = weights_;
    for (std::int32_t u = 0; u < width_; ++u) {
      Float4 sum{};
      const std::int32_t count = ends_[u] - begins_[u];
      const std::uint8_t* const pixels = row + std::int64_t{begins_[u]} * kChannels;
      for (std::int32_t k = 0; k < count; ++k) {
        sum = sum + widen_bytes(pixels + std::int64_t{k} * kChannels) * weights[k];
      }
      weights += count;
      __builtin_memcpy(sums + std::int64_t{u} * 4, &sum, sizeof sum);
    }
    return sums;
  }

  template <int kChannels>
  const float* add_values(const Source* row, float* __restrict sums) const {
    constexpr int kStride = kChannels < 3 ? kChannels : 4;
    const float* weights = weights_;
    for (std::int32_t u = 0; u < width_; ++u) {
      ChannelSums<kChannels> sum{};
      for (std::int32_t j = begins_[u]; j < ends_[u]; ++j) {
        sum.add(row + std::int64_t{j} * kChannels, *weights++);
      }
      for (int c = 0; c < kChannels; ++c) sums[u * kStride + c] = sum.sums[c];
      if constexpr (kChannels == 3) sums[u * kStride + 3] = 0;
    }
    return sums;
  }

  const ImagePlan& plan_;
  const Sampling& sampling_;
  float scale_;
  std::int32_t width_, channels_, stride_;
  SourceFrame<Source> frame_;
  bool is_separable_;
  // Rows of sums over columns, [kRingRows][width][stride], and the numbers of their source rows.
  float* ring_;
  std::int32_t rows_in_ring_[ImageScratchSizes::kRingRows];
  float* total_;           // the sum of such rows
  float* weights_;         // of the taps of all columns, one column's after the other's
  float* column_weights_;  // their sums: kWeighted
  std::int32_t* begins_;   // the taps of each column
  std::int32_t* ends_;
  std::uint8_t* padded_row_;
  float* rest_;
  std::int64_t capacity_, sums_size_;
};

}  // namespace robocache::ROBOCACHE_TARGET
