// Processes the frames of a window on the CPU: recipes of all frames first, then bands of rows,
// each by one thread with scratch memory of the caller's workspace.
#include <algorithm>
#include <cstdint>

#include "core/cpu_target.h"
#include "core/parallel.h"
#include "image/backends.h"
#include "image/process_cpu_kernels.h"

namespace robocache {
namespace {

// Enough for the threads of a large machine, few enough that scratch memory stays small.
constexpr std::int64_t kMaxTasks = 64;
// Neighboring bands both sample the rows between them.
constexpr std::int32_t kFewestRows = 16;

const ImageCpuKernels& image_kernels() {
  static const ImageCpuKernels& chosen = ROBOCACHE_FOR_CPU(image_cpu_kernels)();
  return chosen;
}

/// The division of a window's rows into bands, and of bands into tasks.
struct Bands {
  std::int32_t rows;       // of a band
  std::int64_t per_frame;  // bands
  std::int64_t tasks;

  explicit Bands(const ImagePlan& plan) {
    const std::int64_t wanted =
        (kMaxTasks + plan.count - 1) / std::max<std::int64_t>(plan.count, 1);
    const std::int64_t most = (plan.out_height + kFewestRows - 1) / kFewestRows;
    const std::int64_t bands = std::clamp<std::int64_t>(wanted, 1, most);
    rows = static_cast<std::int32_t>((plan.out_height + bands - 1) / bands);
    per_frame = (plan.out_height + rows - 1) / rows;
    tasks = std::min(kMaxTasks, per_frame * plan.count);
  }
};

}  // namespace

std::size_t image_workspace_on_cpu(const ImagePlan& plan) {
  const std::int64_t scratch = ImageScratchSizes(plan).total_bytes();
  return static_cast<std::size_t>(plan.count) * kRecipeBytes +
         static_cast<std::size_t>(Bands(plan).tasks * scratch);
}

void process_images_on_cpu(const ImageCall& call, void* workspace,
                           const ExecutionContext& context) {
  const ImagePlan& plan = call.plan;
  const ImageCpuKernels& kernels = image_kernels();
  char* const recipes = static_cast<char*>(workspace);
  char* const scratches = recipes + plan.count * static_cast<std::int64_t>(kRecipeBytes);
  const std::int64_t scratch_bytes = ImageScratchSizes(plan).total_bytes();
  parallel_for(context, plan.count, 1, [&](std::int64_t begin, std::int64_t end) {
    kernels.prepare(plan, call.draw, begin, end, recipes);
  });
  const Bands bands(plan);
  const std::int64_t count = bands.per_frame * plan.count;
  parallel_for(context, bands.tasks, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t task = first; task < last; ++task) {
      char* const scratch = scratches + task * scratch_bytes;
      for (std::int64_t i = task * count / bands.tasks; i < (task + 1) * count / bands.tasks; ++i) {
        const std::int64_t n = i / bands.per_frame;
        const auto begin = static_cast<std::int32_t>(i % bands.per_frame) * bands.rows;
        const std::int32_t end = std::min(begin + bands.rows, plan.out_height);
        kernels.process(plan, recipes + n * static_cast<std::int64_t>(kRecipeBytes), n, begin, end,
                        scratch);
      }
    }
  });
}

}  // namespace robocache
