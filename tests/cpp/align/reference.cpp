#include "align/reference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "align/reference_quaternion.h"
#include "align/reference_rows.h"
#include "support/numbers.h"

namespace robocache::testing {
namespace {

using namespace reference;

constexpr long double kPi = 3.14159265358979323846264338327950288L;

/// Wraps an angle into (-pi, pi], where pi is rounded to the compute type.
template <typename Compute>
Compute wrap(Compute x) {
  const Compute pi = static_cast<Compute>(kPi);
  if (-pi < x && x <= pi) return x;
  const Compute wrapped =
      static_cast<Compute>(std::remainder(static_cast<long double>(x), 2 * kPi));
  return wrapped <= -pi || wrapped > pi ? pi : wrapped;
}

template <typename Compute>
Compute scaled(const Stream& stream, Compute x, std::int64_t channel) {
  if (stream.subtract.present()) {
    x = x - static_cast<Compute>(number_at(stream.subtract, {channel}));
  }
  if (stream.multiply.present()) {
    x = x * static_cast<Compute>(number_at(stream.multiply, {channel}));
  }
  return x;
}

/// One target of one stream: what its channels may be, appended to what is expected.
template <typename Compute>
class TargetWriter {
 public:
  TargetWriter(const Stream& stream, std::int64_t b, std::int64_t first_row, DataType out_type,
               Expected& expected)
      : stream_(stream), b_(b), first_row_(first_row), out_type_(out_type), expected_(expected) {}

  void write_literal(double x) { write(x, x); }

  void write_channel(Method method, const Made<Compute>& made, std::int64_t channel) {
    using M = Made<Compute>;
    const auto value = [&](std::int64_t row) {
      return static_cast<Compute>(number_at(stream_.values, {b_, first_row_ + row, channel}));
    };
    if (made.from == M::kSum || made.from == M::kMean) {
      Compute sum = 0;
      for (const std::int64_t row : made.rows) sum = sum + value(row);
      if (made.from == M::kMean) sum = sum / static_cast<Compute>(made.rows.size());
      return write_exact(sum, channel);
    }
    const bool two = made.from == M::kTwoRows;
    const Compute a = value(made.rows[0]);
    const Compute b = two ? value(made.rows[1]) : a;
    const Compute w = made.weight;
    if (method != Method::kAngle) return write_exact(two ? a + w * (b - a) : a, channel);

    const Compute unwrapped = two ? a + w * wrap(b - a) : a;
    const Compute x = wrap(unwrapped);
    const Compute slack = kFourUnits * std::max({Compute{1}, std::fabs(a), std::fabs(unwrapped)});
    const Compute pi = static_cast<Compute>(kPi);
    const bool at_seam = std::fabs(x) + slack > pi;  // may come out on either side of it
    write_range(at_seam ? -pi : x - slack, at_seam ? pi : x + slack, channel);
  }

  /// False if a quaternion that the target is made from is zero.
  bool write_quaternion(const Made<Compute>& made, std::int64_t channel) {
    const bool two = made.from == Made<Compute>::kTwoRows;
    const auto value = [&](std::int64_t row) {
      return quaternion_at<Compute>(stream_, b_, first_row_ + row, channel);
    };
    const std::array<Compute, 4> a = value(made.rows[0]);
    const std::array<Compute, 4> b = two ? value(made.rows[1]) : a;
    if (is_zero(a) || is_zero(b)) {
      for (int i = 0; i < 4; ++i) write_exact(0, channel + i);
      return false;
    }
    const Quaternion q =
        two ? slerp(extended(a), extended(b), made.weight, flips(a, b)) : unit(extended(a));
    for (int i = 0; i < 4; ++i) {
      const Compute x = static_cast<Compute>(q[i]);
      write_range(x - kFourUnits, x + kFourUnits, channel + i);
    }
    return true;
  }

 private:
  static constexpr Compute kFourUnits = 4 * std::numeric_limits<Compute>::epsilon();

  void write(double low, double high) {
    expected_.low.push_back(rounded(std::min(low, high), out_type_));
    expected_.high.push_back(rounded(std::max(low, high), out_type_));
  }
  void write_exact(Compute x, std::int64_t channel) {
    const Compute value = scaled(stream_, x, channel);
    write(value, value);
  }
  void write_range(Compute low, Compute high, std::int64_t channel) {
    write(scaled(stream_, low, channel), scaled(stream_, high, channel));
  }

  const Stream& stream_;
  std::int64_t b_, first_row_;
  DataType out_type_;
  Expected& expected_;
};

void store_age(Tensor& age, std::int64_t index, Int128 x) {
  age.set_int(index, static_cast<std::int64_t>(x));  // the lowest 64 bits of it: wraps
}
void store_age(Tensor& age, std::int64_t index, double x) { age.set(index, x); }

template <typename Compute, typename Time>
void align_target(const Stream& stream, const Episode<Time>& episode, std::int64_t b,
                  const Target<Time>& target, DataType out_type, Expected& expected) {
  using M = Made<Compute>;
  TargetWriter<Compute> writer(stream, b, episode.first_row, out_type, expected);
  bool valid = true;
  std::int64_t newest = -1;
  std::int64_t channel = 0;
  for (const Run& run : runs_of(stream)) {
    const M made = make<Compute>(run.method, episode, target);
    const int width = is_slerp(run.method) ? 4 : 1;
    valid = valid && made.valid;
    newest = std::max(newest, made.newest);
    for (const std::int64_t end = channel + run.channels; channel < end; channel += width) {
      if (made.from == M::kZero || made.from == M::kNan) {
        const double literal =
            made.from == M::kZero ? 0.0 : std::numeric_limits<double>::quiet_NaN();
        for (int i = 0; i < width; ++i) writer.write_literal(literal);
      } else if (is_slerp(run.method)) {
        const bool exists = writer.write_quaternion(made, channel);
        valid = valid && exists;
      } else {
        writer.write_channel(run.method, made, channel);
      }
    }
  }
  const auto index = static_cast<std::int64_t>(expected.valid.size());
  expected.valid.push_back(valid);
  if (newest >= 0) store_age(expected.age, index, minus(target.time, episode.times[newest]));
}

}  // namespace

Expected expected_alignment(const std::vector<Stream>& streams, const ConstTensorView& target_times,
                            Outside outside, DataType out_type, bool holds_newest) {
  Expected expected;
  const Sizes sizes = sizes_of(streams, target_times);
  const auto count = static_cast<std::int64_t>(streams.size());
  expected.age = Tensor(target_times.dtype, {sizes.batch * sizes.targets * count});
  for (std::int64_t b = 0; b < sizes.batch; ++b) {
    for (std::int64_t i = 0; i < sizes.targets; ++i) {
      for (const Stream& stream : streams) {
        with_types(stream.values.dtype, out_type, stream.times.dtype, [&](auto compute, auto time) {
          auto episode = episode_of<decltype(time)>(stream, b, outside);
          episode.holds_newest = holds_newest;
          align_target<decltype(compute)>(
              stream, episode, b, target_of(target_times, episode, b, i), out_type, expected);
        });
      }
    }
  }
  return expected;
}

}  // namespace robocache::testing
