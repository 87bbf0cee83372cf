// Farthest-point sampling against the plain reference, on every engine; each division of clouds
// among blocks of CUDA; the kernels of every instruction set; errors.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "points/sampling.h"
#include "robocache/build_info.h"
#include "support/environment.h"
#include "support/error_of.h"
#include "support/random.h"
#if defined(ROBOCACHE_TEST_KERNELS)
#include "core/cpu_target.h"
#include "points/sample_cpu_kernels.h"
#include "voxel/checks.h"
#endif

namespace robocache::testing {
namespace {

using Indices = std::vector<std::int64_t>;

class Points : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::string problem = sampling_engine_problem(GetParam());
    if (problem.empty()) return;
    if (is_required(GetParam())) FAIL() << GetParam() << ": " << problem;
    GTEST_SKIP() << GetParam() << ": " << problem;
  }

  static void check(const Sampling& call, const std::string& name) {
    SCOPED_TRACE(name + call.text());
    EXPECT_EQ(difference_of(reference_sampling(call), run_sampling(GetParam(), call)), "");
  }
};

Sampling cloud_of(const std::vector<double>& x, std::int64_t n, std::int64_t start = 0) {
  Sampling call;
  call.points = Tensor(DataType::kFloat32, {static_cast<std::int64_t>(x.size()), 3});
  for (std::size_t i = 0; i < x.size(); ++i) {
    call.points.set(static_cast<std::int64_t>(i) * 3, x[i]);
  }
  call.n = n;
  call.start = start;
  return call;
}

TEST_P(Points, Line) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto run = [](const Sampling& call) { return run_sampling(GetParam(), call); };
  EXPECT_EQ(run(cloud_of({0, 1, 5, 2}, 3)), (Indices{0, 2, 3}));
  EXPECT_EQ(run(cloud_of({0, 1, 5, 2}, 1, 3)), (Indices{3}));
  // Equal distances: the lowest index.
  EXPECT_EQ(run(cloud_of({0, 2, -2, 1}, 3)), (Indices{0, 1, 2}));
  // Fewer points than samples: the point of the lowest index is repeated.
  EXPECT_EQ(run(cloud_of({0, 1, 5}, 6, 1)), (Indices{1, 2, 0, 0, 0, 0}));
  EXPECT_EQ(run(cloud_of({nan, 3, 3, 3}, 4, 2)), (Indices{2, 1, 1, 1}));
  // A point that is no sample at the start, and none at all.
  EXPECT_EQ(run(cloud_of({nan, 1, 5, 2}, 3)), (Indices{1, 2, 3}));
  EXPECT_EQ(run(cloud_of({nan, nan}, 2)), (Indices{-1, -1}));
  EXPECT_EQ(run(cloud_of({}, 2)), (Indices{-1, -1}));
  EXPECT_EQ(run(cloud_of({1, 2}, 0)), Indices{});
  // Distances that overflow.
  EXPECT_EQ(run(cloud_of({0, 3e38, -3e38, 1e30}, 4)), (Indices{0, 1, 2, 3}));
}

TEST_P(Points, AnyCall) {
  for (std::uint64_t seed = 200'000; seed < 200'400 && !HasFailure(); ++seed) {
    check(random_sampling(seed), "seed " + std::to_string(seed));
  }
}

/// Clouds that fill the registers of one block, clusters of 2, 4 and 8, a grid, and more.
TEST_P(Points, AnySize) {
  std::uint64_t seed = 201'000;
  for (const DataType type : {DataType::kFloat32, DataType::kFloat64}) {
    for (const std::int64_t points : {511, 2048, 4097, 10'240, 10'241, 30'000, 60'000, 100'000}) {
      Sampling call = random_sampling(++seed, points < 20'000 ? 3 : 1, points, type);
      call.n = 25;
      check(call, "seed " + std::to_string(seed));
    }
  }
}

/// Clouds of half a million points, on the CPU by several threads each; a cloud far larger than the
/// others, whose points do not fit the registers; more clouds than blocks run at once.
TEST_P(Points, ManyPoints) {
  Sampling call = random_sampling(202'000, 2, 500'000, DataType::kFloat32);
  call.n = 4;
  check(call, "two large clouds");
  const Tensor all = call.points;
  call.points = Tensor(DataType::kFloat32, {1'000'000, 3});
  for (std::int64_t i = 0; i < all.size(); ++i) call.points.set(i, all.get(i));
  call.offsets = Tensor(DataType::kInt64, {301});
  for (std::int64_t b = 0; b <= 300; ++b) call.offsets.set_int(b, b < 300 ? b * 90 : 1'000'000);
  call.start = 89;
  check(call, "clouds of 90 points and a large one");
  for (std::int64_t b = 0; b <= 300; ++b) call.offsets.set_int(b, b * 10'000 / 3);
  call.offsets.set_int(300, 1'000'000);
  check(call, "300 clouds");
  Sampling clusters = random_sampling(202'001, 20, 90'000, DataType::kBFloat16);
  clusters.n = 3;
  check(clusters, "20 clouds that do not fit clusters");
}

INSTANTIATE_TEST_SUITE_P(, Points, ::testing::Values("cpu", "cpu_backwards", "cuda"),
                         [](const auto& info) { return info.param; });

#if defined(ROBOCACHE_TEST_KERNELS)

/// The coordinates, distances and samples of one kernel set.
std::vector<std::int64_t> run_kernels(const SampleCpuKernels& kernels, const Sampling& call) {
  const CheckedCloud checked = check_cloud({call.points.view(), {}, {}}, on_cpu());
  const std::int64_t count = checked.plan.count;
  const auto elements = static_cast<std::size_t>(count + 1);
  std::vector<std::vector<std::int64_t>> memory(5, std::vector<std::int64_t>(elements));
  SampleCloud cloud{count,
                    call.points.type() == DataType::kFloat64,
                    {memory[0].data(), memory[1].data(), memory[2].data()},
                    memory[3].data(),
                    memory[4].data()};
  kernels.load(checked.plan.points, 0, cloud, 0, cloud.blocks());
  std::vector<std::int64_t> outcome;
  for (int i = 0; i < 20; ++i) {
    const std::int64_t sample = kernels.find_farthest(cloud);
    outcome.push_back(sample);
    if (sample < 0) break;
    kernels.update(cloud, sample, 0, cloud.blocks());
  }
  for (const auto& array : memory) outcome.insert(outcome.end(), array.begin(), array.end());
  return outcome;
}

TEST(PointsKernels, SameOnEveryInstructionSet) {
  [[maybe_unused]] const CpuTarget best = cpu_target();
  for (std::uint64_t seed = 203'000; seed < 203'100 && !::testing::Test::HasFailure(); ++seed) {
    Random random(seed);
    const DataType type = random.pick(
        {DataType::kFloat16, DataType::kBFloat16, DataType::kFloat32, DataType::kFloat64});
    const Sampling call = random_sampling(seed, 1, 1 + random.below(1500), type);
    SCOPED_TRACE("seed " + std::to_string(seed) + call.text());
    [[maybe_unused]] const auto expected = run_kernels(baseline::sample_cpu_kernels(), call);
#if defined(ROBOCACHE_TEST_X86_KERNELS)
    if (best != CpuTarget::kBaseline) {
      EXPECT_EQ(run_kernels(avx2::sample_cpu_kernels(), call), expected);
    }
    if (best == CpuTarget::kAvx512) {
      EXPECT_EQ(run_kernels(avx512::sample_cpu_kernels(), call), expected);
    }
#endif
  }
}

#endif

/// A call that is right, of shapes B=2, N=4 and n=3; its arguments may be replaced.
struct Call {
  Tensor points{DataType::kFloat32, {2, 4, 3}};
  Tensor flat_points{DataType::kFloat32, {8, 3}};
  Tensor offsets_memory{DataType::kInt32, {3}, {0, 2, 8}};
  Tensor indices{DataType::kInt64, {2, 3}};
  ConstTensorView points_view = static_cast<const Tensor&>(points).view();
  ConstTensorView offsets;
  std::int64_t start = 0;
  TensorView out;
  std::vector<std::int64_t> scratch = std::vector<std::int64_t>(1000);
  Workspace workspace{scratch.data(), 8000};
  ExecutionContext context = on_cpu();

  Call() {
    indices.fill_bytes(kUntouched);
    out = indices.view();
  }
  void use_offsets() {
    points_view = static_cast<const Tensor&>(flat_points).view();
    offsets = static_cast<const Tensor&>(offsets_memory).view();
  }
};

void expect_error(const std::string& expected, const std::function<void(Call&)>& spoil) {
  Call call;
  spoil(call);
  EXPECT_EQ(error_of([&] {
              sample_farthest(call.points_view, call.offsets, call.start, call.out, call.workspace,
                              call.context);
            }),
            expected);
  EXPECT_TRUE(call.indices.is_untouched(kUntouched)) << expected;
}

TEST(PointsErrors, Arguments) {
  expect_error("TypeError points: expected float16, bfloat16, float32 or float64, got uint8",
               [](Call& call) { call.points_view = any_view(DataType::kUInt8, {2, 4, 3}); });
  expect_error("ValueError points: expected [B,N,3] or [P,3], got [2,4,2]",
               [](Call& call) { call.points_view = any_view(DataType::kFloat32, {2, 4, 2}); });
  expect_error("ValueError points: expected [P,3] with offsets, got [2,4,3]", [](Call& call) {
    call.use_offsets();
    call.points_view = any_view(DataType::kFloat32, {2, 4, 3});
  });
  expect_error("ValueError offsets: expected P=8 last, got 7", [](Call& call) {
    call.use_offsets();
    call.offsets_memory.set(2, 7);
  });
  expect_error("ValueError start: expected 0 or more, got -1", [](Call& call) { call.start = -1; });
  expect_error("ValueError start: expected an index below N=4, got 4",
               [](Call& call) { call.start = 4; });
  expect_error("ValueError points: expected device cpu, got cuda",
               [](Call& call) { call.points_view.device = DeviceType::kCuda; });
  expect_error("TypeError indices_out: expected int64, got int32",
               [](Call& call) { call.out.dtype = DataType::kInt32; });
  expect_error("ValueError indices_out: expected contiguous [B=2,n], got [3,3]",
               [](Call& call) { call.out.shape[0] = 3; });
  expect_error("ValueError indices_out: expected contiguous [B=2,n], got [2,3]",
               [](Call& call) { call.out.strides[1] = 2; });
  expect_error("ValueError indices_out: expected contiguous [n], got [2,3]", [](Call& call) {
    call.points_view = static_cast<const Tensor&>(call.flat_points).view();
  });
}

TEST(PointsErrors, Workspace) {
  const Call call;
  const std::string needed =
      std::to_string(sample_farthest_workspace_bytes(call.points_view, call.offsets, call.context));
  expect_error("ValueError workspace: expected " + needed + " bytes aligned to 8, got none",
               [](Call& each) { each.workspace = {}; });
  expect_error("ValueError workspace: expected " + needed + " bytes aligned to 8, got 16 bytes",
               [](Call& each) { each.workspace.bytes = 16; });
}

#if !defined(ROBOCACHE_HAS_CUDA)
TEST(PointsErrors, NoCuda) {
  expect_error("DeviceError context: expected the CPU, got CUDA in " + cuda_problem(0),
               [](Call& call) { call.context = on_cuda(nullptr); });
}
#endif

}  // namespace
}  // namespace robocache::testing
