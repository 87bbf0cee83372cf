"""Sorts the rows of messages by time, stream by stream, in bounded memory."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robocache.readers.clocks import OTHER_CLOCK_NS, Clocks, offset_of
from robocache.readers.encoded_images import JpegFile, joined
from robocache.readers.errors import RecordingError
from robocache.readers.recording import StreamMetadata
from robocache.readers.rows import CHUNK_BYTES, Rows, rows_per_chunk

HELD_BYTES = 64 << 20
"""Bytes of an episode that are buffered, so that late rows can be sorted.

Above it, the buffer emits the older half of the largest stream's rows. A row that arrives later and
is older than the emitted rows is left out, with a note.
"""

_LARGER_FILES = 2  # files of later frames may be so many times the size of the first
_BLOCK_BYTES = 1 << 16
_BLOCK_ROWS = 1024
_MAX_STAMPS = 100_000  # stamps per topic that are compared with their times of receipt


class TopicClock:
    """Selects the times of a topic's messages, stamps or times of receipt, and notes anomalies.

    A topic has stamps, taken when its values were measured, or only the times at which its messages
    were received. A stamp of zero in a message was never set: if all stamps are zero, the times of
    receipt are used; if some are, those messages have no time. A file's time of sending is a time
    also where it is zero, as at the start of a simulation. If the recording has several clocks,
    `shift` is added to the stamps.

    Attributes:
        is_in_message: Whether the messages contain the stamps; else the file has times of sending.
    """

    def __init__(
        self, topic: str, has_stamps: bool, shift: int = 0, is_by_receipt: bool = False
    ) -> None:
        self.topic = topic
        self.has_stamps = has_stamps
        self.shift = shift
        self.is_in_message = True
        self.messages = 0
        self._is_by_receipt = is_by_receipt
        self._zeros = 0
        self._uses_received: bool | None = None if has_stamps and not is_by_receipt else True
        self._previous: int | None = None
        self._back = 0
        self._repeats = 0
        self._stamps = array("q")
        self._received = array("q")

    def tick(self, stamp: int, received: int) -> None:
        """Counts a message; `stamp` is the time of receipt for a message without a stamp."""
        self.messages += 1
        if stamp == 0 and self.is_in_message:
            self._zeros += 1
        if self._previous is not None:
            if stamp < self._previous:
                self._back += 1
            elif stamp == self._previous:
                self._repeats += 1
        self._previous = stamp
        if self.has_stamps and len(self._stamps) < _MAX_STAMPS:
            self._stamps.append(stamp)
            self._received.append(received)

    @property
    def uses_received(self) -> bool:
        """Whether the times are those of receipt; decided on the first call."""
        if self._uses_received is None:
            self._uses_received = self._zeros == self.messages > 0
        return self._uses_received

    def is_set(self, stamps: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of the stamps are times: all but zeros in messages."""
        return stamps != 0 if self.is_in_message else np.ones(len(stamps), np.bool_)

    def note(self, notes: Counter[str]) -> None:
        """Adds notes on anomalies of the times, at the end of an episode."""
        topic = self.topic
        if self._is_by_receipt:
            return
        if self.has_stamps and self.uses_received:
            notes[f"messages of {topic} stamped zero, timed by when they were received"] += (
                self._zeros
            )
            return
        if self.has_stamps and self._zeros:
            notes[f"messages of {topic} stamped zero, left out"] += self._zeros
        if self._back:
            notes[f"messages of {topic} earlier than the one before them, sorted by time"] += (
                self._back
            )
        if self._repeats:
            notes[f"messages of {topic} that repeat the time of the one before"] += self._repeats
        self._note_bursts(notes)
        self._note_other_clock(notes)

    def _note_bursts(self, notes: Counter[str]) -> None:
        """Adds a note if messages with regular stamps were received in bursts."""
        stamps: NDArray[Any] = np.diff(np.frombuffer(self._stamps, np.int64)) / 1e6
        received: NDArray[Any] = np.diff(np.frombuffer(self._received, np.int64)) / 1e6
        regular = stamps > 0
        if np.count_nonzero(regular) < 10:
            return
        period = float(np.median(stamps[regular]))
        apart = received[regular]
        close = int(np.count_nonzero(apart < period / 10))
        if close >= 0.02 * len(apart):
            notes[
                f"messages of {self.topic} received in bursts ({apart.min():.3g} to "
                f"{apart.max():.4g} ms apart; their stamps are {period:.4g} ms apart)"
            ] += close

    def _note_other_clock(self, notes: Counter[str]) -> None:
        """Adds a note if stamps, even shifted, are of another clock than the times of receipt."""
        stamps = np.array(self._stamps, np.int64)
        is_set = self.is_set(stamps)
        offset = offset_of(stamps[is_set] + self.shift, np.array(self._received, np.int64)[is_set])
        if offset is not None and abs(offset.median) > OTHER_CLOCK_NS:
            notes[
                f"messages of {self.topic} stamped by another clock than that of their receipt, at "
                "another rate or with jumps, kept as stamped (--stamp received, or "
                "stamp='received', puts all streams on one clock)"
            ] += self.messages


class StreamBuffer:
    """The buffered rows of one stream."""

    def __init__(
        self,
        stream: str,
        clock: TopicClock,
        dtype: np.dtype[Any] | None,
        shape: tuple[int, ...] | None,
        is_moved: bool = False,
    ) -> None:
        """Creates an empty buffer.

        Args:
            stream: Its name.
            clock: The clock of its topic.
            dtype: Of a row; None: that of the first row.
            shape: Of a row; None: that of the first row.
            is_moved: Whether stamps or times of receipt were converted to another clock: a time of
                receipt before the row's time is then raised to it.
        """
        self.stream = stream
        self.clock = clock
        self.dtype = dtype
        self.shape = shape
        self.is_left_out = False
        self.row_bytes = 0
        self._is_moved = is_moved
        self._has_fixed_shape = shape is not None
        self._block_rows = _BLOCK_ROWS
        self._stamps: list[int] = []
        self._received: list[int] = []
        self._row: list[Any] = []
        self._blocks: list[NDArray[Any]] = []
        self._emitted_until: int | None = None  # the latest time of emitted rows
        self._other_shape = 0
        self._too_late = 0
        self._notes: Counter[str] = Counter()  # on images

    @property
    def held_bytes(self) -> int:
        """Bytes of the buffered rows."""
        return len(self._stamps) * self.row_bytes

    @property
    def has_rows(self) -> bool:
        """Whether any row was emitted."""
        return self._emitted_until is not None

    def add(self, stamp: int, received: int, row: Any) -> int:
        """Adds a row, an array or a sequence of numbers; returns the change in buffered bytes."""
        if self.is_left_out:
            self._other_shape += 1
            return 0
        if self.row_bytes == 0:
            self._start(row)
        if not self._has_fixed_shape and (row.shape != self.shape or row.dtype != self.dtype):
            return self._reject()
        self._stamps.append(stamp)
        self._received.append(received)
        self._row.append(row)
        if len(self._row) == self._block_rows:
            self._close_block()
        return self.row_bytes

    def _start(self, row: Any) -> None:
        if self.shape is None:
            self.shape = row.shape
        if self.dtype is None:
            self.dtype = row.dtype
        size = self.dtype.itemsize * int(np.prod(self.shape))
        if isinstance(row, JpegFile):
            size = _LARGER_FILES * row.nbytes
        self._block_rows = max(1, min(_BLOCK_ROWS, _BLOCK_BYTES // max(1, size)))
        self.row_bytes = size + 16

    def _reject(self) -> int:
        """Drops a row that differs in shape or type, and the stream if no row was emitted."""
        self._other_shape += 1
        if self._emitted_until is not None:
            return 0
        freed_bytes = self.held_bytes
        self.is_left_out = True
        self._other_shape = len(self._stamps) + 1
        self._clear()
        return -freed_bytes

    def _clear(self) -> None:
        self._stamps, self._received, self._row, self._blocks = [], [], [], []

    def _close_block(self) -> None:
        """Converts the latest rows to an array; a block of one large row is one already."""
        if self._row and isinstance(self._row[0], JpegFile):
            files = np.empty(len(self._row), object)
            files[:] = self._row
            self._blocks.append(files)
        elif len(self._row) == self._block_rows == 1:
            self._blocks.append(np.asarray(self._row[0], self.dtype)[None])
        elif self._row:
            block = np.asarray(self._row, dtype=self.dtype)
            self._blocks.append(block.reshape(len(self._row), *(self.shape or ())))
        self._row = []

    def emit(self, keep: int) -> Iterator[Rows]:
        """Emits the rows sorted by time, except about the `keep` latest."""
        if not self._stamps:
            return
        self._close_block()
        stamps = np.array(self._stamps, np.int64)
        received = np.array(self._received, np.int64)
        by_received = self.clock.uses_received
        times = received if by_received else stamps + self.clock.shift
        if self._is_moved:  # by a median offset, which puts half of the rows after their receipt
            received = np.maximum(received, times)
        is_usable = np.ones(len(times), np.bool_)
        if self.clock.has_stamps and not by_received:
            is_usable = self.clock.is_set(stamps)
        if self._emitted_until is not None:
            too_late = is_usable & (times < self._emitted_until)
            self._too_late += int(np.count_nonzero(too_late))
            is_usable &= ~too_late
        if is_usable.all() and (np.diff(times) >= 0).all():
            parts = self._take_blocks(len(times) - keep)
        else:
            order = np.flatnonzero(is_usable)
            order = order[np.argsort(times[order], kind="stable")]
            count = max(0, len(order) - keep)
            order = np.concatenate([order[:count], np.sort(order[count:])])
            values = np.concatenate(self._blocks)
            self._blocks = [values[order[count:]]] if count < len(order) else []
            self._stamps = stamps[order[count:]].tolist()
            self._received = received[order[count:]].tolist()
            times, received = times[order[:count]], received[order[:count]]
            step = rows_per_chunk(self.row_bytes)
            parts = (values[order[a : min(a + step, count)]] for a in range(0, count, step))
        at = 0
        for part in parts:
            rows = slice(at, at + len(part))
            at += len(part)
            self._emitted_until = int(times[rows][-1])
            arrived = None if by_received else received[rows]
            images: Any = part
            valid = None
            if part.dtype == object:
                images, valid = joined(part.tolist(), self.stream, self._notes)
            yield Rows(self.stream, times[rows], images, arrived, valid)

    def _take_blocks(self, count: int) -> Iterator[NDArray[Any]]:
        """Removes `count` rows, rounded up to blocks, and returns their values in chunks."""
        taken = 0
        while taken < count:
            group, size = [self._blocks.pop(0)], 0
            taken += len(group[0])
            size = group[0].nbytes
            while taken < count and size + self._blocks[0].nbytes <= CHUNK_BYTES:
                group.append(self._blocks.pop(0))
                taken += len(group[-1])
                size += group[-1].nbytes
            yield group[0] if len(group) == 1 else np.concatenate(group)
        self._stamps = self._stamps[taken:]
        self._received = self._received[taken:]

    def note(self, notes: Counter[str]) -> None:
        """Adds notes on rows that were left out, at the end of an episode."""
        name = self.stream
        notes.update(self._notes)
        if self.row_bytes == 0 and self.clock.messages:
            notes[f"streams that are empty in every message: {name}"] += 1
        if self.is_left_out:
            notes[f"rows of {name} left out, since their length changes"] += self._other_shape
        elif self._other_shape:
            notes[f"rows of {name} left out, since their length is not {self.shape}"] += (
                self._other_shape
            )
        if self._too_late:
            notes[f"rows of {name} left out, since they came too late to be put in order"] += (
                self._too_late
            )


class ReorderBuffer:
    """Buffers the rows of an episode's messages and emits them as chunks sorted by time."""

    def __init__(
        self,
        path: Path,
        streams: dict[str, StreamMetadata],
        notes: Counter[str],
        wants: Callable[[str], bool] = bool,
        clocks: Clocks | None = None,
    ) -> None:
        """Creates an empty buffer.

        Args:
            path: Of the recording.
            streams: Of the recording; the buffer adds to it.
            notes: Of the recording; the buffer adds to it.
            wants: Whether to read a stream; by default each stream whose name is not empty.
            clocks: The shifts between clocks. The caller adds `receipt_shift` to times of receipt;
                the buffer adds the shifts of stamps.
        """
        self.held_bytes = 0
        self.clocks = clocks or Clocks()
        self._path = path
        self._streams = streams
        self._notes = notes
        self._wants = wants
        self._clocks: dict[str, TopicClock] = {}
        self._stream_buffers: dict[str, StreamBuffer] = {}

    def clock(self, path: str, has_stamps: bool, topic: str | None = None) -> TopicClock:
        """The clock of the streams at a path, created on the first call.

        `topic` is the key of its stamps in `clocks`; None: the path itself.
        """
        if path not in self._clocks:
            key = topic or path
            self._clocks[path] = TopicClock(
                path,
                has_stamps,
                self.clocks.shifts.get(key, 0),
                key in self.clocks.by_receipt,
            )
        return self._clocks[path]

    def add_stream(
        self,
        stream: str,
        clock: TopicClock,
        metadata: StreamMetadata,
        dtype: np.dtype[Any] | None = None,
        shape: tuple[int, ...] | None = None,
    ) -> StreamBuffer:
        """Adds a stream; that of a stream that is not selected discards its rows.

        Raises:
            RecordingError: For a second stream of the same name.
        """
        if not self._wants(stream):
            unwanted = StreamBuffer(stream, clock, dtype, shape)
            unwanted.is_left_out = True
            return unwanted
        if stream in self._stream_buffers:
            raise RecordingError(
                f"{self._path}: expected streams of different names, got two named {stream} "
                "(topics chooses some)"
            )
        self._streams[stream] = metadata
        is_moved = self.clocks.receipt_shift != 0 or clock.shift != 0
        self._stream_buffers[stream] = StreamBuffer(stream, clock, dtype, shape, is_moved)
        return self._stream_buffers[stream]

    @property
    def is_full(self) -> bool:
        """Whether more than `HELD_BYTES` are buffered, so that `overflow` must be called."""
        return self.held_bytes > HELD_BYTES

    def overflow(self) -> Iterator[Rows]:
        """Emits rows until at most `HELD_BYTES` are buffered."""
        while self.is_full:
            largest = max(self._stream_buffers.values(), key=lambda c: c.held_bytes)
            before = largest.held_bytes
            yield from largest.emit(keep=before // largest.row_bytes // 2)
            self.held_bytes += largest.held_bytes - before

    def finish(self) -> Iterator[Rows]:
        """Emits the remaining rows, stream by stream, and completes the notes."""
        for stream_buffer in self._stream_buffers.values():
            yield from stream_buffer.emit(keep=0)
            stream_buffer.note(self._notes)
            if not stream_buffer.has_rows:
                self._streams.pop(stream_buffer.stream, None)
        for clock in self._clocks.values():
            clock.note(self._notes)
