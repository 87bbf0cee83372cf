// Windows at control time: rows are pushed as sensors send them, and a query writes what a batch of
// the loader would hold if the recording had ended now. What windows mean is in docs/loader.md and
// docs/meaning.md, what happens live in docs/live.md.
//
// Shapes: R robots, K steps of a stream's window, D channels of its row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "robocache/align.h"
#include "robocache/batch_transform.h"
#include "robocache/execution.h"
#include "robocache/export.h"
#include "robocache/store.h"
#include "robocache/tensor_view.h"
#include "robocache/window.h"

namespace robocache {

struct PolicySpec;  // robocache/policy_spec.h

/// A sensor's rows and the window of them that a policy sees, as the loader made it in training.
///
/// A window that reaches into the future (an offset above 0: actions) can't be made live. Such a
/// stream has no output, and takes rows only where another is relative to it, which needs its value
/// at now; `LiveAligner::undo` takes what a policy gives in its place.
///
/// Every other window is causal: rows stamped later than now, or younger than `latency_ns`, do not
/// exist, nor does what has not been pushed. A target later than the newest row that exists holds
/// it, as `WindowSpec::causal` says.
///
/// By row, offsets count rows from the newest one stamped at or before now, and latency has no
/// effect. Memory is sized by `rate`, where sizes are not set below. `causal` is not looked at.
struct LiveStream : WindowSpec {
  // Rows that are kept for windows, and rows that a producer may be ahead of queries: each 1 or
  // more, or 0 for as many as `LiveOptions` reckons.
  std::int64_t buffer_rows = 0;
  std::int64_t ring_rows = 0;
};

/// Streams that stand side by side under one key, as in the loader: vectors of one output type, at
/// the same steps.
struct LiveGroup {
  std::string key;
  std::vector<std::string> streams;
};

/// What holds for all streams.
struct LiveOptions {
  std::int64_t robots = 1;  // R

  // Of a PolicySpec: none, since it has its own.
  std::vector<LiveGroup> concat;
  std::vector<BatchTransform> transforms;  // what a query's batch goes through, in order

  // Where a stream says none: its buffer has the rows of its window's reach at its rate, as many
  // again times `margin`, those of `pause_ns`, and 8; its ring those of `pause_ns`, and 8; where it
  // has no rate, as many as its buffer. So long may a query be late, and so far may now lie behind
  // a stream's newest row, as with the newest row of a camera whose images take their time.
  double margin = 0.5;
  std::int64_t pause_ns = 250'000'000;

  // A row stamped later than a query's now by more than this is a mistake: it is given up. So is
  // one of the stream whose newest row is now, stamped so much later than those that are held,
  // unless it follows another such one: then the stream had stopped.
  std::int64_t max_future_ns = 10'000'000'000;

  // Pinned buffers for `query_on_cuda`, each of `output_bytes()`: how many of its copies may be
  // under way at once. 0: it is not used. On the device that is current at construction.
  int cuda_slots = 0;
};

/// An array in the output of a query: values, `<name>_is_pad` (bool) or `<name>_age` (int64 ns).
struct LiveArray {
  std::string key;
  DataType dtype = DataType::kFloat32;
  std::vector<std::int64_t> shape;  // [R,K,row...], or [R,row...] without an axis of steps
  std::int64_t offset = 0;          // in bytes from the output's begin; a multiple of 64
};

/// What a batch has values under: a stream, or a group. Of what lies ahead too, which a policy
/// gives.
struct LiveKey {
  std::string name;
  std::int64_t number = -1;           // among `LiveAligner::keys()`
  std::vector<std::int64_t> shape;    // of a row, as the batch has it
  std::vector<std::int64_t> aligned;  // of a row before transforms: what `undo` gives
};

/// What became of a call. No other function tells by exceptions or waits.
enum class LiveStatus : std::int32_t {
  kOk,
  kRingIsFull,     // push: queries are behind; the row is dropped, and counted
  kUnknownStream,  // no stream has this number
  kUnknownKey,     // undo: it is none of `keys()`
  kUnknownRobot,   // no robot has this number
  kTakesNoRows,    // push: to a stream that reaches into the future, and that none is relative to
  kWrongSize,      // push: not a row's bytes; undo: a number of rows below 0
  kBadPointer,     // null, or an output that is not aligned to 8 bytes
  kNoRows,         // query at a stream's newest row, undo of what is relative: some robot has none;
                   // the output is written
  kNoQuery,        // undo: of what is relative, before a query
  kNotInvertible,  // undo: of images, and of types that are not computed with
  kBusy,           // query_on_cuda: all slots are being copied; nothing is written
  kNoDevice,       // ..._on_cuda: built without CUDA, or with cuda_slots 0
  kDeviceError,    // ..._on_cuda: CUDA refused; nothing is written
};

/// The name of a status, as it stands above without its k: "RingIsFull".
ROBOCACHE_API const char* name_of(LiveStatus status);

/// What one robot's stream has gone through since the aligner was built. Every row that was pushed
/// is in the ring, held, or counted in one of `too_late`, `future`, `outdated` and `forgotten`.
struct LiveStats {
  std::int64_t pushed = 0;        // rows that the ring took
  std::int64_t dropped_full = 0;  // rows that it had no room for
  std::int64_t refused = 0;       // rows of a wrong size

  // Counted by queries, as they take rows out of the ring.
  std::int64_t taken = 0;
  std::int64_t clock_back = 0;  // stamped before the row that arrived just before
  std::int64_t late = 0;        // stamped before the newest held, and put in their place
  std::int64_t too_late = 0;    // stamped before all that are held, of a full buffer: given up
  std::int64_t repeated = 0;    // stamped like one that is held; both are kept, in their order
  std::int64_t early = 0;       // stamped later than now, by at most max_future_ns: held
  // Given up: stamped later than that; or later than now, and of a full buffer, whose other rows
  // the window needs.
  std::int64_t future = 0;

  std::int64_t outdated = 0;           // the oldest, given up for newer ones, as is usual
  std::int64_t forgotten = 0;          // by reset
  std::int64_t held = 0;               // rows that are kept
  std::int64_t newest_ns = INT64_MIN;  // the latest stamp of these; INT64_MIN: none is held

  // Queries whose window reached before the oldest row held, others having been given up: the
  // buffer is too small for the rate.
  std::int64_t short_windows = 0;
};

/// When a query is made.
class LiveNow {
 public:
  /// At a time, of all robots.
  static constexpr LiveNow at(std::int64_t time_ns) { return {Kind::kAt, time_ns, nullptr}; }
  /// At a time of each robot: [R].
  static constexpr LiveNow each(const std::int64_t* times_ns) { return {Kind::kEach, 0, times_ns}; }
  /// At the stamp of a stream's newest row, of each robot; `max_future_ns` says which are too far
  /// in the future. A robot that has no row of it gets zeros, as transforms leave them, all
  /// padding.
  static constexpr LiveNow newest_of(std::int64_t stream) {
    return {Kind::kNewest, stream, nullptr};
  }

 private:
  friend class LiveAligner;
  enum class Kind : std::uint8_t { kAt, kEach, kNewest };
  constexpr LiveNow(Kind kind, std::int64_t number, const std::int64_t* times_ns)
      : kind_(kind), number_(number), times_ns_(times_ns) {}

  Kind kind_;
  std::int64_t number_;  // the time, or the stream's number
  const std::int64_t* times_ns_;
};

/// Aligns what sensors send, at control time, by the code that makes the loader's batches on a CPU:
/// rows that arrive as they were recorded give the bits of the loader's causal windows.
///
///     LiveStream joints;
///     joints.name = "joints";
///     joints.shape = {7};
///     joints.rate = 500;
///     joints.offsets = {-20'000'000, -10'000'000, 0};  // ns
///     LiveAligner aligner({joints}, {});
///     std::vector<std::byte> out(aligner.output_bytes());
///     // in the driver's thread
///     aligner.push(0, stamp_ns, positions, sizeof positions);
///     // in the control thread
///     aligner.query(LiveNow::at(now_ns), out.data());
///
/// Threads: `push` may be called by one thread for each stream of each robot, all at once; `query`,
/// `query_on_cuda`, `wait_on_cuda`, `undo` and `reset` by one thread, at the same time; `stats` and
/// all that tells how the aligner was built by any.
///
/// Once it is built, `push`, `query`, `undo`, `reset` and `stats` allocate nothing, take no lock,
/// make no system call and throw nothing; `push` is wait-free. (The other two call CUDA.)
class ROBOCACHE_API LiveAligner {
 public:
  /// Allocates all there will be: for each robot and stream, `2 * buffer_rows` rows, and for the
  /// ring as many as the next power of two of `ring_rows`, of which each takes 16 bytes more and is
  /// rounded up to 64.
  ///
  /// Throws ValueError and TypeError, which name the stream and the option; of windows that reach
  /// farther back than the buffer is long at the stream's rate, and of transforms that do not fit
  /// the rows or go by another step than the one at 0, too. Throws DeviceError where
  /// cuda_slots are asked for and there is no CUDA, std::bad_alloc where there is no memory.
  LiveAligner(const std::vector<LiveStream>& streams, const LiveOptions& options);

  /// The same of a spec's streams, groups and transforms. Throws ValueError, too, where the options
  /// have some.
  explicit LiveAligner(const PolicySpec& spec, const LiveOptions& options = {});
  LiveAligner(LiveAligner&&) noexcept;
  LiveAligner& operator=(LiveAligner&&) noexcept;
  ~LiveAligner();

  /// As given, but with `buffer_rows` and `ring_rows` as they are; 0 of streams without rows.
  const std::vector<LiveStream>& streams() const noexcept;
  const LiveOptions& options() const noexcept;

  /// The number of a stream; nothing where there is none of that name.
  std::optional<std::int64_t> find_stream(std::string_view name) const noexcept;

  /// The keys of the batch, in the order of their first streams; those of what lies ahead too.
  const std::vector<LiveKey>& keys() const noexcept;
  /// A key, which lives as long as the aligner; null where there is none of that name.
  const LiveKey* find_key(std::string_view name) const noexcept;

  /// What a query writes, one array after another: values of all windows, in their order (groups
  /// where their first stream is), then masks and ages of all of them. An age is in ns, from the
  /// newest row that a value is made from to the step, below 0 where that row is later; by rows,
  /// from the row to the anchor. Without a row it is 0.
  const std::vector<LiveArray>& outputs() const noexcept;
  /// The size of it all, in bytes.
  std::size_t output_bytes() const noexcept;

  /// Takes a row of a stream. `bytes`: the row's, for a check. `is_valid`: whether the row is real,
  /// as in a store's `valid`.
  LiveStatus push(std::int64_t stream, std::int64_t time_ns, const void* values, std::size_t bytes,
                  std::int64_t robot = 0, bool is_valid = true) noexcept;

  /// Takes what has been pushed so far, and writes every window to `out`: `output_bytes()` bytes,
  /// aligned to 8. Before a stream's first row its window is zeros, which transforms take as they
  /// are, all padding.
  LiveStatus query(const LiveNow& now, void* out) noexcept;

  /// The same into device memory: made in a pinned buffer, which one copy on `stream` then reads.
  /// Returns once the copy is enqueued. The device of construction must be current.
  LiveStatus query_on_cuda(const LiveNow& now, void* device_out, CUstream_st* stream) noexcept;

  /// Waits until the copy is made that the next `query_on_cuda` waits for, on whatever stream it
  /// is: that query is not kBusy.
  LiveStatus wait_on_cuda() noexcept;

  /// The time at which a robot's last query was made; 0 before the first and for other numbers,
  /// INT64_MIN after one at the newest row of a stream that had none.
  std::int64_t now_ns(std::int64_t robot = 0) const noexcept;

  /// Takes back what was done to a key's values: transforms, the last one first; then
  /// x / multiply + subtract; then the reference of the last query is added where a stream is
  /// relative (angles into (-pi, pi]).
  ///
  /// `key`: one of `keys()`. `values`: [R,rows,shape...], `out`: [R,rows,aligned...]; they may be
  /// the same where these are. `rows` is any number, as of a policy that gives fewer steps.
  /// Transforms compute in float64 where the values, or those that they are relative to, are, else
  /// in float32; the rest is worked in float64 and rounded once. Where a multiply is 0, the channel
  /// is `subtract`. What is relative to a stream without a row is so to what the window of it has,
  /// as in training: zeros, before transforms; and gives kNoRows.
  LiveStatus undo(const LiveKey& key, const float* values, std::int64_t rows, float* out) noexcept;
  LiveStatus undo(const LiveKey& key, const double* values, std::int64_t rows,
                  double* out) noexcept;

  /// Forgets every row that has been pushed so far and the last query, of all robots or of one:
  /// an episode begins. Counts go on.
  void reset() noexcept;
  LiveStatus reset(std::int64_t robot) noexcept;

  /// Of a stream and robot that there are; zeros of others.
  LiveStats stats(std::int64_t stream, std::int64_t robot = 0) const noexcept;
  /// Pushes to streams and robots that there are not, to streams that take no rows, and of null.
  std::int64_t misdirected() const noexcept;

 private:
  struct Contents;
  std::unique_ptr<Contents> contents_;
};

}  // namespace robocache
