// Gradients against the sequential reference, which scatters in order where the library gathers:
// the same bits for every method but slerp, and so the same bits on every engine. And against
// differences of the forward pass, which know nothing of either.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "align/engine_test.h"
#include "align/problem.h"
#include "align/random_problem.h"
#include "support/check.h"

namespace robocache::testing {
namespace {

class Backward : public EngineTest {
 protected:
  std::uint64_t seed = 0;

  void check(Wanted wanted, std::uint64_t count) {
    wanted.is_differentiable = true;
    for (const std::uint64_t end = seed + count; seed < end && !HasFailure(); ++seed) {
      const Problem problem = random_problem(seed, wanted);
      const std::string wrong = check_gradient(engine(), problem, seed);
      EXPECT_EQ(wrong, "") << "seed " << seed;
    }
  }
};

TEST_P(Backward, AnyProblem) {
  seed = 60'000;
  check({}, 200);
}

TEST_P(Backward, RaggedSources) {
  seed = 61'000;
  Wanted wanted;
  wanted.is_ragged = true;
  check(wanted, 60);
}

TEST_P(Backward, EveryMethodByTypes) {
  seed = 62'000;
  for (const Method method : kMethods) {
    for (const DataType time_type : kTimeTypes) {
      for (const DataType value_type : kValueTypes) {
        if (value_type == DataType::kUInt8) continue;
        Wanted wanted;
        wanted.method = method;
        wanted.time_type = time_type;
        wanted.value_type = value_type;
        check(wanted, 2);
      }
    }
  }
}

/// The sum over the output of each element times its gradient, where it has one.
long double loss_of(const Engine& engine, Problem& problem, const Tensor& grad_output) {
  engine.align(problem.views(), problem.target_times.view(), problem.options,
               problem.values_out.view(), {});
  long double loss = 0;
  for (std::int64_t i = 0; i < problem.values_out.size(); ++i) {
    const long double gradient = grad_output.get(i);
    if (gradient != 0) loss += problem.values_out.get(i) * gradient;
  }
  return loss;
}

TEST_P(Backward, DifferencesOfTheForwardPass) {
  constexpr double kStep = 1e-5;
  int compared = 0;
  for (std::uint64_t at = 63'000; compared < 40 && !HasFailure(); ++at) {
    Wanted wanted;
    wanted.is_differentiable = true;
    wanted.value_type = DataType::kFloat64;
    wanted.out_type = DataType::kFloat64;
    if (at % 2 == 0) wanted.method = kMethods[at / 2 % 8];
    Problem problem = random_problem(at, wanted);
    StreamData& data = problem.streams[0];
    if (data.values.size() == 0 || data.values.size() > 120) continue;
    ++compared;
    // Each element by itself in memory, and no two rows on the border between two ways round.
    data.values = Tensor(DataType::kFloat64, data.values.shape());
    Random random(at);
    fill_at_random(data.values, random, 1);
    Tensor grad_output(DataType::kFloat64, problem.values_out.shape());
    fill_at_random(grad_output, random, 1);
    // Not of elements that are not finite whatever the values (NaN outside, infinite targets), or
    // extrapolated so far that all others are lost beside them.
    loss_of(engine(), problem, grad_output);
    for (std::int64_t i = 0; i < grad_output.size(); ++i) {
      if (!(std::fabs(problem.values_out.get(i)) < 1e6)) grad_output.set(i, 0);
    }
    Tensor grad_values(DataType::kFloat64, data.values.shape());
    engine().align_backward(data.stream(), problem.target_times.view(), problem.options,
                            grad_output.view(), grad_values.view());
    for (std::int64_t i = 0; i < data.values.size() && !HasFailure(); ++i) {
      const double got = grad_values.get(i);
      if (!std::isfinite(got)) continue;  // an infinite target, extrapolated
      const double x = data.values.get(i);
      data.values.set(i, x + kStep);
      const long double above = loss_of(engine(), problem, grad_output);
      data.values.set(i, x - kStep);
      const long double below = loss_of(engine(), problem, grad_output);
      data.values.set(i, x);
      const double expected = static_cast<double>((above - below) / (2 * kStep));
      EXPECT_NEAR(got, expected, 1e-6 * (1 + std::fabs(expected)))
          << "seed " << at << ", element " << i << problem.text();
    }
  }
}

// A row is the first row of some targets and the second row of others: float32 sums depend on the
// order in which targets are added.
TEST_P(Backward, SumsAreTakenInOrderOfTargets) {
  Problem problem;
  StreamData data;
  data.values = Tensor(DataType::kFloat32, {3, 1});
  data.times = Tensor(DataType::kInt64, {3});
  for (std::int64_t row = 0; row < 3; ++row) data.times.set_int(row, 1000 * row);
  problem.streams.push_back(data);
  constexpr std::int64_t kTargets = 5000;
  problem.target_times = Tensor(DataType::kInt64, {kTargets});
  Random random(64'000);
  for (std::int64_t i = 0; i < kTargets; ++i) problem.target_times.set_int(i, random.below(2001));
  problem.values_out = Tensor(DataType::kFloat32, {kTargets, 1});
  EXPECT_EQ(check_gradient(engine(), problem, 64'000), "");
}

INSTANTIATE_ENGINES(Backward);

}  // namespace
}  // namespace robocache::testing
