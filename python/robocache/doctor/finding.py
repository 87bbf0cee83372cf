"""The data doctor's input and output: a stream of an episode, and a finding."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from robocache.core.display import ShortRepr, listed

Times = NDArray[np.int64]
Floats = NDArray[np.float64]
Severity = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
MOST = 4  # ranges of rows that a command in advice names


class Metadata(Protocol):
    """Metadata of a stream, as a store's stream and a reader provide it."""

    @property
    def method(self) -> str | Sequence[tuple[str, int]] | None:
        """How alignment combines rows: a name, or (name, channels) pairs."""

    @property
    def units(self) -> str | None:
        """Units of the values."""

    @property
    def channels(self) -> Sequence[str] | None:
        """Names of the channels."""

    @property
    def rate(self) -> float | None:
        """Nominal rate in Hz."""

    @property
    def timeline(self) -> str:
        """``"time"`` for recorded times, ``"rows"`` for times computed from the rate."""


@dataclass(frozen=True)
class Series:
    """One stream of one episode: n rows."""

    name: str
    times: Times
    """[n] int64 ns, in the order of the recording."""
    values: NDArray[Any]
    """[n,D]; of images a few pixels, of ragged rows their lengths."""
    metadata: Metadata
    received: Times | None = None
    """[n] int64 ns, when each row arrived."""
    valid: NDArray[np.bool_] | None = None
    """[n], which rows are real."""
    is_image: bool = False
    shape: tuple[int | None, ...] | None = None
    """Shape of one row as it was recorded, beginning with None for ragged rows; None: [D]."""
    ragged_dtype: np.dtype[Any] | None = None
    """Element type of ragged rows, whose lengths are in `values` [n,1]; None for other streams."""

    @property
    def is_ragged(self) -> bool:
        """Whether rows have different lengths."""
        return self.ragged_dtype is not None

    @property
    def steps(self) -> Times:
        """[n-1] ns from each row to the next, saturated to int64."""
        before, after = self.times[:-1], self.times[1:]
        with np.errstate(over="ignore"):
            steps = after - before
        ends = np.iinfo(np.int64)
        steps[(after > before) & (steps < 0)] = ends.max
        steps[(after < before) & (steps > 0)] = -ends.max  # whose absolute value fits too
        return steps

    def channel(self, index: int) -> str:
        """The name of a channel, or its number."""
        if self.is_ragged:
            return "items"
        names = self.metadata.channels
        return names[index] if names is not None and index < len(names) else str(index)

    def channels(self, indices: Sequence[int]) -> str:
        """Names of the first few channels, in words."""
        names = listed([self.channel(int(i)) for i in indices], 4)
        return f"channel{'s' if len(indices) > 1 else ''} {names}"


@dataclass(frozen=True, repr=False)
class Finding(ShortRepr):
    """A fact about the data that its user should know."""

    kind: str
    """Its kind, such as ``"gap"``; docs/cli.md lists all kinds."""
    severity: Severity
    """``"error"``: wrong as it is; ``"warning"``: likely to hurt; ``"info"``: good to know."""
    text: str
    """The finding in words."""
    advice: str
    """The remedy."""
    stream: str | None = None
    time_ns: int | None = None
    """Its first occurrence."""
    count: int = 1
    """The number of occurrences, in the unit of the text."""
    episode: int | None = None
    """Its index; None: the whole of the data."""
    time_s: float | None = None
    """`time_ns` since the episode's start."""
    streams: tuple[str, ...] = ()
    """All streams concerned, if several."""
    rows: tuple[tuple[int, int], ...] = ()
    """Rows of the stream, [begin, end), that `robocache repair` marks as not valid."""
    spans: tuple[tuple[int, int], ...] = ()
    """Times in ns, from the row before to the row after, that it is about."""
    cause: str | None = None
    """The kind of the finding that explains this one, such as ``"dropout"`` of a ``"gap"``."""

    def as_json(self) -> dict[str, Any]:
        """As `robocache check --json` prints it."""
        return asdict(self)


# ---- functions that several checks use -----------------------------------------------------------


def period_ns(times: Times) -> float:
    """The usual time between rows, averaged over 20 rows to remove jitter; 0: unknown."""
    span = max(1, min(20, (len(times) - 1) // 4))
    if len(times) <= span:
        return 0.0
    return float(np.median(times[span:] - times[:-span])) / span


def usual_ns(times: Times) -> float:
    """The longest of nine in ten intervals, or the period if that is longer."""
    if len(times) < 2:
        return 0.0
    return max(period_ns(times), float(np.quantile(np.diff(times), 0.9)))


def runs_of(series: Series) -> list[tuple[str, int, int]]:
    """(method, first channel, end) of each run of channels; all of them without a method."""
    width = series.values.shape[1]
    method = series.metadata.method or "linear"
    if isinstance(method, str):
        return [(method, 0, width)]
    runs, first = [], 0
    for name, channels in method:
        runs.append((name, first, first + channels))
        first += channels
    return runs


def real_rows(series: Series) -> tuple[Times, NDArray[Any]]:
    """Times and values of the rows that are valid."""
    if series.valid is None or bool(series.valid.all()):
        return series.times, series.values
    return series.times[series.valid], series.values[series.valid]


def row_ranges(series: Series, rows: NDArray[np.intp]) -> tuple[tuple[int, int], ...]:
    """Converts ascending row indices of `real_rows` to ranges [begin, end) of the stream's rows."""
    if series.valid is not None:
        rows = np.flatnonzero(series.valid)[rows]
    if len(rows) == 0:
        return ()
    edges = np.flatnonzero(np.diff(rows) != 1)
    begins = rows[np.concatenate([[0], edges + 1])]
    ends = rows[np.concatenate([edges, [len(rows) - 1]])] + 1
    return tuple(zip(begins.tolist(), ends.tolist(), strict=True))


def repair_command(kind: str) -> str:
    """The command that marks the rows of all findings of a kind, as advice names it."""
    return f"`robocache repair STORE --finding {kind}`"


def hand_command(series: Series, rows: NDArray[np.intp]) -> str:
    """The command that marks some rows of `real_rows`, of many ranges the first, by hand."""
    ranges = " ".join(f"--rows {begin}:{end}" for begin, end in row_ranges(series, rows)[:MOST])
    return (
        f"`robocache repair STORE --stream {shlex.quote(series.name)} --episode EPISODE {ranges}`"
    )


def name_store(advice: str, store: str | None) -> str:
    """Advice whose commands name the store; None: a recording, which has to be converted first."""
    if store is None:
        first = "`robocache convert` and then `robocache repair"
        return advice.replace("`robocache repair", first)
    return advice.replace("robocache repair STORE", f"robocache repair {shlex.quote(store)}")


def name_episode(advice: str, episode: int | None) -> str:
    """Advice whose commands name the episode, where it has a number."""
    return advice if episode is None else advice.replace("EPISODE", str(episode))


def duration(ns: float) -> str:
    """A time in words, in a fitting unit."""
    for unit, size in (("d", 86400e9), ("h", 3600e9), ("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if abs(ns) >= size:
            value = ns / size
            return f"{value:,.0f} {unit}" if abs(value) >= 999.5 else f"{value:.3g} {unit}"
    return f"{ns:.0f} ns"


def hertz(period: float) -> str:
    """A rate in words, of a period in ns."""
    return f"{1e9 / period:.4g} Hz" if period > 0 else "no rate"


def times_word(count: int) -> str:
    """How often."""
    return "once" if count == 1 else f"{count:,} times"
