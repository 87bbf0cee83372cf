// The CPU backend of farthest-point sampling: copies the coordinates of a cloud axis by axis, and
// for each sample passes over them once. Threads share out the clouds; the points of a cloud only
// where the clouds are few and large, since a pass is short.
#include <cstdint>

#include "core/cpu_target.h"
#include "core/parallel.h"
#include "core/workspace.h"
#include "points/backends.h"
#include "points/sample_cpu_kernels.h"

namespace robocache {
namespace {

// Blocks of a pass that are worth waking a thread for: about 10 us.
constexpr std::int64_t kGrainBlocks = 64;
// Clouds that keep most machines' threads busy.
constexpr std::int64_t kManyClouds = 8;

const SampleCpuKernels& kernels() {
  static const SampleCpuKernels& chosen = ROBOCACHE_FOR_CPU(sample_cpu_kernels)();
  return chosen;
}

/// The arrays of all clouds, one cloud after another.
struct SampleWorkspace {
  WorkspaceCutter cutter;
  std::int64_t width;  // bytes of a number
  char* arrays[4];     // x, y, z, distances: [points]
  char* farthest;      // [blocks]

  SampleWorkspace(const CloudPlan& cloud, void* workspace)
      : cutter(workspace, DeviceType::kCpu), width(computes_in_double(cloud) ? 8 : 4) {
    for (char*& array : arrays) array = cutter.cut<char>(cloud.count * width);
    farthest = cutter.cut<char>((cloud.count / SampleCloud::kBlock + cloud.batch) * width);
  }

  SampleCloud cloud(const CloudRange& range, std::int64_t b) const {
    const auto array = [&](int i) -> void* { return arrays[i] + range.first * width; };
    // One block more for each earlier cloud, whose last block may not be full.
    const std::int64_t block = range.first / SampleCloud::kBlock + b;
    return {range.count,
            width == 8,
            {array(0), array(1), array(2)},
            array(3),
            farthest + block * width};
  }
};

/// Whether a point is finite, before the first sample is taken.
bool is_finite(const SampleCloud& cloud, std::int64_t i) {
  return cloud.is_double ? static_cast<const std::int64_t*>(cloud.distances)[i] >= 0
                         : static_cast<const std::int32_t*>(cloud.distances)[i] >= 0;
}

/// Samples cloud b. `for_blocks(body)` calls `body(begin, end)` on parts of the cloud's blocks.
template <typename ForBlocks>
void sample(const SamplePlan& plan, std::int64_t b, const CloudRange& range,
            const SampleCloud& cloud, const ForBlocks& for_blocks) {
  for_blocks([&](std::int64_t begin, std::int64_t end) {
    kernels().load(plan.cloud.points, range.first, cloud, begin, end);
  });
  const std::int64_t base = index_base(plan.cloud, range);
  std::int64_t* const indices = plan.indices + b * plan.samples;
  std::int64_t sample = plan.start < range.count && is_finite(cloud, plan.start)
                            ? plan.start
                            : kernels().find_farthest(cloud);
  for (std::int64_t i = 0; i < plan.samples; ++i) {
    indices[i] = sample < 0 ? -1 : base + sample;
    if (sample < 0 || i + 1 == plan.samples) continue;
    for_blocks(
        [&](std::int64_t begin, std::int64_t end) { kernels().update(cloud, sample, begin, end); });
    sample = kernels().find_farthest(cloud);
  }
}

}  // namespace

std::size_t sample_workspace_bytes_on_cpu(const CloudPlan& cloud) {
  return SampleWorkspace(cloud, nullptr).cutter.bytes();
}

void sample_farthest_on_cpu(const SamplePlan& plan, void* workspace,
                            const ExecutionContext& context) {
  const SampleWorkspace work(plan.cloud, workspace);
  if (plan.cloud.batch < kManyClouds &&
      plan.cloud.count >= plan.cloud.batch * 2 * kGrainBlocks * SampleCloud::kBlock) {
    for (std::int64_t b = 0; b < plan.cloud.batch; ++b) {
      const CloudRange range = range_of(plan.cloud, b);
      const SampleCloud cloud = work.cloud(range, b);
      sample(plan, b, range, cloud,
             [&](const auto& body) { parallel_for(context, cloud.blocks(), kGrainBlocks, body); });
    }
    return;
  }
  parallel_for(context, plan.cloud.batch, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      const CloudRange range = range_of(plan.cloud, b);
      const SampleCloud cloud = work.cloud(range, b);
      sample(plan, b, range, cloud, [&](const auto& body) { body(0, cloud.blocks()); });
    }
  });
}

}  // namespace robocache
