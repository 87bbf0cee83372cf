// Validation of a call's arguments and their conversion to plans, the first step of every entry
// point of alignment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "align/checks.h"
#include "align/plan.h"
#include "robocache/align.h"

namespace robocache {

class CallPlan {
 public:
  CallPlan(const CallPlan&) = delete;
  CallPlan& operator=(const CallPlan&) = delete;

  /// Throws ValueError or TypeError if the arguments contradict each other, and DeviceError if this
  /// build does not support the context's device. Reads shapes, types and options only.
  CallPlan(const Stream* streams, std::size_t count, const ConstTensorView& target_times,
           const AlignOptions& options, DataType out_type, const ExecutionContext& context);

  /// Whether any argument has the axis B.
  bool is_batched() const { return sizes_.batch >= 0; }
  std::int64_t batch() const { return is_batched() ? sizes_.batch : 1; }
  std::int64_t targets() const { return sizes_.targets; }
  /// The number of channels of all streams.
  std::int64_t columns() const { return columns_; }

  std::size_t count() const { return plans_.size(); }
  const CheckedStream& checked(std::size_t stream) const { return checked_[stream]; }
  /// Validates the outputs of `align` and sets them in the plans. `valid_out` and `age_out` may be
  /// absent.
  void set_outputs(const TensorView& values_out, const TensorView& valid_out,
                   const TensorView& age_out);
  const StreamPlan& plan(std::size_t stream) const { return plans_[stream]; }
  RunTable runs(std::size_t stream) const;

  /// Validates an output (or its gradient) of `columns` columns: [B,T,columns], or [T,columns]
  /// where no argument has the axis B.
  void check_output(const Argument& out, std::int64_t columns, const char* columns_name) const;

 private:
  void check(const Stream* streams, std::size_t count);
  void add_plan(const Stream& stream, const CheckedStream& checked);
  void add_runs(const Stream& stream, const CheckedStream& checked);

  AlignOptions options_;
  ConstTensorView target_times_;
  Argument targets_;
  DataType out_type_;
  DeviceType device_;
  Sizes sizes_;
  std::int64_t columns_ = 0;
  std::vector<CheckedStream> checked_;
  std::vector<StreamPlan> plans_;
  struct RunRange {
    std::size_t first;
    int count;
    std::int64_t units;
  };
  std::vector<RunRange> run_ranges_;  // the range of each stream in `runs_`
  std::vector<PlannedRun> runs_;
};

}  // namespace robocache
