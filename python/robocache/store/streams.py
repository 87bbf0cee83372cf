"""Streams in a writer: type, shape, and metadata from recordings and users."""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from robocache.core.names import METHODS
from robocache.jpeg.encoded import EncodedFrames
from robocache.jpeg.encoded import merged as merged_records
from robocache.store.dtypes import FLOATS, STORAGE
from robocache.store.errors import StoreError

Method: TypeAlias = str | Sequence[tuple[str, int]]
Timeline: TypeAlias = Literal["time", "rows"]

# The C++ library's views have at most 8 axes; one is the axis of rows.
MAX_ROW_AXES = 7
_SELECTING = ("previous", "nearest")  # methods that choose a row
_NAME = re.compile(r"[^\x00-\x1f]+")


@dataclass(frozen=True)
class StreamMetadata:
    """Metadata of a stream from a recording or a user; None if not stated.

    Attributes:
        method: How alignment combines rows: a name, or a layout of (name, channels) pairs.
        units: Units of the values, in words.
        channels: A name for each element of a row.
        rate: Nominal rate in Hz.
        timeline: "time" for recorded times, "rows" for times computed from the rate.
        source: Location of the stream in the recording, in words, such as "topic /imu".
    """

    method: Method | None = None
    units: str | None = None
    channels: tuple[str, ...] | None = None
    rate: float | None = None
    timeline: Timeline | None = None
    source: str | None = None


@dataclass(frozen=True)
class Encoding:
    """How the bytes of a stream's rows encode images.

    Attributes:
        name: "jpeg".
        shape: (H, W, C) of a decoded row.
        mcus_per_entry: MCUs for each entry of the index of a frame: robocache/jpeg.h.
    """

    name: str
    shape: tuple[int, ...]
    mcus_per_entry: int


@dataclass(frozen=True)
class StreamEntry:
    """A stream of a shard or a store.

    Attributes:
        name: Name of the stream.
        dtype: safetensors' name of the element type.
        shape: Shape of one row: () for a scalar, (H, W, C) for an image; of one item of a ragged
            row.
        metadata: Further metadata.
        is_ragged: Whether rows have different numbers of items: a row is [n, *shape].
        encoding: For rows of bytes that are encoded images; None for others.
        encoded: The rows that were encoded by this library; None if none were.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    metadata: StreamMetadata = StreamMetadata()
    is_ragged: bool = False
    encoding: Encoding | None = None
    encoded: EncodedFrames | None = None

    @property
    def values_shape(self) -> tuple[int, ...]:
        """Shape of a row of values, decoded where the stream is encoded; of a ragged row's item."""
        return self.shape if self.encoding is None else self.encoding.shape

    @property
    def elements(self) -> int:
        """Number of elements in a row, or in an item of a ragged row."""
        return math.prod(self.shape)

    @property
    def row_bytes(self) -> int:
        """Size in bytes of a row's values, or of an item of a ragged row."""
        return self.elements * STORAGE[self.dtype].itemsize

    @property
    def default_method(self) -> str:
        """How alignment combines rows if the metadata has no method."""
        return "linear" if self.dtype in FLOATS and not self.is_ragged else "previous"

    @property
    def layout(self) -> tuple[str, tuple[int, ...], bool, Encoding | None]:
        """Element type, shape, whether ragged, encoding: the same for all rows of the stream."""
        return self.dtype, self.shape, self.is_ragged, self.encoding

    def __str__(self) -> str:
        if self.encoding is not None:
            return f"{self.encoding.name.upper()} frames of shape {list(self.encoding.shape)}"
        sizes = ["*"] * self.is_ragged + [str(size) for size in self.shape]
        return f"{self.dtype} rows of shape [{', '.join(sizes)}]"

    def with_metadata(self, metadata: StreamMetadata) -> StreamEntry:
        """Copies this stream with other metadata.

        Raises:
            ValueError: The metadata do not fit the shape.
        """
        width = self.elements
        method = metadata.method
        if metadata.channels is not None and len(metadata.channels) != width:
            raise ValueError(
                f"{self.name}.channels: expected {width} names for {self}, "
                f"got {len(metadata.channels)}"
            )
        if self.is_ragged and method not in (None, *_SELECTING):
            raise ValueError(
                f"{self.name}.method: expected {' or '.join(_SELECTING)} for {self} (rows of "
                f"different lengths can't be combined), got {method!r}"
            )
        runs = [] if method is None else [(method, width)] if isinstance(method, str) else method
        if runs and sum(run for _, run in runs) != width:
            raise ValueError(
                f"{self.name}.method: expected runs that sum to {width} for {self}, "
                f"got {sum(run for _, run in runs)}"
            )
        for name, run in runs:
            if name.startswith("slerp") and run != 4:
                raise ValueError(f"{self.name}.method: expected {name} of 4 channels, got {run}")
        return replace(self, metadata=metadata)


def check_name(name: object) -> str:
    """Validates and returns the name of a stream.

    Raises:
        TypeError: The name is no str.
        ValueError: The name is empty, has control characters, is no Unicode text, or is "episode".
    """
    if not isinstance(name, str):
        raise TypeError(f"stream: expected a str, got {type(name).__name__}")
    if not _NAME.fullmatch(name) or name == "episode" or not is_text(name):
        raise ValueError(
            f"stream: expected a name without control characters, other than 'episode', "
            f"got {name!r}"
        )
    return name


def is_text(text: str) -> bool:
    """Whether UTF-8 can encode `text`: False for lone surrogates, which odd file names have."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_text(name: str, text: object) -> str:
    """Validates and returns a str that UTF-8 can encode.

    Raises:
        TypeError: `text` is no str.
        ValueError: `text` is no Unicode text.
    """
    if not isinstance(text, str):
        raise TypeError(f"{name}: expected a str, got {type(text).__name__}")
    if not is_text(text):
        raise ValueError(f"{name}: expected Unicode text, got {text!r}")
    return text


def make_metadata(
    stream: str,
    *,
    method: object = None,
    units: object = None,
    channels: object = None,
    rate: object = None,
    timeline: object = None,
    source: object = None,
) -> StreamMetadata:
    """Validates user-supplied metadata.

    Raises:
        TypeError, ValueError: `<stream>.<field>: expected ..., got ...`.
    """
    if units is not None:
        units = check_text(f"{stream}.units", units)
    if source is not None:
        source = check_text(f"{stream}.source", source)
    if channels is not None:
        if isinstance(channels, str) or not isinstance(channels, Sequence):
            raise TypeError(
                f"{stream}.channels: expected a list of str, got {type(channels).__name__}"
            )
        channels = tuple(check_text(f"{stream}.channels", name) for name in channels)
    if rate is not None:
        if not isinstance(rate, numbers.Real) or isinstance(rate, bool):
            raise TypeError(f"{stream}.rate: expected a number (Hz), got {type(rate).__name__}")
        rate = float(rate)
        if not 0 < rate < math.inf:
            raise ValueError(f"{stream}.rate: expected a finite number above 0 (Hz), got {rate}")
    if timeline is not None and timeline not in ("time", "rows"):
        raise ValueError(f"{stream}.timeline: expected time or rows, got {timeline!r}")
    return StreamMetadata(
        None if method is None else _check_method(f"{stream}.method", method),
        units,
        channels,
        rate,
        timeline,
        source,
    )


def _check_method(name: str, method: object) -> Method:
    if isinstance(method, str):
        return _check_method_name(name, method)
    if not isinstance(method, (list, tuple)) or not method:
        raise TypeError(f"{name}: expected a name or a list of (name, channels), got {method!r}")
    runs: list[tuple[str, int]] = []
    for run in method:
        if not isinstance(run, (list, tuple)) or len(run) != 2 or not isinstance(run[0], str):
            raise TypeError(f"{name}: expected a name or a list of (name, channels), got {run!r}")
        width: Any = run[1]
        if not isinstance(width, numbers.Integral) or isinstance(width, bool) or width < 1:
            raise ValueError(f"{name}: expected runs of at least 1 channel, got {width!r}")
        runs.append((_check_method_name(name, run[0]), int(width)))
    return tuple(runs)


def _check_method_name(name: str, method: str) -> str:
    if method not in METHODS:
        expected = ", ".join(METHODS[:-1])
        raise ValueError(f"{name}: expected {expected} or {METHODS[-1]}, got {method!r}")
    return method


def joined(known: StreamEntry, new: StreamEntry, where: str) -> StreamEntry:
    """Merges the metadata of a store's stream with those of added rows.

    A field that only one side states holds for both; of two sources the first stays. A stated
    method replaces one that is merely the default. Rates that differ become None; they are an
    error if the times are computed from the rate (timeline "rows").

    Args:
        known: The stream of the store.
        new: The stream of the added rows.
        where: The file of the added rows, for messages.

    Raises:
        StoreError: Type, shape, method, units, channels or timeline differ, or the rates of a
            "rows" timeline.
    """
    if known.layout != new.layout:
        raise StoreError(f"{where}: stream {known.name!r}: expected {known}, got {new}")
    a, b = known.metadata, new.metadata
    if a.method == known.default_method:
        a = replace(a, method=None)
    if b.method == known.default_method:
        b = replace(b, method=None)
    merged: dict[str, Any] = {}
    for field in ("method", "units", "channels", "timeline"):
        ours, theirs = getattr(a, field), getattr(b, field)
        if ours is not None and theirs is not None and ours != theirs:
            raise StoreError(
                f"{where}: stream {known.name!r}: expected {field} {ours!r}, got {theirs!r}"
            )
        merged[field] = theirs if ours is None else ours
    rate = a.rate if a.rate == b.rate else None
    if rate is None and merged["timeline"] == "rows":
        if a.rate is not None and b.rate is not None:
            raise StoreError(
                f"{where}: stream {known.name!r}: expected rate {a.rate} Hz, got {b.rate} Hz"
            )
        rate = b.rate if a.rate is None else a.rate
    source = b.source if a.source is None else a.source
    return replace(
        known,
        metadata=StreamMetadata(**merged, rate=rate, source=source),
        encoded=merged_records(known.encoded, new.encoded),
    )


def declared(entry: StreamEntry, metadata: StreamMetadata) -> StreamEntry:
    """Replaces the metadata of a stream by the fields that `metadata` states.

    Raises:
        ValueError: A field does not fit the stream's shape.
    """
    stated = {name: value for name, value in vars(metadata).items() if value is not None}
    return entry.with_metadata(replace(entry.metadata, **stated))


class Streams:
    """A writer's streams with rows, and declarations for streams with and without rows."""

    def __init__(self) -> None:
        self.entries: dict[str, StreamEntry] = {}
        self.declared: dict[str, StreamMetadata] = {}

    def declare(self, name: str, metadata: StreamMetadata) -> None:
        """Adds to the declaration of a stream; a field that is None leaves the earlier value.

        Raises:
            ValueError: A field does not fit the stream's shape.
        """
        if name in self.entries:
            self.entries[name] = declared(self.entries[name], metadata)
        before = vars(self.declared.get(name, StreamMetadata()))
        stated = {field: value for field, value in vars(metadata).items() if value is not None}
        self.declared[name] = StreamMetadata(**{**before, **stated})

    def fit(self, new: StreamEntry) -> StreamEntry:
        """Returns the stream for rows of this layout: the known one, or a new one.

        Raises:
            ValueError: The rows do not fit the known stream or the declaration.
        """
        name = new.name
        known = self.entries.get(name)
        if known is not None and known.layout == new.layout:  # the common case
            return known
        if known is not None:
            raise ValueError(f"{name}.values: expected {known}, got {new}")
        if 0 in new.shape:
            raise ValueError(f"{name}.values: expected rows of at least 1 element, got {new}")
        if len(new.shape) + new.is_ragged > MAX_ROW_AXES:
            raise ValueError(
                f"{name}.values: expected rows of at most {MAX_ROW_AXES} axes, got {new}"
            )
        return declared(
            replace(new, metadata=StreamMetadata()), self.declared.get(name, StreamMetadata())
        )

    def keep(self, entry: StreamEntry) -> None:
        """Registers a stream that has rows."""
        self.entries[entry.name] = entry
