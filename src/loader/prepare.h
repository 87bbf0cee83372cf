// Validates the arguments of a plan and of its calls, and converts them to plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "align/planner.h"
#include "loader/backends.h"
#include "loader/plan.h"
#include "robocache/loader.h"

namespace robocache {

/// The validated contents of a BatchPlan.
class PreparedBatch {
 public:
  /// Throws ValueError or TypeError if the arguments do not fit each other, and DeviceError if this
  /// build does not support the context's device. Reads shapes, types and options only.
  PreparedBatch(const std::vector<WindowStream>& streams, const ConstTensorView& anchors,
                const ConstTensorView& episodes, const BatchOrder& order,
                const ExecutionContext& context);

  const DrawPlan& draw() const { return draw_; }
  std::size_t count() const { return windows_.size(); }
  const WindowPlan& window(std::size_t stream) const { return windows_[stream].plan; }

  /// A validated call, by `indices` or by `state`, whichever is not null, and the windows that it
  /// points to.
  struct Call {
    std::vector<WindowPlan> windows;
    std::vector<RunTable> runs;
    std::vector<RelativePlan> relatives;  // one per window, or empty
    BatchCall call;
  };

  /// Validates a call. The result refers to this object.
  Call call(const std::int64_t* indices, std::int64_t* state, std::int64_t size,
            const WindowOutput* outputs, const BatchMetadata& metadata,
            const ExecutionContext& context) const;

  /// Same as `BatchPlan::batch_size_at`.
  std::int64_t batch_size_at(std::int64_t position) const;

 private:
  struct Window {
    std::string name;
    WindowPlan plan;
    std::vector<PlannedRun> runs;
    std::int64_t units;
    std::int64_t widening;     // planned elements per element: its bytes where rows are copied
    std::int32_t relative_to;  // index of the reference's window; -1: not relative
    bool reference_is_causal;
    const std::int32_t* reference_columns;

    RunTable table() const { return {runs.data(), static_cast<int>(runs.size()), units}; }
  };

  void set_mixture(const BatchOrder& order);
  void set_order(const BatchOrder& order);
  void check_episodes(const WindowStream& stream) const;
  void add_window(const WindowStream& stream, const ExecutionContext& context);
  void set_reference(const WindowStream& stream, const std::vector<const WindowSpec*>& specs,
                     Window& window) const;
  RelativePlan relative_plan(const Window& window, bool* is_pad) const;

  DeviceType device_;
  DrawPlan draw_{};
  std::vector<Window> windows_;
  bool has_relatives_ = false;
};

}  // namespace robocache
