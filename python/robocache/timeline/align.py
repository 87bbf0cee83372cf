"""`align`: any recording to one table on one timeline, over :func:`robocache.fuse`."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from robocache.align.fuse import Stream, fuse
from robocache.core.checks import nanoseconds_of
from robocache.core.matching import choose
from robocache.doctor.finding import Times
from robocache.doctor.times import DAY_NS
from robocache.readers import ReadOptions
from robocache.timeline.aligned import Aligned
from robocache.timeline.sources import Method, Source, sources_of
from robocache.timeline.stream import AlignedStream

MOST_CHANNELS = 256  # of a stream that is included by default


def align(
    source: Any,
    rate: float,
    *,
    episode: int = 0,
    streams: Sequence[str] | None = None,
    method: Method | Mapping[str, Method] | None = None,
    max_gap: float | None = None,
    span: Literal["union", "overlap"] = "union",
    options: ReadOptions | None = None,
) -> Aligned:
    """Aligns all streams of a recording to one timeline: a table with masks and ages.

    The timeline has a target every ``1 / rate`` seconds from the earliest row of all streams to the
    latest. Each stream is aligned by its stored method; where none is stored, floating values are
    interpolated linearly and others hold their last row. Validity is that of
    :func:`robocache.fuse`: a target is valid within the stream's own recording and, with `max_gap`,
    where it is made from rows that are close enough. Floating values that are not valid are NaN.

    Args:
        source: A recording, several files of one take, or a store; an episode of a store; an opened
            recording; or a dict of streams by name, each ``(values, times)`` or rows of an episode.
            Times are integers of nanoseconds or floats of seconds.
        rate: Targets per second.
        episode: Which, of a store or recording with several; -1 is the last.
        streams: Names of those to align, ``*`` and ``?`` as in a shell. None: all but images and
            those of more than 256 channels.
        method: One for all streams, or by name; None: the stored ones.
        max_gap: Seconds. Targets that are made from rows farther apart, or away, are not valid.
        span: ``"union"``: from the first row of any stream to the last; ``"overlap"``: while all
            streams have rows.
        options: How a recording is read. None: the defaults, with images only where `streams` is
            passed.

    Returns:
        The table.

    Raises:
        ValueError: For an option out of its range, a name that no stream has, streams of several
            clocks, or streams that do not overlap.
        TypeError: For an argument of a wrong type.

    Example:
        >>> import numpy as np, robocache as rc
        >>> force = np.array([0.0, 1.0, 2.0, 3.0]), np.array([0.0, 0.1, 0.2, 0.3])
        >>> grip = np.array([0, 1]), np.array([0.1, 0.3])
        >>> table = rc.align({"force": force, "grip": grip}, rate=20, max_gap=0.5)
        >>> table["force"].values.tolist()
        [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0]
        >>> table["grip"].valid.tolist()
        [False, False, True, True, True, True, True]
    """
    if not 0 < rate <= 1e9:
        raise ValueError(f"rate: expected targets per second above 0, up to 1e9, got {rate}")
    if max_gap is not None and not 0 <= max_gap < math.inf:
        raise ValueError(f"max_gap: expected seconds, 0 or more, got {max_gap}")
    if span not in ("union", "overlap"):
        raise ValueError(f"span: expected union or overlap, got {span!r}")
    found = sources_of(source, episode, options or ReadOptions(images=streams is not None))
    notes: list[str] = []
    found = _selected(found, streams, notes)
    methods = _methods(found, method)
    notes += [
        f"{name} looks like quaternions and is aligned linearly (methods slerp_xyzw and "
        "slerp_wxyz keep rotations)"
        for name, rows in found.items()
        if methods[name] == "linear" and _are_unit(rows.values)
    ]
    times = _timeline(found, rate, span)
    limit = None if max_gap is None else nanoseconds_of(max_gap)
    aligned = {
        name: _aligned(name, rows, methods[name], times, limit, rate)
        for name, rows in found.items()
    }
    return Aligned(times, rate, aligned, notes)


def _selected(
    found: Mapping[str, Source], streams: Sequence[str] | None, notes: list[str]
) -> dict[str, Source]:
    kept = {name: rows for name, rows in found.items() if len(rows.times)}
    ragged = [name for name, rows in kept.items() if rows.is_ragged]
    if streams is not None:
        names = choose(streams, [(name, name) for name in kept], "streams")
        if chosen := [name for name in names if name in ragged]:
            raise ValueError(
                "streams: expected streams whose rows have one shape, got ragged rows: "
                f"{', '.join(chosen)}"
            )
        return {name: kept[name] for name in names}
    if ragged:
        notes.append(f"streams of ragged rows are left out: {', '.join(ragged)}")
    kept = {name: rows for name, rows in kept.items() if name not in ragged}
    wide = [
        name
        for name, rows in kept.items()
        if rows.is_image or math.prod(rows.values.shape[1:]) > MOST_CHANNELS
    ]
    if wide:
        notes.append(f"images and wide streams are left out unless asked for: {', '.join(wide)}")
    kept = {name: rows for name, rows in kept.items() if name not in wide}
    if not kept:
        raise ValueError("streams: expected at least 1 stream with rows, got none")
    return kept


def _pairs(found: Mapping[str, Source]) -> list[tuple[str, str]]:
    return [(name, name) for name in found]


def _methods(found: Mapping[str, Source], method: Any) -> dict[str, Method]:
    methods = {name: _default(rows) for name, rows in found.items()}
    if isinstance(method, Mapping):
        for key, one in method.items():
            for name in choose([key], _pairs(found), "method"):
                methods[name] = one
    elif method is not None:
        methods = dict.fromkeys(found, method)
    return methods


def _are_unit(values: NDArray[Any]) -> bool:
    """Whether rows of 4 numbers all have norm 1, as quaternions do."""
    if values.shape[1:] != (4,) or values.dtype.kind != "f":
        return False
    return bool((np.abs(np.linalg.norm(values.astype(np.float64), axis=1) - 1) < 1e-3).all())


def _default(rows: Source) -> Method:
    is_float = rows.values.dtype.kind == "f" or rows.values.dtype.name == "bfloat16"
    if not is_float:  # rows of whole numbers and flags are chosen, not combined
        return "nearest" if rows.method == "nearest" else "previous"
    return rows.method or "linear"


def _timeline(found: Mapping[str, Source], rate: float, span: str) -> Times:
    firsts = {name: int(rows.times[0]) for name, rows in found.items()}
    lasts = {name: int(rows.times[-1]) for name, rows in found.items()}
    if span == "overlap":
        late, early = max(firsts, key=firsts.__getitem__), min(lasts, key=lasts.__getitem__)
        first, last = firsts[late], lasts[early]
        if last < first:
            raise ValueError(
                f"span: expected streams that overlap, got {early}, which ends "
                f"{(first - last) / 1e9:.3f} s before {late} begins (leave one out, or align the "
                "union)"
            )
    else:
        first, last = min(firsts.values()), max(lasts.values())
    every = np.sort(np.concatenate([rows.times for rows in found.values()]))
    every = every[(every >= first) & (every <= last)].view(np.uint64)  # differences past int64
    if (np.diff(every) > np.uint64(DAY_NS)).any():
        begins, ends = min(firsts, key=firsts.__getitem__), max(lasts, key=lasts.__getitem__)
        raise ValueError(
            f"streams: expected the times of one clock, got a silence of more than a day between "
            f"{begins} and {ends} (choose streams of one clock; of messages, the time of receipt)"
        )
    count = int((last - first) * rate / 1e9 + 1e-6) + 1
    row = sum(max(1, math.prod(rows.values.shape[1:])) * 8 + 9 for rows in found.values())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if count * row > memory:
        raise ValueError(
            f"rate: expected a table that fits in memory ({memory >> 20:,} MiB), got {count:,} "
            f"rows of {row:,} bytes (a lower rate, or fewer streams)"
        )
    steps = np.rint(np.arange(count) * (1e9 / rate)).astype(np.int64)
    times: Times = first + steps[steps <= last - first]
    return times


def _aligned(
    name: str,
    rows: Source,
    method: Method,
    times: Times,
    max_gap: int | None,
    rate: float,
) -> AlignedStream:
    """One stream at the targets."""
    values = np.asarray(rows.values)  # decodes images that are stored as JPEG
    shape = values.shape[1:]
    width = math.prod(shape)
    if values.dtype.name == "bfloat16":
        values = values.astype(np.float32)
    names = {method} if isinstance(method, str) else {name for name, _ in method}
    is_text = values.dtype.kind not in "biuf"  # or another kind that alignment does not take
    if is_text:
        data = np.arange(len(values))[:, None]
    elif values.dtype.kind != "f" and not names <= {"previous", "nearest"}:
        data = values.reshape(len(values), width).astype(np.float64)  # rows are combined
    else:
        data = values.reshape(len(values), width)
    stream = Stream(
        data,
        rows.times,
        method=method,  # type: ignore[arg-type]
        max_gap=max_gap,
        mean_window=max(1, round(1e9 / rate)) if "mean" in names else None,
        valid=rows.valid,
    )
    try:
        out, valid, age = fuse([stream], times, return_valid=True, return_age=True)
    except (TypeError, ValueError) as error:
        raise type(error)(str(error).replace("streams[0]", f"streams[{name}]")) from None
    is_valid = valid[:, 0]
    result = values[out[:, 0]] if is_text else out.reshape(len(times), *shape)
    if result.dtype.kind == "f":
        result[~is_valid] = np.nan
    return AlignedStream(result, is_valid, age[:, 0], method, rows.channels, rows)
