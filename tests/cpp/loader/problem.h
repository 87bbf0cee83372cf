// Batches of the loader with all that they need, made at random from a seed or by hand.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "align/problem.h"
#include "robocache/loader.h"
#include "support/random.h"
#include "support/tensor.h"

namespace robocache::testing {

/// A stream's windows and the memory of their arguments.
struct WindowData {
  WindowStream options;  // its tensors are those below
  Tensor values, times, row_offsets, value_begins, received, valid, window_offsets;
  Tensor subtract, multiply;
  Tensor reference_columns;
  std::int64_t gap = 0;  // elements between the rows of the output
  bool wants_pad = true, wants_age = true;

  /// Gives the spec the types, sizes and numbers of the tensors: pixels of images in one line.
  void fill_spec();
  WindowStream stream() const;
  std::int64_t channels() const { return values.shape()[1]; }
};

struct LoaderProblem {
  std::vector<WindowData> windows;
  Tensor anchors, episodes;  // [A,2], [E,4]
  BatchOrder order;          // its tensors are those below
  Tensor parts, thresholds;
  bool wants_metadata = true;

  std::vector<WindowStream> streams() const;
  BatchOrder drawing() const;
  std::int64_t anchor_count() const { return anchors.shape()[0]; }
  /// Of an epoch.
  std::int64_t sample_count() const { return order.samples != 0 ? order.samples : anchor_count(); }
  Anchor anchor(std::int64_t index) const;
  std::string text() const;
};

/// What a batch is written to, and what was written.
struct BatchResult {
  struct Window {
    Tensor values, is_pad, age;  // [B,K,D], [B,K], [B,K]; the last two may be absent
  };
  std::vector<Window> windows;
  // [B] each, or absent
  Tensor index, episode_index, frame_index, task_index, timestamp_ns, timestamp, dataset_index;

  /// Of a problem's batch of so many samples, every byte kGap.
  BatchResult(const LoaderProblem& problem, std::int64_t size);

  static constexpr unsigned char kGap = 0xA5;

  std::vector<WindowOutput> outputs();
  BatchMetadata metadata();
  /// Everything, whether it is wanted or not, in the order above.
  std::vector<Tensor*> tensors();
};

/// What a random problem must be; the rest is left to chance.
struct LoaderWanted {
  std::optional<DataType> value_type, out_type;
  std::optional<Timeline> timeline;
  std::optional<Method> method;  // without a layout
  std::optional<bool> is_causal;
  std::optional<bool> is_mixture;
  std::optional<bool> has_begins;
  std::optional<bool> is_relative;  // some streams to others
  bool is_image = false;            // of every stream; else of some, where nothing else is wanted
  bool is_copied = false;           // rows as they are, most of them whole windows of neighbors;
                                    // with `is_image`, of some streams, and the others are images
  int streams = 0;                  // 0: one to four
};

LoaderProblem random_loader_problem(std::uint64_t seed, const LoaderWanted& wanted = {});

/// `size` indices of anchors, in any order, some of them twice.
std::vector<std::int64_t> random_indices(const LoaderProblem& problem, std::int64_t size,
                                         Random& random);

}  // namespace robocache::testing
