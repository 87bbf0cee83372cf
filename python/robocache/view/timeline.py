"""The timeline of an episode: when each stream has rows, its rate, its gaps, its values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from robocache.core.display import cut as cut_text
from robocache.core.display import shape_words
from robocache.doctor.episode_data import EpisodeData
from robocache.doctor.finding import Finding, Floats, Series, Times, hertz, period_ns
from robocache.doctor.times import gap_rows
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
from robocache.view.selection import (
    EpisodePart,
    channels_left_out,
    cut,
    most_varying,
    moving,
)

THUMBNAILS = 10


def draw_timeline(
    episode: EpisodeData,
    streams: Sequence[Series],
    findings: Sequence[Finding],
    title: str,
    path: Path,
    span: tuple[int, int] | None = None,
) -> list[str]:
    """Draws an episode: a lane for each stream, and below a panel with its values.

    Of many streams those that move have a panel, of many channels those that vary most are drawn.

    Args:
        episode: Where images come from.
        streams: The episode's, as it was loaded; at least one with rows.
        findings: The doctor's on this episode: marked where they begin.
        title: Of the picture.
        path: Where the picture goes; its suffix says of which kind.
        span: The first and the last time to draw, in ns; None: the whole episode.

    Returns:
        What was left out: ``"8 of 26 channels of action, which vary most"``.

    Raises:
        ValueError: If no stream has rows, or for a suffix that matplotlib does not write.
    """
    streams = [series for series in streams if len(series.times)]
    if not streams:
        raise ValueError(f"{title}: expected a stream with rows, got none")
    start = min(int(series.times[0]) for series in streams)
    if span is not None:
        episode, streams = EpisodePart(episode, streams, *span), cut(streams, *span)
        if not streams:
            raise ValueError(f"{title}: expected rows in the time range, got none")
        findings = [f for f in findings if f.time_ns is None or span[0] <= f.time_ns <= span[1]]
    else:
        span = (start, max(int(series.times[-1]) for series in streams))
    channels = {series.name: most_varying(series, MOST_CHANNELS) for series in streams}
    drawn = moving(streams)
    lanes_height = 0.6 + 0.3 * len(streams)
    heights = [lanes_height, *[1.15] * len(drawn)]
    with style():
        figure = Figure(figsize=(14, sum(heights) + 0.9), dpi=110, layout="constrained")
        axes = figure.subplots(
            len(heights), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights}
        )[:, 0]
        _draw_lanes(axes[0], streams, findings, start)
        for axis, series in zip(axes[1:], drawn, strict=True):
            _draw_values(axis, episode, series, start, channels[series.name])
        begin_s, end_s = ((time - start) / 1e9 for time in span)
        margin = 0.01 * (end_s - begin_s)
        axes[0].set_xlim(begin_s - margin, (end_s + margin) or 1.0)  # pictures have set their own
        axes[-1].set_xlabel("time since the episode's start, s")
        figure.suptitle(cut_text(title, 200), fontsize=11)
        save_figure(figure, path)
    return channels_left_out(drawn, streams, MOST_CHANNELS)


def seconds(times: Times, start: int) -> Floats:
    """Since the start."""
    elapsed: Floats = (times - start) / 1e9
    return elapsed


def _draw_lanes(
    axis: Axes, streams: Sequence[Series], findings: Sequence[Finding], start: int
) -> None:
    marks = {series.name: lane for lane, series in enumerate(streams)}
    for lane, series in enumerate(streams):
        t = seconds(series.times, start)
        gaps = gap_rows(series)
        begins, ends = np.append(t[0], t[gaps + 1]), np.append(t[gaps], t[-1])
        axis.broken_barh(
            list(zip(begins, ends - begins, strict=True)), (lane - 0.3, 0.6),
            facecolors=COLORS[lane % len(COLORS)], alpha=0.75,
        )  # fmt: skip
        axis.broken_barh(
            list(zip(t[gaps], t[gaps + 1] - t[gaps], strict=True)), (lane - 0.3, 0.6),
            facecolors="none", edgecolors=GAP, hatch="////", linewidth=0.6,
        )  # fmt: skip
        if len(t) < MOST_POINTS / 10:
            axis.plot(t, np.full(len(t), lane), "|", color="white", ms=6, mew=0.6)
        rate = "by rows" if series.metadata.timeline == "rows" else hertz(period_ns(series.times))
        words = f"{len(t):,} rows, {rate}"
        if len(gaps):
            words += f", {len(gaps):,} gap{'s' * (len(gaps) > 1)}"
        axis.annotate(words, (1.0, lane), (4, 0), xycoords=("axes fraction", "data"),
                      textcoords="offset points", va="center", fontsize=8)  # fmt: skip
    for finding in findings:
        if finding.stream in marks and finding.time_ns is not None and finding.severity != "info":
            at = (finding.time_ns - start) / 1e9
            axis.plot([at], [marks[finding.stream] - 0.42], "v", color=GAP, ms=5, clip_on=False)
    axis.set_yticks(range(len(streams)), [cut_text(series.name) for series in streams])
    axis.set_ylim(len(streams) - 0.4, -0.7)
    axis.set_title(
        "rows of each stream; hatched: gaps; triangles: what `robocache check` warns of",
        loc="left", fontsize=9, color=GRAY,
    )  # fmt: skip


def _draw_values(
    axis: Axes, episode: EpisodeData, series: Series, start: int, channels: Sequence[int]
) -> None:
    t = seconds(series.times, start)
    axis.set_title(panel_title(series), loc="left", fontsize=9)
    for row in gap_rows(series):
        axis.axvspan(float(t[row]), float(t[row + 1]), color=GAP, alpha=0.15, lw=0)
    if series.is_image:
        _draw_frames(axis, episode, series, t)
        return
    step = max(1, len(t) // MOST_POINTS)
    steps = "steps-post" if series.metadata.method == "previous" else "default"
    for number, channel in enumerate(channels):
        column = series.values[::step, channel].astype(np.float64)
        name = cut_text(series.channel(channel), 40)
        axis.plot(t[::step], column, lw=0.8, color=COLORS[number], drawstyle=steps,
                  marker="." if len(t) < 50 else None, label=name)  # fmt: skip
    if series.values.shape[1] > 1:
        draw_legend(axis)
    if series.is_ragged:
        axis.set_ylabel("items of a row")
    elif series.metadata.units:
        axis.set_ylabel(cut_text(series.metadata.units, 40))


def _draw_frames(axis: Axes, episode: EpisodeData, series: Series, t: Floats) -> None:
    rows = [int(i) for i in np.unique(np.linspace(0, len(t) - 1, THUMBNAILS).astype(int))]
    frames = episode.frames(series.name, rows)
    axis.set_yticks([])
    if frames is None:  # of a recording: how bright a few pixels are
        axis.plot(t, series.values.mean(axis=1), lw=0.8, color=COLORS[0])
        axis.set_ylabel("brightness")
        return
    limits = float(t[0]), max(float(t[-1]), float(t[0]) + 1e-3)
    width = (limits[1] - limits[0]) / THUMBNAILS
    for i, frame in enumerate(frames):
        picture = frame if frame.shape[-1] in (3, 4) else frame[..., 0]
        left = limits[0] + i * width
        axis.imshow(picture, extent=(left, left + 0.96 * width, 0, 1), aspect="auto", cmap="gray")
    axis.set_ylim(0, 1)


def panel_title(series: Series, *metadata: str) -> str:
    """Name, type, shape and method of a stream, `metadata`, and how many channels are left out."""
    shape = shape_words(series.shape if series.shape is not None else [len(series.values)])
    method = series.metadata.method
    dtype = series.ragged_dtype or series.values.dtype
    words = [f"{cut_text(series.name)}   {dtype} {shape}".rstrip()]
    words += [method] if isinstance(method, str) else []
    words = [", ".join([*words, *metadata])]
    count = series.values.shape[1]
    if not series.is_image and count > MOST_CHANNELS:
        words.append(
            f"the {MOST_CHANNELS} channels that vary most, {count - MOST_CHANNELS:,} left out"
        )
    return "; ".join(words)
