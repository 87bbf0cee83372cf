// The CPU backend: selects the kernels for this machine's instruction set, and runs a plan in the
// caller's threads.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <limits>
#include <string>

#include "align/align_cpu_kernels.h"
#include "align/backends.h"
#include "core/check.h"
#include "core/cpu_target.h"
#include "core/parallel.h"

namespace robocache {
namespace {

const AlignCpuKernels& kernels() {
  static const AlignCpuKernels& chosen = ROBOCACHE_FOR_CPU(align_cpu_kernels)();
  return chosen;
}

std::string index_text(std::int64_t b, bool is_batched) {
  return is_batched ? "[" + std::to_string(b) + "]" : "[]";
}

std::int64_t length_of(const StreamPlan& plan, std::int64_t b) {
  const std::int64_t index = b * plan.lengths_stride;
  return plan.lengths_are_int32 ? static_cast<const std::int32_t*>(plan.lengths)[index]
                                : static_cast<const std::int64_t*>(plan.lengths)[index];
}

void check_extents(const StreamPlan& plan, StreamNumber number, const ArgumentNames& names,
                   bool lengths_are_batched) {
  if (plan.lengths == nullptr) return;
  for (std::int64_t b = 0; b < plan.batch; ++b) {
    const std::int64_t begin = plan.begins == nullptr ? 0 : plan.begins[b * plan.begins_stride];
    if (begin < 0 || begin > plan.rows) {
      throw_value_error(number.name("begins"), "0 to " + dimension("N", plan.rows),
                        std::to_string(begin) + " at " + index_text(b, true));
    }
    const std::int64_t length = length_of(plan, b);
    if (length < 0 || length > plan.rows - begin) {
      const std::string most =
          plan.begins == nullptr ? dimension("S", plan.rows)
                                 : std::to_string(plan.rows - begin) + " (rows from its begin on)";
      throw_value_error(number.name(names.lengths), "0 to " + most,
                        std::to_string(length) + " at " + index_text(b, lengths_are_batched));
    }
  }
}

std::string time_text(const StreamPlan& plan, const void* times, std::int64_t index) {
  if (plan.time_type == DataType::kInt64) {
    return std::to_string(static_cast<const std::int64_t*>(times)[index]);
  }
  char text[32];
  const double value = plan.time_type == DataType::kFloat64
                           ? static_cast<const double*>(times)[index]
                           : static_cast<const float*>(times)[index];
  std::snprintf(text, sizeof(text), "%.9g", value);
  return text;
}

[[noreturn]] void throw_unordered(const StreamPlan& plan, const std::string& name,
                                  bool times_are_batched, std::int64_t b, std::int64_t row) {
  const std::int64_t first = plan.begins == nullptr ? 0 : plan.begins[b * plan.begins_stride];
  const std::int64_t index = b * plan.times_batch_stride + (first + row) * plan.times_row_stride;
  const std::string got = time_text(plan, plan.times, index);
  const std::string at = times_are_batched
                             ? "[" + std::to_string(b) + "," + std::to_string(first + row) + "]"
                             : "[" + std::to_string(first + row) + "]";
  const bool after = row > 0 && got.find("nan") == std::string::npos;
  throw_value_error(
      name, "ascending times",
      got + (after ? " after " + time_text(plan, plan.times, index - plan.times_row_stride) : "") +
          " at " + at);
}

/// Checks that the targets of a sum ascend. NaN targets are skipped.
template <typename Time>
void check_target_order(const StreamPlan& plan, const char* name, bool are_batched) {
  const auto index_of = [&](std::int64_t b, std::int64_t t) {
    return b * plan.target_times_batch_stride + t * plan.target_times_stride;
  };
  const Time* times = static_cast<const Time*>(plan.target_times);
  const std::int64_t count = are_batched ? plan.batch : std::min<std::int64_t>(plan.batch, 1);
  for (std::int64_t b = 0; b < count; ++b) {
    std::int64_t before = -1;
    for (std::int64_t t = 0; t < plan.targets; ++t) {
      const Time time = times[index_of(b, t)];
      if (!(time == time)) continue;
      if (before >= 0 && time < times[index_of(b, before)]) {
        const std::string at = are_batched ? "[" + std::to_string(b) + "," + std::to_string(t) + "]"
                                           : "[" + std::to_string(t) + "]";
        throw_value_error(name, "ascending times for method 'sum'",
                          time_text(plan, times, index_of(b, t)) + " after " +
                              time_text(plan, times, index_of(b, before)) + " at " + at);
      }
      before = t;
    }
  }
}

}  // namespace

void check_on_cpu(const StreamPlan& plan, StreamNumber number, const ArgumentNames& names,
                  BatchedArguments batched, const ExecutionContext& context) {
  check_extents(plan, number, names, batched.lengths);
  // Times that all batch rows share are checked once, unless `begins` or `lengths` differ by row.
  const bool is_shared = !batched.times && plan.lengths_stride == 0 && plan.begins == nullptr;
  const std::int64_t count = is_shared ? std::min<std::int64_t>(plan.batch, 1) : plan.batch;
  std::atomic<std::int64_t> first_faulty{std::numeric_limits<std::int64_t>::max()};
  parallel_for(context, count, grain_of(plan.rows * size_of(plan.time_type)),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t b = begin; b < end; ++b) {
                   if (kernels().first_unordered(plan, b) < 0) continue;
                   std::int64_t seen = first_faulty.load();
                   while (b < seen && !first_faulty.compare_exchange_weak(seen, b)) {
                   }
                   return;
                 }
               });
  const std::int64_t b = first_faulty.load();
  if (b < count) {
    throw_unordered(plan, number.name(names.times), batched.times, b,
                    kernels().first_unordered(plan, b));
  }
  if (!(plan.row_kinds & kReadsInterval)) return;
  if (plan.time_type == DataType::kInt64) {
    check_target_order<std::int64_t>(plan, names.target_times, batched.target_times);
  } else if (plan.time_type == DataType::kFloat32) {
    check_target_order<float>(plan, names.target_times, batched.target_times);
  } else {
    check_target_order<double>(plan, names.target_times, batched.target_times);
  }
}

void align_on_cpu(const StreamPlan& plan, const RunTable& runs, const ExecutionContext& context) {
  parallel_for(
      context, plan.batch * plan.targets, grain_of(plan.channels * size_of(plan.out_type)),
      [&](std::int64_t begin, std::int64_t end) { kernels().align(plan, runs, begin, end); });
}

}  // namespace robocache
