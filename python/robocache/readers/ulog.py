"""PX4 flight logs (ULog), read by pyulog.

A log is one episode; each topic, and each instance of one, makes streams as `group_fields` says.
"""

from __future__ import annotations

import array
import contextlib
import functools
import io
import mmap
import re
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robocache.core.extras import require
from robocache.readers.errors import RecordingError, head, reading, refuse_duplicates
from robocache.readers.field_groups import below, group_fields, method_of
from robocache.readers.options import ReadOptions
from robocache.readers.recording import (
    EpisodeReader,
    Reader,
    Recording,
    SingleEpisode,
    StreamMetadata,
)
from robocache.readers.rows import Rows, Times, rows_per_chunk
from robocache.readers.selection import Selection

MAGIC = b"ULog\x01\x12\x35"
WHAT = "a PX4 ULog file"

GROUP_BYTES = 256 << 20
"""pyulog keeps the data that it reads in memory. One pass reads topics of at most this many bytes;
larger logs take several passes."""

_TOPIC, _DATA, _FORMAT = ord("A"), ord("D"), ord("F")  # kinds of records
_US = 1000
_LATEST_STAMP = (2**63 - 1) // _US  # microseconds that fit int64 nanoseconds
_QUATERNIONS = ("q", "q_d")  # PX4 stores w first
_AHEAD = 1_000_000
"""Microseconds that a stamp may be ahead of the messages around it: a logger writes a message
within milliseconds of its stamp."""
_AROUND = 15
"""Messages before, and after, that a stamp is compared with."""


# ---- contents of the file ------------------------------------------------------------------------


@dataclass
class Contents:
    """The result of a pass over the headers of a log's records."""

    topics: dict[int, tuple[str, int]] = field(default_factory=dict)
    """Message id: topic and instance."""
    bytes: dict[str, int] = field(default_factory=dict)
    """The bytes of data of each topic."""
    is_whole: bool = True
    """Whether the records are of known kinds and end with the file."""
    start: int = 0
    """When the log began, us."""
    keys: NDArray[np.uint16] = field(default_factory=lambda: np.empty(0, np.uint16))
    """[messages] ids, in the order in which the messages were logged."""
    stamps: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    """[messages] us; -1 for messages without a usable stamp."""
    is_ahead: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))
    """[messages] whether a stamp is bogus: `ahead_of_the_log`."""

    def logged(self) -> NDArray[np.int64]:
        """[messages] the newest stamp (us) of the messages up to each: about when it was logged."""
        newest: NDArray[np.int64] = np.where(self.is_ahead, self.start, self.stamps)
        np.maximum(newest, self.start, out=newest)
        np.maximum.accumulate(newest, out=newest)
        return newest


def _records(log: Any) -> Iterator[tuple[int, int, int, int]]:
    """Kind, offset, size and message id (of data) of each record, up to the first unknown kind."""
    at, end, unpack = 16, len(log) - 5, struct.Struct("<HBH").unpack_from
    while at <= end:
        size, kind, key = unpack(log, at)
        at += 3
        if kind not in b"ABCDFILMOPQRS" or at + size > end + 5:
            break
        yield kind, at, size, key
        at += size


@contextlib.contextmanager
def _mapped(path: Path) -> Iterator[Any]:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as log:
        yield log


def scan_log(path: Path) -> Contents:
    """The topics of a log, and its stamps in the order of the file.

    Raises:
        RecordingError: If it is not a log.
    """
    contents = Contents()
    if not head(path).startswith(MAGIC):
        raise RecordingError(f"{path}: expected {WHAT}, got one that begins with {head(path, 8)!r}")
    sizes: Counter[int] = Counter()
    begin_with_stamp: set[str] = set()
    formats: dict[str, str] = {}
    keys, stamps = array.array("H"), array.array("Q")
    unpack = struct.Struct("<Q").unpack_from
    end = 16
    with _mapped(path) as log:
        if len(log) >= end:
            contents.start = min(unpack(log, 8)[0], _LATEST_STAMP)
        for kind, at, size, key in _records(log):
            end = at + size
            if kind == _DATA:
                sizes[key] += size
                keys.append(key)
                stamps.append(unpack(log, at + 2)[0] if size >= 10 else 0)
            elif kind == _TOPIC and size > 3:
                instance, key = log[at], int.from_bytes(log[at + 1 : at + 3], "little")
                name = log[at + 3 : at + size].decode("ascii", "replace")
                contents.topics[key] = (name, instance)
            elif kind == _FORMAT:
                name, _, fields = log[at : at + size].decode("ascii", "replace").partition(":")
                formats[name] = fields
                if fields.startswith("uint64_t timestamp;"):
                    begin_with_stamp.add(name)
        contents.is_whole = end == len(log)
    for name, _ in contents.topics.values():
        _check_format(path, name, formats, ())
    for key, (name, _) in contents.topics.items():
        if key in sizes:
            contents.bytes[name] = contents.bytes.get(name, 0) + sizes[key]
    contents.keys = np.array(keys, np.uint16)
    stamped = {key for key, (name, _) in contents.topics.items() if name in begin_with_stamp}
    contents.stamps = _times_of(contents.keys, np.array(stamps, np.uint64), stamped)
    usable = np.flatnonzero(contents.stamps >= 0)
    contents.is_ahead = np.zeros(len(keys), np.bool_)
    contents.is_ahead[usable] = ahead_of_the_log(contents.stamps[usable], contents.start)
    return contents


def _check_format(path: Path, name: str, formats: dict[str, str], within: tuple[str, ...]) -> int:
    """The fields of a format, those of nested formats and the elements of arrays included.

    pyulog makes a column of each, however many the definition states.

    Raises:
        RecordingError: If they are more than a message has bytes, or a format contains itself.
    """
    if name in within:
        raise RecordingError(f"{path}: expected formats without themselves in them, got {name}")
    fields = 0
    for field_ in formats.get(name, "").split(";"):
        kind, _, length = field_.strip().partition(" ")[0].partition("[")
        digits = length.removesuffix("]")
        count = int(digits) if digits.isdecimal() and len(digits) < 10 else 1 + 10 ** len(digits)
        if not length:
            count = 1
        each = _check_format(path, kind, formats, (*within, name)) if kind in formats else 1
        fields += count * max(1, each)
        if fields > _MOST_FIELDS:
            raise RecordingError(
                f"{path}: expected formats of at most {_MOST_FIELDS:,} fields, got more in {name}"
            )
    return fields


_MOST_FIELDS = 65_535  # bytes of a message, whose size is an uint16


def _times_of(
    keys: NDArray[np.uint16], stamps: NDArray[np.uint64], stamped: set[int]
) -> NDArray[np.int64]:
    """The usable stamps as times; -1 for the others.

    Stamps of 0, impossible stamps, and those of a topic with one stamp for all are not usable.
    """
    is_usable = (stamps > 0) & (stamps <= _LATEST_STAMP)
    for key in np.unique(keys).tolist():
        of_topic = keys == key
        if key not in stamped or _is_stamped_once(stamps[of_topic]):
            is_usable &= ~of_topic
    times = np.where(is_usable, stamps, 0).astype(np.int64)
    times[~is_usable] = -1
    return times


def ahead_of_the_log(stamps: NDArray[np.int64], start: int) -> NDArray[np.bool_]:
    """Marks bogus stamps: ahead of the messages logged before them and of those after them.

    A log has its messages in the order in which they were logged. So a stamp ahead of the median of
    those before it is bogus unless those after it follow: after a dropout they do. Stamps older
    than the log (messages that are latched) count as the log's start.

    Args:
        stamps: [n] us, in the order of the file.
        start: When the log began, us.
    """
    count = len(stamps)
    is_ahead = np.zeros(count, np.bool_)
    if count < 2:
        return is_ahead
    times = np.maximum(stamps, start)
    none = np.full(_AROUND, np.iinfo(np.int64).max)
    padded = np.concatenate([np.full(_AROUND, start), times, none])
    around = np.lib.stride_tricks.sliding_window_view(padded, _AROUND)
    before, after = around[:count], around[_AROUND + 1 :]
    # Medians are no less than the least: few messages of a good log are to be looked at further.
    least = np.maximum(_least(before), _least(after))
    rows = np.flatnonzero(times[:-1] - _AHEAD > least[:-1])
    for part in np.array_split(rows, 1 + len(rows) // 65536):
        followers = np.minimum(count - 1 - part, _AROUND)
        newest = np.maximum(
            np.median(before[part], axis=1),
            np.sort(after[part], axis=1)[np.arange(len(part)), (followers - 1) // 2],
        )
        is_ahead[part] = times[part] - _AHEAD > newest
    # Nothing follows the last. It is bogus if the log would be more than twice as long with it.
    newest = times[:-1][~is_ahead[:-1]].max(initial=start)
    allowed = max(_AHEAD, newest - start)
    is_ahead[-1] = count > _AROUND and times[-1] - newest > allowed
    return is_ahead


def _least(windows: NDArray[np.int64]) -> NDArray[np.int64]:
    """The least of each row, a column at a time: the windows overlap in memory."""
    least: NDArray[np.int64] = windows[:, 0].copy()
    for column in windows.T[1:]:
        np.minimum(least, column, out=least)
    return least


# ---- reading -------------------------------------------------------------------------------------


class UlogRecording(Recording):
    """A flight log, opened."""

    format = "PX4 ULog"

    def __init__(self, path: Path, options: ReadOptions) -> None:
        super().__init__(path, options)
        self._ulog: Any = require("pyulog", "ULog", "ulog").ULog
        with reading(path, WHAT):
            self._contents = scan_log(path)
        names = {stream_name(*topic) for topic in self._contents.topics.values()}
        with_messages = {
            stream_name(*topic)
            for topic in self._contents.topics.values()
            if topic[0] in self._contents.bytes
        }
        if not with_messages:
            raise RecordingError(f"{path}: expected {WHAT} with messages, got one without")
        # The messages of a topic determine its streams.
        self._selection = Selection(options, [], sorted(with_messages))
        if options.topics is None and len(names) > len(with_messages):
            self.notes["topics without messages"] += len(names) - len(with_messages)

    def episodes(self) -> Sequence[EpisodeReader]:
        """The one episode."""
        return [SingleEpisode(self.read)]

    def read(self) -> Iterator[Rows]:
        """The rows of the one episode, topic by topic."""
        for names in self._groups():
            log = self._load(names)
            for data in log.data_list:
                if self._selection.reads(stream_name(data.name, data.multi_id)):
                    yield from self._topic(data)
        self._selection.check()
        self._note_log(log)

    @functools.cached_property
    def _logged(self) -> NDArray[np.int64]:
        return self._contents.logged()

    def _groups(self) -> list[list[str]]:
        """The topics to read, in groups of at most `GROUP_BYTES`, or of one topic."""
        groups: list[list[str]] = []
        held = GROUP_BYTES
        for name, size in sorted(self._contents.bytes.items()):
            instances = {stream_name(*t) for t in self._contents.topics.values() if t[0] == name}
            if not any(map(self._selection.reads, instances)):
                continue
            if held + size > GROUP_BYTES:
                groups.append([])
                held = 0
            groups[-1].append(name)
            held += size
        return groups

    def _load(self, names: list[str]) -> Any:
        with reading(self.path, WHAT), contextlib.redirect_stdout(io.StringIO()):
            return self._ulog(str(self.path), names)

    def _note_log(self, log: Any) -> None:
        """Notes on the log as a whole."""
        if log.dropouts:
            total = sum(int(dropout.duration) for dropout in log.dropouts)
            self.notes[f"dropouts of the logger ({total} ms in all), left as gaps"] += len(
                log.dropouts
            )
        if log.file_corruption:
            self.notes["damaged places in the log, skipped"] += 1
        elif not self._contents.is_whole:
            self.notes["logs that end within a record: its last messages are missing"] += 1

    def _topic(self, data: Any) -> Iterator[Rows]:
        """The streams of one instance of a topic."""
        name = stream_name(data.name, data.multi_id)
        # A damaged definition may name fields that the messages do not have.
        with reading(self.path, WHAT):
            stamps: NDArray[np.uint64] = data.data["timestamp"]
            streams = list(self._streams(name, data))
        streams = [one for one in streams if self._selection.wants(one[0], name)]
        refuse_duplicates(self.path, f"streams of {name}", [stream for stream, *_ in streams])
        of_topic = self._contents.keys == data.msg_id
        if _is_stamped_once(stamps):
            logged = self._logged[of_topic]
            what = f"messages of {name}, all stamped {stamps[0]} us"
            if len(logged) != len(stamps):
                self.notes[f"{what}, left out"] += len(stamps)
                return
            self.notes[f"{what}, timed by the newest stamp logged before them"] += len(stamps)
            stamps = logged.astype(np.uint64)
        impossible, is_ahead = stamps > _LATEST_STAMP, np.zeros(len(stamps), np.bool_)
        ahead = np.flatnonzero(of_topic & self._contents.is_ahead)
        if ahead.size:
            bogus, logged = self._contents.stamps[ahead], self._logged[ahead]
            is_ahead = np.isin(stamps, bogus.astype(np.uint64))
            self.notes[
                f"messages of {name} stamped more than {_AHEAD / 1e6:g} s ahead of the log, left "
                f"out (the first {bogus[0] / 1e6:,.6f} s, logged at {logged[0] / 1e6:,.6f} s)"
            ] += int(np.count_nonzero(is_ahead))
        kept = np.flatnonzero(~(impossible | is_ahead))
        times: Times = stamps[kept].astype(np.int64) * _US
        steps = np.diff(times)
        for what, rows in (
            ("with an impossible stamp, left out", impossible),
            ("that repeat the time of the one before", steps == 0),
            ("earlier than the one before them, sorted by time", steps < 0),
        ):
            if rows.any():
                self.notes[f"messages of {name} {what}"] += int(np.count_nonzero(rows))
        if (steps < 0).any():
            order = np.argsort(times, kind="stable")
            kept, times = kept[order], times[order]
        for stream, metadata, columns, dtype in streams:
            self.streams[stream] = metadata
            step = rows_per_chunk(len(columns) * dtype.itemsize)
            for a in range(0, len(kept), step):
                rows = kept[a : a + step]
                values = np.stack([column[rows] for column in columns], -1)
                yield Rows(stream, times[a : a + step], values.astype(dtype, copy=False))

    def _streams(
        self, name: str, data: Any
    ) -> Iterator[tuple[str, StreamMetadata, list[NDArray[Any]], np.dtype[Any]]]:
        """The streams of a topic: name, metadata, a column for each channel, type."""
        source = f"topic {data.name}, instance {data.multi_id}"
        levels: dict[str, list[tuple[str, np.dtype[Any]]]] = {}
        arrays: dict[str, list[NDArray[Any]]] = {}
        columns: dict[str, NDArray[Any]] = {}
        for field_ in data.field_data:
            full = field_.field_name
            if full == "timestamp":
                continue
            if field_.type_str == "char":
                self.notes[f"characters of {name} that are text, left out"] += 1
                continue
            column = data.data[full]
            if field_.type_str == "bool":
                column = column.astype(np.bool_)
            if full.endswith("]"):
                arrays.setdefault(full.rpartition("[")[0], []).append(column)
            else:
                level, _, key = full.rpartition(".")
                levels.setdefault(level, []).append((key, column.dtype))
                columns[full] = column
        for level, fields in levels.items():
            prefix = f"{level}." if level else ""
            path = below(name, _path(level))
            for group in group_fields(fields):
                metadata = StreamMetadata(group.method, None, group.fields, source=source)
                found = [columns[prefix + key] for key in group.fields]
                yield below(path, group.name), metadata, found, group.dtype
        for field_name, found in arrays.items():
            dtype = found[0].dtype
            is_turn = field_name.rpartition(".")[2] in _QUATERNIONS and len(found) == 4
            method = "slerp_wxyz" if is_turn and dtype.kind == "f" else method_of(dtype)
            yield (
                below(name, _path(field_name)),
                StreamMetadata(method, source=source),
                found,
                dtype,
            )


def _path(name: str) -> str:
    """``esc[2].rpm`` as ``esc.2/rpm``."""
    return re.sub(r"\[(\d+)\]", r".\1", name.replace(".", "/"))


def _is_stamped_once(stamps: NDArray[np.uint64]) -> bool:
    """Whether all messages of a topic have one stamp, or none: it says nothing of their times."""
    if len(stamps) == 0:
        return False
    return bool((stamps == stamps[0]).all()) and (len(stamps) > 1 or stamps[0] == 0)


def stream_name(topic: str, instance: int) -> str:
    """The stream name of a topic's instance: the first has the topic's own name."""
    return topic if instance == 0 else f"{topic}.{instance}"


def _recognizes(path: Path) -> bool:
    return head(path).startswith(MAGIC)


READER = Reader("PX4 ULog", "ulog", "a .ulg file", _recognizes, UlogRecording, (".ulg",))
