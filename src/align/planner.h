// A call's arguments, checked and turned into plans: what every entry point of alignment begins
// with.
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

  /// Throws ValueError or TypeError if the arguments do not fit each other, and DeviceError if the
  /// context is not to be had in this build. Reads shapes, types and options only.
  CallPlan(const Stream* streams, std::size_t count, const ConstTensorView& target_times,
           const AlignOptions& options, DataType out_type, const ExecutionContext& context);

  /// Whether anything has a B.
  bool is_batched() const { return sizes_.batch >= 0; }
  std::int64_t batch() const { return is_batched() ? sizes_.batch : 1; }
  std::int64_t targets() const { return sizes_.targets; }
  /// Channels of all streams.
  std::int64_t columns() const { return columns_; }

  std::size_t count() const { return plans_.size(); }
  const CheckedStream& checked(std::size_t stream) const { return checked_[stream]; }
  /// Checks the outputs of `align` and makes the plans write to them. `valid_out` and `age_out` may
  /// be absent.
  void set_outputs(const TensorView& values_out, const TensorView& valid_out,
                   const TensorView& age_out);
  const StreamPlan& plan(std::size_t stream) const { return plans_[stream]; }
  RunTable runs(std::size_t stream) const;

  /// Checks an output (or its gradient) of `columns` columns: [B,T,columns], or [T,columns] where
  /// nothing has a B.
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
  std::vector<RunRange> run_ranges_;  // of each stream, in
  std::vector<PlannedRun> runs_;
};

}  // namespace robocache
