// The reference of the gradient: targets scatter to their rows, one after another.
#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "align/reference.h"
#include "align/reference_quaternion.h"
#include "align/reference_rows.h"
#include "support/numbers.h"

namespace robocache::testing {
namespace {

using namespace reference;

/// The gradient of a loss with respect to element `i` of row a or b, from `gradient`, that with
/// respect to a target's quaternion: the difference quotient over a small step of the element.
template <typename Compute>
long double slerp_share(const std::array<Compute, 4>& row_a, const std::array<Compute, 4>& row_b,
                        bool two, long double w, const Quaternion& gradient, bool of_a, int i) {
  const bool flip = two && flips(row_a, row_b);
  const long double step = 1e-5L * length(extended(of_a ? row_a : row_b));
  const auto loss_after = [&](long double change) {
    Quaternion a = extended(row_a);
    Quaternion b = extended(row_b);
    (of_a ? a : b)[i] += change;
    const Quaternion q = two ? slerp(a, b, w, flip) : unit(a);
    return q[0] * gradient[0] + q[1] * gradient[1] + q[2] * gradient[2] + q[3] * gradient[3];
  };
  return (loss_after(step) - loss_after(-step)) / (2 * step);
}

/// One target of the batch, and the gradient of the loss with respect to it, its scale included.
template <typename Compute, typename Time>
struct ScatteredTarget {
  std::int64_t b, first_row;
  Target<Time> target;
  std::vector<Compute> grad;
};

/// The row by which targets are ordered: the earliest of the first row that a linear run reads and
/// of the rows of means and sums that contain a valid one. Arbitrary for a target without rows.
template <typename Compute, typename Time>
std::int64_t first_row_of(const Stream& stream, const Episode<Time>& episode,
                          const Target<Time>& target) {
  using M = Made<Compute>;
  const M linear = make<Compute>(Method::kLinear, episode, target);
  std::int64_t first = linear.rows.empty() ? 0 : linear.rows[0];
  Episode<Time> all_valid = episode;
  all_valid.valid.assign(episode.valid.size(), true);
  for (const Run& run : runs_of(stream)) {
    const M made = make<Compute>(run.method, episode, target);
    const bool adds = made.from == M::kSum || made.from == M::kMean;
    if (!adds || made.rows.empty()) continue;
    first = std::min(first, make<Compute>(run.method, all_valid, target).rows[0]);
  }
  return first;
}

template <typename Compute, typename Time>
void scatter_target(const Stream& stream, const Episode<Time>& episode,
                    const ScatteredTarget<Compute, Time>& from, std::vector<Compute>& sums) {
  using M = Made<Compute>;
  const std::int64_t rows_in_batch = stream.values.shape[stream.values.rank - 2];
  const std::int64_t channels = stream.values.shape[stream.values.rank - 1];
  const std::int64_t first_row =
      (stream.values.rank == 3 ? from.b * rows_in_batch : 0) + episode.first_row;
  const auto add = [&](std::int64_t row, std::int64_t channel, Compute share) {
    Compute& sum = sums[(first_row + row) * channels + channel];
    sum = sum + share;
  };
  std::int64_t channel = 0;
  for (const Run& run : runs_of(stream)) {
    const M made = make<Compute>(run.method, episode, from.target);
    const int width = is_slerp(run.method) ? 4 : 1;
    for (const std::int64_t end = channel + run.channels; channel < end; channel += width) {
      if (made.from == M::kZero || made.from == M::kNan) continue;
      const bool two = made.from == M::kTwoRows;
      if (!is_slerp(run.method)) {
        const Compute g = from.grad[channel];
        for (const std::int64_t row : made.rows) {
          if (two) {
            add(row, channel, g * (row == made.rows[0] ? 1 - made.weight : made.weight));
          } else if (made.from == M::kMean) {
            add(row, channel, g / static_cast<Compute>(made.rows.size()));
          } else {
            add(row, channel, g);
          }
        }
        continue;
      }
      const auto quaternion = [&](std::int64_t row) {
        return quaternion_at<Compute>(stream, from.b, episode.first_row + row, channel);
      };
      const std::array<Compute, 4> a = quaternion(made.rows[0]);
      const std::array<Compute, 4> b = two ? quaternion(made.rows[1]) : a;
      if (is_zero(a) || is_zero(b)) continue;
      const Quaternion g = {from.grad[channel], from.grad[channel + 1], from.grad[channel + 2],
                            from.grad[channel + 3]};
      for (int i = 0; i < 4; ++i) {
        const long double w = made.weight;
        add(made.rows[0], channel + i, static_cast<Compute>(slerp_share(a, b, two, w, g, true, i)));
        if (!two) continue;
        add(made.rows[1], channel + i,
            static_cast<Compute>(slerp_share(a, b, two, w, g, false, i)));
      }
    }
  }
}

template <typename Compute, typename Time>
std::vector<Compute> gradient(const Stream& stream, const ConstTensorView& target_times,
                              Outside outside, const ConstTensorView& grad_output) {
  const Sizes sizes = sizes_of({stream}, target_times);
  const ConstTensorView& values = stream.values;
  std::int64_t elements = 1;
  for (int axis = 0; axis < values.rank; ++axis) elements *= values.shape[axis];
  std::vector<Episode<Time>> episodes;
  std::vector<ScatteredTarget<Compute, Time>> targets;
  for (std::int64_t b = 0; b < sizes.batch; ++b) {
    const Episode<Time>& episode = episodes.emplace_back(episode_of<Time>(stream, b, outside));
    for (std::int64_t i = 0; i < sizes.targets; ++i) {
      ScatteredTarget<Compute, Time> from{b, 0, target_of(target_times, episode, b, i), {}};
      const std::int64_t batch_row = values.rank == 3 ? b * values.shape[1] : 0;
      from.first_row =
          batch_row + episode.first_row + first_row_of<Compute>(stream, episode, from.target);
      for (std::int64_t c = 0; c < values.shape[values.rank - 1]; ++c) {
        from.grad.push_back(static_cast<Compute>(number_at(grad_output, {b, i, c})));
        if (!stream.multiply.present()) continue;
        from.grad.back() = from.grad.back() * static_cast<Compute>(number_at(stream.multiply, {c}));
      }
      targets.push_back(std::move(from));
    }
  }
  std::stable_sort(targets.begin(), targets.end(),
                   [](const auto& a, const auto& b) { return a.first_row < b.first_row; });
  std::vector<Compute> sums(static_cast<std::size_t>(elements));
  for (const auto& from : targets) {
    scatter_target(stream, episodes[static_cast<std::size_t>(from.b)], from, sums);
  }
  return sums;
}

}  // namespace

std::vector<double> expected_gradient(const Stream& stream, const ConstTensorView& target_times,
                                      Outside outside, const ConstTensorView& grad_output) {
  const DataType value_type = stream.values.dtype;
  std::vector<double> result;
  with_types(value_type, grad_output.dtype, stream.times.dtype, [&](auto compute, auto time) {
    const auto sums =
        gradient<decltype(compute), decltype(time)>(stream, target_times, outside, grad_output);
    for (const auto sum : sums) result.push_back(rounded(sum, value_type));
  });
  return result;
}

}  // namespace robocache::testing
