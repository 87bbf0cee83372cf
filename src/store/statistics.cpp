#include "store/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace robocache::store {
namespace {

// ---- bytes: how often each value occurs ---------------------------------------------------------

constexpr std::int64_t kByteValues = 256;
// Tables per channel: with one table, increments for equal neighbors would depend on each other.
constexpr std::int64_t kTables = 4;
// Rows per block, so that counts fit 32 bits.
constexpr std::int64_t kBlockRows = std::int64_t{1} << 30;

/// Counts rows of kChannels bytes, few enough that the tables fit the L1 cache.
template <int kChannels>
void count_few(const std::uint8_t* rows, std::int64_t count, std::int64_t* histogram) {
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t block = std::min(count - done, kBlockRows);
    std::uint32_t tables[kTables][kChannels][kByteValues] = {};
    const std::int64_t whole = block / kTables * kTables;
    for (std::int64_t row = 0; row < whole; row += kTables) {
      for (int lane = 0; lane < kTables; ++lane) {
        for (int c = 0; c < kChannels; ++c) {
          ++tables[lane][c][rows[(row + lane) * kChannels + c]];
        }
      }
    }
    for (std::int64_t i = whole * kChannels; i < block * kChannels; ++i) {
      ++tables[0][i % kChannels][rows[i]];
    }
    for (const auto& lane : tables) {
      for (int c = 0; c < kChannels; ++c) {
        for (std::int64_t value = 0; value < kByteValues; ++value) {
          histogram[c * kByteValues + value] += lane[c][value];
        }
      }
    }
    rows += block * kChannels;
    done += block;
  }
}

// ---- floats: moments ----------------------------------------------------------------------------

// Elements that are added side by side, in whole rows, so that they fill vectors even with few
// channels. The order of additions is fixed, so the sums have the same bits on every machine.
//
//    row 0      row 1      row 2
//    a b c | d  e f | g  h  i    one step: lanes 0 to 8, of 3 rows with 3 channels
//    ...
constexpr std::int64_t kLanes = 64;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Computes the moments of rows if all elements are finite; else returns false.
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

/// Computes the moments of any rows, without the elements that are not finite.
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

}  // namespace

void count_bytes(const std::uint8_t* rows, std::int64_t count, std::int64_t channels,
                 std::int64_t* histogram) {
  switch (channels) {
    case 1:
      return count_few<1>(rows, count, histogram);
    case 2:
      return count_few<2>(rows, count, histogram);
    case 3:
      return count_few<3>(rows, count, histogram);
    case 4:
      return count_few<4>(rows, count, histogram);
    default:
      for (std::int64_t row = 0; row < count; ++row, rows += channels) {
        for (std::int64_t c = 0; c < channels; ++c) ++histogram[c * kByteValues + rows[c]];
      }
  }
}

template <typename T>
void compute_moments(const T* rows, std::int64_t count, std::int64_t channels,
                     const Moments& moments) {
  if (!of_finite(rows, count, channels, moments)) of_some(rows, count, channels, moments);
}

template void compute_moments(const float* rows, std::int64_t count, std::int64_t channels,
                              const Moments& moments);
template void compute_moments(const double* rows, std::int64_t count, std::int64_t channels,
                              const Moments& moments);

}  // namespace robocache::store
