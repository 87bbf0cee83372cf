// Transforms: what they give, any strides and threads, gradients by differences, errors.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "support/environment.h"
#include "support/error_of.h"
#include "support/golden.h"
#include "support/numbers.h"
#include "transform/engine.h"
#include "voxel/problem.h"

namespace robocache::testing {
namespace {

constexpr RotationForm kXyzw = RotationForm::kQuaternionXyzw;

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

void expect_numbers(const Tensor& got, const std::vector<double>& expected) {
  ASSERT_EQ(got.size(), static_cast<std::int64_t>(expected.size()));
  for (std::int64_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got.get(i), expected[static_cast<std::size_t>(i)]) << "element " << i;
  }
}

/// Gradients of sums flow back from the last row to the first.
TEST_P(Transform, GradientsOfDeltas) {
  TransformCall call;
  call.kind = TransformCall::Kind::kDelta;
  call.duration = 0.5;
  call.x = Tensor(DataType::kFloat32, {1, 3, 1}, {1, 2, -4});
  call.row = Tensor(DataType::kFloat32, {1, 1}, {10});
  call.grad_out = Tensor(DataType::kFloat32, {1, 3, 1}, {1, 10, 100});
  const TransformResult absolute = run(call);
  expect_numbers(absolute.grad_x, {55.5, 55, 50});
  expect_numbers(absolute.grad_row, {111});
  call.is_back = true;
  const TransformResult deltas = run(call);
  expect_numbers(deltas.grad_x, {2 - 20, 20 - 200, 200});
  expect_numbers(deltas.grad_row, {-2});
}

TransformCall call_of(const Json& json) {
  const std::map<std::string, RotationForm> forms = {
      {"quaternion_xyzw", RotationForm::kQuaternionXyzw},
      {"quaternion_wxyz", RotationForm::kQuaternionWxyz},
      {"rotation_vector", RotationForm::kRotationVector},
      {"matrix", RotationForm::kMatrix},
      {"rotation_6d", RotationForm::k6d}};
  const auto operation = json.at("operation").get<std::string>();
  TransformCall call;
  call.kind = operation == "convert_rotation"                ? TransformCall::Kind::kRotation
              : operation.find("_pose") != std::string::npos ? TransformCall::Kind::kPose
                                                             : TransformCall::Kind::kDelta;
  call.is_back = operation == "absolute_pose" || operation == "absolute_to_delta";
  if (!json.at("form").is_null()) call.source = lookup(forms, json.at("form"));
  if (!json.at("target").is_null()) call.target = lookup(forms, json.at("target"));
  if (!json.at("time_step").is_null()) call.duration = json.at("time_step").get<double>();
  call.x = tensor_of(json.at("x"));
  call.row = tensor_of(json.at("row"));
  call.times = tensor_of(json.at("times"));
  call.grad_out = tensor_of(json.at("expected"));
  return call;
}

TEST_P(Transform, Golden) {
  const Json cases = cases_of("transforms.json");
  ASSERT_FALSE(cases.empty());
  for (const Json& json : cases) {
    SCOPED_TRACE(json.at("name").get<std::string>() + ": " + json.at("reason").get<std::string>());
    const Tensor got = run(call_of(json)).out;
    const Tensor expected = tensor_of(json.at("expected"));
    ASSERT_EQ(got.size(), expected.size());
    for (std::int64_t i = 0; i < got.size(); ++i) {
      const double x = got.get(i);
      const double y = expected.get(i);
      const bool is_same = x == y || (std::isnan(x) && std::isnan(y));
      EXPECT_TRUE(is_same || std::fabs(x - y) <= json.at("atol").get<double>())
          << "element " << i << " is " << x << ", not " << y;
    }
  }
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
