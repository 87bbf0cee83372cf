"""The protocol of the readers of recordings.

A *recording* is a file or folder that a robot or a person recorded. It has *episodes*, and an
episode has *streams*: rows of values, each with its time. A reader returns an episode as chunks of
rows (:class:`robocache.readers.rows.Rows`), so that an episode of any length is read in bounded
memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from robocache.readers.errors import RecordingError, reading
from robocache.readers.options import ReadOptions
from robocache.readers.rows import Rows

Method = str | tuple[tuple[str, int], ...]
"""How alignment combines a stream's rows: a method, or a layout of (method, channel count)."""


@dataclass(frozen=True)
class StreamMetadata:
    """Metadata of a stream in a recording; None for a field that the recording does not state."""

    method: Method | None = None
    """The default method of alignment."""
    units: str | None = None
    channels: tuple[str, ...] | None = None
    """A name for each number of a row."""
    rate: float | None = None
    """Nominal rows per second."""
    timeline: Literal["time", "rows"] = "time"
    """``"rows"``: the reader computed the times from the rate."""
    source: str | None = None
    """The origin of the stream, for people: ``column x``, ``topic /imu``."""


class EpisodeReader(Protocol):
    """One episode of a recording, whose rows are read by :meth:`read`."""

    @property
    def key(self) -> str:
        """The name of the episode in its recording, equal each time the recording is opened."""

    @property
    def task(self) -> str | None:
        """The task of the robot, in natural language."""

    @property
    def subsets(self) -> tuple[str, ...]:
        """Names of the subsets (train, valid, ...) that the episode belongs to."""

    def read(self) -> Iterator[Rows]:
        """The rows, in chunks of about `CHUNK_BYTES` at most; chunks of streams may interleave.

        The caller may keep the arrays: the reader does not modify them afterward.

        Raises:
            RecordingError: For an episode that cannot be read. The caller discards the chunks that
                it received before the error.
        """


class Recording(ABC):
    """An opened recording; a context manager that closes it."""

    format: str
    """Format of the reader that opened it, such as ``"LeRobot"``."""

    def __init__(self, path: Path, options: ReadOptions) -> None:
        self.path = path
        self.options = options
        self.streams: dict[str, StreamMetadata] = {}
        """Metadata of the streams known so far; reading an episode may add streams."""
        self.notes: Counter[str] = Counter()
        """Counts of what the reader leaves out or changes, by a description of it.

        Opening and reading add to it: ``notes["rows out of order, sorted by time"] += 12``.
        """

    @abstractmethod
    def episodes(self) -> Sequence[EpisodeReader]:
        """All episodes, in the recording's order. Cheap: it does not read their rows."""

    def image_bytes(self) -> int | None:
        """Bytes of the decoded images of all episodes; None: not known before reading them."""
        return None

    def close(self) -> None:  # noqa: B027 (most readers keep nothing open)
        """Closes open files. Episodes can't be read afterward."""

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


@dataclass(frozen=True)
class SingleEpisode:
    """The only episode of a recording; by default without a task."""

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
    """The recording that `open_recording` returns: it converts parsers' errors to RecordingError.

    See :func:`reading` for the exceptions that it does not convert.
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
        """Bytes of the decoded images of all episodes; None: not known before reading them."""
        with reading(self.path, f"episodes of {self.format}"):
            return self._recording.image_bytes()

    def close(self) -> None:
        """Closes open files."""
        self._recording.close()


@dataclass(frozen=True)
class Reader:
    """A format, with the functions that recognize and open its recordings."""

    format: str
    """Its name, such as ``"LeRobot"``."""
    extra: str
    """The extra that installs its library, a key of :data:`robocache.core.extras.EXTRAS`."""
    expects: str
    """A description of the format, for messages: ``a folder with meta/info.json``."""
    recognizes: Callable[[Path], bool]
    """Whether a path is of this format, by content, without a library; may raise OSError."""
    opens: Callable[[Path, ReadOptions], Recording]
    """Opens a recording, without the error conversion of `open`."""
    suffixes: tuple[str, ...] = ()
    """The format's usual file suffixes, in lower case."""

    def open(self, path: Path, options: ReadOptions) -> Recording:
        """Opens a recording.

        Raises:
            RecordingError: If it cannot be read.
            MissingLibrary: If a library that the format needs is not installed.
        """
        with reading(path, self.format):
            return GuardedRecording(self.opens(path, options))


def require_rate(path: Path, stated: float | None, options: ReadOptions) -> float:
    """Rows per second of a recording without times: the stated rate, else that of `options`.

    Raises:
        RecordingError: If neither has a rate.
    """
    rate = stated or options.rate
    if rate is None:
        raise RecordingError(
            f"{path}: expected a rate, since the recording has neither times nor a rate, got none "
            "(--rate, or rate=, says it)"
        )
    return rate


def note_lines(notes: Counter[str]) -> list[str]:
    """Notes as lines of text, sorted: ``rows out of order, sorted by time: 12``."""
    return [f"{text}: {count:,}" for text, count in sorted(notes.items())]
