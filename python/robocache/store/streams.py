"""Metadata of streams: type, shape, and metadata from recordings."""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from robocache.core.names import METHODS
from robocache.store.dtypes import FLOATS, STORAGE
from robocache.store.errors import StoreError

Method: TypeAlias = str | Sequence[tuple[str, int]]
Timeline: TypeAlias = Literal["time", "rows"]

# A row and the axis of rows are one view of the C++ library.
MAX_ROW_AXES = 7
_NAME = re.compile(r"[^\x00-\x1f]+")


@dataclass(frozen=True)
class StreamMetadata:
    """Metadata of a stream from a recording or a user; None if not stated.

    Attributes:
        method: How alignment should combine rows: a name, or a layout of (name, channels) pairs.
        units: Of the values, in words.
        channels: A name for each element of a row.
        rate: Nominal, in Hz.
        timeline: "time", or "rows" where the times were made from the rate.
        source: Where the stream comes from, in words.
    """

    method: Method | None = None
    units: str | None = None
    channels: tuple[str, ...] | None = None
    rate: float | None = None
    timeline: Timeline | None = None
    source: str | None = None


@dataclass(frozen=True)
class StreamEntry:
    """A stream of a shard or a store.

    Attributes:
        name: Of the stream.
        dtype: safetensors' name of the element type.
        shape: Of one row: () for a scalar, (H, W, C) for an image.
        metadata: What is known beyond that.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    metadata: StreamMetadata = StreamMetadata()

    @property
    def elements(self) -> int:
        """Elements of a row."""
        return math.prod(self.shape)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row's values."""
        return self.elements * STORAGE[self.dtype].itemsize

    @property
    def default_method(self) -> str:
        """How alignment combines rows where nobody said how."""
        return "linear" if self.dtype in FLOATS else "previous"

    def __str__(self) -> str:
        return f"{self.dtype} rows of shape {list(self.shape)}"

    def with_metadata(self, metadata: StreamMetadata) -> StreamEntry:
        """This stream with other metadata.

        Raises:
            ValueError: They do not fit its shape.
        """
        width = self.elements
        method = metadata.method
        if metadata.channels is not None and len(metadata.channels) != width:
            raise ValueError(
                f"{self.name}.channels: expected {width} names for {self}, "
                f"got {len(metadata.channels)}"
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
    """The name of a stream.

    Raises:
        TypeError: It is no str.
        ValueError: It is empty, has control characters, is no Unicode text, or is "episode".
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
    """Whether `text` can be written as UTF-8: not so for a lone surrogate of an odd file name."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_text(name: str, text: object) -> str:
    """A str that can be stored.

    Raises:
        TypeError: It is no str.
        ValueError: It is not Unicode text.
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
    """Metadata as a user gives them, checked.

    Raises:
        TypeError, ValueError: `<stream>.<fact>: expected ..., got ...`.
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
    """A stream of a store after rows of it came from somewhere else.

    What only one of them says holds for both, and the first source stays. A stored method that is
    merely the default gives way. A rate is what both say: rates that differ leave none, or are an
    error where times are made from them.

    Args:
        known: The stream so far.
        new: The stream as it comes.
        where: What is said of the file that `new` comes from.

    Raises:
        StoreError: Type, shape, method, units, channels or timeline differ, or the rate of rows.
    """
    if (known.dtype, known.shape) != (new.dtype, new.shape):
        raise StoreError(f"{where}: stream {known.name!r}: expected {known}, got {new}")
    a, b = known.metadata, new.metadata
    if a.method == known.default_method:
        a = replace(a, method=None)
    if b.method == known.default_method:
        b = replace(b, method=None)
    merged: dict[str, Any] = {}
    for fact in ("method", "units", "channels", "timeline"):
        ours, theirs = getattr(a, fact), getattr(b, fact)
        if ours is not None and theirs is not None and ours != theirs:
            raise StoreError(
                f"{where}: stream {known.name!r}: expected {fact} {ours!r}, got {theirs!r}"
            )
        merged[fact] = theirs if ours is None else ours
    rate = a.rate if a.rate == b.rate else None
    if rate is None and merged["timeline"] == "rows":
        if a.rate is not None and b.rate is not None:
            raise StoreError(
                f"{where}: stream {known.name!r}: expected rate {a.rate} Hz, got {b.rate} Hz"
            )
        rate = b.rate if a.rate is None else a.rate
    source = b.source if a.source is None else a.source
    return replace(known, metadata=StreamMetadata(**merged, rate=rate, source=source))


def declared(entry: StreamEntry, metadata: StreamMetadata) -> StreamEntry:
    """A stream of which somebody says more: what `metadata` has takes the place of what was known.

    Raises:
        ValueError: It does not fit the stream's shape.
    """
    said = {name: value for name, value in vars(metadata).items() if value is not None}
    return entry.with_metadata(replace(entry.metadata, **said))


class Streams:
    """The streams that a writer knows, and what was declared of streams, known or to come."""

    def __init__(self) -> None:
        self.entries: dict[str, StreamEntry] = {}
        self.declared: dict[str, StreamMetadata] = {}

    def declare(self, name: str, metadata: StreamMetadata) -> None:
        """Adds to what was declared of a stream before; None leaves a fact as it is.

        Raises:
            ValueError: It does not fit the stream's shape.
        """
        if name in self.entries:
            self.entries[name] = declared(self.entries[name], metadata)
        before = vars(self.declared.get(name, StreamMetadata()))
        said = {fact: value for fact, value in vars(metadata).items() if value is not None}
        self.declared[name] = StreamMetadata(**{**before, **said})

    def fit(self, name: str, dtype: str, shape: tuple[int, ...]) -> StreamEntry:
        """The stream that rows of this type and shape belong to, known or new.

        Raises:
            ValueError: They do not fit it, or what was declared of it.
        """
        known = self.entries.get(name)
        if known is not None and (known.dtype, known.shape) == (dtype, shape):  # nearly always
            return known
        new = StreamEntry(name, dtype, shape)
        if known is not None:
            raise ValueError(f"{name}.values: expected {known}, got {new}")
        if 0 in shape:
            raise ValueError(f"{name}.values: expected rows of at least 1 element, got {new}")
        if len(shape) > MAX_ROW_AXES:
            raise ValueError(
                f"{name}.values: expected rows of at most {MAX_ROW_AXES} axes, got {new}"
            )
        return declared(new, self.declared.get(name, StreamMetadata()))

    def keep(self, entry: StreamEntry) -> None:
        """Rows of it were taken."""
        self.entries[entry.name] = entry
