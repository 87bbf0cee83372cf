// The CPU kernels. The build compiles this file once per instruction set, each time into the
// namespace that ROBOCACHE_CPU_TARGET names; core/target.h has the rules for such code.
#include "align/align_cpu_kernels.h"

#include "align/combine_cpu.h"
#include "align/episode.h"
#include "align/locate.h"
#include "align/search_cpu.h"
#include "align/window.h"
#include "core/dispatch.h"

namespace robocache::ROBOCACHE_TARGET {
namespace {

std::int64_t first_unordered(const StreamPlan& plan, std::int64_t b) {
  std::int64_t found = -1;
  with_time_type(plan.time_type, [&](auto tag) {
    using Time = typename decltype(tag)::type;
    const auto episode = times_of<Time>(plan, b, episode_of(plan, b));
    // Counting first lets the compiler vectorize the loop; only invalid times are read twice.
    std::int64_t unordered = episode.count > 0 && !(episode[0] <= episode[0]) ? 1 : 0;
    if (episode.stride == 1) {
      const Time* times = episode.times;
      for (std::int64_t row = 1; row < episode.count; ++row) {
        unordered += times[row - 1] <= times[row] ? 0 : 1;
      }
    } else {
      for (std::int64_t row = 1; row < episode.count; ++row) {
        unordered += episode[row - 1] <= episode[row] ? 0 : 1;
      }
    }
    if (unordered == 0) return;
    for (std::int64_t row = 0; row < episode.count && found < 0; ++row) {
      const Time before = episode[row > 0 ? row - 1 : 0];
      if (!(before <= episode[row])) found = row;
    }
  });
  return found;
}

// Targets are located in blocks of this size, so that the search is compiled once per time type.
constexpr std::int64_t kBlock = 128;

/// Locates the targets [begin, end). `windows` is written where the stream has means or sums. Other
/// streams have a separate instance, whose loop is faster without the search for windows.
template <bool kHasWindows, typename Compute>
void locate_block(const StreamPlan& plan, std::int64_t begin, std::int64_t end,
                  LocatedTarget<Compute>* located, Windows<std::int64_t>* windows) {
  with_time_type(plan.time_type, [&](auto tag) {
    using Time = typename decltype(tag)::type;
    for_each_bracket<Time>(
        plan, begin, end,
        [&](std::int64_t i, std::int64_t b, std::int64_t t, const Episode<std::int64_t>& episode,
            const EpisodeTimes<Time, std::int64_t>& times, Time time,
            const Bracket<Time, std::int64_t>& bracket) {
          const std::int64_t values =
              b * plan.values_batch_stride + episode.first_row * plan.values_row_stride;
          if constexpr (kHasWindows) {
            const auto all = locate_all<Compute>(plan, times, b, t, time, bracket);
            located[i - begin] = {all.location, b, t, episode.first_row, values, nullptr};
            windows[i - begin] = all.windows;
          } else {
            const auto location = locate<Compute>(plan, times, time, bracket);
            located[i - begin] = {location, b, t, episode.first_row, values, nullptr};
            if (plan.out_age != nullptr) {
              write_age(plan, times, b, t, time, newest_row(plan.row_kinds, location));
            }
          }
        });
  });
}

template <typename Compute>
void align_values(const StreamPlan& plan, const RunTable& runs, std::int64_t begin,
                  std::int64_t end) {
  const Conversion<Compute> conversion = conversion_of<Compute>(plan, runs);
  const bool has_windows = plan.row_kinds & (kReadsWindow | kReadsInterval);
  LocatedTarget<Compute> located[kBlock];
  Windows<std::int64_t> windows[kBlock];
  for (std::int64_t block = begin; block < end; block += kBlock) {
    const std::int64_t count = end - block < kBlock ? end - block : kBlock;
    if (has_windows) {
      locate_block<true>(plan, block, block + count, located, windows);
    } else {
      locate_block<false>(plan, block, block + count, located, windows);
    }
    if (conversion.lerp_targets != nullptr) conversion.lerp_targets(plan, located, count);
    if (conversion.lerp_targets != nullptr && plan.out_valid == nullptr) continue;
    for (std::int64_t i = 0; i < count; ++i) {
      const LocatedTarget<Compute>& target = located[i];
      const bool exists = conversion.lerp_targets != nullptr ||
                          write_target(plan, runs, conversion, target, &windows[i]);
      if (plan.out_valid != nullptr) {
        plan.out_valid[target.b * plan.out_valid_batch_stride +
                       target.t * plan.out_valid_target_stride] = target.location.valid && exists;
      }
    }
  }
}

void align(const StreamPlan& plan, const RunTable& runs, std::int64_t begin, std::int64_t end) {
  if (computes_in_double(plan.value_type, plan.out_type)) {
    align_values<double>(plan, runs, begin, end);
  } else {
    align_values<float>(plan, runs, begin, end);
  }
}

}  // namespace

const AlignCpuKernels& align_cpu_kernels() {
  static constexpr AlignCpuKernels kKernels{first_unordered, align};
  return kKernels;
}

}  // namespace robocache::ROBOCACHE_TARGET
