// Training batches: samples of recordings in an order that a seed determines, each with a window of
// each stream. docs/meaning.md and docs/loader.md define every option.
//
// Shapes: A anchors, E episodes; for one stream Es episodes, N rows in all of them, K steps of its
// window, D channels; B samples of a batch; M parts of a mixture.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "robocache/align.h"
#include "robocache/execution.h"
#include "robocache/export.h"
#include "robocache/store.h"
#include "robocache/tensor_view.h"
#include "robocache/window.h"

namespace robocache {

/// The anchor of a sample, its reference time and row: 16 bytes, a row of an int64 [A,2] tensor.
struct Anchor {
  std::int32_t episode;  // a row of the plan's `episodes`
  std::int32_t frame;    // the anchor's row in the episode; its number, where anchors have a rate
  std::int64_t time_ns;
};

/// A stream's rows, concatenated over its episodes, and its window in a sample: K rows of the
/// output, one for each of the spec's offsets.
///
/// By time (Timeline::kTime), step k is the result of `align` on the episode's rows at the anchor's
/// time plus offset k in nanoseconds, saturated to int64. The interval of a sum begins at the
/// target of step k - 1.
///
/// By row (Timeline::kRows), step k is a copy of the row that lies offset k rows after the anchor's
/// frame, or of the episode's first or last row where that lies outside. Such steps are padding,
/// and so are rows that are not valid. Methods have no effect; subtract, multiply and the output's
/// type apply.
///
/// In an episode without rows, the window is zeros, all padding.
///
/// With the spec's `image`, the window is its source frames [K,H,W,C] as they are, of the spec's
/// dtype, of which `process_images` makes the images of the batch.
///
/// A stream may cover a range of the episodes only. It writes nothing for samples of other
/// episodes, so that several streams, each of some episodes, may write to one output.
struct WindowStream {
  WindowSpec spec;

  // The first of its Es episodes.
  std::int64_t first_episode = 0;

  // All tensors are contiguous, except that values may have gaps between rows.
  ConstTensorView values;       // [N,D], of the spec's dtype
  ConstTensorView times;        // [N] int64 ns, ascending in an episode; by row it may be absent
  ConstTensorView row_offsets;  // [Es+1] int64: its episode e has rows row_offsets[e] to
                                // row_offsets[e+1], fewer than 2^30
  // Optional, [Es] int64: the position of the values of each episode's first row relative to
  // `values.data`, which may be negative, in elements, or in bytes where rows are copied as bytes;
  // the episode's other rows follow by the row stride. Absent: episodes are concatenated. With it,
  // `values` may have any number of rows: N is that of `times`, `received` and `valid`. On CUDA
  // every position must be aligned as `values.data` and the row stride are, up to 16 bytes.
  ConstTensorView value_begins;
  ConstTensorView received;  // optional, [N] int64 ns: when rows arrived; ascending in an episode
  ConstTensorView valid;     // optional, [N] bool: which rows are real

  // Fields of the spec as tensors on the context's device.
  ConstTensorView window_offsets;  // [K] int64: the spec's offsets
  // Optional: the spec's scale, broadcast to [D], of `compute_type(dtype, out_dtype)`. With
  // `channels_first` [C] of float64, in which such images are computed, so that x / 255 has the
  // bits of a float32 division. The spec's vectors `subtract` and `multiply` are ignored.
  ConstTensorView subtract, multiply;
  ConstTensorView reference_columns;  // [D] int32, of a relative window: the spec's columns
};

/// The output arrays of a stream's windows.
struct WindowOutput {
  void* values = nullptr;       // D elements for step k of sample b, from (b*K + k) * row_stride on
  std::int64_t row_stride = 0;  // in elements: D, or more where streams are concatenated
  bool* is_pad = nullptr;       // optional, [B,K]: true where the mask of `align` is false
  // Optional, [B,K]: the target's time minus that of the newest row that its value is computed
  // from, as in `align`. By row, the anchor's time minus the row's, and 0 where the stream has no
  // times.
  std::int64_t* age_ns = nullptr;
};

/// The output arrays of the samples' metadata: [B] each, except `epoch`; all optional.
struct BatchMetadata {
  std::int64_t* index = nullptr;          // of the anchor
  std::int64_t* episode_index = nullptr;  // in the store
  std::int64_t* frame_index = nullptr;    // the anchor's frame
  std::int64_t* task_index = nullptr;
  std::int64_t* timestamp_ns = nullptr;  // the anchor's time
  float* timestamp = nullptr;            // seconds since the episode's start
  std::int64_t* dataset_index = nullptr;
  std::int64_t* epoch = nullptr;  // [1]: that of the batch, which `next` writes with its samples
};

/// The sampler of `BatchPlan::next`: it takes each anchor at most once an epoch, or draws from a
/// mixture.
///
/// Without a mixture, the epoch's order is the order of the anchors or, with `shuffle`, a
/// permutation that `seed` and the epoch determine (see `permuted`). Of `ranks` that train in
/// parallel, rank `rank` takes every `ranks`-th place of it.
///
/// A mixture draws each of an epoch's `samples` independently: a part by weight, and one of its
/// anchors with equal probability. With G = 0x9E3779B97F4A7C15, mix(x) the finalizer of splitmix64,
/// and key = mix(mix(seed + G) + epoch): the sample at place p belongs to part m, where
/// u = mix(key + (2p+1) G) is at or above the thresholds of m parts. It is the anchor
/// parts[m] + (v * n >> 64), where v = mix(key + (2p+2) G) and the part has n anchors.
struct BatchOrder {
  std::uint64_t seed = 0;
  bool shuffle = true;
  std::int64_t rank = 0, ranks = 1;
  std::int64_t batch_size = 1;  // of each rank
  bool drop_last = false;       // whether a last batch of fewer samples is skipped

  // The mixture: part m has the anchors parts[m] to parts[m+1]. Set both tensors or neither; with
  // them, `shuffle` must be true.
  ConstTensorView parts;  // [M+1] int64
  // [M] int64, the bits of uint64, ascending: floor(2^64 * (w_0 + ... + w_m) / (w_0 + ... +
  // w_M-1)). The last one is ignored. Every part with a chance to be drawn has anchors; the last
  // part always has one.
  ConstTensorView thresholds;

  // Samples of an epoch. Required with a mixture. Without one, an epoch is the first `samples`
  // places of the order of all anchors; 0: all of them.
  std::int64_t samples = 0;
};

/// The size of a sampler state: int64 numbers in the context's memory. They are the epoch; the
/// position, which is the number of places of the epoch's order that all ranks together have taken;
/// and two numbers for internal use, which are 0 between calls. To resume, also on another number
/// of ranks, restore the first two.
inline constexpr int kBatchStateSize = 4;

/// Makes batches from streams on the context's device. The constructor validates its arguments
/// once.
///
/// Copies share their contents; threads may call all functions concurrently. The memory of all
/// tensors must stay allocated and unchanged as long as the plan is used.
class ROBOCACHE_API BatchPlan {
 public:
  /// `streams`: at most kMaxStreams, where relative ones count twice. `anchors`: [A,2] int64, each
  /// row an `Anchor`; A is 1 or more. `episodes`: [E,4] int64: index in the store, task, start in
  /// ns, data set. Both contiguous.
  ///
  /// On the CPU, these are errors: times that do not ascend, row offsets, anchors and parts out of
  /// range, and window offsets and columns other than the spec's. On CUDA the plan does not read
  /// them: the kernels clamp them to the valid range (columns to none), and such windows hold
  /// unspecified values. It never validates `value_begins`: with them, row offsets must be right on
  /// CUDA too. On CUDA, tensors may be in pinned host memory; kernels then read them from there.
  /// Throws ValueError and TypeError, whose messages name the stream, and DeviceError where this
  /// build does not support the context's device.
  BatchPlan(const std::vector<WindowStream>& streams, const ConstTensorView& anchors,
            const ConstTensorView& episodes, const BatchOrder& order,
            const ExecutionContext& context);

  /// Writes the samples `indices` ([size] int64, in the context's memory), in that order.
  /// `outputs`: one for each stream.
  ///
  /// An index outside [0,A) is an error on the CPU; on CUDA its windows are zeros, all padding, and
  /// its metadata 0 with index -1. Throws ValueError before it writes anything, and DeviceError
  /// where the launch fails. On CUDA this is one launch.
  void gather(const std::int64_t* indices, std::int64_t size, const WindowOutput* outputs,
              const BatchMetadata& metadata, const ExecutionContext& context) const;

  /// Writes the next `size` samples of this rank, and advances the state: past a whole batch of
  /// every rank, and into the next epoch where fewer places are left than a batch takes
  /// (`drop_last`) or than there are ranks. So every rank has the same number of batches.
  ///
  /// Sample b has place `position + rank + ranks * b`. `size` must be the result of
  /// `batch_size_at`: the batch size, or less at the end of an epoch. Another size is an error on
  /// the CPU; CUDA does not check it, and writes samples past the end as `gather` writes indices
  /// out of range.
  void next(std::int64_t* state, std::int64_t size, const WindowOutput* outputs,
            const BatchMetadata& metadata, const ExecutionContext& context) const;

  /// The size of this rank's batch at a position. Throws ValueError for a position that `next`
  /// never leaves in the state.
  std::int64_t batch_size_at(std::int64_t position) const;

 private:
  struct Contents;
  std::shared_ptr<const Contents> contents_;
};

/// The anchor at a place of an epoch's order: a permutation of [0, count), computed in a few
/// operations and without memory. Every machine and backend computes the same one.
///
/// Throws ValueError where `count` is not 1 to 2^62, or `place` outside it.
ROBOCACHE_API std::int64_t permuted(std::uint64_t seed, std::int64_t epoch, std::int64_t count,
                                    std::int64_t place);

}  // namespace robocache
