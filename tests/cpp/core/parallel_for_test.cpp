// The parallel-for that comes with the library, and pools that callers bring.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "align/engine.h"
#include "align/problem.h"
#include "align/random_problem.h"
#include "robocache/error.h"
#include "robocache/execution.h"
#include "support/check.h"
#include "support/scratch.h"

namespace robocache::testing {
namespace {

using Part = std::pair<std::int64_t, std::int64_t>;

/// Runs the library's parallel-for and notes its parts, in order.
std::vector<Part> parts_of(std::int64_t count, std::int64_t grain) {
  struct Notes {
    std::mutex mutex;
    std::vector<Part> parts;
  } notes;
  parallel_for_threads(
      nullptr, count, grain,
      [](void* data, std::int64_t begin, std::int64_t end) {
        Notes& notes = *static_cast<Notes*>(data);
        const std::lock_guard<std::mutex> lock(notes.mutex);
        notes.parts.emplace_back(begin, end);
      },
      &notes);
  std::sort(notes.parts.begin(), notes.parts.end());
  return notes.parts;
}

TEST(ParallelForThreads, PartsAreDisjointAndCoverTheRange) {
  for (const std::int64_t count :
       {std::int64_t{1}, std::int64_t{2}, std::int64_t{7}, std::int64_t{100}, std::int64_t{1001},
        std::numeric_limits<std::int64_t>::max()}) {
    for (const std::int64_t grain : {1, 3, 64, 5000}) {
      const std::vector<Part> parts = parts_of(count, grain);
      ASSERT_FALSE(parts.empty());
      EXPECT_LE(parts.size(), std::max(1U, std::thread::hardware_concurrency()));
      EXPECT_EQ(parts.back().second, count);
      for (std::size_t i = 0; i < parts.size(); ++i) {
        EXPECT_EQ(parts[i].first, i == 0 ? 0 : parts[i - 1].second);
        EXPECT_GE(parts[i].second - parts[i].first, std::min(count, grain));
      }
    }
  }
}

TEST(ParallelForThreads, NothingToDoIsNoCall) {
  EXPECT_TRUE(parts_of(0, 1).empty());
  EXPECT_TRUE(parts_of(0, 0).empty());
  EXPECT_TRUE(parts_of(-5, 1).empty());
}

TEST(ParallelForThreads, ASingleGrainStaysInThisThread) {
  std::thread::id where;
  parallel_for_threads(
      nullptr, 100, 100,
      [](void* data, std::int64_t, std::int64_t) {
        *static_cast<std::thread::id*>(data) = std::this_thread::get_id();
      },
      &where);
  EXPECT_EQ(where, std::this_thread::get_id());
}

TEST(ParallelForThreads, IsTheDefaultOfAContext) {
  EXPECT_EQ(on_cpu().parallel_for, &parallel_for_threads);
  EXPECT_EQ(on_cpu().device, DeviceType::kCpu);
  EXPECT_EQ(ExecutionContext{}.parallel_for, &parallel_for_threads);
  EXPECT_EQ(on_cuda(nullptr).device, DeviceType::kCuda);
}

/// A caller's pool: cuts the range into parts of one size, whatever grain it is asked for, and runs
/// them last to first.
struct BackwardsPool {
  std::int64_t part_size;
  int calls = 0;
  std::int64_t parts = 0;
  bool body_threw = false;

  static void run(void* pool, std::int64_t count, std::int64_t grain, ParallelBody body,
                  void* body_data) {
    BackwardsPool& self = *static_cast<BackwardsPool*>(pool);
    ++self.calls;
    EXPECT_GE(grain, 1);
    for (std::int64_t part = (count + self.part_size - 1) / self.part_size; part-- > 0;) {
      ++self.parts;
      try {
        body(body_data, part * self.part_size, std::min(count, (part + 1) * self.part_size));
      } catch (...) {
        self.body_threw = true;
      }
    }
  }
};

TEST(CustomPool, RunsEverythingWithTheSameBits) {
  for (std::uint64_t seed = 70'000; seed < 70'060; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Wanted wanted;
    wanted.is_differentiable = true;
    Problem problem = random_problem(seed, wanted);
    if (problem.values_out.size() == 0) continue;
    const std::vector<Stream> streams = problem.views();
    const ConstTensorView targets = problem.target_times.view();
    const auto align_on = [&](const ExecutionContext& context) {
      problem.values_out.fill_bytes(0);
      problem.valid_out.fill_bytes(0);
      align(streams.data(), 1, targets, problem.options, problem.values_out.view(),
            problem.valid_out.view(), {}, context);
      return std::make_pair(problem.values_out.bytes(), problem.valid_out.bytes());
    };
    Tensor grad_output(problem.values_out.type(), problem.values_out.shape());
    Random random(seed);
    fill_at_random(grad_output, random, 1);
    const auto gradient_on = [&](const ExecutionContext& context) {
      Tensor grad_values(problem.streams[0].values.type(), problem.streams[0].values.shape());
      const Scratch workspace(align_backward_workspace_bytes(streams[0], targets, context));
      align_backward(streams[0], targets, problem.options, grad_output.view(), grad_values.view(),
                     workspace, context);
      return grad_values.bytes();
    };
    for (const std::int64_t part_size : {1, 5, 1000}) {
      BackwardsPool pool{part_size};
      const ExecutionContext context = on_cpu(BackwardsPool::run, &pool);
      EXPECT_TRUE(align_on(context) == align_on(on_cpu()));
      EXPECT_GE(pool.calls, 1);
      EXPECT_GE(pool.parts, 1);
      EXPECT_TRUE(gradient_on(context) == gradient_on(on_cpu()));
      EXPECT_FALSE(pool.body_threw);
    }
  }
}

TEST(CustomPool, NothingIsThrownInsideIt) {
  const Tensor values(DataType::kFloat32, {2, 3, 1});
  const Tensor times(DataType::kInt64, {2, 3}, {1, 2, 3, 3, 2, 1});
  const Tensor targets(DataType::kInt64, {2});
  Tensor out(DataType::kFloat32, {2, 2, 1});
  Stream stream;
  stream.values = values.view();
  stream.times = times.view();
  BackwardsPool pool{1};
  EXPECT_THROW(
      align(&stream, 1, targets.view(), {}, out.view(), {}, {}, on_cpu(BackwardsPool::run, &pool)),
      ValueError);
  EXPECT_EQ(pool.parts, 2);
  EXPECT_FALSE(pool.body_threw);
}

// Many callers at once, each with threads of its own: no call may see another's data.
TEST(ParallelForThreads, CallsFromManyThreadsAtOnce) {
  constexpr int kCallers = 4;
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  callers.reserve(kCallers);
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([caller, &wrong] {
      for (std::uint64_t i = 0; i < 10; ++i) {
        Problem problem = random_problem(71'000 + 10 * caller + i);
        if (!check_alignment(engine("cpu"), problem).empty()) ++wrong;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace robocache::testing
