// Windows at control time. The caller pushes rows as sensors send them, and a query writes the
// batch that the loader would write if the recording had ended now. docs/loader.md and
// docs/meaning.md define windows, docs/live.md their use at control time.
//
// Shapes: R robots, K steps of a stream's window, D channels of its row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "robocache/align.h"
#include "robocache/batch_transform.h"
#include "robocache/channel_order.h"
#include "robocache/execution.h"
#include "robocache/export.h"
#include "robocache/store.h"
#include "robocache/tensor_view.h"
#include "robocache/window.h"

namespace robocache {

struct PolicySpec;  // robocache/policy_spec.h

/// A sensor's stream and the window of it that a policy observes, as the loader made it in
/// training.
///
/// A window that reaches into the future (an offset above 0: actions) cannot be computed live. Such
/// a stream has no output. It takes rows only where another stream is relative to it and needs its
/// value at now. `LiveAligner::undo` inverts the policy's predictions of it.
///
/// Every other window is causal: it ignores rows stamped later than now and rows younger than
/// `latency_ns`. A target later than the newest remaining row holds that row, as
/// `WindowSpec::causal` says.
///
/// By row, offsets count rows from the newest one stamped at or before now, and latency has no
/// effect. `rate` determines the memory, unless the sizes below are set. `causal` is ignored.
///
/// A frame of a stream with an `image` operation is cropped, resized, normalized and cast by the
/// thread that pushes it; buffers hold the result, and queries copy it.
struct LiveStream : WindowSpec {
  // Capacity in rows of the buffer that windows read, and of the ring between pushes and queries:
  // each 1 or more, or 0 for the default that `LiveOptions` describes. A full buffer discards its
  // oldest row, a full ring overwrites it.
  std::int64_t buffer_rows = 0;
  std::int64_t ring_rows = 0;

  // For a policy that was trained on a mixture of data sets: how its batches differ from this
  // robot's rows.
  std::string key;  // the stream's key in a batch; empty: its name
  // The elements of a row in a batch, where vectors of the data sets differ in width: zeros follow
  // the row's own, after normalization, and the batch has `<key>_dim_is_pad`. 0: the row's own.
  std::int64_t padded_width = 0;
  // Whether this robot lacks the stream: it takes no rows, and its window is zeros, which
  // transforms take as they are, all padding.
  bool is_missing = false;
};

/// Streams that are concatenated under one key, as in the loader: vectors of one output type, with
/// the same offsets.
struct LiveGroup {
  std::string key;
  std::vector<std::string> streams;
};

/// Options of all streams.
struct LiveOptions {
  std::int64_t robots = 1;  // R

  // Empty with a PolicySpec, which has its groups, transforms and index.
  std::vector<LiveGroup> concat;
  std::vector<BatchTransform> transforms;  // applied to a query's batch, in order
  // The data set's index in a mixture, which batches have as `dataset_index`; none: they have none.
  std::optional<std::int64_t> dataset_index;

  // Default capacities. A buffer holds the rows of its window's reach at the stream's rate times
  // (1 + `margin`), the rows of `pause_ns`, and 8. A ring holds the rows of `query_every_ns`, and
  // 8, but no more than its buffer has, or would have by default: the buffer would discard the
  // others. Without a rate it holds as many as its buffer. `query_every_ns`: the longest time
  // between two queries; one second covers policies that predict a chunk of actions. `pause_ns`
  // bounds how far now may lie behind a stream's newest row, as it does where now is the newest row
  // of a camera whose images arrive late. The default capacities of all streams of a robot may take
  // 1 GiB together; the fields of LiveStream may set larger ones.
  double margin = 0.5;
  std::int64_t pause_ns = 250'000'000;
  std::int64_t query_every_ns = 1'000'000'000;

  // A query discards a row stamped later than its now by more than this, as an error of the sensor.
  // Where now is a stream's newest row, it discards a row of that stream stamped later than its
  // other rows by more than this, unless the row before it was such a row too: then the stream had
  // stopped. Where two rows in succession are stamped further than this from the query that takes
  // them, before or after, the query's status is kTwoClocks.
  std::int64_t max_future_ns = 10'000'000'000;

  // The number of last queries whose references `LiveAligner::undo` knows, for policies that answer
  // while later queries are made: 64 queries at 50 Hz are 1.28 s. Each takes one row of every
  // stream that a policy's output is relative to, for each robot.
  std::int64_t kept_queries = 64;

  // Whether `push` encodes the images of streams with an `encoding` as the images of training were,
  // and decodes them, so that the policy sees what it was trained on. `push_jpeg` never does.
  bool encode_images = false;

  // The number of pinned buffers for `query_on_cuda`, each of `output_bytes()`, and so the largest
  // number of its copies in flight. 0 disables it. They belong to the device that is current at
  // construction.
  int cuda_slots = 0;
};

/// An array in the output of a query: values, `<key>_is_pad` (bool) or `<key>_age` (int64 ns); of a
/// policy trained on a mixture also `<key>_dim_is_pad` (bool, [R,D]) and `dataset_index` (int64).
struct LiveArray {
  std::string key;
  DataType dtype = DataType::kFloat32;
  std::vector<std::int64_t> shape;  // [R,K,row...], or [R,row...] where `has_axis` is false
  std::int64_t offset = 0;          // in bytes from the start of the output; a multiple of 64
};

/// A key of a batch: a stream, or a group. Streams that a policy predicts have keys too.
struct LiveKey {
  std::string name;
  std::int64_t number = -1;         // the index in `LiveAligner::keys()`
  std::vector<std::int64_t> shape;  // of a row of the batch
  // The row before transforms, without padded elements and missing streams, as `undo` writes it.
  std::vector<std::int64_t> aligned;
};

/// The result of a call. Functions that return it do not throw; only `wait_on_cuda` waits.
///
/// kWrongRate to kTwoClocks are statuses of a stream's window in a query, which is written all the
/// same; a query returns the gravest one of all streams and robots, the last in this order.
enum class [[nodiscard]] LiveStatus : std::int32_t {
  kOk,
  kWrongRate,  // by rows: recent rows do not come at the nominal rate of training, which windows
               // by rows assume
  kRowsLost,   // the window reaches back to rows that the ring has overwritten or the buffer
               // discarded: queries are too rare, or the buffer is too small
  kStale,      // the newest row that the window may read is more than max_gap_ns older than now
  kNoRows,     // no row that the window may read: none has arrived, or all are later than now; its
               // values are zeros, before image operations and transforms. undo: so it is for a
               // relative stream's reference
  kTwoClocks,  // the last rows are stamped more than max_future_ns from now: by another clock

  kUnknownStream,  // no stream has this number
  kUnknownKey,  // undo: the key is not one of `keys()`; query: the selection is of another aligner
  kUnknownRobot,   // no robot has this number
  kTakesNoRows,    // push: the stream reaches into the future, and no stream is relative to it; or
                   // the robot lacks it
  kWrongSize,      // push: not a row's size, or number of elements; undo: a negative number of rows
  kBadPointer,     // null, or an output that is not aligned to 8 bytes
  kNoQuery,        // undo: of a relative key, with the ticket of no query; status: before a query
  kNotInvertible,  // undo: of images, of types that alignment does not compute with, and of streams
                   // that the robot lacks
  kBusy,           // query_on_cuda: all slots are being copied; nothing is written
  kNoDevice,       // ..._on_cuda: built without CUDA, or with cuda_slots 0
  kDeviceError,    // ..._on_cuda: a CUDA call failed; nothing is written
  kWrongType,      // push: the elements are not of the stream's dtype
  kUnknownTicket,  // undo: of a query that is none of the last `kept_queries` of this aligner, or
                   // that precedes a reset
  kPadded,       // undo: a value that the key is relative to was padding in the query, as it never
                 // was in valid samples of training; the output is written
  kNotJpeg,      // push_jpeg: bytes that libjpeg-turbo does not decode to an image
  kDamagedJpeg,  // push_jpeg: a frame that is cut short or has errors
  kRotatedJpeg,  // push_jpeg: a frame that EXIF says to rotate
};

/// The name of a status, without its k: "RowsLost".
ROBOCACHE_API const char* name_of(LiveStatus status);

/// Whether a query with this status wrote its output.
constexpr bool has_output(LiveStatus status) { return status <= LiveStatus::kTwoClocks; }

/// Identifies a query. A policy's output is relative to the query whose batch it was computed from,
/// which need not be the last one.
struct LiveTicket {
  std::int64_t sequence = 0;  // ascending, and unique in the process; 0: no query
  std::int64_t now_ns = 0;    // the time of the query, of the first robot if each has its own
};

/// The result of a query: a status, and the ticket of the batch that it wrote.
struct [[nodiscard]] LiveResult {
  LiveStatus status = LiveStatus::kOk;
  LiveTicket ticket;  // of no query where nothing is written

  operator LiveStatus() const { return status; }
};

/// Counters of one robot's stream since construction. Every pushed row is in the ring, in the
/// buffer, or counted in one of `overwritten`, `too_late`, `future`, `outdated` and `forgotten`.
struct LiveStats {
  std::int64_t pushed = 0;       // rows put in the ring
  std::int64_t overwritten = 0;  // oldest rows in a full ring, replaced before a query took them
  std::int64_t refused = 0;      // rows of a wrong size or type, and JPEG frames in error

  // Counted by queries, as they take rows out of the ring.
  std::int64_t taken = 0;
  std::int64_t clock_back = 0;  // stamped before the row that arrived just before
  std::int64_t late = 0;        // stamped before the newest row in the buffer; sorted in
  std::int64_t too_late = 0;    // stamped before all rows of a full buffer; discarded
  std::int64_t repeated = 0;    // stamped like a row in the buffer; both stay, in arrival order
  std::int64_t early = 0;       // stamped later than now, by at most max_future_ns; kept
  // Discarded: stamped later than now by more than max_future_ns; or stamped later than now, while
  // the buffer is full of rows that the window needs.
  std::int64_t future = 0;

  std::int64_t outdated = 0;           // oldest rows, discarded for newer ones; the usual case
  std::int64_t forgotten = 0;          // rows discarded by reset
  std::int64_t held = 0;               // rows in the buffer
  std::int64_t newest_ns = INT64_MIN;  // the latest stamp in the buffer; INT64_MIN: it is empty

  // Queries whose window reached back to rows that had been overwritten or discarded: of status
  // kRowsLost, or a graver one.
  std::int64_t short_windows = 0;

  // By rows, with a nominal rate: the mean time between recent rows in the last query, -1 where
  // they are fewer than 9; and the queries in which it differed from the nominal one by more than
  // 15%. Recent are the 33 newest rows, or those of the window where they are more.
  std::int64_t period_ns = -1;
  std::int64_t wrong_rate = 0;
};

/// The time of a query.
class LiveNow {
 public:
  /// One time for all robots.
  static constexpr LiveNow at(std::int64_t time_ns) { return {Kind::kAt, time_ns, nullptr}; }
  /// A time for each robot: [R].
  static constexpr LiveNow each(const std::int64_t* times_ns) { return {Kind::kEach, 0, times_ns}; }
  /// The stamp of each robot's newest row of a stream, without the rows that `max_future_ns`
  /// discards. The windows of a robot without a row of the stream are zeros, which transforms take
  /// as they are, all padding, and their status is kNoRows.
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

struct Selection;

/// Some keys of a batch, for queries of these keys alone; see `LiveAligner::select`. Copies share
/// their contents.
class ROBOCACHE_API LiveSelection {
 public:
  /// The keys that a query of the selection writes, in the order of the batch.
  const std::vector<std::string>& keys() const noexcept;

 private:
  friend class LiveAligner;
  explicit LiveSelection(std::shared_ptr<const Selection> selection)
      : selection_(std::move(selection)) {}

  std::shared_ptr<const Selection> selection_;
};

/// Aligns sensor rows at control time, with the code that makes the loader's batches on a CPU: rows
/// that arrive as they were recorded give the bits of the loader's causal windows.
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
///     const LiveResult result = aligner.query(LiveNow::at(now_ns), out.data());
///
/// Threads: each stream of each robot may have one thread that calls `push`. One more thread may
/// call `query`, `query_on_cuda`, `wait_on_cuda`, `undo` and `reset`. Any thread may call `ready`,
/// `status`, `stats`, `misdirected` and the functions that describe the aligner. All of them may
/// run concurrently.
///
/// After construction, `push`, `query`, `undo`, `reset`, `ready`, `status` and `stats` allocate
/// nothing, take no lock, make no system call and throw nothing; `push` is wait-free. (The
/// functions `..._on_cuda` call CUDA; `push_jpeg` allocates at first.)
class ROBOCACHE_API LiveAligner {
 public:
  /// Allocates all memory: for each robot and stream, `buffer_rows` + `ring_rows` + 2 rows, each
  /// with 16 more bytes and rounded up to 64. Rows of a stream with an `image` operation are its
  /// outputs; a source frame and the operation's workspace are allocated for each robot, too.
  ///
  /// Throws ValueError and TypeError, which name the stream and the option, also for windows that
  /// reach farther back than the buffer at the stream's rate, for default capacities of more than
  /// 1 GiB, and for transforms that do not fit the rows or refer to a step other than the one at
  /// offset 0. Throws DeviceError for cuda_slots without CUDA, and std::bad_alloc if there is not
  /// enough memory.
  LiveAligner(const std::vector<LiveStream>& streams, const LiveOptions& options);

  /// Takes streams, groups and transforms from a policy spec. Throws as above, and ValueError where
  /// `options` has groups or transforms.
  explicit LiveAligner(const PolicySpec& spec, const LiveOptions& options = {});
  LiveAligner(LiveAligner&&) noexcept;
  LiveAligner& operator=(LiveAligner&&) noexcept;
  ~LiveAligner();

  /// The constructor's streams, with the actual `buffer_rows` and `ring_rows`, which are 0 for
  /// streams that take no rows; and its options.
  const std::vector<LiveStream>& streams() const noexcept;
  const LiveOptions& options() const noexcept;

  /// The number of the stream with this name; nullopt if there is none.
  std::optional<std::int64_t> find_stream(std::string_view name) const noexcept;

  /// The keys of the batch, including streams that a policy predicts, in the order of their first
  /// streams.
  const std::vector<LiveKey>& keys() const noexcept;
  /// The key with this name, valid as long as the aligner lives; null if there is none.
  const LiveKey* find_key(std::string_view name) const noexcept;

  /// The arrays that a query writes, one after another: the values of all windows, in the order of
  /// the streams (a group at its first stream), then `<key>_dim_is_pad` and `dataset_index`, then
  /// all masks and ages. An age in ns is the step's time minus that of the newest row that the
  /// value is computed from, negative where that row is later; by row, the anchor's time minus the
  /// row's. Without a row it is 0.
  const std::vector<LiveArray>& outputs() const noexcept;
  /// The array with this key, valid as long as the aligner lives; null if there is none.
  const LiveArray* find_output(std::string_view key) const noexcept;
  /// The size of the output of a query, in bytes.
  std::size_t output_bytes() const noexcept;

  /// Pushes a row of a stream; in a full ring it replaces the oldest row. `bytes`: the size of the
  /// row, which is validated. `is_valid`: whether the row is real, as in a store's `valid`. Applies
  /// the stream's `image` operation in the calling thread.
  LiveStatus push(std::int64_t stream, std::int64_t time_ns, const void* values, std::size_t bytes,
                  std::int64_t robot = 0, bool is_valid = true) noexcept;

  /// Pushes a row of `count` elements of type T, which must be the stream's dtype: rows are not
  /// converted. Elements of float16 and bfloat16 are their bits in a std::uint16_t. T must be
  /// named, since the function above takes any pointer, with the size in bytes:
  ///
  ///     aligner.push<double>(joints, stamp_ns, positions.data(), positions.size());
  template <typename T>
  LiveStatus push(std::int64_t stream, std::int64_t time_ns,
                  const std::enable_if_t<true, T>* values, std::size_t count,
                  std::int64_t robot = 0, bool is_valid = true) noexcept {
    static_assert(std::is_arithmetic_v<T>, "a row has numbers or bools");
    return push_elements(stream, time_ns, values, count, element_type<T>(), robot, is_valid);
  }

  /// Pushes an image as a JPEG file, such as the data of a ROS CompressedImage: decodes it with
  /// libjpeg-turbo, as the loader does, in the calling thread. The stream has rows [H,W,C] of
  /// uint8, C of 1 or 3, whether its images were JPEG in training or not. Allocates memory at the
  /// first frame of a robot's stream, and for frames that are not baseline JPEG.
  ///
  /// Returns kWrongSize for another size or number of channels, kWrongType for a stream of other
  /// rows, kNotJpeg, kDamagedJpeg or kRotatedJpeg. Frames that are refused are counted in
  /// `LiveStats::refused`.
  LiveStatus push_jpeg(std::int64_t stream, std::int64_t time_ns, const void* bytes,
                       std::size_t size, std::int64_t robot = 0, bool is_valid = true) noexcept;

  /// The order of a stream's channels in messages whose elements have these names, such as a ROS
  /// JointState's. Elements with other names are allowed, and ignored. Allocates memory.
  ///
  /// Throws ValueError, which names the channel, if a name is missing or there twice; also for a
  /// stream without names of channels, and for one that takes no rows.
  ChannelOrder channel_order(std::int64_t stream, const std::vector<std::string>& names) const;

  /// Pushes a row in the order of a driver's messages: `count` elements, one for each of the names
  /// of `order`. Elements of float and double are rounded to the stream's floating type; those of
  /// other types T must be of the stream's dtype, as above.
  ///
  ///     const ChannelOrder order = aligner.channel_order(joints, message.name);  // once
  ///     aligner.push(order, stamp_ns, message.position.data(), message.position.size());
  template <typename T>
  LiveStatus push(const ChannelOrder& order, std::int64_t time_ns, const T* values,
                  std::size_t count, std::int64_t robot = 0, bool is_valid = true) noexcept {
    static_assert(std::is_arithmetic_v<T>, "a row has numbers or bools");
    return push_in_order(order, time_ns, values, count, element_type<T>(), robot, is_valid);
  }

  /// Whether every stream that takes rows has been pushed one, of all robots or of one, since
  /// construction or the last `reset`. False for an unknown robot.
  bool ready() const noexcept;
  bool ready(std::int64_t robot) const noexcept;

  /// Takes the rows that have been pushed so far, and writes every window to `out`:
  /// `output_bytes()` bytes, aligned to 8. Returns the gravest status of all streams that take
  /// rows. Before a stream's first row its window is zeros, which image operations and transforms
  /// take as they are, all padding, and its status is kNoRows.
  LiveResult query(const LiveNow& now, void* out) noexcept;

  /// Selects keys for queries of these alone, such as joints between two images: names of
  /// `keys()` that have an output. A selection includes the keys that transforms refer to, so that
  /// `undo` knows the references of its queries. Throws ValueError; allocates.
  LiveSelection select(const std::vector<std::string>& keys) const;

  /// Same as `query`, for some keys: writes their arrays, at the same places of `out`, and no other
  /// bytes. The rows of other streams stay in their rings until a query takes them, and the status
  /// is of the selected streams.
  LiveResult query(const LiveNow& now, void* out, const LiveSelection& selection) noexcept;

  /// Writes a query's output to device memory: computes it in a pinned buffer and enqueues one copy
  /// on `stream`, then returns. The device of construction must be current.
  LiveResult query_on_cuda(const LiveNow& now, void* device_out, CUstream_st* stream) noexcept;
  /// Same, for some keys: one copy for each run of adjacent arrays.
  LiveResult query_on_cuda(const LiveNow& now, void* device_out, CUstream_st* stream,
                           const LiveSelection& selection) noexcept;

  /// The status of a stream in the last query that took its rows, kOk to kTwoClocks; kNoQuery
  /// before it and after `reset`; kTakesNoRows, kUnknownStream and kUnknownRobot as in `push`.
  LiveStatus status(std::int64_t stream, std::int64_t robot = 0) const noexcept;

  /// Waits for the copy, on whichever stream, that occupies the buffer of the next
  /// `query_on_cuda`, which then does not return kBusy.
  LiveStatus wait_on_cuda() noexcept;

  /// The time of a robot's last query; 0 before the first query and for unknown robots, INT64_MIN
  /// after a query at the newest row of a stream without rows.
  std::int64_t now_ns(std::int64_t robot = 0) const noexcept;

  /// Inverts a key's transforms and normalization: the transforms, the last one first; then
  /// x / multiply + subtract; then, for a relative stream, it adds the reference (angles into (-pi,
  /// pi]).
  ///
  /// `ticket`: of the query that the policy's output was computed from, one of the last
  /// `kept_queries`. Its references are used, whatever has been pushed and queried since. Keys that
  /// are not relative need no query: `{}` will do.
  ///
  /// `key`: one of `keys()`. `values`: [R,rows,shape...], `out`: [R,rows,aligned...]; they may be
  /// the same array where the two shapes are equal. `rows` is any number, for policies that predict
  /// fewer steps. Transforms compute in float64 where the values, or the values that they are
  /// relative to, are float64, else in float32; the rest computes in float64 and rounds once. Where
  /// a multiply is 0, the channel is `subtract`. If the reference stream had no row, its value is
  /// zeros before transforms, as in training, and the call returns kNoRows. If the reference was
  /// padding, the call returns kPadded: training left such samples out.
  LiveStatus undo(const LiveTicket& ticket, const LiveKey& key, const float* values,
                  std::int64_t rows, float* out) noexcept;
  LiveStatus undo(const LiveTicket& ticket, const LiveKey& key, const double* values,
                  std::int64_t rows, double* out) noexcept;

  /// Discards every row that has been pushed so far and the last query, of all robots or of one:
  /// call it where an episode begins. Counters keep their values.
  void reset() noexcept;
  LiveStatus reset(std::int64_t robot) noexcept;

  /// The counters of one robot's stream; zeros for unknown streams and robots.
  LiveStats stats(std::int64_t stream, std::int64_t robot = 0) const noexcept;
  /// The number of pushes to unknown streams and robots, to streams that take no rows, and of null.
  std::int64_t misdirected() const noexcept;

 private:
  /// The type of a stream whose elements are T.
  template <typename T>
  static constexpr DataType element_type() {
    if (std::is_same_v<T, bool>) return DataType::kBool;
    if (std::is_floating_point_v<T>) {
      return sizeof(T) == 4   ? DataType::kFloat32
             : sizeof(T) == 8 ? DataType::kFloat64
                              : DataType::kOther;
    }
    constexpr bool kIsSigned = std::is_signed_v<T>;
    switch (sizeof(T)) {
      case 1:
        return kIsSigned ? DataType::kInt8 : DataType::kUInt8;
      case 2:
        return kIsSigned ? DataType::kInt16 : DataType::kUInt16;
      case 4:
        return kIsSigned ? DataType::kInt32 : DataType::kUInt32;
      default:
        return kIsSigned ? DataType::kInt64 : DataType::kUInt64;
    }
  }
  LiveStatus push_elements(std::int64_t stream, std::int64_t time_ns, const void* values,
                           std::size_t count, DataType type, std::int64_t robot,
                           bool is_valid) noexcept;
  LiveStatus push_in_order(const ChannelOrder& order, std::int64_t time_ns, const void* values,
                           std::size_t count, DataType type, std::int64_t robot,
                           bool is_valid) noexcept;

  LiveResult query_selected(const LiveNow& now, void* out, const Selection& selection) noexcept;
  LiveResult query_selected_on_cuda(const LiveNow& now, void* device_out, CUstream_st* stream,
                                    const Selection& selection) noexcept;

  struct Contents;
  std::unique_ptr<Contents> contents_;
};

}  // namespace robocache
