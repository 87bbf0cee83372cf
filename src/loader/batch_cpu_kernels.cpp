// The CPU kernels. The build compiles this file once per instruction set, each time into the
// namespace that ROBOCACHE_CPU_TARGET names; core/target.h lists the restrictions on such code.
#include "loader/batch_cpu_kernels.h"

#include "align/combine_cpu.h"
#include "loader/anchor.h"
#include "loader/image_cpu.h"
#include "loader/relative.h"
#include "loader/windows.h"

namespace robocache::ROBOCACHE_TARGET {
namespace {

std::int64_t first_missing(const DrawPlan& plan, std::int64_t begin, std::int64_t end) {
  for (std::int64_t b = begin; b < end; ++b) {
    const std::int64_t index = index_of_sample(plan, b);
    if (index < 0 || index >= plan.permutation.count) return b;
  }
  return -1;
}

/// The row at which `t` would lie if rows were evenly spaced.
std::int64_t even_guess(const RowTimes<std::int64_t>& times, std::int64_t t) {
  const std::int64_t last = times.count - 1;
  const std::int64_t first_time = times[0];
  const std::int64_t last_time = times[last];
  if (t <= first_time) return 0;
  if (t >= last_time) return last;
  const double share = static_cast<double>(elapsed(first_time, t)) /
                       static_cast<double>(elapsed(first_time, last_time));
  const auto guess = static_cast<std::int64_t>(share * static_cast<double>(last));
  return guess < last ? guess : last;
}

/// The number of times at or before `t`.
std::int64_t count_not_after(const RowTimes<std::int64_t>& times, std::int64_t t) {
  return rows_not_after(times, t, even_guess(times, t));
}

/// The type in which bytes are interpolated for an output type.
template <typename Out>
struct ComputeFor {
  using type = float;
};
template <>
struct ComputeFor<double> {
  using type = double;
};

// Steps per block: steps are located a block at a time, so that per-window branches are taken once
// per block and not once per step.
constexpr std::int64_t kBlock = 128;

/// Computes the window of sample b from the rows of its episode. `locate_step(k)` locates step k;
/// `write_steps(located, windows, count, exist)` writes `count` steps, and clears `exist[i]` where
/// the quaternions of step i are zero.
template <bool kAddsRows, typename Compute, typename LocateStep, typename WriteSteps>
void make_steps(const WindowPlan& window, std::int64_t b, const EpisodeRows<std::int64_t>& rows,
                const LocateStep& locate_step, const WriteSteps& write_steps) {
  const StreamPlan& plan = window.align;
  auto* const ages = static_cast<std::int64_t*>(plan.out_age);
  const std::int32_t* const slots = window.slots == nullptr ? nullptr : window.slots + rows.first;
  LocatedTarget<Compute> located[kBlock];
  Windows<std::int64_t> windows[kBlock];  // written if kAddsRows
  bool exist[kBlock];
  for (std::int64_t begin = 0; begin < plan.targets; begin += kBlock) {
    const std::int64_t count = plan.targets - begin < kBlock ? plan.targets - begin : kBlock;
    const std::int64_t out = b * plan.targets + begin;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto step = locate_step(begin + i);
      located[i] = {step.located.location, b, begin + i, rows.first, rows.values, slots};
      if constexpr (kAddsRows) windows[i] = step.located.windows;
      exist[i] = true;
      if (ages != nullptr) ages[out + i] = step.age;
    }
    write_steps(located, windows, count, exist);
    if (plan.out_valid == nullptr) continue;
    for (std::int64_t i = 0; i < count; ++i) {
      plan.out_valid[out + i] = !(located[i].location.valid && exist[i]);
    }
  }
}

/// Computes one sample's window of a stream.
template <typename Compute, typename WriteSteps>
void make_window(const WindowPlan& window, const Anchor& anchor, std::int64_t b,
                 const WriteSteps& write_steps) {
  const auto rows = rows_of_episode(window, anchor.episode);
  if (window.is_by_row) {
    const auto locate_step = [&](std::int64_t k) {
      return locate_by_row<Compute>(window, rows, anchor, window.steps[k]);
    };
    return make_steps<false, Compute>(window, b, rows, locate_step, write_steps);
  }
  RowTimes<std::int64_t> times = times_of_rows(window, rows);
  std::int64_t guess = -1;  // no search yet
  if (window.is_causal) {
    times.count = count_existing(window, rows, times, anchor, count_not_after);
    guess = times.count - 1;
  }
  // Steps mostly ascend, so each search starts where the last one ended.
  const auto find_bracket = [&guess](const RowTimes<std::int64_t>& searched, std::int64_t t) {
    if (guess < 0) guess = even_guess(searched, t);
    const std::int64_t not_after = rows_not_after(searched, t, guess);
    guess = not_after > 0 ? not_after - 1 : 0;
    return bracket_of(searched, not_after);
  };
  if (window.align.row_kinds & (kReadsWindow | kReadsInterval)) {
    const auto locate_step = [&](std::int64_t k) {
      return locate_by_time<Compute, true>(window, times, anchor, k, window.steps[k], find_bracket);
    };
    make_steps<true, Compute>(window, b, rows, locate_step, write_steps);
  } else {
    const auto locate_step = [&](std::int64_t k) {
      return locate_by_time<Compute, false>(window, times, anchor, k, window.steps[k],
                                            find_bracket);
    };
    make_steps<false, Compute>(window, b, rows, locate_step, write_steps);
  }
}

/// Computes the windows of the samples [begin, end) of a stream.
template <typename Compute>
void make_windows(const WindowPlan& window, const RunTable& runs, const Sample* samples,
                  std::int64_t begin, std::int64_t end) {
  const StreamPlan& plan = window.align;
  const Conversion<Compute> conversion = conversion_of<Compute>(plan, runs);
  const auto write_steps = [&](const LocatedTarget<Compute>* located,
                               const Windows<std::int64_t>* windows, std::int64_t count,
                               bool* exist) {
    if (conversion.lerp_targets != nullptr) return conversion.lerp_targets(plan, located, count);
    for (std::int64_t i = 0; i < count; ++i) {
      exist[i] = write_target(plan, runs, conversion, located[i], &windows[i]);
    }
  };
  for (std::int64_t b = begin; b < end; ++b) {
    const Anchor& anchor = samples[b - begin].anchor;
    if (is_of_episode(window, anchor.episode)) make_window<Compute>(window, anchor, b, write_steps);
  }
}

/// The value that a sample's relative window subtracts: another stream at the anchor.
template <typename Compute>
struct Reference {
  Compute values[kMaxReferenceChannels];
  bool is_pad;
};

/// Computes the references of samples, one after another.
template <typename Compute>
class ReferenceFinder {
 public:
  explicit ReferenceFinder(const RelativePlan& plan)
      : plan_(plan), window_(plan.reference), conversion_{} {
    window_.steps = &kAtAnchor;
    window_.align.out = found_.values;
    window_.align.out_batch_stride = window_.align.out_target_stride = 0;
    if (window_.align.out_valid != nullptr) window_.align.out_valid = &found_.is_pad;
    conversion_ = conversion_of<Compute>(window_.align, plan_.runs);
  }
  ReferenceFinder(const ReferenceFinder&) = delete;
  ReferenceFinder& operator=(const ReferenceFinder&) = delete;

  /// The reference of a sample at `anchor`. `is_pad` is computed only where the window writes a
  /// mask.
  const Reference<Compute>& find(const Anchor& anchor) {
    if (!is_of_episode(window_, anchor.episode)) {
      for (std::int64_t c = 0; c < window_.align.channels; ++c) found_.values[c] = Compute(0);
      found_.is_pad = true;
      return found_;
    }
    found_.is_pad = false;
    const auto write_steps = [this](const LocatedTarget<Compute>* located,
                                    const Windows<std::int64_t>* windows, std::int64_t count,
                                    bool* exist) {
      for (std::int64_t i = 0; i < count; ++i) {  // count is 1
        exist[i] = write_target(window_.align, plan_.runs, conversion_, located[i], &windows[i]);
      }
    };
    make_window<Compute>(window_, anchor, 0, write_steps);
    return found_;
  }

 private:
  static constexpr std::int64_t kAtAnchor = 0;

  const RelativePlan& plan_;
  WindowPlan window_;
  Conversion<Compute> conversion_;
  Reference<Compute> found_;
};

/// Subtracts a reference from the channels [first, first + count) of a value.
template <typename Compute>
void subtract_reference(const StreamPlan& plan, const RunTable& runs, const RelativePlan& relative,
                        const Compute* __restrict reference, std::int64_t first, std::int64_t count,
                        Compute* __restrict x) {
  const std::int64_t reference_channels = relative.reference.align.channels;
  for (int run = 0; run < runs.count; ++run) {
    const std::int64_t run_begin = runs[run].first_channel;
    const std::int64_t run_end = runs.end_channel(run, plan.channels);
    const std::int64_t begin = run_begin > first ? run_begin : first;
    const std::int64_t end = run_end < first + count ? run_end : first + count;
    const bool is_angle = runs[run].method == Method::kAngle;
    for (std::int64_t c = begin; c < end; ++c) {
      const std::int32_t column = reference_column(relative.columns, c, reference_channels);
      if (column < 0) continue;
      x[c - first] = less_reference(is_angle, x[c - first], reference[column]);
    }
  }
}

/// Computes the windows of the samples [begin, end) of a stream that is relative to another.
template <typename Compute>
void make_relative_windows(const WindowPlan& window, const RunTable& runs,
                           const RelativePlan& relative, const Sample* samples, std::int64_t begin,
                           std::int64_t end) {
  const StreamPlan& plan = window.align;
  // By row, runs only mark the channels that are angles.
  const PlannedRun copied{0, 0, Method::kPrevious};
  const RunTable combined = window.is_by_row ? RunTable{&copied, 1, plan.channels} : runs;
  Conversion<Compute> conversion = conversion_of<Compute>(plan, combined);
  conversion.lerp = nullptr;
  ReferenceFinder<Compute> finder(relative);
  for (std::int64_t b = begin; b < end; ++b) {
    const Anchor& anchor = samples[b - begin].anchor;
    if (!is_of_episode(window, anchor.episode)) continue;
    const Reference<Compute>& reference = finder.find(anchor);
    const auto change = [&](std::int64_t first, std::int64_t count, Compute* x) {
      subtract_reference(plan, runs, relative, reference.values, first, count, x);
    };
    const auto write_steps = [&](const LocatedTarget<Compute>* located,
                                 const Windows<std::int64_t>* windows, std::int64_t count,
                                 bool* exist) {
      for (std::int64_t i = 0; i < count; ++i) {
        const bool exists =
            write_target(plan, combined, conversion, located[i], &windows[i], change);
        exist[i] = exists && !reference.is_pad;
      }
    };
    make_window<Compute>(window, anchor, b, write_steps);
  }
}

/// Computes the windows of the samples [begin, end) of an image stream that is written channels
/// first.
template <typename Compute, typename Out>
void make_images(const WindowPlan& window, const Sample* samples, std::int64_t begin,
                 std::int64_t end) {
  const ImageWriter<Compute, Out> writer(window);
  const auto write_steps = [&](const LocatedTarget<Compute>* located, const Windows<std::int64_t>*,
                               std::int64_t count, const bool*) {
    for (std::int64_t i = 0; i < count; ++i) writer.write(located[i]);
  };
  for (std::int64_t b = begin; b < end; ++b) {
    const Anchor& anchor = samples[b - begin].anchor;
    if (is_of_episode(window, anchor.episode)) make_window<Compute>(window, anchor, b, write_steps);
  }
}

/// Computes stream i of the samples [begin, end) of a batch.
void make_stream(const BatchCall& call, std::int64_t i, const Sample* samples, std::int64_t begin,
                 std::int64_t end) {
  const WindowPlan& window = call.windows[i];
  const RunTable& runs = call.runs[i];
  const bool is_double = computes_in_double(window.align.value_type, window.align.out_type);
  if (call.relatives != nullptr && call.relatives[i].is_relative) {
    const RelativePlan& relative = call.relatives[i];
    if (is_double) {
      make_relative_windows<double>(window, runs, relative, samples, begin, end);
    } else {
      make_relative_windows<float>(window, runs, relative, samples, begin, end);
    }
  } else if (window.colors > 0) {
    with_value_type(window.align.out_type, [&](auto tag) {
      using Out = typename decltype(tag)::type;
      using Compute = typename ComputeFor<Out>::type;
      make_images<Compute, Out>(window, samples, begin, end);
    });
  } else if (is_double) {
    make_windows<double>(window, runs, samples, begin, end);
  } else {
    make_windows<float>(window, runs, samples, begin, end);
  }
}

void make(const BatchCall& call, std::int64_t begin, std::int64_t end) {
  // Few enough samples that a stream's rows and the outputs stay in the L2 cache.
  constexpr std::int64_t kSamples = 16;
  Sample samples[kSamples];
  for (std::int64_t first = begin; first < end; first += kSamples) {
    const std::int64_t last = end - first < kSamples ? end : first + kSamples;
    for (std::int64_t b = first; b < last; ++b) {
      samples[b - first] = draw(call.draw, b);
      write_metadata(call.draw, call.metadata, samples[b - first], b);
    }
    for (std::int64_t i = 0; i < call.count; ++i) {
      make_stream(call, i, samples, first, last);
    }
  }
}

}  // namespace

const BatchCpuKernels& batch_cpu_kernels() {
  static constexpr BatchCpuKernels kKernels{first_missing, make};
  return kKernels;
}

}  // namespace robocache::ROBOCACHE_TARGET
