#include "live/row_transform.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <variant>

#include "core/dispatch.h"
#include "core/number.h"
#include "transform/delta.h"
#include "transform/plan.h"
#include "transform/rotation.h"
#include "window/windows.h"

namespace robocache {
namespace {

using namespace ROBOCACHE_TARGET;

/// Stores the types and the reference of a window, for all transforms.
class Typed : public RowTransform {
 public:
  void begin(DataType type, DataType reference_type, const double* reference) override {
    type_ = type;
    is_wide_ = type == DataType::kFloat64 || reference_type == DataType::kFloat64;
    reference_ = reference;
  }

 protected:
  /// Calls `work(zero, round)` with a zero of the compute type, and a function that rounds a number
  /// of that type to the window's type.
  template <typename Work>
  void in_types(const Work& work) const {
    if (is_wide_) {
      with_rounding(double{}, work);
    } else {
      with_rounding(float{}, work);
    }
  }

  const double* reference_ = nullptr;

 private:
  template <typename Compute, typename Work>
  void with_rounding(Compute zero, const Work& work) const {
    switch (type_) {
      case DataType::kFloat16:
        return work(zero, [](Compute x) { return double{widen(Round<Float16>::from(x))}; });
      case DataType::kBFloat16:
        return work(zero, [](Compute x) { return double{widen(Round<BFloat16>::from(x))}; });
      case DataType::kFloat32:
        return work(zero, [](Compute x) { return double{Round<float>::from(x)}; });
      default:
        return work(zero, [](Compute x) { return double{x}; });
    }
  }

  DataType type_ = DataType::kFloat32;
  bool is_wide_ = false;
};

class RotateRows final : public Typed {
 public:
  RotateRows(const RotationTransform& transform, const std::vector<std::int64_t>& shape)
      : transform_(transform), count_(elements_of(shape) / shape.back()), last_(shape.back()) {}

  void apply(const double* x, double* out) override {
    convert_all(x, out, transform_.source, transform_.target, last_);
  }
  void undo(const double* x, double* out) override {
    const std::int64_t more = width_of(transform_.target) - width_of(transform_.source);
    convert_all(x, out, transform_.target, transform_.source, last_ + more);
  }

 private:
  /// Converts rows whose last axis has `last` elements.
  void convert_all(const double* x, double* out, RotationForm source, RotationForm target,
                   std::int64_t last) const {
    const std::int64_t width = width_of(source), made = width_of(target);
    const std::int64_t after = last - transform_.at - width;
    in_types([&](auto zero, const auto& round) {
      using Compute = decltype(zero);
      for (std::int64_t i = 0; i < count_; ++i) {
        out = std::copy_n(x, transform_.at, out);
        x += transform_.at;
        Compute rotation[9] = {}, converted[9] = {};
        for (std::int64_t c = 0; c < width; ++c) rotation[c] = static_cast<Compute>(x[c]);
        convert(rotation, source, target, converted);
        for (std::int64_t c = 0; c < made; ++c) out[c] = round(converted[c]);
        out = std::copy_n(x + width, after, out + made);
        x += width + after;
      }
    });
  }

  RotationTransform transform_;
  std::int64_t count_, last_;
};

class RelateRows final : public Typed {
 public:
  RelateRows(const RelativePoseTransform& transform, const std::vector<std::int64_t>& shape)
      : transform_(transform), row_(shape[0]) {}

  void apply(const double* x, double* out) override {
    convert_row(x, out, PoseDirection::kToRelative);
  }
  void undo(const double* x, double* out) override {
    convert_row(x, out, PoseDirection::kToAbsolute);
  }

 private:
  void convert_row(const double* x, double* out, PoseDirection direction) const {
    const std::int64_t at = transform_.at, width = 3 + width_of(transform_.form);
    const double* const to = reference_ + transform_.to_at;
    std::copy_n(x, row_, out);
    in_types([&](auto zero, const auto& round) {
      using Compute = decltype(zero);
      Compute pose[kMostNumbers] = {}, anchor[kMostNumbers] = {}, converted[kMostNumbers] = {};
      for (std::int64_t c = 0; c < width; ++c) pose[c] = static_cast<Compute>(x[at + c]);
      for (std::int64_t c = 0; c < width; ++c) anchor[c] = static_cast<Compute>(to[c]);
      convert_one_pose(pose, anchor, transform_.form, direction, converted);
      for (std::int64_t c = 0; c < width; ++c) out[at + c] = round(converted[c]);
    });
  }

  RelativePoseTransform transform_;
  std::int64_t row_;
};

class StepRows final : public Typed {
 public:
  StepRows(const DeltaTransform& transform, const std::vector<std::int64_t>& shape)
      : direction_(transform.direction),
        duration_(transform.time_step.value_or(1)),
        last_(static_cast<std::size_t>(shape[0])) {}

  void begin(DataType type, DataType reference_type, const double* reference) override {
    Typed::begin(type, reference_type, reference);
    std::copy_n(reference, last_.size(), last_.begin());
  }
  void apply(const double* x, double* out) override { convert_row(x, out, direction_); }
  void undo(const double* x, double* out) override {
    const bool is_absolute = direction_ == DeltaDirection::kToAbsolute;
    convert_row(x, out, is_absolute ? DeltaDirection::kToDelta : DeltaDirection::kToAbsolute);
  }

 private:
  void convert_row(const double* x, double* out, DeltaDirection direction) {
    in_types([&](auto zero, const auto& round) {
      using Compute = decltype(zero);
      const auto duration = static_cast<Compute>(duration_);
      for (std::size_t c = 0; c < last_.size(); ++c) {
        auto last = static_cast<Compute>(last_[c]);
        out[c] = round(convert_one_delta(static_cast<Compute>(x[c]), duration, direction, &last));
        last_[c] = last;
      }
    });
  }

  DeltaDirection direction_;
  double duration_;
  std::vector<double> last_;  // the absolute row before the next one
};

class ScaleRows final : public Typed {
 public:
  ScaleRows(const NormalizeTransform::Scale& scale, const std::vector<std::int64_t>& shape)
      : wide_{spread(scale, scale.subtract, shape), spread(scale, scale.multiply, shape)},
        narrow_{{wide_.subtract.begin(), wide_.subtract.end()},
                {wide_.multiply.begin(), wide_.multiply.end()}} {}

  void apply(const double* x, double* out) override {
    each([x, out](std::size_t i, auto subtract, auto multiply, const auto& round) {
      out[i] = round((static_cast<decltype(subtract)>(x[i]) - subtract) * multiply);
    });
  }
  void undo(const double* x, double* out) override {
    each([x, out](std::size_t i, auto subtract, auto multiply, const auto& round) {
      out[i] = round(static_cast<decltype(subtract)>(x[i]) / multiply + subtract);
    });
  }

 private:
  template <typename Compute>
  struct Numbers {
    std::vector<Compute> subtract, multiply;  // per element of the row
  };

  template <typename Formula>
  void each(const Formula& formula) const {
    in_types([&](auto zero, const auto& round) {
      const auto& numbers = numbers_of(zero);
      const auto* const subtract = numbers.subtract.data();
      const auto* const multiply = numbers.multiply.data();
      const std::size_t count = numbers.subtract.size();
      for (std::size_t i = 0; i < count; ++i) formula(i, subtract[i], multiply[i], round);
    });
  }
  const Numbers<double>& numbers_of(double) const { return wide_; }
  const Numbers<float>& numbers_of(float) const { return narrow_; }

  /// The numbers of a scale, one per element of a row.
  static std::vector<double> spread(const NormalizeTransform::Scale& scale,
                                    const std::vector<double>& numbers,
                                    const std::vector<std::int64_t>& shape) {
    const std::vector<std::int64_t> axes = without_leading_ones(scale.shape);
    std::vector<double> made(static_cast<std::size_t>(elements_of(shape)));
    for (std::size_t i = 0; i < made.size(); ++i) {
      auto rest = static_cast<std::int64_t>(i);
      std::int64_t at = 0, stride = 1;
      for (std::size_t axis = 1; axis <= axes.size(); ++axis) {
        const std::int64_t size = shape[shape.size() - axis], of_scale = axes[axes.size() - axis];
        if (of_scale > 1) at += rest % size * stride;
        rest /= size;
        stride *= of_scale;
      }
      made[i] = numbers[static_cast<std::size_t>(at)];
    }
    return made;
  }

  Numbers<double> wide_;
  Numbers<float> narrow_;
};

struct Maker {
  const std::vector<std::int64_t>& shape;

  std::unique_ptr<RowTransform> operator()(const RotationTransform& transform) const {
    return std::make_unique<RotateRows>(transform, shape);
  }
  std::unique_ptr<RowTransform> operator()(const RelativePoseTransform& transform) const {
    return std::make_unique<RelateRows>(transform, shape);
  }
  std::unique_ptr<RowTransform> operator()(const DeltaTransform& transform) const {
    return std::make_unique<StepRows>(transform, shape);
  }
  std::unique_ptr<RowTransform> operator()(const NormalizeTransform& transform) const {
    return std::make_unique<ScaleRows>(transform.normalization.begin()->second, shape);
  }
};

}  // namespace

std::vector<std::int64_t> without_leading_ones(const std::vector<std::int64_t>& shape) {
  const auto first =
      std::find_if(shape.begin(), shape.end(), [](std::int64_t size) { return size != 1; });
  return {first, shape.end()};
}

std::unique_ptr<RowTransform> make_row_transform(const BatchTransform& transform,
                                                 const std::vector<std::int64_t>& shape) {
  return std::visit(Maker{shape}, transform);
}

void load_numbers(DataType type, const void* from, std::int64_t count, double* numbers) {
  with_floating_type(type, [&](auto tag) {
    const auto* const values = static_cast<const typename decltype(tag)::type*>(from);
    for (std::int64_t i = 0; i < count; ++i) numbers[i] = widen(values[i]);
  });
}

void store_numbers(DataType type, const double* numbers, std::int64_t count, void* to) {
  with_floating_type(type, [&](auto tag) {
    using Value = typename decltype(tag)::type;
    auto* const values = static_cast<Value*>(to);
    for (std::int64_t i = 0; i < count; ++i) values[i] = Round<Value>::from(numbers[i]);
  });
}

}  // namespace robocache
