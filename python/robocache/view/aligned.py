"""Draws an aligned table: values over the rows that they are computed from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from robocache.doctor.finding import Floats, Series, Times, real_rows
from robocache.view.figures import (
    COLORS,
    GAP,
    GRAY,
    MOST_CHANNELS,
    MOST_POINTS,
    draw_legend,
    save_figure,
    style,
)
from robocache.view.selection import channels_left_out, most_varying, moving
from robocache.view.timeline import panel_title, seconds

DRAW_STYLES = {"previous": "steps-post", "nearest": "steps-mid"}


def draw_aligned(pairs: Sequence[tuple[Series, Series]], title: str, path: Path) -> list[str]:
    """Draws a panel for each stream: rows as dots, aligned values as lines, what is not valid.

    Of many streams those that move have a panel, of many channels those that vary most are drawn.

    Args:
        pairs: Each stream at the targets, with its mask, and its rows. All have the same targets.
        title: Of the picture.
        path: Where the picture goes; its suffix says of which kind.

    Returns:
        What was left out: ``"8 of 26 channels of action, which vary most"``.

    Raises:
        ValueError: If no stream is of numbers.
    """
    rows_of = {aligned.name: rows for aligned, rows in pairs}
    images = [aligned.name for aligned, _ in pairs if aligned.is_image]
    streams = [aligned for aligned, _ in pairs if not aligned.is_image]
    if not streams:
        raise ValueError("streams: expected at least 1 of numbers to draw, got images")
    drawn = moving(streams)
    times = streams[0].times
    start = int(times[0])
    with style():
        figure = Figure(figsize=(14, 1.3 * len(drawn) + 1.1), dpi=110, layout="constrained")
        axes = figure.subplots(len(drawn), 1, sharex=True, squeeze=False)[:, 0]
        for axis, aligned in zip(axes, drawn, strict=True):
            _draw_panel(axis, aligned, rows_of[aligned.name], start)
        length = (int(times[-1]) - start) / 1e9
        axes[0].set_xlim(-0.01 * length, 1.01 * length or 1.0)
        axes[-1].set_xlabel("time since the table's start, s")
        figure.suptitle(
            f"{title}\nlines: aligned; dots: recorded rows; shaded: not valid (orange within a "
            "stream's rows, gray outside)",
            fontsize=10,
        )
        save_figure(figure, path)
    return [
        *channels_left_out(drawn, streams, MOST_CHANNELS),
        *[f"no images of {name}" for name in images],
    ]


def _draw_panel(axis: Axes, aligned: Series, rows: Series, start: int) -> None:
    valid = np.ones(len(aligned.times), bool) if aligned.valid is None else aligned.valid
    axis.set_title(
        panel_title(aligned, f"{100 * valid.mean():.3g} % valid"), loc="left", fontsize=9
    )
    inside = (aligned.times >= rows.times[0]) & (aligned.times <= rows.times[-1])
    _shade(axis, aligned.times, ~valid & inside, start, GAP, 0.18)
    _shade(axis, aligned.times, ~valid & ~inside, start, GRAY, 0.15)
    method = aligned.metadata.method
    steps = DRAW_STYLES.get(method, "default") if isinstance(method, str) else "default"
    row_times, row_values = real_rows(rows)
    row_step = max(1, len(row_times) // MOST_POINTS)
    step = max(1, len(valid) // MOST_POINTS)
    t, row_t = seconds(aligned.times[::step], start), seconds(row_times[::row_step], start)
    for number, channel in enumerate(most_varying(rows, MOST_CHANNELS)):
        color = COLORS[number]
        axis.plot(row_t, row_values[::row_step, channel].astype(np.float64), ".", color=color,
                  ms=3.5, alpha=0.35, mew=0)  # fmt: skip
        column: Floats = aligned.values[::step, channel].astype(np.float64)
        column[~valid[::step]] = np.nan
        axis.plot(t, column, lw=0.9, color=color, drawstyle=steps, label=aligned.channel(channel))
    if aligned.values.shape[1] > 1:
        draw_legend(axis)


def _shade(
    axis: Axes, times: Times, marked: NDArray[np.bool_], start: int, color: str, alpha: float
) -> None:
    """Shades runs of marked targets, each from half a step before to half a step after."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], marked, [False]]).astype(np.int8)))
    begins, ends = edges[::2], edges[1::2] - 1
    t = seconds(times, start)
    half = (t[1] - t[0]) / 2 if len(t) > 1 else 0.5
    bars = zip(t[begins] - half, t[ends] - t[begins] + 2 * half, strict=True)
    axis.broken_barh(
        list(bars), (0, 1), transform=axis.get_xaxis_transform(), facecolors=color, alpha=alpha,
        linewidth=0,
    )  # fmt: skip
