// The CPU kernels of the backward pass, compiled once per instruction set like
// align_cpu_kernels.cpp.
#include "align/align_cpu_kernels.h"
#include "align/contribute.h"
#include "align/episode.h"
#include "align/locate.h"
#include "align/search_cpu.h"
#include "align/window.h"
#include "core/dispatch.h"

namespace robocache::ROBOCACHE_TARGET {
namespace {

template <typename Compute>
void record_targets(const BackwardPlan& plan, TargetRecord* records, WindowRecord* windows,
                    std::int64_t begin, std::int64_t end) {
  const StreamPlan& forward = plan.forward;
  with_time_type(forward.time_type, [&](auto tag) {
    using Time = typename decltype(tag)::type;
    for_each_bracket<Time>(
        forward, begin, end,
        [&](std::int64_t i, std::int64_t b, std::int64_t t, const Episode<std::int64_t>& episode,
            const EpisodeTimes<Time, std::int64_t>& times, Time time,
            const Bracket<Time, std::int64_t>& bracket) {
          if (windows == nullptr) {
            records[i] = make_record(plan, b, episode.first_row,
                                     locate<Compute>(forward, times, time, bracket));
            return;
          }
          const auto located = locate_all<Compute>(forward, times, b, t, time, bracket);
          records[i] = make_record(plan, b, episode.first_row, located.location);
          windows[i] = make_window_record(plan, b, episode.first_row, located, records[i]);
        });
  });
}

void record(const BackwardPlan& plan, TargetRecord* records, WindowRecord* windows,
            std::int64_t begin, std::int64_t end) {
  if (computes_in_double(plan.forward.value_type, plan.forward.out_type)) {
    record_targets<double>(plan, records, windows, begin, end);
  } else {
    record_targets<float>(plan, records, windows, begin, end);
  }
}

template <typename Compute>
void gather_rows(const BackwardPlan& plan, const RunTable& runs, const SortedTargets& sorted,
                 std::int64_t begin, std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row) {
    const RowTargets targets = targets_of_row(sorted, row);
    for (int run = 0; run < runs.count; ++run) {
      const std::int64_t first = runs[run].first_channel;
      if (is_slerp(runs[run].method)) {
        gather_quaternion<Compute>(plan, targets, row, first);
        continue;
      }
      for (std::int64_t c = first; c < runs.end_channel(run, plan.forward.channels); ++c) {
        gather_channel<Compute>(plan, targets, runs[run].method, row, c);
      }
    }
  }
}

void gather(const BackwardPlan& plan, const RunTable& runs, const SortedTargets& sorted,
            std::int64_t begin, std::int64_t end) {
  if (computes_in_double(plan.forward.value_type, plan.forward.out_type)) {
    gather_rows<double>(plan, runs, sorted, begin, end);
  } else {
    gather_rows<float>(plan, runs, sorted, begin, end);
  }
}

}  // namespace

const AlignBackwardCpuKernels& align_backward_cpu_kernels() {
  static constexpr AlignBackwardCpuKernels kKernels{record, gather};
  return kKernels;
}

}  // namespace robocache::ROBOCACHE_TARGET
