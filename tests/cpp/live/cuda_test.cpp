// Queries into device memory: the same bytes as on the host, one copy at a time for each slot.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "live/reference.h"
#include "robocache/build_info.h"
#include "support/error_of.h"

#if defined(ROBOCACHE_HAS_CUDA)
#include <atomic>

#include "support/device.h"
#endif

namespace robocache::testing {
namespace {

#if defined(ROBOCACHE_HAS_CUDA)

Bytes from_device(const void* memory, std::size_t bytes) {
  Bytes host(bytes);
  expect_success(cudaMemcpy(host.data(), memory, bytes, cudaMemcpyDeviceToHost));
  return host;
}

TEST(LiveCuda, WritesWhatTheHostGets) {
  if (!cuda_problem(0).empty()) GTEST_SKIP() << "there is " << cuda_problem(0);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    LiveProblem problem = random_live_problem(seed);
    problem.options.max_future_ns = INT64_MAX;
    LiveAligner on_host(problem.streams, problem.options);
    problem.options.cuda_slots = 2;
    LiveAligner on_device(problem.streams, problem.options);
    const std::size_t bytes = on_device.output_bytes();
    const DeviceMemory memory = device_memory(bytes);
    cudaStream_t stream = nullptr;
    expect_success(cudaStreamCreate(&stream));
    std::size_t pushed = 0;
    for (const LiveQuery& query : problem.queries) {
      for (; pushed < query.rows; ++pushed) {
        const LiveRow& row = problem.rows[pushed];
        for (LiveAligner* aligner : {&on_host, &on_device}) {
          ASSERT_EQ(aligner->push(row.stream, row.time_ns, row.values.data(), row.values.size(),
                                  row.robot, row.is_valid),
                    LiveStatus::kOk);
        }
      }
      const LiveNow now = LiveNow::each(query.now_ns.data());
      Bytes expected(bytes, LiveReference::kGap);
      const LiveStatus status = on_host.query(now, expected.data());
      ASSERT_TRUE(has_output(status));
      ASSERT_EQ(on_device.query_on_cuda(now, memory.get(), stream), status);
      expect_success(cudaStreamSynchronize(stream));
      Bytes got = from_device(memory.get(), bytes);
      // Bytes between the arrays may differ.
      for (std::size_t i = 0; i < got.size(); ++i) {
        if (expected[i] == LiveReference::kGap && got[i] == 0) got[i] = LiveReference::kGap;
      }
      ASSERT_EQ(difference_of(on_device, got, expected), "") << "seed " << seed;
    }
    expect_success(cudaStreamDestroy(stream));
  }
}

TEST(LiveCuda, CopiesTheSelectedKeysAlone) {
  if (!cuda_problem(0).empty()) GTEST_SKIP() << "there is " << cuda_problem(0);
  std::vector<LiveStream> streams(3);
  const char* const names[] = {"joints", "force", "gaze"};
  for (std::size_t i = 0; i < 3; ++i) {
    streams[i].name = names[i];
    streams[i].rate = 1000;
    streams[i].offsets = {0};
  }
  LiveOptions options;
  options.cuda_slots = 1;
  LiveAligner aligner(streams, options);
  const LiveSelection selection = aligner.select({"force"});
  const DeviceMemory memory = device_memory(aligner.output_bytes());
  cudaStream_t stream = nullptr;
  expect_success(cudaStreamCreate(&stream));
  const auto newest = [&](const char* key) {
    expect_success(cudaStreamSynchronize(stream));
    const Bytes got = from_device(memory.get(), aligner.output_bytes());
    float value = 0;
    std::memcpy(&value, got.data() + aligner.find_output(key)->offset, sizeof value);
    return value;
  };
  for (const std::int64_t n : {1, 2}) {
    const auto value = static_cast<float>(n);
    for (std::int64_t i = 0; i < 3; ++i) {
      ASSERT_EQ(aligner.push<float>(i, n, &value, 1), LiveStatus::kOk);
    }
    const LiveResult result =
        n == 1 ? aligner.query_on_cuda(LiveNow::at(n), memory.get(), stream)
               : aligner.query_on_cuda(LiveNow::at(n), memory.get(), stream, selection);
    ASSERT_EQ(result, LiveStatus::kOk);
    EXPECT_EQ(newest("joints"), 1);
    EXPECT_EQ(newest("force"), value);
    EXPECT_EQ(newest("gaze"), 1);
  }
  expect_success(cudaStreamDestroy(stream));
}

TEST(LiveCuda, IsBusyWhileEverySlotIsCopied) {
  if (!cuda_problem(0).empty()) GTEST_SKIP() << "there is " << cuda_problem(0);
  LiveStream force;
  force.name = "force";
  force.rate = 1000;
  force.offsets = {0};
  LiveOptions options;
  options.cuda_slots = 2;
  LiveAligner aligner({force}, options);
  const DeviceMemory memory = device_memory(aligner.output_bytes());
  cudaStream_t stream = nullptr;
  expect_success(cudaStreamCreate(&stream));
  std::atomic<bool> may_go_on{false};
  expect_success(cudaLaunchHostFunc(
      stream,
      [](void* flag) {
        while (!static_cast<std::atomic<bool>*>(flag)->load()) std::this_thread::yield();
      },
      &may_go_on));
  const float rows[] = {1, 2, 3};
  const auto query = [&](std::int64_t n) {
    EXPECT_EQ(aligner.push(0, n, &rows[n], sizeof(float)), LiveStatus::kOk);
    return aligner.query_on_cuda(LiveNow::at(n), memory.get(), stream);
  };
  EXPECT_EQ(query(0), LiveStatus::kOk);
  EXPECT_EQ(query(1), LiveStatus::kOk);
  EXPECT_EQ(query(2), LiveStatus::kBusy);
  EXPECT_EQ(aligner.stats(0).taken, 2);
  may_go_on = true;
  EXPECT_EQ(aligner.wait_on_cuda(), LiveStatus::kOk);
  expect_success(cudaStreamSynchronize(stream));
  float value = 0;
  expect_success(cudaMemcpy(&value, memory.get(), sizeof value, cudaMemcpyDeviceToHost));
  EXPECT_EQ(value, 2);
  EXPECT_EQ(aligner.query_on_cuda(LiveNow::at(2), memory.get(), stream), LiveStatus::kOk);
  expect_success(cudaStreamSynchronize(stream));
  expect_success(cudaMemcpy(&value, memory.get(), sizeof value, cudaMemcpyDeviceToHost));
  EXPECT_EQ(value, 3);
  // Nothing is left behind by what was refused.
  EXPECT_EQ(aligner.query_on_cuda(LiveNow::at(2), nullptr, stream), LiveStatus::kBadPointer);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  expect_success(cudaStreamDestroy(stream));
}

#endif

TEST(LiveCuda, SlotsWithoutAGpuAreAnError) {
  if (cuda_problem(0).empty()) GTEST_SKIP() << "there is a GPU";
  LiveStream force;
  force.name = "force";
  force.rate = 1000;
  force.offsets = {0};
  LiveOptions options;
  options.cuda_slots = 3;
  EXPECT_EQ(error_of([&] { LiveAligner({force}, options); }),
            "DeviceError cuda_slots: expected 0, got 3 with " + cuda_problem(0));
}

}  // namespace
}  // namespace robocache::testing
