// How many rows a LiveAligner keeps of each stream.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "robocache/live.h"

namespace robocache {

/// A name as messages have it: 'joints'.
std::string quoted(const std::string& name);

/// A number without digits that say nothing.
std::string text_of(double number);

/// The first stream of a name; null where there is none.
const LiveStream* find_stream(const std::vector<LiveStream>& streams, const std::string& name);

/// Whether a stream of the list takes rows: its window can be made live, or another one is relative
/// to it.
bool takes_rows(const LiveStream& stream, const std::vector<LiveStream>& streams);

/// How many of a checked stream's `buffer_rows` are for rows at or before now, whatever rows there
/// are after it: those that its window needs, or half of them where that is not known.
std::int64_t kept_rows(const LiveStream& stream);

/// The streams with `buffer_rows` and `ring_rows` as they are to be, 0 of those that take no rows.
///
/// Throws ValueError or TypeError for options, sizes and windows that do not fit.
std::vector<LiveStream> sized_streams(std::vector<LiveStream> streams, const LiveOptions& options);

}  // namespace robocache
