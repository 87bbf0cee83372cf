// Arguments and outputs of the loader, random from a seed or set by a test.
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

  /// Sets the spec's types, sizes and numbers to those of the tensors: an image is one line of
  /// pixels.
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
  /// The number of samples of an epoch.
  std::int64_t sample_count() const { return order.samples != 0 ? order.samples : anchor_count(); }
  Anchor anchor(std::int64_t index) const;
  std::string text() const;
};

/// The outputs of a batch.
struct BatchResult {
  struct Window {
    Tensor values, is_pad, age;  // [B,K,D], [B,K], [B,K]; the last two may be absent
  };
  std::vector<Window> windows;
  // [B] each, or absent
  Tensor index, episode_index, frame_index, task_index, timestamp_ns, timestamp, dataset_index;
  Tensor epoch;  // [1], or absent

  /// Allocates the outputs of a problem's batch of `size` samples; every byte is kGap.
  BatchResult(const LoaderProblem& problem, std::int64_t size);

  static constexpr unsigned char kGap = 0xA5;

  std::vector<WindowOutput> outputs();
  BatchMetadata metadata();
  /// All tensors, also absent ones, in the order above.
  std::vector<Tensor*> tensors();
};

/// Requirements for a random problem; all other properties are random.
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
