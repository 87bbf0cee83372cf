"""Writer of one episode: validates the rows of its streams and appends them to a spool."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any

import numpy as np

from robocache.jpeg.encoded import EncodedFrames, merged
from robocache.jpeg.frames import JpegFrames
from robocache.store.dtypes import without_mask
from robocache.store.library import MAX_SUBSETS
from robocache.store.source_state import RecordingState
from robocache.store.spool import Bytes, Column, Kept, Spool
from robocache.store.streams import StreamEntry, Streams, check_name, check_text
from robocache.store.value_columns import value_columns

Array = np.ndarray[Any, np.dtype[Any]]
Addition = Bytes | Kept | Column


class Rows:
    """Rows of one stream, of an episode or of a shard.

    Attributes:
        entry: The stream.
        rows: The number of rows.
        first, last: Times of the first and the last row in nanoseconds, for an episode.
        encoded: The frames that were encoded, of a JPEG stream.
        columns: "times", the columns of :mod:`.value_columns`; "received" and "valid" if any row
            has them.
    """

    def __init__(self, entry: StreamEntry, spool: Spool) -> None:
        self.entry = entry
        self.rows = 0
        self.first = 0
        self.last = 0
        self.encoded: EncodedFrames | None = None
        names = ["values", "times"]
        if entry.is_ragged:
            names.append("row_lengths")
        if entry.encoding is not None:
            names += ["entries", "entry_lengths", "scan_bits"]
        self.columns: dict[str, Column] = {name: spool.column() for name in names}

    def plan(
        self, spool: Spool, n: int, new: Mapping[str, Addition]
    ) -> tuple[dict[str, Column], list[tuple[Column, Addition]]]:
        """Plans to append n rows, `new` by column; returns columns and additions for `spool.add`.

        "received" and "valid" may be absent: rows without them arrived at their times, and are
        valid.
        """
        columns = dict(self.columns)
        pairs: list[tuple[Column, Addition]] = []
        if "received" in new and "received" not in columns:
            columns["received"] = spool.column()
            pairs.append((columns["received"], columns["times"]))
        if "valid" in new and "valid" not in columns:
            columns["valid"] = spool.column()
            pairs.append((columns["valid"], b"\x01" * self.rows))
        absent: dict[str, Addition] = {"received": new["times"], "valid": b"\x01" * n}
        additions = {**absent, **new}
        pairs += [(column, additions[name]) for name, column in columns.items()]
        return columns, pairs


class EpisodeWriter:
    """Writes the rows of one episode; :meth:`ShardWriter.episode` creates it.

    As a context manager it adds the episode to the shard when the block ends, and discards the
    episode when an exception ends the block.
    """

    def __init__(
        self,
        spool: Spool,
        streams: Streams,
        keep: Callable[[EpisodeWriter], None],
        task: str | None,
        source: str,
        subsets: Iterable[str],
        recording: RecordingState | None = None,
    ) -> None:
        self.task = None if task is None else check_text("task", task)
        self.source = check_text("source", source)
        if isinstance(subsets, str):
            raise TypeError("subsets: expected a list of str, got str")
        self.subsets = tuple(dict.fromkeys(check_text("subsets", s) for s in subsets))
        if len(self.subsets) > MAX_SUBSETS:
            raise ValueError(f"subsets: expected at most {MAX_SUBSETS}, got {len(self.subsets)}")
        self.recording = recording
        self.streams: dict[str, Rows] = {}
        self.spool = spool
        self._known = streams
        self._keep = keep
        self._is_open = True

    def __enter__(self) -> EpisodeWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self._is_open:
            return
        if kind is None:
            self.finish()
        else:
            self.discard()

    @property
    def bytes(self) -> int:
        """Size of the rows added so far, in bytes."""
        return sum(
            column.bytes for rows in self.streams.values() for column in rows.columns.values()
        )

    def add(
        self,
        stream: str,
        times_ns: object,
        values: object,
        received: object = None,
        valid: object = None,
    ) -> None:
        """Appends rows to a stream. Rows that raise an error leave the episode unchanged.

        Args:
            stream: Name of the stream; its first rows fix type and shape for the whole store.
            times_ns: [n] integers: times in nanoseconds, ascending (equal neighbors allowed)
                within a call and from one call to the next.
            values: [n, ...] bool, integers, or floats of 16 (also bfloat16), 32 or 64 bits: a
                NumPy array, a torch tensor on the CPU, or a list. Masked elements are an error;
                `valid` marks rows without data. Rows of different lengths, such as clouds of
                points, are a :class:`RaggedArray` of n rows.
            received: [n] integers: arrival time of each row in nanoseconds; None: equal to
                `times_ns`.
            valid: [n] bool: which rows hold real data; None: all.

        Raises:
            TypeError: The element type is not supported.
            ValueError: The shapes do not fit each other or the stream, times descend, or an
                element is masked.
            OSError: The write failed, for example because the disk is full.

        Example:
            >>> episode.add("imu/gyro", [0, 5_000_000], np.zeros((2, 3), np.float32))
        """
        self._add(stream, times_ns, values, received, valid, _bytes)

    def take(
        self,
        stream: str,
        times_ns: object,
        values: object,
        received: object = None,
        valid: object = None,
    ) -> None:
        """Appends rows as :meth:`add` does, without a copy of large arrays.

        The caller must not change the arrays afterwards.
        """
        self._add(stream, times_ns, values, received, valid, _kept)

    def _add(
        self,
        stream: str,
        times_ns: object,
        values: object,
        received: object,
        valid: object,
        bytes_of: Callable[[Array], Bytes | Kept],
    ) -> None:
        if not self._is_open:
            raise ValueError("episode: expected one that goes on, got one that has ended")
        name = check_name(stream)
        times = _times(f"{name}.times", times_ns)
        n = len(times)
        arrived = None if received is None else _times(f"{name}.received", received, n)
        flags = None if valid is None else _flags(f"{name}.valid", valid, n)
        got, arrays = value_columns(name, values, n, flags)
        mine = self.streams.get(name)
        entry = self._fit(mine, got)
        _check_ascending(f"{name}.times", times, mine)
        if n == 0:
            return
        if mine is None:
            mine = Rows(entry, self.spool)
            mine.first = int(times[0])
        arrays["times"] = times
        if arrived is not None:
            arrays["received"] = arrived
        if flags is not None:
            arrays["valid"] = flags
        new = {column: bytes_of(array) for column, array in arrays.items()}
        columns, pairs = mine.plan(self.spool, n, new)
        self.spool.add(pairs)
        mine.columns = columns
        mine.rows += n
        mine.last = int(times[-1])
        if isinstance(values, JpegFrames):
            mine.encoded = merged(mine.encoded, values.encoded)
        self.streams[name] = mine

    def _fit(self, mine: Rows | None, got: StreamEntry) -> StreamEntry:
        if mine is not None and mine.entry.layout != got.layout:
            raise ValueError(f"{got.name}.values: expected {mine.entry}, got {got}")
        return self._known.fit(got)

    def finish(self) -> None:
        """Ends the episode and adds it to the shard.

        Raises:
            ValueError: The episode has no rows.
            OSError: The write failed, for example because the disk is full. The episode is lost;
                the shard is unchanged.
        """
        if not self._is_open:
            raise ValueError("episode: expected one that goes on, got one that has ended")
        self._is_open = False
        try:
            if not self.streams:
                raise ValueError(
                    f"episode {self.source!r}: expected at least 1 row, got none"
                    if self.source
                    else "episode: expected at least 1 row, got none"
                )
            self._keep(self)
        except BaseException:
            self.spool.close()
            raise

    def discard(self) -> None:
        """Discards the episode."""
        self._is_open = False
        self.streams.clear()
        self.spool.close()


def _times(name: str, times: object, n: int | None = None) -> Array:
    array = without_mask(name, times)
    if array.size == 0 and array.dtype == np.float64:  # NumPy's type for an empty list
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu" or array.dtype == np.uint64:
        raise TypeError(f"{name}: expected int64 (nanoseconds), got {array.dtype}")
    expected = "[n]" if n is None else f"[{n}]"
    if array.ndim != 1 or (n is not None and len(array) != n):
        raise ValueError(f"{name}: expected {expected}, got {list(array.shape)}")
    return np.ascontiguousarray(array, dtype="<i8")


def _flags(name: str, flags: object, n: int) -> Array:
    array = without_mask(name, flags)
    if array.size == 0 and array.dtype == np.float64:
        array = array.astype(np.bool_)
    if array.dtype != np.bool_:
        raise TypeError(f"{name}: expected bool, got {array.dtype}")
    if array.shape != (n,):
        raise ValueError(f"{name}: expected [{n}], got {list(array.shape)}")
    return np.ascontiguousarray(array)


def _check_ascending(name: str, times: Array, before: Rows | None) -> None:
    rows = before.rows if before else 0
    joint = np.concatenate([[before.last], times]) if before else times
    descends = joint[1:] < joint[:-1]
    if descends.any():
        row = int(np.argmax(descends)) + 1
        raise ValueError(
            f"{name}: expected times that ascend within an episode, got {joint[row]} after "
            f"{joint[row - 1]} at row {rows + row - (1 if before else 0)}"
        )


def _bytes(array: Array) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _kept(array: Array) -> Kept:
    return Kept(_bytes(array))
