"""The protocol of readers of recordings, its options and its errors.

A *recording* is a file or folder that robots or people made. It has *episodes*, and an episode has
*streams*: rows of values, each with its time. A reader hands out an episode as chunks of rows
(:class:`Rows`), so that an episode of any length is read in bounded memory.

Nothing here needs a library other than NumPy.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import json
import math
import os
import re
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from robocache.core.extras import install_hint
from robocache.core.matching import choose, find
from robocache.readers.limits import MEMORY_LIMIT
from robocache.readers.limits import RecordingError as RecordingError

CHUNK_BYTES = 32 << 20
"""How large a chunk of rows should be at most; a single row may be larger."""

TIME_UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
"""The units of time that options take, in nanoseconds."""

Times = NDArray[np.int64]
Method = str | tuple[tuple[str, int], ...]
"""How alignment combines a stream's rows: a method, or a layout of (method, channels)."""


class MissingLibrary(ImportError):  # noqa: N818 (it says what is missing)
    """A library that a format needs is not installed: the message says what to install."""


@dataclass(frozen=True)
class ReadOptions:
    """The user's options for reading.

    Raises:
        ValueError: For an option out of its range, ``name: expected X, got Y``.
    """

    rate: float | None = None
    """Rows per second of recordings that have no times and don't say their rate."""
    images: bool = True
    """Whether to decode images and video; False leaves those streams out, with a note."""
    resize: tuple[int, int] | None = None
    """Width and height of images; None: as recorded."""
    fit: Literal["pad", "crop", "stretch"] = "pad"
    """How an image of another aspect fits `resize`: black borders, cut off, or distorted."""
    topics: tuple[str, ...] | None = None
    """Streams or topics to read, as :mod:`robocache.core.matching` names them; None: all."""
    stamp: Literal["header", "received"] = "header"
    """The time of a message: the stamp in its header, or its time of receipt."""
    time_column: str | None = None
    """The column of times in a table; None: found by its name."""
    time_unit: Literal["ns", "us", "ms", "s"] | None = None
    """The unit of the time column; None: from its type or its name."""
    memory_limit: int = MEMORY_LIMIT
    """Bytes that a part of a recording may take beyond its bytes on disk; see `limits`."""

    def __post_init__(self) -> None:
        if self.memory_limit < 1:
            raise ValueError(f"memory_limit: expected bytes above 0, got {self.memory_limit}")
        if self.rate is not None and not (self.rate > 0 and math.isfinite(self.rate)):
            raise ValueError(f"rate: expected rows per second above 0, got {self.rate}")
        if self.resize is not None and not (len(self.resize) == 2 and min(self.resize) > 0):
            raise ValueError(f"resize: expected a width and a height above 0, got {self.resize}")
        for name, value, known in (
            ("fit", self.fit, ("pad", "crop", "stretch")),
            ("stamp", self.stamp, ("header", "received")),
            ("time_unit", self.time_unit, (None, *TIME_UNITS)),
        ):
            if value not in known:
                words = ", ".join(str(word) for word in known if word)
                raise ValueError(f"{name}: expected one of {words}, got {value!r}")

    def select(self, names: Iterable[str]) -> list[str]:
        """Selects the `names` that `topics` matches, in their order.

        Raises:
            RecordingError: For a pattern of `topics` that names none.
        """
        names = list(names)
        if self.topics is None:
            return names
        try:
            return choose(self.topics, [(name, name) for name in names], "topics")
        except ValueError as error:
            raise RecordingError(str(error)) from None

    def wants(self, name: str) -> bool:
        """Whether `topics` names a stream, whatever other streams there are."""
        return self.topics is None or any(find(pattern, [(name, name)]) for pattern in self.topics)


@dataclass(frozen=True)
class StreamMetadata:
    """Metadata of a stream in a recording; None if the recording has none."""

    method: Method | None = None
    """The default method of alignment."""
    units: str | None = None
    channels: tuple[str, ...] | None = None
    """A name for each number of a row."""
    rate: float | None = None
    """Nominal rows per second."""
    timeline: Literal["time", "rows"] = "time"
    """``"rows"``: the times were made from the rate."""
    source: str | None = None
    """Where the stream comes from, in words."""


@dataclass
class Rows:
    """A chunk: consecutive rows of one stream of one episode."""

    stream: str
    times: Times
    """[n] nanoseconds. Ascending through all chunks of a stream; equal times are kept."""
    values: NDArray[Any]
    """[n, ...]: bool, an integer or a floating type; images are uint8 [n,H,W,C]."""
    received: Times | None = None
    """[n] nanoseconds: when each row arrived."""
    valid: NDArray[np.bool_] | None = None
    """[n]: which rows are real."""

    def pick(self, rows: slice | NDArray[np.intp]) -> Rows:
        """Some of the rows, by a slice or their numbers."""
        return Rows(
            self.stream,
            self.times[rows],
            self.values[rows],
            None if self.received is None else self.received[rows],
            None if self.valid is None else self.valid[rows],
        )


class EpisodeReader(Protocol):
    """One episode of a recording, not read yet."""

    @property
    def key(self) -> str:
        """Names the episode within its recording, the same on every opening."""

    @property
    def task(self) -> str | None:
        """The task of the robot, in words."""

    @property
    def subsets(self) -> tuple[str, ...]:
        """Names of the subsets (train, valid, ...) that the episode belongs to."""

    def read(self) -> Iterator[Rows]:
        """The rows, in chunks of about `CHUNK_BYTES` at most; streams may take turns.

        Who reads may keep the arrays: they are not changed afterward.

        Raises:
            RecordingError: For an episode that cannot be read. What came before it is not to be
                kept.
        """


class Recording(ABC):
    """An opened recording; a context manager that closes it."""

    format: str
    """Format of the reader that opened it, such as ``"LeRobot"``."""

    def __init__(self, path: Path, options: ReadOptions) -> None:
        self.path = path
        self.options = options
        self.streams: dict[str, StreamMetadata] = {}
        """Metadata of the streams, as far as it is known; reading an episode may add some."""
        self.notes: Counter[str] = Counter()
        """Notes on what is left out or changed, in words that end before the number, with counts.

        Opening and reading count here: ``notes["rows out of order, sorted by time"] += 12``.
        """

    @abstractmethod
    def episodes(self) -> Sequence[EpisodeReader]:
        """All episodes, in the recording's order. Cheap: their rows are not read."""

    def image_bytes(self) -> int | None:
        """Bytes of the images of all episodes once they are decoded; None: not known unread."""
        return None

    def close(self) -> None:  # noqa: B027 (most readers keep nothing open)
        """Closes what is open. Episodes can't be read afterward."""

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


@dataclass(frozen=True)
class WholeRecording:
    """The one episode of a recording that has no more, without a task."""

    read: Callable[[], Iterator[Rows]]
    key: str = "0"
    task: str | None = None
    subsets: tuple[str, ...] = ()


@dataclass(frozen=True)
class _GuardedEpisode:
    """An episode of a `GuardedRecording`."""

    path: Path
    episode: EpisodeReader

    @property
    def key(self) -> str:
        return self.episode.key

    @property
    def task(self) -> str | None:
        with reading(self.path, f"episode {self.key} to be readable"):
            return self.episode.task

    @property
    def subsets(self) -> tuple[str, ...]:
        return self.episode.subsets

    def read(self) -> Iterator[Rows]:
        with reading(self.path, f"episode {self.key} to be readable"):
            yield from self.episode.read()


class GuardedRecording(Recording):
    """A recording as `open_recording` returns it: whatever its parsers raise is a RecordingError.

    See :func:`reading` for the exceptions that pass.
    """

    def __init__(self, recording: Recording) -> None:
        super().__init__(recording.path, recording.options)
        self._recording = recording
        self.format = recording.format
        self.streams = recording.streams
        self.notes = recording.notes

    def episodes(self) -> Sequence[EpisodeReader]:
        """All episodes, in the recording's order."""
        with reading(self.path, f"episodes of {self.format}"):
            return [_GuardedEpisode(self.path, one) for one in self._recording.episodes()]

    def image_bytes(self) -> int | None:
        """Bytes of the images of all episodes once they are decoded; None: unknown."""
        with reading(self.path, f"episodes of {self.format}"):
            return self._recording.image_bytes()

    def close(self) -> None:
        """Closes what is open."""
        self._recording.close()


@dataclass(frozen=True)
class Reader:
    """A format: how to recognize and how to open its recordings."""

    format: str
    """Its name, such as ``"LeRobot"``."""
    extra: str
    """The extra that brings its library, a key of :data:`robocache.core.extras.EXTRAS`."""
    expects: str
    """A description of the format, for messages: ``a folder with meta/info.json``."""
    recognizes: Callable[[Path], bool]
    """By content, without a library; may raise OSError."""
    opens: Callable[[Path, ReadOptions], Recording]
    """Opens a recording, without the guard of `open`."""
    suffixes: tuple[str, ...] = ()
    """Files that are named so, in small letters, are meant to be of this format."""

    def open(self, path: Path, options: ReadOptions) -> Recording:
        """Opens a recording.

        Raises:
            RecordingError: If it cannot be read.
            MissingLibrary: If a library that the format needs is not installed.
        """
        with reading(path, self.format):
            return GuardedRecording(self.opens(path, options))


# ---- what readers share --------------------------------------------------------------------------


_imported: dict[str, Any] = {}
"""Modules that `require` imported: it is called for every column, and imports take long."""


def require(module: str, what: str, extra: str, doing: str = "reading") -> Any:
    """Imports a library of an extra.

    Raises:
        MissingLibrary: If it is not installed: ``{doing} {what} needs {library}: pip install ...``.
    """
    known = _imported.get(module)
    if known is not None and sys.modules.get(module) is known:
        return known
    try:
        _imported[module] = importlib.import_module(module)
    except ModuleNotFoundError as error:
        library = module.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != library:
            raise  # it is there, and something else that it needs is not
        message = f"{doing} {what} needs {library}: {install_hint(extra)}"
        raise MissingLibrary(message, name=library) from None
    return _imported[module]


@contextlib.contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Turns what a parser raises into a RecordingError: ``path: expected {what}, got ...``.

    Libraries raise anything for damaged or hostile bytes, so every exception becomes one; the
    message has its type, and its traceback is its cause. These pass as they are: MemoryError and
    KeyboardInterrupt, a missing library, and failed assertions and unknown names in RoboCache's own
    code, which no recording can cause.

    Where a Git LFS pointer is in the file's place, or in a folder's, that is what the error says.
    """
    try:
        yield
    except RecordingError as error:
        if _A_POINTER not in str(error):
            refuse_pointer(path, what, error)
        raise
    except FileNotFoundError as error:
        if error.filename is not None and Path(os.fsdecode(error.filename)) != path:
            raise RecordingError(f"{path}: expected {what}, got no {error.filename}") from error
        raise RecordingError(
            f"{path}: expected {what}, got no such file{hub_hint(path)}"
        ) from error
    except PermissionError as error:
        raise RecordingError(f"{path}: expected {what}, got permission denied") from error
    except (MemoryError, ImportError):
        raise
    except Exception as error:
        if isinstance(error, (AssertionError, NameError)) and _is_own(error):
            raise
        refuse_pointer(path, what, error)
        text = " ".join(str(error).split()) or "no reason"
        if len(text) > _MOST_TEXT:
            text = f"{text[:_MOST_TEXT]}..."
        kind = type(error).__name__
        raise RecordingError(f"{path}: expected {what}, got {kind}: {text}") from error


_MOST_TEXT = 1000  # characters of a library's message: some have all of what they parse in them


def _is_own(error: Exception) -> bool:
    """Whether an exception was raised in RoboCache's code, not in a library."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and str(trace.tb_frame.f_globals.get("__name__")).startswith(
        "robocache."
    )


def refuse_pointer(path: Path, what: str, cause: Exception | None = None) -> None:
    """Refuses a Git LFS pointer, which is what a checkout has of a file before it is pulled.

    Raises:
        RecordingError: If `path` is one, or a folder that has one among its first 10,000 files.
    """
    pointer = _find_pointer(path)
    if pointer is not None:
        raise RecordingError(f"{pointer}: expected {what}, got {_A_POINTER}") from cause


_A_POINTER = "a Git LFS pointer (git lfs pull downloads the file itself)"
_POINTER_HEAD = b"version https://git-lfs.github.com/spec/"


def _find_pointer(path: Path) -> Path | None:
    try:
        files = itertools.islice(path.rglob("*"), 10_000) if path.is_dir() else [path]
        return next((file for file in files if is_pointer(file)), None)
    except OSError:  # what may not be read is reported by who reads it
        return None


def is_pointer(path: Path) -> bool:
    """Whether a file is a Git LFS pointer."""
    return (
        path.is_file()
        and path.stat().st_size <= 1024
        and (head(path, len(_POINTER_HEAD)) == _POINTER_HEAD)
    )


def is_storable(dtype: np.dtype[Any]) -> bool:
    """Whether values of a type can be a stream's: bool, integers, floats of 2 to 8 bytes."""
    return dtype.kind in "biuf" and dtype.itemsize <= 8


def native(values: NDArray[Any]) -> NDArray[Any]:
    """Converts values to this machine's byte order."""
    return values.astype(values.dtype.newbyteorder("="), copy=False)


def refuse_twice(path: object, what: str, names: Iterable[str]) -> None:
    """Refuses names that come more than once.

    Raises:
        RecordingError: ``path: expected {what} of different names, got a twice``.
    """
    counts = Counter(names)
    twice = sorted(name for name, count in counts.items() if count > 1)
    if twice:
        raise RecordingError(
            f"{path}: expected {what} of different names, got {', '.join(twice)} twice"
        )


def need_rate(path: Path, found: float | None, options: ReadOptions) -> float:
    """Rows per second of a recording without times: what it says, else what `options` say.

    Raises:
        RecordingError: If neither says it.
    """
    rate = found or options.rate
    if rate is None:
        raise RecordingError(
            f"{path}: expected a rate, since the recording has neither times nor a rate, got none "
            "(--rate, or rate=, says it)"
        )
    return rate


def head(path: Path, count: int = 16) -> bytes:
    """The first bytes of a file; none of a folder or of a file that is not a plain one."""
    if not path.is_file():
        return b""
    with path.open("rb") as file:
        return file.read(count)


def as_float(value: object) -> float | None:
    """A number that a recording states; None for anything else, and if float64 cannot hold it."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def shortened(value: object) -> str:
    """A value for messages: its first 60 characters."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of more than 4,300 digits, or nested deeply
        return f"{type(value).__name__} of great length"
    return text if len(text) <= 60 else f"{text[:60]}..."


def parse_json(path: Path, text: str | bytes) -> Any:
    """Parses the JSON text of a file.

    Raises:
        RecordingError: For an object that has two entries of one name.
        ValueError: For a text that is not JSON, or is nested too deeply for Python's parser.
    """

    def as_dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        refuse_twice(path, "entries", [name for name, _ in pairs])
        return dict(pairs)

    try:
        return json.loads(text, object_pairs_hook=as_dict)
    except RecursionError:
        raise ValueError("JSON that is nested too deeply") from None


def row_times(first: int, count: int, rate: float) -> Times:
    """[count] nanoseconds of the rows from `first` on, at `rate` rows per second from 0.

    Raises:
        RecordingError: If the last is beyond int64.
    """
    if count and (first + count) * 1e9 / rate >= 2.0**63:
        raise RecordingError(
            f"expected times within 292 years, got row {first + count - 1} at {rate:g} rows per "
            "second"
        )
    return np.rint(np.arange(first, first + count, dtype=np.float64) * 1e9 / rate).astype(np.int64)


def rows_per_chunk(row_bytes: int) -> int:
    """How many rows of `row_bytes` go into a chunk; at least 1."""
    return max(1, CHUNK_BYTES // max(1, row_bytes))


def chunks(rows: Rows) -> Iterator[Rows]:
    """Rows cut into chunks of bounded size, as views."""
    count = len(rows.times)
    step = rows_per_chunk(rows.values.nbytes // max(1, count))
    for a in range(0, count, step):
        yield rows.pick(slice(a, a + step))


def in_order(rows: Rows, notes: Counter[str]) -> Rows:
    """A stream's rows by ascending time; equal times keep their order. Moved rows are noted.

    A time of zero after a later one is a stamp that nobody set: such rows are left out, and noted.
    """
    is_unset = (rows.times == 0) & (np.maximum.accumulate(rows.times) > 0)
    unset = int(np.count_nonzero(is_unset))
    if unset:
        notes[f"rows of {rows.stream} stamped zero, left out"] += unset
        rows = rows.pick(np.flatnonzero(~is_unset))
    # Compared, not subtracted: times may be further apart than int64 holds.
    back = int(np.count_nonzero(rows.times[1:] < rows.times[:-1]))
    if back == 0:
        return rows
    notes[f"rows of {rows.stream} earlier than the row before them, sorted by time"] += back
    return rows.pick(np.argsort(rows.times, kind="stable"))


def note_lines(notes: Counter[str]) -> list[str]:
    """Notes for people: ``rows out of order, sorted by time: 12``."""
    return [f"{text}: {count:,}" for text, count in sorted(notes.items())]


def hub_hint(source: object) -> str:
    """How a data set of Hugging Face's Hub gets here, where a path reads like the id of one."""
    owner, _, name = str(source).partition("/")
    looks_like_id = re.fullmatch(r"[A-Za-z0-9][\w.-]*/[\w.-]+", str(source))
    if not looks_like_id or re.search(r"\.[A-Za-z]\w*$", name) or Path(owner).exists():
        return ""
    return (
        " (a data set of the Hub is downloaded first: hf download --repo-type dataset "
        f"{source} --local-dir {name})"
    )


def describe(path: Path) -> str:
    """Describes a path for messages: ``a folder with a, b``, ``a file that begins with ...``."""
    pointer = _find_pointer(path)
    if pointer is not None:
        where = "" if pointer == path else f"a folder with {pointer.relative_to(path)}, "
        return where + _A_POINTER
    if path.is_dir():
        names = sorted(entry.name for entry in path.iterdir())
        if not names:
            return "an empty folder"
        more = f" and {len(names) - 4} more" if len(names) > 4 else ""
        return f"a folder with {', '.join(names[:4])}{more}"
    if not path.is_file():
        return "a special file" if path.exists() else "no such file"
    start = head(path, 8)
    return f"a file that begins with {start!r}" if start else "an empty file"
