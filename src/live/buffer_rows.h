// The number of rows that a LiveAligner keeps of each stream.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "robocache/live.h"

namespace robocache {

/// A name in quotes for messages: 'joints'.
std::string quoted(const std::string& name);

/// A number as text, without superfluous digits.
std::string text_of(double number);

/// The first stream with a name; null if no stream has it.
const LiveStream* find_stream(const std::vector<LiveStream>& streams, const std::string& name);

/// The bytes of a row in the buffers: of a stream with an image operation, a processed one.
std::size_t row_bytes(const LiveStream& stream);

/// Whether a stream of the list takes rows: its window can be made live, or another stream is
/// relative to it.
bool takes_rows(const LiveStream& stream, const std::vector<LiveStream>& streams);

/// The number of a validated stream's `buffer_rows` that are reserved for rows at or before now,
/// however many later rows arrive: the rows that its window needs, or half of the buffer where that
/// number is unknown.
std::int64_t kept_rows(const LiveStream& stream);

/// The streams with the final `buffer_rows` and `ring_rows`, which are 0 for streams that take no
/// rows.
///
/// Throws ValueError or TypeError for options, sizes and windows that do not fit.
std::vector<LiveStream> sized_streams(const std::vector<LiveStream>& streams,
                                      const LiveOptions& options);

}  // namespace robocache
