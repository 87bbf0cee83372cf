// The CPU backend: validates the contents of tensors, selects the kernels for this machine, and
// splits a batch over the caller's threads.
#include <algorithm>
#include <atomic>
#include <string>

#include "align/align_cpu_kernels.h"
#include "core/check.h"
#include "core/cpu_target.h"
#include "core/parallel.h"
#include "loader/backends.h"
#include "loader/batch_cpu_kernels.h"
#include "loader/draw_state.h"

namespace robocache {
namespace {

const BatchCpuKernels& kernels() {
  static const BatchCpuKernels& chosen = ROBOCACHE_FOR_CPU(batch_cpu_kernels)();
  return chosen;
}

const AlignCpuKernels& align_kernels() {
  static const AlignCpuKernels& chosen = ROBOCACHE_FOR_CPU(align_cpu_kernels)();
  return chosen;
}

std::string at(std::int64_t index) { return " at [" + std::to_string(index) + "]"; }

/// The first i in [0, count) for which `is_faulty(i)`; `count` if no i is faulty.
template <typename IsFaulty>
std::int64_t find_first(const ExecutionContext& context, std::int64_t count, std::int64_t grain,
                        const IsFaulty& is_faulty) {
  std::atomic<std::int64_t> first{count};
  parallel_for(context, count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      if (!is_faulty(i)) continue;
      std::int64_t seen = first.load();
      while (i < seen && !first.compare_exchange_weak(seen, i)) {
      }
      return;
    }
  });
  return first.load();
}

void check_offsets(const WindowPlan& window, const std::string& name) {
  const auto tensor = [&](const char* label) { return label + ("['" + name + "']"); };
  const std::int64_t* offsets = window.offsets;
  if (offsets[0] < 0) {
    throw_value_error(tensor("row_offsets"), "0 or more", std::to_string(offsets[0]) + at(0));
  }
  for (std::int64_t e = 0; e < window.episode_count; ++e) {
    const std::int64_t end = offsets[e + 1];
    if (end < offsets[e]) {
      throw_value_error(tensor("row_offsets"), "ascending offsets",
                        std::to_string(end) + " after " + std::to_string(offsets[e]) + at(e + 1));
    }
    if (end > window.rows) {
      throw_value_error(tensor("row_offsets"), "at most " + dimension("N", window.rows),
                        std::to_string(end) + at(e + 1));
    }
    if (end - offsets[e] > kMaxEpisodeRows) {
      throw_value_error(tensor("row_offsets"),
                        "at most " + std::to_string(kMaxEpisodeRows) + " rows in an episode",
                        std::to_string(end - offsets[e]) + at(e + 1));
    }
  }
}

/// Checks that times, or arrival times, ascend within each episode.
void check_ascending(const WindowPlan& window, const std::int64_t* times, const std::string& name,
                     const ExecutionContext& context) {
  const std::int64_t episodes = window.episode_count;
  const auto first_unordered = [&](std::int64_t e) {
    StreamPlan plan{};
    plan.batch = 1;
    plan.rows = window.offsets[e + 1] - window.offsets[e];
    plan.times = times + window.offsets[e];
    plan.times_row_stride = 1;
    plan.time_type = DataType::kInt64;
    return align_kernels().first_unordered(plan, 0);
  };
  const std::int64_t mean_rows = window.rows / std::max<std::int64_t>(episodes, 1);
  const std::int64_t e =
      find_first(context, episodes, grain_of(mean_rows * size_of(DataType::kInt64)),
                 [&](std::int64_t episode) { return first_unordered(episode) >= 0; });
  if (e == episodes) return;
  const std::int64_t row = window.offsets[e] + first_unordered(e);
  throw_value_error(name, "ascending times in an episode",
                    std::to_string(times[row]) + " after " + std::to_string(times[row - 1]) +
                        at(row) + ", in episode " + std::to_string(e));
}

/// Checks that a tensor holds the numbers of its window's spec.
template <typename Number>
void check_copied(const std::string& name, const ConstTensorView& view,
                  const std::vector<Number>& numbers) {
  const auto* const held = static_cast<const Number*>(view.data);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (held[i] == numbers[i]) continue;
    throw_value_error(name, std::to_string(numbers[i]) + " as the spec has it",
                      std::to_string(held[i]) + at(static_cast<std::int64_t>(i)));
  }
}

void check_state(const BatchCall& call) {
  const DrawPlan& draw = call.draw;
  const std::int64_t position = draw.state[1];
  if (draw.state[0] < 0) {
    throw_value_error("state", "an epoch of 0 or more", std::to_string(draw.state[0]));
  }
  const std::int64_t last = draw.samples - samples_needed(draw);
  if (position < 0 || position > last) {
    throw_value_error("state", "a position of 0 to " + std::to_string(last),
                      std::to_string(position));
  }
  const std::int64_t size = size_at(draw, position);
  if (call.size != size) {
    throw_value_error("size",
                      std::to_string(size) + (size < draw.batch_size ? " (what the epoch has left)"
                                                                     : " (the batch size)"),
                      std::to_string(call.size));
  }
}

std::int64_t bytes_of_sample(const BatchCall& call) {
  std::int64_t bytes = 0;
  for (std::int64_t i = 0; i < call.count; ++i) {
    const StreamPlan& align = call.windows[i].align;
    bytes += align.targets * align.channels * size_of(align.out_type);
  }
  return bytes;
}

}  // namespace

void check_contents_on_cpu(const WindowPlan& window, const WindowStream& stream,
                           const ExecutionContext& context) {
  const std::string end = "['" + stream.spec.name + "']";
  check_offsets(window, stream.spec.name);
  if (window.align.times != nullptr) {
    const auto* const times = static_cast<const std::int64_t*>(window.align.times);
    check_ascending(window, times, "times" + end, context);
  }
  if (window.received != nullptr) {
    check_ascending(window, window.received, "received" + end, context);
  }
  check_copied("window_offsets" + end, stream.window_offsets, stream.spec.offsets);
  check_copied("reference_columns" + end, stream.reference_columns, stream.spec.reference_columns);
}

void check_anchors_on_cpu(const DrawPlan& draw) {
  for (std::int64_t i = 0; i < draw.permutation.count; ++i) {
    const std::int64_t place = draw.anchors[2 * i];
    const auto episode = static_cast<std::int32_t>(place);
    const auto frame = static_cast<std::int32_t>(place >> 32);
    if (episode < 0 || episode >= draw.episode_count) {
      throw_value_error("anchors", "episodes of 0 to " + std::to_string(draw.episode_count - 1),
                        std::to_string(episode) + at(i));
    }
    if (frame < 0) {
      throw_value_error("anchors", "frames of 0 or more", std::to_string(frame) + at(i));
    }
  }
}

void check_mixture_on_cpu(const DrawPlan& draw) {
  const Mixture& mixture = draw.mixture;
  if (mixture.parts == nullptr) return;
  const std::int64_t anchors = draw.permutation.count;
  const auto check_part = [&](std::int64_t i, std::int64_t least) {
    if (mixture.parts[i] >= least && mixture.parts[i] <= anchors) return;
    throw_value_error("parts", std::to_string(least) + " to " + dimension("A", anchors),
                      std::to_string(mixture.parts[i]) + at(i));
  };
  check_part(0, 0);
  std::uint64_t before = 0;
  for (std::int64_t m = 0; m < mixture.count; ++m) {
    check_part(m + 1, mixture.parts[m]);
    const bool is_last = m + 1 == mixture.count;
    const auto threshold = static_cast<std::uint64_t>(mixture.thresholds[m]);
    if (!is_last && threshold < before) {
      throw_value_error("thresholds", "ascending numbers of 64 bits",
                        std::to_string(threshold) + " after " + std::to_string(before) + at(m));
    }
    if ((is_last || threshold > before) && mixture.parts[m + 1] == mixture.parts[m]) {
      throw_value_error("parts", "anchors in every part that is drawn from",
                        "none in part " + std::to_string(m));
    }
    before = threshold;
  }
}

void make_batch_on_cpu(const BatchCall& call, const ExecutionContext& context) {
  const DrawPlan& draw = call.draw;
  if (draw.indices != nullptr) {
    const std::int64_t b = kernels().first_missing(draw, 0, call.size);
    if (b >= 0) {
      throw_value_error("indices", "0 to " + std::to_string(draw.permutation.count - 1),
                        std::to_string(draw.indices[b]) + at(b));
    }
  } else if (draw.state != nullptr) {
    check_state(call);
  }
  parallel_for(context, call.size, grain_of(bytes_of_sample(call)),
               [&](std::int64_t begin, std::int64_t end) { kernels().make(call, begin, end); });
  if (draw.state == nullptr) return;
  const DrawState next = state_after(draw, {draw.state[0], draw.state[1]});
  draw.state[0] = next.epoch;
  draw.state[1] = next.position;
}

}  // namespace robocache
