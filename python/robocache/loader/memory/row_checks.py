"""Checks that the rows of a stream fit its window; they read times only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from robocache.loader.memory.file_rows import FileRows
from robocache.loader.window_spec import WindowSpec
from robocache.loader.windows import SUMMED
from robocache.store.rows import StreamRows


def check_times(rows: FileRows) -> None:
    """Checks that times ascend within each episode, which the search for rows requires.

    Raises:
        ValueError: A row is earlier than the one before it.
    """
    early = _first_early(rows, lambda piece: piece.times)
    if early is not None:
        raise ValueError(
            f"times[{rows.info.name!r}]: expected times that ascend in each episode, got "
            f"{_place(rows, early)} with an earlier time than the row before it"
        )


def check_arrivals(rows: FileRows) -> None:
    """Checks that rows arrived in the order of their times, which a causal window requires.

    Raises:
        ValueError: A row arrived before the row before it.
    """
    if not rows.has_received:
        return
    early = _first_early(rows, lambda p: p.times if p.received is None else p.received)
    if early is not None:
        raise ValueError(
            f"causal[{rows.info.name!r}]: expected rows that were received in the order of their "
            f"times, got {_place(rows, early)} before the row before it; causal=False looks at "
            f"times alone, and a store without `received` can have a latency_s"
        )


def _first_early(rows: FileRows, times_of: Callable[[StreamRows], NDArray[np.int64]]) -> int | None:
    """The first row with an earlier time than the row before it in its episode; None: no row."""
    before = 0
    for piece in rows.pieces:  # of whole episodes, so that no pair is cut in two
        times = times_of(piece)
        early = np.flatnonzero(times[1:] < times[:-1]) + before + 1
        # The first row of an episode follows none. Offsets ascend, so that a search per row is
        # enough: a pass over all of them for each piece would be quadratic.
        early = early[rows.offsets[np.searchsorted(rows.offsets, early)] != early]
        if len(early):
            return int(early[0])
        before += len(times)
    return None


def _place(rows: FileRows, row: int) -> str:
    episode = int(np.searchsorted(rows.offsets, row, side="right")) - 1
    return f"row {row - int(rows.offsets[episode])} of episode {episode} (of those chosen)"


def with_tolerance(window: WindowSpec, rows: FileRows, is_default: bool) -> WindowSpec:
    """A window by time; a default tolerance that would span rows becomes 0.

    Raises:
        ValueError: The user's is half the time between rows or more: any target would lie within
            it of some row.
    """
    is_summed = all(method in SUMMED for method in window.methods)
    if is_summed or window.tolerance_ns == 0:  # sums and means know none
        return window
    interval = rows.typical_interval
    if not 2 * window.tolerance_ns >= interval > 0:
        return window
    if is_default:
        return replace(window, tolerance_ns=0)
    raise ValueError(
        f"tolerance_s[{rows.info.name!r}]: expected less than half of the {interval * 1e-9:g} s "
        f"between its rows, got {window.tolerance_ns * 1e-9:g} (a row so near to a target is the "
        "answer alone; max_gap_s is what limits gaps)"
    )


def check_rows(rows: FileRows, anchor: FileRows, episodes: NDArray[np.int64]) -> None:
    """Checks that each episode has as many rows as the anchor's stream, or none.

    Raises:
        ValueError: An episode has another number of rows.
    """
    ours, theirs = np.diff(rows.offsets), np.diff(anchor.offsets)
    differs = (ours != theirs) & (ours != 0)
    if differs.any():
        e = int(np.flatnonzero(differs)[0])
        raise ValueError(
            f"timeline[{rows.info.name!r}]: expected as many rows in every episode as the anchor "
            f"{anchor.info.name} has, got {ours[e]} in place of {theirs[e]} in episode "
            f"{episodes[e]}; timeline='time' finds rows by their times"
        )
