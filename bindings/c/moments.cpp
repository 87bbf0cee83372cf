// Moments of channels of floats, of rows that are in the cache: the statistics of all other
// streams. Part of the C API that python/robocache/store/library.py declares.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "c_api.h"

namespace {

// Elements that are added up side by side, in whole rows, so that they fill vectors however few
// channels there are. The sums are those of every machine, since nothing is added in another order.
//
//    row 0      row 1      row 2
//    a b c | d  e f | g  h  i    one step: lanes 0 to 8, of 3 rows with 3 channels
//    ...
constexpr std::int64_t kLanes = 64;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Moments {
  std::int64_t* count;
  double* mean;
  double* squares;
  double* lowest;
  double* highest;
};

/// Rows that are finite; false, with nothing said, if an element is not.
template <typename T>
bool of_finite(const T* rows, std::int64_t count, std::int64_t channels, const Moments& moments) {
  const std::int64_t side_by_side = std::max<std::int64_t>(1, kLanes / channels);
  const std::int64_t lanes = side_by_side * channels;
  const std::int64_t elements = count * channels;
  std::vector<double> sums(lanes), means(lanes);
  std::vector<T> least(lanes, static_cast<T>(kInfinity)), most(lanes, static_cast<T>(-kInfinity));
  const auto each_step = [&](const auto& add) {
    std::int64_t start = 0;
    for (; start + lanes <= elements; start += lanes) add(rows + start, lanes);
    add(rows + start, elements - start);
  };
  double* const sum = sums.data();
  T* const low = least.data();
  T* const high = most.data();
  each_step([=](const T* step, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) sum[i] += static_cast<double>(step[i]);
    for (std::int64_t i = 0; i < n; ++i) low[i] = step[i] < low[i] ? step[i] : low[i];
    for (std::int64_t i = 0; i < n; ++i) high[i] = step[i] > high[i] ? step[i] : high[i];
  });
  for (std::int64_t c = 0; c < channels; ++c) {
    double total = 0;
    moments.lowest[c] = kInfinity;
    moments.highest[c] = -kInfinity;
    for (std::int64_t lane = c; lane < lanes; lane += channels) {
      total += sum[lane];
      moments.lowest[c] = std::min<double>(moments.lowest[c], low[lane]);
      moments.highest[c] = std::max<double>(moments.highest[c], high[lane]);
    }
    moments.count[c] = count;
    moments.mean[c] = total / static_cast<double>(count);
    if (!std::isfinite(moments.mean[c])) return false;
    for (std::int64_t lane = c; lane < lanes; lane += channels) means[lane] = moments.mean[c];
  }
  std::fill(sums.begin(), sums.end(), 0.0);
  each_step([=, mean = means.data()](const T* step, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
      const double difference = static_cast<double>(step[i]) - mean[i];
      sum[i] += difference * difference;
    }
  });
  for (std::int64_t c = 0; c < channels; ++c) {
    moments.squares[c] = 0;
    for (std::int64_t lane = c; lane < lanes; lane += channels) moments.squares[c] += sum[lane];
  }
  return true;
}

/// Any rows; what is not finite is left out.
template <typename T>
void of_some(const T* rows, std::int64_t count, std::int64_t channels, const Moments& moments) {
  const std::int64_t elements = count * channels;
  for (std::int64_t c = 0; c < channels; ++c) {
    std::int64_t finite = 0;
    double sum = 0, lowest = kInfinity, highest = -kInfinity, squares = 0;
    for (std::int64_t i = c; i < elements; i += channels) {
      const auto value = static_cast<double>(rows[i]);
      if (!std::isfinite(value)) continue;
      ++finite;
      sum += value;
      lowest = std::min(lowest, value);
      highest = std::max(highest, value);
    }
    const double mean = sum / static_cast<double>(std::max<std::int64_t>(1, finite));
    for (std::int64_t i = c; i < elements; i += channels) {
      const double difference = static_cast<double>(rows[i]) - mean;
      if (std::isfinite(rows[i])) squares += difference * difference;
    }
    moments.count[c] = finite;
    moments.mean[c] = mean;
    moments.squares[c] = squares;
    moments.lowest[c] = lowest;
    moments.highest[c] = highest;
  }
}

template <typename T>
int moments_of(const T* rows, std::int64_t count, std::int64_t channels, const Moments& moments) {
  return robocache::c_api::status_of([&] {
    if (!of_finite(rows, count, channels, moments)) of_some(rows, count, channels, moments);
  });
}

}  // namespace

extern "C" {

/// Of the finite elements of each of C channels of `count` rows, 1 or more: how many, their mean,
/// the sum of their squared differences from it, the least and the greatest, each [C].
ROBOCACHE_C_API int robocache_store_moments_f32(const float* rows, std::int64_t count,
                                                std::int64_t channels, std::int64_t* finite,
                                                double* mean, double* squares, double* lowest,
                                                double* highest) {
  return moments_of(rows, count, channels, {finite, mean, squares, lowest, highest});
}

/// The same of doubles.
ROBOCACHE_C_API int robocache_store_moments_f64(const double* rows, std::int64_t count,
                                                std::int64_t channels, std::int64_t* finite,
                                                double* mean, double* squares, double* lowest,
                                                double* highest) {
  return moments_of(rows, count, channels, {finite, mean, squares, lowest, highest});
}
}
