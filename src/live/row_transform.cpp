#include "live/row_transform.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "core/number.h"
#include "transform/delta.h"
#include "transform/plan.h"
#include "transform/rotation.h"

namespace robocache {
namespace {

using namespace ROBOCACHE_TARGET;

/// A number as a type has it.
template <typename Compute>
double rounded(DataType type, Compute x) {
  switch (type) {
    case DataType::kFloat16:
      return widen(Round<Float16>::from(x));
    case DataType::kBFloat16:
      return widen(Round<BFloat16>::from(x));
    case DataType::kFloat32:
      return Round<float>::from(x);
    default:
      return x;
  }
}

/// Numbers on their way into the type that is computed in, and back.
template <typename Compute>
void load(const double* x, std::int64_t count, Compute* numbers) {
  for (std::int64_t i = 0; i < count; ++i) numbers[i] = static_cast<Compute>(x[i]);
}

template <typename Compute>
void store(DataType type, const Compute* numbers, std::int64_t count, double* out) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = rounded(type, numbers[i]);
}

/// What all of them know of a window.
class Typed : public RowTransform {
 public:
  void begin(DataType type, DataType anchor_type, const double* anchor) override {
    type_ = type;
    is_wide_ = type == DataType::kFloat64 || anchor_type == DataType::kFloat64;
    anchor_ = anchor;
  }

 protected:
  /// `Task::run<Compute>(...)`, in the type to compute in.
  template <typename Work>
  void in_type(const Work& work) const {
    if (is_wide_) {
      work(double{});
    } else {
      work(float{});
    }
  }

  DataType type_ = DataType::kFloat32;
  bool is_wide_ = false;
  const double* anchor_ = nullptr;
};

class RotateRows final : public Typed {
 public:
  RotateRows(const RotationTransform& transform, std::int64_t row, std::int64_t last)
      : transform_(transform), count_(row / last), last_(last) {}

  void apply(const double* x, double* out) override {
    convert_all(x, out, transform_.source, transform_.target, last_);
  }
  void undo(const double* x, double* out) override {
    const std::int64_t more = width_of(transform_.target) - width_of(transform_.source);
    convert_all(x, out, transform_.target, transform_.source, last_ + more);
  }

 private:
  void convert_all(const double* x, double* out, RotationForm source, RotationForm target,
                   std::int64_t last) const {
    const std::int64_t width = width_of(source), made = width_of(target);
    const std::int64_t after = last - transform_.at - width;
    for (std::int64_t i = 0; i < count_; ++i) {
      out = std::copy_n(x, transform_.at, out);
      x += transform_.at;
      in_type([&](auto zero) {
        using Compute = decltype(zero);
        Compute rotation[9] = {}, converted[9] = {};
        load(x, width, rotation);
        convert(rotation, source, target, converted);
        store(type_, converted, made, out);
      });
      out = std::copy_n(x + width, after, out + made);
      x += width + after;
    }
  }

  RotationTransform transform_;
  std::int64_t count_, last_;
};

class RelateRows final : public Typed {
 public:
  RelateRows(const PoseTransform& transform, std::int64_t row) : transform_(transform), row_(row) {}

  void apply(const double* x, double* out) override {
    convert_row(x, out, PoseDirection::kToRelative);
  }
  void undo(const double* x, double* out) override {
    convert_row(x, out, PoseDirection::kToAbsolute);
  }

 private:
  void convert_row(const double* x, double* out, PoseDirection direction) const {
    const std::int64_t at = transform_.at, width = 3 + width_of(transform_.form);
    std::copy_n(x, row_, out);
    in_type([&](auto zero) {
      using Compute = decltype(zero);
      Compute pose[kMostNumbers] = {}, anchor[kMostNumbers] = {}, converted[kMostNumbers] = {};
      load(x + at, width, pose);
      load(anchor_ + transform_.to_at, width, anchor);
      convert_one_pose(pose, anchor, transform_.form, direction, converted);
      store(type_, converted, width, out + at);
    });
  }

  PoseTransform transform_;
  std::int64_t row_;
};

class StepRows final : public Typed {
 public:
  StepRows(const DeltaTransform& transform, std::int64_t row)
      : direction_(transform.direction),
        duration_(transform.time_step.value_or(1)),
        last_(static_cast<std::size_t>(row)) {}

  void begin(DataType type, DataType anchor_type, const double* anchor) override {
    Typed::begin(type, anchor_type, anchor);
    std::copy_n(anchor, last_.size(), last_.begin());
  }
  void apply(const double* x, double* out) override { convert_row(x, out, direction_); }
  void undo(const double* x, double* out) override {
    const bool is_absolute = direction_ == DeltaDirection::kToAbsolute;
    convert_row(x, out, is_absolute ? DeltaDirection::kToDelta : DeltaDirection::kToAbsolute);
  }

 private:
  void convert_row(const double* x, double* out, DeltaDirection direction) {
    in_type([&](auto zero) {
      using Compute = decltype(zero);
      for (double& each : last_) {
        auto last = static_cast<Compute>(each);
        *out++ =
            rounded(type_, convert_one_delta(static_cast<Compute>(*x++),
                                             static_cast<Compute>(duration_), direction, &last));
        each = last;
      }
    });
  }

  DeltaDirection direction_;
  double duration_;
  std::vector<double> last_;  // the absolute row before the next one
};

class ScaleRows final : public Typed {
 public:
  ScaleRows(std::vector<double> subtract, std::vector<double> multiply)
      : subtract_(std::move(subtract)), multiply_(std::move(multiply)) {}

  void apply(const double* x, double* out) override {
    each(out, [x](std::size_t i, auto subtract, auto multiply) {
      return (static_cast<decltype(subtract)>(x[i]) - subtract) * multiply;
    });
  }
  void undo(const double* x, double* out) override {
    each(out, [x](std::size_t i, auto subtract, auto multiply) {
      return static_cast<decltype(subtract)>(x[i]) / multiply + subtract;
    });
  }

 private:
  template <typename Formula>
  void each(double* out, const Formula& formula) const {
    in_type([&](auto zero) {
      using Compute = decltype(zero);
      for (std::size_t i = 0; i < subtract_.size(); ++i) {
        out[i] = rounded(type_, formula(i, static_cast<Compute>(subtract_[i]),
                                        static_cast<Compute>(multiply_[i])));
      }
    });
  }

  std::vector<double> subtract_, multiply_;
};

}  // namespace

std::unique_ptr<RowTransform> rotate_rows(const RotationTransform& transform, std::int64_t row,
                                          std::int64_t last) {
  return std::make_unique<RotateRows>(transform, row, last);
}

std::unique_ptr<RowTransform> relate_rows(const PoseTransform& transform, std::int64_t row) {
  return std::make_unique<RelateRows>(transform, row);
}

std::unique_ptr<RowTransform> step_rows(const DeltaTransform& transform, std::int64_t row) {
  return std::make_unique<StepRows>(transform, row);
}

std::unique_ptr<RowTransform> scale_rows(std::vector<double> subtract,
                                         std::vector<double> multiply) {
  return std::make_unique<ScaleRows>(std::move(subtract), std::move(multiply));
}

}  // namespace robocache
