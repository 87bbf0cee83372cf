// The inverse of a stream's scale and reference, for actions of a policy.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "live/live_windows.h"
#include "robocache/live.h"

namespace robocache {

/// The inverse of a stream's scale and reference.
class Inverse {
 public:
  /// Computes the inverse of a validated stream.
  explicit Inverse(const LiveStream& stream);

  /// Whether the inverse exists: it does not for images whose channels come first or that are
  /// processed, nor for types that are copied as bytes.
  bool exists() const { return exists_; }
  std::int64_t channels() const { return count_; }

  /// Computes x / multiply + subtract, then adds the reference; see `LiveAligner::undo`. `x`,
  /// `out`: a robot's row, [D]. `reference`: null for streams that are not relative; `row`: of its
  /// values, for the query and the robot.
  template <typename Given, typename Number>
  void apply(const LiveWindows::Reference* reference, std::int64_t row, const Given* x,
             Number* out) const {
    if (channels_.empty()) {
      for (std::int64_t c = 0; c < count_; ++c) out[c] = static_cast<Number>(x[c]);
      return;
    }
    for (const Channel& channel : channels_) {
      const auto given = static_cast<double>(*x++);
      double y =
          channel.multiply == 0 ? channel.subtract : given / channel.multiply + channel.subtract;
      if (reference != nullptr && channel.column >= 0) {
        y += value_of(*reference, row, channel.column);
        if (channel.is_angle) y = wrapped(y);
      }
      *out++ = static_cast<Number>(y);
    }
  }

 private:
  struct Channel {
    double subtract, multiply;  // as in the plan, in its compute type
    std::int32_t column;        // of the reference; -1: not relative
    bool is_angle;
  };

  static double value_of(const LiveWindows::Reference& reference, std::int64_t row,
                         std::int64_t column);
  /// Wraps an angle into (-pi, pi].
  static double wrapped(double angle) {
    constexpr double kPi = 3.14159265358979323846;
    const double within = std::remainder(angle, 2 * kPi);
    return within <= -kPi ? kPi : within;
  }

  bool exists_;
  std::int64_t count_;             // D
  std::vector<Channel> channels_;  // [D]; empty for a stream with neither scale nor reference
};

}  // namespace robocache
