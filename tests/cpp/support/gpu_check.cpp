// Every CUDA kernel on small data, compared with the CPU backend or the reference: a program of a
// few seconds for compute-sanitizer, which tests/gpu.sh runs it under. Bad input that CUDA does not
// look at, lengths out of range, times and offsets in any order, must stay within bounds; what it
// gives is not compared.
#include "support/gpu_check.h"

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>

#include "align/engine.h"
#include "support/environment.h"
#include "support/numbers.h"
#include "transform/engine.h"

namespace robocache::testing {

Tally& tally() {
  static Tally counts;
  return counts;
}

void fail(const std::string& what, const std::string& why) {
  ++tally().failures;
  std::printf("FAILED %s: %s\n", what.c_str(), why.c_str());
}

void check(const std::string& what, const std::string& wrong) {
  ++tally().comparisons;
  if (!wrong.empty()) fail(what, wrong);
}

std::string compare(const Tensor& expected, const Tensor& got, double slack) {
  ++tally().comparisons;
  for (std::int64_t i = 0; i < expected.size(); ++i) {
    const double x = expected.get(i);
    const double y = got.get(i);
    if (is_same_number(x, y) || std::fabs(x - y) <= slack * (1 + std::fabs(x))) continue;
    return "element " + std::to_string(i) + " is " + std::to_string(x) + " on the CPU and " +
           std::to_string(y) + " on the GPU";
  }
  return "";
}

namespace {

void check_transforms() {
  for (std::uint64_t seed = 90'000; seed < 90'200; ++seed) {
    const TransformCall call = random_transform(seed);
    const std::string what = "transform, seed " + std::to_string(seed);
    try {
      const TransformResult expected = run_transform("cpu", call);
      const TransformResult got = run_transform("cuda", call);
      std::string why = compare(expected.out, got.out, 0) + compare(expected.grad_x, got.grad_x, 0);
      if (call.row.present()) why += compare(expected.grad_row, got.grad_row, 0);
      if (!why.empty()) fail(what, why + call.text());
    } catch (const std::exception& error) {
      fail(what, error.what() + call.text());
    }
  }
}

}  // namespace
}  // namespace robocache::testing

int main() {
  using namespace robocache::testing;
  const std::string problem = engine("cuda").problem();
  if (!problem.empty()) {
    std::printf("robocache_gpu_check: skipped, as there is no GPU that it can use: %s\n",
                problem.c_str());
    return is_required("cuda") ? 1 : 0;
  }
  check_plain_kernels();
  check_runs_kernels();
  check_streams();
  check_wide_kernel();
  check_random_problems();
  check_bad_input();
  check_voxelization();
  check_no_clouds();
  check_bad_offsets();
  check_loader();
  check_bad_loader_input();
  check_transforms();
  check_sampling();
  check_jpeg();
  check_images();
  std::printf("robocache_gpu_check: %d comparisons with the CPU, %d failures\n",
              tally().comparisons, tally().failures);
  return tally().failures == 0 ? 0 : 1;
}
