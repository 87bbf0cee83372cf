// The streams of a LiveAligner, checked as far as the loader does not check them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "robocache/live.h"

namespace robocache {

/// Elements of a row, at most.
inline constexpr std::int64_t kMaxRowElements = std::int64_t{1} << 29;

/// A name as messages have it: 'joints'.
std::string quoted(const std::string& name);

/// A number without digits that say nothing.
std::string text_of(double number);

/// The first stream of a name; null where there is none.
const LiveStream* find_stream(const std::vector<LiveStream>& streams, const std::string& name);

/// Whether a window can be made live: it does not reach into the future.
bool is_live(const LiveStream& stream);

/// Whether a stream of the list takes rows: its window can be made live, or another one is relative
/// to it.
bool takes_rows(const LiveStream& stream, const std::vector<LiveStream>& streams);

/// Whether alignment computes with a stream's type; rows of others are copied as bytes.
bool is_computed(const LiveStream& stream);

/// Elements of a shape; of a row as it is pushed: D.
std::int64_t elements_of(const std::vector<std::int64_t>& shape);
std::int64_t elements_of(const LiveStream& stream);

/// Whether one of its runs, or all of it, is combined so.
bool has_method(const LiveStream& stream, Method method);

/// The step that is farthest back, in ns or rows; 0 where all lie ahead.
std::int64_t earliest_step(const LiveStream& stream);

/// How many of a checked stream's `buffer_rows` are for rows at or before now, whatever rows there
/// are after it: those that its window needs, or half of them where that is not known.
std::int64_t kept_rows(const LiveStream& stream);

/// What errors call the fields that say what a stream is relative to.
struct ReferenceNames {
  std::string relative_to, columns;
};

/// Throws ValueError or TypeError where what a stream is relative to is not one of `streams`, or
/// can't be that, or where its columns do not fit.
void check_reference(const LiveStream& stream, const std::vector<LiveStream>& streams,
                     const ReferenceNames& names);

/// The streams with `buffer_rows` and `ring_rows` as they are to be, 0 of those that take no rows.
///
/// Throws ValueError or TypeError for names, shapes, types, sizes, references and options that do
/// not fit. Methods and durations are left to the loader, which has the same.
std::vector<LiveStream> checked_streams(std::vector<LiveStream> streams,
                                        const LiveOptions& options);

}  // namespace robocache
