// Farthest-point sampling: each kernel, and bad offsets.
#include <cstdint>
#include <exception>
#include <limits>
#include <string>

#include "points/sampling.h"
#include "support/gpu_check.h"
#include "support/random.h"

namespace robocache::testing {
namespace {

void compare_sampling(const Sampling& call, const std::string& what) {
  try {
    const std::string wrong = difference_of(run_sampling("cpu", call), run_sampling("cuda", call));
    check(what, wrong.empty() ? "" : wrong + call.text());
  } catch (const std::exception& error) {
    fail(what, error.what() + call.text());
  }
}

/// Offsets in no order and out of range, which CUDA does not look at.
void check_bad_offsets_of_samples() {
  constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kHighest = std::numeric_limits<std::int64_t>::max();
  for (std::uint64_t seed = 87'000; seed < 87'040; ++seed) {
    Sampling call = random_sampling(seed);
    if (!call.offsets.present()) continue;
    Random random(seed);
    for (std::int64_t i = 0; i < call.offsets.size(); ++i) {
      if (call.offsets.type() == DataType::kInt64) {
        call.offsets.set_int(i, random.pick<std::int64_t>({kLowest, -1, 0, 20, 9999, kHighest}));
      } else {
        call.offsets.set(i, random.pick({-2147483648.0, -1.0, 0.0, 20.0, 2147483647.0}));
      }
    }
    try {
      run_sampling("cuda", call);
    } catch (const std::exception& error) {
      fail("bad offsets of samples, seed " + std::to_string(seed), error.what() + call.text());
    }
  }
}

}  // namespace

void check_sampling() {
  for (std::uint64_t seed = 86'000; seed < 86'060; ++seed) {
    compare_sampling(random_sampling(seed), "samples, seed " + std::to_string(seed));
  }
  // One block with few and many slots, clusters of 2, 4 and 8, a grid.
  std::uint64_t seed = 86'100;
  for (const DataType type : {DataType::kFloat32, DataType::kFloat64}) {
    for (const std::int64_t points : {700, 4000, 9000, 19'000, 50'000, 90'000}) {
      Sampling call = random_sampling(++seed, 2, points, type);
      call.n = 5;
      compare_sampling(call, "samples, seed " + std::to_string(seed));
    }
  }
  // A cloud that does not fit the registers of its block.
  Sampling call = random_sampling(86'200, 1, 30'000, DataType::kFloat32);
  const Tensor all = call.points;
  call.points = Tensor(DataType::kFloat32, {30'000, 3});
  for (std::int64_t i = 0; i < all.size(); ++i) call.points.set(i, all.get(i));
  call.offsets = Tensor(DataType::kInt64, {101});
  for (std::int64_t b = 0; b < 100; ++b) call.offsets.set_int(b, b);
  call.offsets.set_int(100, 30'000);
  call.n = 5;
  compare_sampling(call, "samples of a large cloud");
  check_bad_offsets_of_samples();
}

}  // namespace robocache::testing
