#include "reference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "numbers.h"

namespace robocache::testing {
namespace {

using Int128 = __int128;

constexpr long double kPi = 3.14159265358979323846264338327950288L;

/// The element at `indices`, a leading one of which is dropped where the view has no batch.
std::int64_t position(const ConstTensorView& view, std::initializer_list<std::int64_t> indices) {
  const std::int64_t* index = indices.begin() + (static_cast<int>(indices.size()) - view.rank);
  std::int64_t position = 0;
  for (int axis = 0; axis < view.rank; ++axis) position += index[axis] * view.strides[axis];
  return position;
}

double number_at(const ConstTensorView& view, std::initializer_list<std::int64_t> indices) {
  return load_number(view.data, view.dtype, position(view, indices));
}

// The later minus the earlier time, or the other way round: integers in 128 bits, floating times in
// their own type.
Int128 minus(std::int64_t a, std::int64_t b) { return Int128{a} - Int128{b}; }
float minus(float a, float b) { return a - b; }
double minus(double a, double b) { return a - b; }

bool is_nan(std::int64_t) { return false; }
bool is_nan(double t) { return std::isnan(t); }

template <typename Time>
auto distance(Time a, Time b) {
  return a < b ? minus(b, a) : minus(a, b);
}

void assign(const Duration& duration, Int128& to) { to = duration.nanoseconds(); }
void assign(const Duration& duration, float& to) { to = static_cast<float>(duration.seconds()); }
void assign(const Duration& duration, double& to) { to = duration.seconds(); }

/// The rows of one episode, as far as time goes, and how its gaps and ends are meant.
template <typename Time>
struct Episode {
  using Difference = decltype(minus(Time{}, Time{}));
  std::int64_t first_row;
  std::vector<Time> times;
  std::vector<bool> valid;
  Difference tolerance;
  std::optional<Difference> max_gap;
  Outside outside;
};

template <typename Time>
Episode<Time> episode_of(const Stream& stream, std::int64_t b, Outside outside) {
  Episode<Time> episode{};
  std::int64_t count = stream.values.shape[stream.values.rank - 2];
  if (stream.begins.present()) {
    episode.first_row =
        static_cast<const std::int64_t*>(stream.begins.data)[position(stream.begins, {b})];
    count -= episode.first_row;
  }
  if (stream.lengths.present()) {
    count = std::clamp<std::int64_t>(static_cast<std::int64_t>(number_at(stream.lengths, {b})), 0,
                                     count);
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t row = episode.first_row + i;
    episode.times.push_back(
        static_cast<const Time*>(stream.times.data)[position(stream.times, {b, row})]);
    episode.valid.push_back(!stream.valid.present() || number_at(stream.valid, {b, row}) != 0);
  }
  if (stream.tolerance) assign(*stream.tolerance, episode.tolerance);
  if (stream.max_gap) assign(*stream.max_gap, episode.max_gap.emplace());
  episode.outside = outside;
  return episode;
}

/// What one run of a target is made of.
template <typename Compute>
struct Made {
  enum From { kZero, kNan, kOneRow, kTwoRows } from;
  std::int64_t row;  // and row + 1 where there are two
  Compute weight;    // of row + 1
  bool valid;
};

template <typename Compute, typename Time>
Made<Compute> make(Method method, const Episode<Time>& episode, Time t) {
  using M = Made<Compute>;
  const std::vector<Time>& times = episode.times;
  const std::int64_t n = static_cast<std::int64_t>(times.size());
  if (n == 0) return {M::kZero, 0, 0, false};
  if (is_nan(t)) return {M::kNan, 0, 0, false};

  std::int64_t lo = -1;  // the last row at or before t
  for (std::int64_t row = 0; row < n; ++row) {
    if (times[row] <= t) lo = row;
  }
  const std::int64_t hi = lo + 1;

  // A row of the same time is the answer alone; else the nearest of those within the tolerance is.
  std::int64_t hit = -1;
  if (lo >= 0 && times[lo] == t) {
    hit = lo;
  } else {
    for (const std::int64_t row : {lo, hi}) {
      if (row < 0 || row >= n || !(distance(times[row], t) <= episode.tolerance)) continue;
      if (hit < 0 || distance(times[row], t) < distance(times[hit], t)) hit = row;
    }
  }
  if (hit >= 0) return {M::kOneRow, hit, 0, episode.valid[hit]};

  const auto weight_between = [&](std::int64_t a) {
    return static_cast<Compute>(minus(t, times[a])) /
           static_cast<Compute>(minus(times[a + 1], times[a]));
  };
  const bool before = lo < 0;
  if (before || hi == n) {
    if (episode.outside == Outside::kZero) return {M::kZero, 0, 0, false};
    if (episode.outside == Outside::kNan) return {M::kNan, 0, 0, false};
    const std::int64_t a = before ? 0 : n - 2;
    if (episode.outside == Outside::kExtrapolate && method == Method::kLinear && n >= 2 &&
        times[a] < times[a + 1]) {
      return {M::kTwoRows, a, weight_between(a), false};
    }
    return {M::kOneRow, before ? 0 : n - 1, 0, false};
  }

  if (method == Method::kPrevious || method == Method::kNearest) {
    const bool later = method == Method::kNearest && minus(times[hi], t) < minus(t, times[lo]);
    const std::int64_t row = later ? hi : lo;
    const bool near = !episode.max_gap || distance(times[row], t) <= *episode.max_gap;
    return {M::kOneRow, row, 0, near && episode.valid[row]};
  }
  const bool near = !episode.max_gap || minus(times[hi], times[lo]) <= *episode.max_gap;
  return {M::kTwoRows, lo, weight_between(lo), near && episode.valid[lo] && episode.valid[hi]};
}

/// The same angle in (-pi, pi], pi being the compute type's.
template <typename Compute>
Compute wrap(Compute x) {
  const Compute pi = static_cast<Compute>(kPi);
  if (-pi < x && x <= pi) return x;
  const Compute wrapped =
      static_cast<Compute>(std::remainder(static_cast<long double>(x), 2 * kPi));
  return wrapped <= -pi || wrapped > pi ? pi : wrapped;
}

using Quaternion = std::array<long double, 4>;

Quaternion mix(long double x, const Quaternion& a, long double y, const Quaternion& b) {
  Quaternion sum;
  for (int i = 0; i < 4; ++i) sum[i] = x * a[i] + y * b[i];
  return sum;
}

long double length(const Quaternion& q) {
  return std::sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
}

Quaternion unit(const Quaternion& q) { return mix(1 / length(q), q, 0, q); }

/// `w` of the way from `a` to `b` or, if `flip`, to -b; neither is zero.
Quaternion slerp(const Quaternion& a, const Quaternion& b, long double w, bool flip) {
  const Quaternion p = unit(a);
  const Quaternion q = mix(flip ? -1 : 1, unit(b), 0, b);
  // Twice the angle whose tangent is |q - p| / |q + p|: as exact for small angles as for large.
  const long double angle = 2 * std::atan2(length(mix(1, q, -1, p)), length(mix(1, q, 1, p)));
  if (angle == 0) return p;
  return unit(mix(std::sin((1 - w) * angle), p, std::sin(w * angle), q));
}

template <typename Compute>
struct Rows {
  Compute a[4], b[4];  // of a slerp run; of others the first alone
};

template <typename Compute>
Quaternion extended(const Compute* q) {
  return {q[0], q[1], q[2], q[3]};
}

template <typename Compute>
bool is_zero(const Compute* q) {
  return q[0] == 0 && q[1] == 0 && q[2] == 0 && q[3] == 0;
}

/// Whether the short way from a to b is to -b. Decided in the compute type, as rows at a right angle
/// would go either way otherwise.
template <typename Compute>
bool flips(const Rows<Compute>& rows) {
  Compute dot = rows.a[0] * rows.b[0];
  for (int i = 1; i < 4; ++i) dot = dot + rows.a[i] * rows.b[i];
  return dot < 0;
}

bool is_slerp(Method method) {
  return method == Method::kSlerpXyzw || method == Method::kSlerpWxyz;
}

std::vector<Run> runs_of(const Stream& stream) {
  if (!stream.layout.empty()) return stream.layout;
  return {{stream.method, stream.values.shape[stream.values.rank - 1]}};
}

template <typename Compute>
Rows<Compute> rows_of(const Stream& stream, std::int64_t b, std::int64_t row, std::int64_t channel,
                      int width, bool two) {
  Rows<Compute> rows{};
  for (int i = 0; i < width; ++i) {
    rows.a[i] = static_cast<Compute>(number_at(stream.values, {b, row, channel + i}));
    if (two) rows.b[i] = static_cast<Compute>(number_at(stream.values, {b, row + 1, channel + i}));
  }
  return rows;
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

struct Sizes {
  std::int64_t batch, targets;
};

/// One where nothing has a batch.
Sizes sizes_of(const std::vector<Stream>& streams, const ConstTensorView& target_times) {
  std::int64_t batch = target_times.rank == 2 ? target_times.shape[0] : 1;
  for (const Stream& stream : streams) {
    if (stream.values.rank == 3) batch = stream.values.shape[0];
    if (stream.times.rank == 2) batch = stream.times.shape[0];
    if (stream.lengths.rank == 1) batch = stream.lengths.shape[0];
    if (stream.begins.rank == 1) batch = stream.begins.shape[0];
    if (stream.valid.rank == 2) batch = stream.valid.shape[0];
  }
  return {batch, target_times.shape[target_times.rank - 1]};
}

/// Calls `body` with a number of the compute type and one of the times' type.
template <typename Body>
void with_types(DataType value_type, DataType out_type, DataType time_type, const Body& body) {
  const auto with_time = [&](auto compute) {
    if (time_type == DataType::kInt64) return body(compute, std::int64_t{});
    if (time_type == DataType::kFloat64) return body(compute, double{});
    body(compute, float{});
  };
  if (value_type == DataType::kFloat64 || out_type == DataType::kFloat64)
    return with_time(double{});
  with_time(float{});
}

template <typename Compute, typename Time>
void align_target(const Stream& stream, const Episode<Time>& episode, std::int64_t b, Time t,
                  DataType out_type, Expected& expected) {
  using M = Made<Compute>;
  const auto write = [&](double low, double high) {
    expected.low.push_back(rounded(std::min(low, high), out_type));
    expected.high.push_back(rounded(std::max(low, high), out_type));
  };
  const auto write_exact = [&](Compute x, std::int64_t channel) {
    const Compute value = scaled(stream, x, channel);
    write(value, value);
  };
  const auto write_range = [&](Compute low, Compute high, std::int64_t channel) {
    write(scaled(stream, low, channel), scaled(stream, high, channel));
  };
  const Compute four_units = 4 * std::numeric_limits<Compute>::epsilon();
  bool valid = true;
  std::int64_t channel = 0;
  for (const Run& run : runs_of(stream)) {
    const M made = make<Compute>(run.method, episode, t);
    const int width = is_slerp(run.method) ? 4 : 1;
    valid = valid && made.valid;
    for (const std::int64_t end = channel + run.channels; channel < end; channel += width) {
      if (made.from == M::kZero || made.from == M::kNan) {
        const double literal =
            made.from == M::kZero ? 0.0 : std::numeric_limits<double>::quiet_NaN();
        for (int i = 0; i < width; ++i) write(literal, literal);
        continue;
      }
      const bool two = made.from == M::kTwoRows;
      const std::int64_t row = episode.first_row + made.row;
      const Rows<Compute> rows = rows_of<Compute>(stream, b, row, channel, width, two);
      const Compute a = rows.a[0];
      const Compute w = made.weight;
      if (is_slerp(run.method)) {
        const bool exists = !is_zero(rows.a) && !(two && is_zero(rows.b));
        valid = valid && exists;
        if (!exists) {
          for (int i = 0; i < 4; ++i) write_exact(0, channel + i);
          continue;
        }
        const Quaternion q = two ? slerp(extended(rows.a), extended(rows.b), w, flips(rows))
                                 : unit(extended(rows.a));
        for (int i = 0; i < 4; ++i) {
          const Compute x = static_cast<Compute>(q[i]);
          write_range(x - four_units, x + four_units, channel + i);
        }
      } else if (run.method == Method::kAngle) {
        const Compute unwrapped = two ? a + w * wrap(rows.b[0] - a) : a;
        const Compute x = wrap(unwrapped);
        const Compute slack =
            four_units * std::max({Compute{1}, std::fabs(a), std::fabs(unwrapped)});
        const Compute pi = static_cast<Compute>(kPi);
        const bool at_seam = std::fabs(x) + slack > pi;  // may come out on either side of it
        write_range(at_seam ? -pi : x - slack, at_seam ? pi : x + slack, channel);
      } else {
        write_exact(two ? a + w * (rows.b[0] - a) : a, channel);
      }
    }
  }
  expected.valid.push_back(valid);
}

/// What the gradient of a loss with respect to a quaternion of a target says about element `i` of row
/// a or b: the loss's difference over a small step of it.
template <typename Compute>
long double slerp_share(const Rows<Compute>& rows, bool two, long double w,
                        const Quaternion& gradient, bool of_a, int i) {
  const bool flip = two && flips(rows);
  const long double step = 1e-5L * length(extended(of_a ? rows.a : rows.b));
  const auto loss_after = [&](long double change) {
    Quaternion a = extended(rows.a);
    Quaternion b = extended(rows.b);
    (of_a ? a : b)[i] += change;
    const Quaternion q = two ? slerp(a, b, w, flip) : unit(a);
    return q[0] * gradient[0] + q[1] * gradient[1] + q[2] * gradient[2] + q[3] * gradient[3];
  };
  return (loss_after(step) - loss_after(-step)) / (2 * step);
}

template <typename Compute, typename Time>
void scatter_target(const Stream& stream, const Episode<Time>& episode, std::int64_t b, Time t,
                    const std::vector<Compute>& grad, std::vector<Compute>& sums) {
  using M = Made<Compute>;
  const std::int64_t rows_in_batch = stream.values.shape[stream.values.rank - 2];
  const std::int64_t channels = stream.values.shape[stream.values.rank - 1];
  const std::int64_t first_row =
      (stream.values.rank == 3 ? b * rows_in_batch : 0) + episode.first_row;
  std::int64_t channel = 0;
  for (const Run& run : runs_of(stream)) {
    const M made = make<Compute>(run.method, episode, t);
    const int width = is_slerp(run.method) ? 4 : 1;
    for (const std::int64_t end = channel + run.channels; channel < end; channel += width) {
      if (made.from == M::kZero || made.from == M::kNan) continue;
      const bool two = made.from == M::kTwoRows;
      Compute* const to_a = &sums[(first_row + made.row) * channels + channel];
      Compute* const to_b = to_a + channels;
      if (!is_slerp(run.method)) {
        const Compute g = grad[channel];
        *to_a = *to_a + g * (two ? 1 - made.weight : Compute{1});
        if (two) *to_b = *to_b + g * made.weight;
        continue;
      }
      const Rows<Compute> rows =
          rows_of<Compute>(stream, b, episode.first_row + made.row, channel, width, two);
      if (is_zero(rows.a) || (two && is_zero(rows.b))) continue;
      const Quaternion g = extended(&grad[channel]);
      for (int i = 0; i < 4; ++i) {
        const long double w = made.weight;
        to_a[i] += static_cast<Compute>(slerp_share(rows, two, w, g, true, i));
        if (two) to_b[i] += static_cast<Compute>(slerp_share(rows, two, w, g, false, i));
      }
    }
  }
}

}  // namespace

Expected expected_alignment(const std::vector<Stream>& streams, const ConstTensorView& target_times,
                            Outside outside, DataType out_type) {
  Expected expected;
  const Sizes sizes = sizes_of(streams, target_times);
  for (std::int64_t b = 0; b < sizes.batch; ++b) {
    for (std::int64_t i = 0; i < sizes.targets; ++i) {
      for (const Stream& stream : streams) {
        with_types(stream.values.dtype, out_type, stream.times.dtype, [&](auto compute, auto time) {
          using Time = decltype(time);
          const Time t =
              static_cast<const Time*>(target_times.data)[position(target_times, {b, i})];
          align_target<decltype(compute)>(stream, episode_of<Time>(stream, b, outside), b, t,
                                          out_type, expected);
        });
      }
    }
  }
  return expected;
}

std::vector<double> expected_gradient(const Stream& stream, const ConstTensorView& target_times,
                                      Outside outside, const ConstTensorView& grad_output) {
  const Sizes sizes = sizes_of({stream}, target_times);
  const ConstTensorView& values = stream.values;
  std::int64_t elements = 1;
  for (int axis = 0; axis < values.rank; ++axis) elements *= values.shape[axis];
  std::vector<double> result;
  with_types(values.dtype, grad_output.dtype, stream.times.dtype, [&](auto compute, auto time) {
    using Compute = decltype(compute);
    using Time = decltype(time);
    std::vector<Compute> sums(static_cast<std::size_t>(elements));
    for (std::int64_t b = 0; b < sizes.batch; ++b) {
      const Episode<Time> episode = episode_of<Time>(stream, b, outside);
      for (std::int64_t i = 0; i < sizes.targets; ++i) {
        const Time t = static_cast<const Time*>(target_times.data)[position(target_times, {b, i})];
        std::vector<Compute> grad;
        for (std::int64_t c = 0; c < values.shape[values.rank - 1]; ++c) {
          grad.push_back(static_cast<Compute>(number_at(grad_output, {b, i, c})));
          if (!stream.multiply.present()) continue;
          grad.back() = grad.back() * static_cast<Compute>(number_at(stream.multiply, {c}));
        }
        scatter_target(stream, episode, b, t, grad, sums);
      }
    }
    for (const Compute sum : sums) result.push_back(rounded(sum, values.dtype));
  });
  return result;
}

}  // namespace robocache::testing
