// Transforms: what they give, any strides and threads, gradients by differences, errors.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "environment.h"
#include "error_of.h"
#include "numbers.h"
#include "transform_engine.h"
#include "voxel_problem.h"

namespace robocache::testing {
namespace {

constexpr RotationForm kXyzw = RotationForm::kQuaternionXyzw;
constexpr RotationForm kForms[] = {RotationForm::kQuaternionXyzw, RotationForm::kQuaternionWxyz,
                                   RotationForm::kRotationVector, RotationForm::kMatrix,
                                   RotationForm::k6d};
constexpr double kHalf = 0.70710678118654752440;
constexpr double kPi = 3.14159265358979323846;

class Transform : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::string problem = transform_engine_problem(GetParam());
    if (problem.empty()) return;
    if (is_required(GetParam())) FAIL() << GetParam() << ": " << problem;
    GTEST_SKIP() << GetParam() << ": " << problem;
  }

  static TransformResult run(const TransformCall& call) { return run_transform(GetParam(), call); }
};

void expect_near(const Tensor& got, const std::vector<double>& expected, double slack) {
  ASSERT_EQ(got.size(), static_cast<std::int64_t>(expected.size()));
  for (std::int64_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got.get(i), expected[static_cast<std::size_t>(i)], slack) << "element " << i;
  }
}

TEST_P(Transform, ConvertsAQuarterTurnAboutZ) {
  const std::vector<double> answers[] = {{0, 0, kHalf, kHalf},
                                         {kHalf, 0, 0, kHalf},
                                         {0, 0, kPi / 2},
                                         {0, -1, 0, 1, 0, 0, 0, 0, 1},
                                         {0, -1, 0, 1, 0, 0}};
  for (const RotationForm target : kForms) {
    TransformCall call;
    call.source = kXyzw;
    call.target = target;
    call.x = Tensor(DataType::kFloat64, {1, 4}, {0, 0, 5, 5});
    call.grad_out = Tensor(DataType::kFloat64, {1, width_of(target)});
    expect_near(run(call).out, answers[static_cast<int>(target)], 4e-16);
  }
}

TEST_P(Transform, PosesAndDeltas) {
  TransformCall call;
  call.kind = TransformCall::Kind::kPose;
  call.source = kXyzw;
  call.x = Tensor(DataType::kFloat32, {1, 1, 7}, {1, 2, 0, 0, 0, 0, 1});
  call.row = Tensor(DataType::kFloat32, {1, 7}, {1, 0, 0, 0, 0, 1, 1});
  call.grad_out = call.x;
  expect_near(run(call).out, {2, 0, 0, 0, 0, -kHalf, kHalf}, 5e-7);
  call.is_back = true;
  expect_near(run(call).out, {-1, 1, 0, 0, 0, kHalf, kHalf}, 5e-7);

  call = {};
  call.kind = TransformCall::Kind::kDelta;
  call.duration = 0.5;
  call.x = Tensor(DataType::kFloat32, {1, 3, 1}, {1, 2, -4});
  call.row = Tensor(DataType::kFloat32, {1, 1}, {10});
  call.grad_out = Tensor(DataType::kFloat32, {1, 3, 1}, {1, 10, 100});
  const TransformResult absolute = run(call);
  expect_near(absolute.out, {10.5, 11.5, 9.5}, 0);
  expect_near(absolute.grad_x, {55.5, 55, 50}, 0);
  expect_near(absolute.grad_row, {111}, 0);
  call.is_back = true;
  const TransformResult deltas = run(call);
  expect_near(deltas.out, {-18, 2, -12}, 0);
  expect_near(deltas.grad_x, {2 - 20, 20 - 200, 200}, 0);
  expect_near(deltas.grad_row, {-2}, 0);
}

/// The CPU's bits, whatever the engine, strides and threads.
TEST_P(Transform, RandomCalls) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const TransformCall call = random_transform(seed);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + call.text());
    const TransformResult got = run(call);
    const TransformResult expected = run_transform("cpu", call);
    EXPECT_EQ(difference_of("out", expected.out, got.out), "");
    EXPECT_EQ(difference_of("grad_x", expected.grad_x, got.grad_x), "");
    EXPECT_EQ(difference_of("grad_row", expected.grad_row, got.grad_row), "");
  }
}

/// Gradients are how outputs change.
TEST_P(Transform, GradientsByDifferences) {
  for (std::uint64_t seed = 1000, tried = 0; tried < 20; ++seed) {
    TransformCall call = random_transform(seed);
    if (call.kind == TransformCall::Kind::kDelta || call.x.type() != DataType::kFloat64) continue;
    if (call.x.size() == 0 || call.x.size() > 700) continue;
    ++tried;
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + call.text());
    const auto fill = [](Tensor& tensor, double phase) {
      for (std::int64_t i = 0; i < tensor.size(); ++i) {
        tensor.set(i, std::sin(phase + 1.3 * static_cast<double>(i)));
      }
    };
    fill(call.x, 0.3);
    fill(call.row, 0.7);
    fill(call.grad_out, 0.1);
    const TransformResult made = run(call);
    const auto loss = [&] {
      const Tensor out = run(call).out;
      double sum = 0;
      for (std::int64_t i = 0; i < out.size(); ++i) sum += out.get(i) * call.grad_out.get(i);
      return sum;
    };
    const auto check = [&](Tensor& input, const Tensor& gradient) {
      constexpr double kStep = 1e-6;
      for (std::int64_t i = 0; i < input.size(); i += 1 + input.size() / 5) {
        const double x = input.get(i);
        input.set(i, x + kStep);
        const double after = loss();
        input.set(i, x - kStep);
        const double before = loss();
        input.set(i, x);
        const double slope = (after - before) / (2 * kStep);
        EXPECT_NEAR(gradient.get(i), slope, 1e-6 * (1 + std::fabs(slope))) << "number " << i;
      }
    };
    check(call.x, made.grad_x);
    if (call.row.present()) check(call.row, made.grad_row);
  }
}

INSTANTIATE_TEST_SUITE_P(, Transform, ::testing::Values("cpu", "cpu_backwards", "cuda"),
                         [](const ::testing::TestParamInfo<std::string>& info) {
                           return info.param;
                         });

TensorView floats(std::initializer_list<std::int64_t> shape) {
  return any_view(DataType::kFloat32, shape);
}

TEST(TransformErrors, OfRotations) {
  const auto error = [](const ConstTensorView& x, const TensorView& out,
                        RotationForm target = RotationForm::kMatrix) {
    return error_of([&] { convert_rotation(x, kXyzw, target, out, on_cpu()); });
  };
  EXPECT_EQ(error(floats({5, 4}), floats({5, 9})), "no error");
  EXPECT_EQ(error(floats({5, 3}), floats({5, 9})), "ValueError x: expected [N,width=4], got [5,3]");
  EXPECT_EQ(error(any_view(DataType::kInt64, {5, 4}), floats({5, 9})),
            "TypeError x: expected float16, bfloat16, float32 or float64, got int64");
  EXPECT_EQ(error(floats({5, 4}), floats({4, 9})),
            "ValueError out: expected [N=5,width=9], got [4,9]");
  EXPECT_EQ(error(floats({5, 4}), any_view(DataType::kFloat64, {5, 9})),
            "TypeError out: expected float32 like x, got float64");
  EXPECT_EQ(error(floats({5, 4}), floats({5, 9}), static_cast<RotationForm>(7)),
            "ValueError target: expected a RotationForm, got 7");
  TensorView strided = floats({5, 9});
  strided.strides[1] = 2;
  EXPECT_EQ(error(floats({5, 4}), strided),
            "ValueError out: expected contiguous elements, got [5,9]");
}

TEST(TransformErrors, OfPoses) {
  const auto error = [](const ConstTensorView& anchor) {
    return error_of([&] {
      convert_pose(floats({2, 3, 7}), anchor, kXyzw, PoseDirection::kToRelative, floats({2, 3, 7}),
                   on_cpu());
    });
  };
  EXPECT_EQ(error(floats({2, 7})), "no error");
  EXPECT_EQ(error(floats({3, 7})), "ValueError anchor: expected [N=2,P=7], got [3,7]");
  EXPECT_EQ(error(any_view(DataType::kFloat16, {2, 7})),
            "TypeError anchor: expected float32 like poses, got float16");
}

TEST(TransformErrors, OfDeltas) {
  const auto error = [](const ConstTensorView& start, const DeltaTiming& timing) {
    return error_of([&] {
      convert_delta(floats({2, 3, 5}), start, DeltaDirection::kToDelta, timing, floats({2, 3, 5}),
                    on_cpu());
    });
  };
  EXPECT_EQ(error(floats({2, 4}), {}), "ValueError start: expected [N=2,D=5], got [2,4]");
  EXPECT_EQ(error(floats({2, 5}), {0, {}}),
            "ValueError duration: expected a positive finite number of seconds, got 0.000000");
  EXPECT_EQ(error(floats({2, 5}), {1, any_view(DataType::kInt64, {3})}),
            "ValueError times: expected [K+1=4], got [3]");
  EXPECT_EQ(error(floats({2, 5}), {1, any_view(DataType::kInt32, {4})}),
            "TypeError times: expected int64, float32 or float64, got int32");
}

}  // namespace
}  // namespace robocache::testing
