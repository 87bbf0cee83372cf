// Batches for training: samples of recordings, drawn in an order that a seed decides, each with its
// windows of any number of streams. The meaning of every option is in docs/meaning.md.
//
// Shapes: A anchors, E episodes; Es episodes of one stream, N rows of it in all of them, K steps of
// its window, D channels of it; B samples of a batch; M parts of a mixture.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "robocache/align.h"
#include "robocache/execution.h"
#include "robocache/export.h"
#include "robocache/store.h"
#include "robocache/tensor_view.h"
#include "robocache/window.h"

namespace robocache {

/// Where a sample stands: 16 bytes, as a row of an int64 [A,2] tensor holds it.
struct Anchor {
  std::int32_t episode;  // a row of the plan's `episodes`
  std::int32_t frame;    // the anchor's row in it; or its number, where anchors have a rate
  std::int64_t time_ns;
};

/// A stream's rows of all its episodes, one after the other, and the window of it that a sample
/// gets: K rows of the output, one for each of the spec's offsets.
///
/// By time (Timeline::kTime), offset k stands at the anchor's time plus its nanoseconds, as far as
/// int64 goes, and is what `align` gives there from the episode's rows. The target before it, which
/// a sum begins at, is offset k - 1.
///
/// By row (Timeline::kRows), offset k is a copy of the row so many rows after the anchor's frame,
/// or of the episode's first or last row where that lies outside; these, and rows that are not
/// valid, are padding. Methods have no effect there; subtract, multiply and the output's type
/// apply.
///
/// An episode that has no rows gives zeros, all padding.
///
/// A stream may be of a range of the episodes alone. Of samples of the others it writes nothing: so
/// several streams, each of some episodes, may be written to one output.
struct WindowStream {
  WindowSpec spec;

  // Its episodes are those from here on, as many as `row_offsets` has.
  std::int64_t first_episode = 0;

  // All contiguous, but that values may have gaps between rows.
  ConstTensorView values;       // [N,D], of the spec's dtype
  ConstTensorView times;        // [N] int64 ns, ascending in an episode; by row it may be absent
  ConstTensorView row_offsets;  // [Es+1] int64: its episode e has rows row_offsets[e] to
                                // row_offsets[e+1], fewer than 2^30
  // Optional, [Es] int64: where the values of each episode's first row are, from `values.data` on
  // or back, in elements, and in bytes where rows are copied as such; its other rows follow by the
  // row stride. Absent: rows stand one after the other. With it, `values` may have any number of
  // rows: N is that of `times`, `received` and `valid`. On CUDA every place must be aligned as
  // `values.data` and the row stride are, up to 16 bytes.
  ConstTensorView value_begins;
  ConstTensorView received;  // optional, [N] int64 ns: when rows arrived; ascending in an episode
  ConstTensorView valid;     // optional, [N] bool: which rows are real

  // What the spec has too, where the work is done.
  ConstTensorView window_offsets;  // [K] int64: the spec's offsets
  // The spec's scale, spread to [D], of `compute_type(dtype, out_dtype)`; of images whose channels
  // come first [C] of float64, in which they are worked: x / 255 comes out as others divide it.
  // Those of the spec itself are not looked at. Optional.
  ConstTensorView subtract, multiply;
  ConstTensorView reference_columns;  // [D] int32, of a relative window: the spec's columns
};

/// Where a stream's windows are written.
struct WindowOutput {
  void* values = nullptr;  // D elements for offset k of sample b, from (b*K + k) * row_stride on
  std::int64_t row_stride = 0;  // in elements: D, or more where streams stand side by side
  bool* is_pad = nullptr;       // optional, [B,K]: true where `align` says that it is not valid
  // Optional, [B,K]: the target's time less that of the newest row that it is made from, as `align`
  // has it; by row, the anchor's less the row's, and 0 where the stream has no times.
  std::int64_t* age_ns = nullptr;
};

/// Where the metadata of a batch's samples are written: [B] each, all optional.
struct BatchMetadata {
  std::int64_t* index = nullptr;          // of the anchor
  std::int64_t* episode_index = nullptr;  // in the store
  std::int64_t* frame_index = nullptr;    // the anchor's frame
  std::int64_t* task_index = nullptr;
  std::int64_t* timestamp_ns = nullptr;  // the anchor's time
  float* timestamp = nullptr;            // seconds since the episode's start
  std::int64_t* dataset_index = nullptr;
};

/// How `BatchPlan::next` draws anchors: each at most once an epoch, or from a mixture.
///
/// The epoch's order is a permutation of the anchors that `seed` and the epoch decide (see
/// `permuted`), or theirs. Of `ranks` that train side by side, number `rank` takes every
/// `ranks`-th place of it.
///
/// A mixture draws each of an epoch's `samples` by itself: a part by weight, and any of its
/// anchors, each as likely. With G = 0x9E3779B97F4A7C15, mix(x) splitmix64's finalizer and key =
/// mix(mix(seed + G) + epoch), the sample at place p is of part m, of which u = mix(key + (2p+1) G)
/// is at or above the thresholds of m parts; and it is the anchor parts[m] + (v * n >> 64), of
/// which v = mix(key + (2p+2) G) and n is how many the part has.
struct BatchOrder {
  std::uint64_t seed = 0;
  bool shuffle = true;
  std::int64_t rank = 0, ranks = 1;
  std::int64_t batch_size = 1;  // of each rank
  bool drop_last = false;       // whether a batch of fewer samples is left out

  // Of a mixture: part m has the anchors parts[m] to parts[m+1]. Both, or none; `shuffle` holds.
  ConstTensorView parts;  // [M+1] int64
  // [M] int64, the bits of uint64, ascending: floor(2^64 * (w_0 + ... + w_m) / (w_0 + ... +
  // w_M-1)). The last is not looked at. A part that can be drawn has anchors; the last one always
  // can.
  ConstTensorView thresholds;

  // Of an epoch; a mixture says how many. Of another, so many places of the order of all anchors,
  // the first ones; 0: all of them.
  std::int64_t samples = 0;
};

/// The state of a drawing: so many numbers, in the context's memory. The epoch; the position, which
/// is the number of places of the epoch's order that all ranks together have taken; and two of the
/// library's own, which are 0 between calls. Other ranks, or another number of them, go on from the
/// first two.
inline constexpr int kBatchStateSize = 4;

/// Makes batches from streams that are where the work is done. Built once, and checked then.
///
/// Copies share what they hold; all functions may be called by many threads at once. The memory of
/// all tensors it is given must live, unchanged, as long as the plan is used.
class ROBOCACHE_API BatchPlan {
 public:
  /// `streams`: at most kMaxStreams, where relative ones count twice. `anchors`: [A,2] int64, each
  /// row an `Anchor`; A is 1 or more. `episodes`: [E,4] int64: index in the store, task, start in
  /// ns, data set. Both contiguous.
  ///
  /// On the CPU, times that do not ascend, row offsets, anchors and parts out of range, and window
  /// offsets and columns other than the spec's, are errors. On CUDA the plan does not read them:
  /// they are cut to what there is (columns to none), and such windows hold unspecified values. It
  /// never validates `value_begins`: with them, row offsets must be right on CUDA too. On CUDA,
  /// tensors may be in pinned memory of the host, and are then read from there. Throws ValueError
  /// and TypeError, whose messages name the stream, and DeviceError where the context is not to be
  /// had in this build.
  BatchPlan(const std::vector<WindowStream>& streams, const ConstTensorView& anchors,
            const ConstTensorView& episodes, const BatchOrder& order,
            const ExecutionContext& context);

  /// Writes the samples `indices` ([size] int64, in the context's memory), in that order.
  /// `outputs`: one for each stream.
  ///
  /// An index outside [0,A) is an error on the CPU; on CUDA it gives zeros, all padding, and
  /// metadata of 0 with index -1. Throws ValueError before anything is written, and DeviceError
  /// where the launch fails. On CUDA this is one launch.
  void gather(const std::int64_t* indices, std::int64_t size, const WindowOutput* outputs,
              const BatchMetadata& metadata, const ExecutionContext& context) const;

  /// Writes the next `size` samples of this rank, and moves the state on: past a whole batch of
  /// every rank, and into the next epoch where fewer places are left than make another batch
  /// (`drop_last`) or than there are ranks. Every rank so has as many batches.
  ///
  /// Sample b has place `position + rank + ranks * b`. `size` is what `batch_size_at` says: the
  /// batch size, or less at the end of an epoch. Another one is an error on the CPU; on CUDA, where
  /// nobody looks, samples past the end are made as `gather` makes those out of range.
  void next(std::int64_t* state, std::int64_t size, const WindowOutput* outputs,
            const BatchMetadata& metadata, const ExecutionContext& context) const;

  /// The size of the batch at a position, for this rank. Throws ValueError for a position that
  /// `next` does not leave.
  std::int64_t batch_size_at(std::int64_t position) const;

 private:
  struct Contents;
  std::shared_ptr<const Contents> contents_;
};

/// The anchor at a place of an epoch's order: a permutation of [0, count), in a few operations and
/// no memory. The same on every machine and backend.
///
/// Throws ValueError where `count` is not 1 to 2^62, or `place` outside it.
ROBOCACHE_API std::int64_t permuted(std::uint64_t seed, std::int64_t epoch, std::int64_t count,
                                    std::int64_t place);

}  // namespace robocache
