"""Reports on padding before a loader loads rows: warnings, and an error.

Fractions are of the samples that :mod:`padding_samples` computes. :func:`_reasons` relaxes one rule
after the other: a step that is valid without `max_gap_s` is padded because of a gap, and so on.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from robocache.loader.memory.file_rows import FileRows
from robocache.loader.padding_samples import ExaminedSamples, StepMasks, in_chunks, spread_evenly
from robocache.loader.summary import LoaderSummary, period_of, summarize
from robocache.loader.window_spec import WindowSpec

MOST_PADDED = 0.5
"""A key of which a larger share is padded is a warning."""
MOST_PERIODS = 5
"""A time between rows of more periods than this is a silence."""
MOST_SILENT = 0.01
"""A key of which a larger share is valid across silences is a warning, without `max_gap_s`."""
_FEW_ROWS = 10  # a stream of fewer has no rate
_MOST_LINES = 5  # of a warning

_CLOCKS_APART_NS = 86_400e9  # from anchors to the nearest row: no recording spans both

_PAGE = "docs/padding.md"
_STAMP = "convert again with --stamp received"


class Reason(NamedTuple):
    """Why steps are padded."""

    share: float  # of all steps
    text: str  # "73% lie before its first row"
    hint: str  # what to set
    is_fault: bool  # of the recording or the options; else the choice of episodes and offsets


class _Windows(NamedTuple):
    """The windows of a loader and their rows, by key."""

    windows: Mapping[str, WindowSpec]
    rows: Mapping[str, FileRows]
    anchors: NDArray[Any]  # [A] of anchors.ANCHOR: all samples
    episodes: NDArray[np.int64]  # [E,4]

    def samples_at(self, anchors: NDArray[Any], keys: Sequence[str]) -> ExaminedSamples:
        return ExaminedSamples({key: self.rows[key] for key in keys}, anchors, self.episodes)


def examine(
    windows: Sequence[WindowSpec],
    rows: Mapping[str, FileRows],
    anchors: NDArray[Any],
    episodes: NDArray[np.int64],
    is_checked: bool,
    warns: bool,
) -> LoaderSummary:
    """Computes the masks of some samples; warns of mostly padded keys and of silences.

    Args:
        windows: The loader's windows.
        rows: All rows of the chosen episodes, by key.
        anchors: [A] of `anchors.ANCHOR`: all samples.
        episodes: The table [E,4] of the chosen episodes.
        is_checked: Whether a window that is never valid is an error.
        warns: Whether to warn.

    Raises:
        ValueError: A window is not valid at any sample, and not for lack of rows in the episodes
            or for offsets past them, which are warnings.
    """
    of = _Windows({window.name: window for window in windows}, rows, anchors, episodes)
    samples = of.samples_at(spread_evenly(anchors, len(episodes)), list(of.windows))
    masks = samples.compute_masks(windows)
    summary = LoaderSummary(
        tuple(summarize(w, rows[w.name], samples.rows[w.name], masks[w.name]) for w in windows),
        len(anchors),
        len(samples),
    )
    for window in windows if is_checked else ():
        if not masks[window.name].is_pad.all():
            continue
        found = _reasons(samples, window, masks[window.name])
        if found[0].is_fault and _is_never_valid(of, window):
            _refuse(window, found, len(anchors))
    if warns:
        for text in (_padding_text(samples, windows, masks), _silence_text(samples, of, masks)):
            if text is not None:
                warnings.warn(f"Loader: {text}", UserWarning, stacklevel=_callers_level())
    return summary


def _callers_level() -> int:
    """`stacklevel` for the first caller outside the package, as :func:`examine` sees it."""
    level, frame = 1, sys._getframe(1)
    package = __name__.partition(".")[0]
    while frame.f_back is not None and frame.f_globals["__name__"].partition(".")[0] == package:
        level, frame = level + 1, frame.f_back
    return level


# ---- why -----------------------------------------------------------------------------------------


def _reasons(samples: ExaminedSamples, window: WindowSpec, masks: StepMasks) -> list[Reason]:
    """Why steps of a window are padded, the largest share first."""
    left, found = masks.is_pad, []

    def explain(explained: NDArray[np.bool_], text: str, hint: str, is_fault: bool = True) -> None:
        """Adds a reason for the explained steps, and removes them from `left`."""
        nonlocal left
        share = float((left & explained).mean())
        if share > 0:
            found.append(Reason(share, text, hint, is_fault))
        left = left & ~explained

    key = window.name
    if window.relative_to is not None:
        text = f"have no valid {window.relative_to.stream!r} to subtract"
        window = _alone(window)
        relaxed = samples.compute_masks([window])[key].is_pad
        explain(~relaxed, text, "its own padding says why", is_fault=False)
    if window.max_gap_ns is not None:
        gap = window.max_gap_ns * 1e-9
        window = replace(window, max_gap_ns=None)
        text = f"are farther from their rows than max_gap_s={gap:g} allows"
        explain(~samples.compute_masks([window])[key].is_pad, text, "a larger max_gap_s pads less")
    if samples.rows[key].has_valid:
        relaxed = samples.compute_masks([window], with_valid=False)[key].is_pad
        text = "are made of rows that are marked as not valid"
        explain(~relaxed, text, "`robocache info` on the store counts such rows")
    episode = samples.anchors["episode"]
    counts = np.diff(samples.rows[key].offsets)[episode]
    no_rows = np.broadcast_to((counts == 0)[:, None], left.shape)
    text = "are in episodes without rows of it"
    hint = "episodes= or predicate= leaves such episodes out"
    explain(no_rows, text, hint, is_fault=False)
    if window.causal:
        at_once = replace(window, latency_ns=0)
        relaxed = samples.compute_masks([at_once], with_received=False)[key].is_pad
        explain(~relaxed, *_arrival_texts(samples.rows[key], window))
    before, after, away = _outside(samples, window, counts)
    by = f" ({_seconds(away)} away by the median)" if away > 0 else ""
    other = away > _CLOCKS_APART_NS
    if other:
        by += ", whose times are of another clock"
    hint = "drop_n_first_frames or time_ranges leaves such samples out"
    explain(before, f"lie before its first row{by}", _STAMP if other else hint, other)
    hint = "shorter offsets, drop_n_last_frames or time_ranges leaves these out"
    explain(after, f"lie after its last row{by}", _STAMP if other else hint, other)
    explain(left, "are made of quaternions of zeros", "`robocache check` reports such rows")
    return sorted(found, reverse=True)


def _alone(window: WindowSpec) -> WindowSpec:
    return replace(window, relative_to=None)


def _arrival_texts(rows: FileRows, window: WindowSpec) -> tuple[str, str]:
    """Text and hint where no row had arrived by the anchor."""
    text = "are asked for before any row has arrived"
    if not rows.has_received:
        return f"{text} (latency_s={window.latency_ns * 1e-9:g})", "a smaller latency_s pads less"
    late = np.median((rows.received() - rows.times()).astype(np.float64))
    span = np.ptp(rows.times()) if rows.rows else 0
    if late > max(span, 1e9):  # longer than the recording
        return (
            f"{text}: by the median, `received` is {_seconds(late)} after the rows' times, which "
            "are of another clock",
            f"{_STAMP}; or rc.Window(causal=False) ignores arrivals",
        )
    return (
        f"{text}, which takes {_seconds(late)} by the median",
        "drop_n_first_frames or time_ranges leaves such samples out",
    )


def _outside(
    samples: ExaminedSamples, window: WindowSpec, counts: NDArray[np.int64]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], float]:
    """Which steps [A,K] lie before the first row and after the last; by the median, how far in ns.

    Rows that are counted have no such distance: it is 0.
    """
    steps = np.array(window.offsets)
    if window.by_rows:
        target = samples.anchors["frame"].astype(np.int64)[:, None] + steps
        return target < 0, target >= counts[:, None], 0.0
    rows = samples.rows[window.name]
    times, episode = rows.times(), samples.anchors["episode"]
    if not len(times):
        nowhere = np.zeros((len(samples), len(steps)), np.bool_)
        return nowhere, nowhere, 0.0
    last = np.maximum(rows.offsets[episode + 1] - 1, 0)
    first = np.minimum(rows.offsets[episode], len(times) - 1)
    # As floats: times of two clocks may be farther apart than int64 goes.
    target = samples.anchors["time_ns"].astype(np.float64)[:, None] + steps
    early, late = times[first][:, None] - target, target - times[last][:, None]
    before, after = early > 0, late > 0
    away = np.maximum(early, late)[(before | after) & (counts > 0)[:, None]]
    return before, after, float(np.median(away)) if len(away) else 0.0


def _seconds(ns: float) -> str:
    seconds = ns * 1e-9
    return f"{seconds:,.0f} s" if abs(seconds) >= 1000 else f"{seconds:.3g} s"


def _words(found: Sequence[Reason]) -> str:
    some = [reason for reason in found if reason.share >= 0.01]
    return ", ".join(f"{reason.share:.0%} {reason.text}" for reason in some)


# ---- a key that is mostly padded, or always ------------------------------------------------------


def _padding_text(
    samples: ExaminedSamples, windows: Sequence[WindowSpec], masks: Mapping[str, StepMasks]
) -> str | None:
    """The warning about keys that are mostly padded; None if there are none."""
    shares = {key: float(of_key.is_pad.mean()) for key, of_key in masks.items()}
    padded = [window for window in windows if shares[window.name] > MOST_PADDED]
    padded.sort(key=lambda window: -shares[window.name])
    if not padded:
        return None
    lines = []
    for window in padded[:_MOST_LINES]:
        found = _reasons(samples, window, masks[window.name])
        lines.append(
            f"{window.name}: {shares[window.name]:.0%} of its steps are padded: {_words(found)} "
            f"({found[0].hint})"
        )
    what = f"padding in more than half of the steps of {len(padded)} of {len(windows)} keys"
    return _listed(what, lines, len(padded), f"{_PAGE} says what is_pad means")


def _listed(what: str, lines: list[str], count: int, end: str) -> str:
    if count > len(lines):
        lines = [*lines, f"and {count - len(lines)} more"]
    body = "".join(f"\n  {line}" for line in lines)
    return f"{what}:{body}\n{end}; loader.summary() shows all keys"


def _is_never_valid(of: _Windows, window: WindowSpec) -> bool:
    """Whether a window is padded at all samples, computed chunk by chunk until one is valid."""
    windows = [window]
    if window.relative_to is not None:
        windows.append(of.windows[window.relative_to.stream])
    keys = [each.name for each in windows]
    return all(
        of.samples_at(anchors, keys).compute_masks(windows)[window.name].is_pad.all()
        for anchors in in_chunks(windows, of.anchors)
    )


def _refuse(window: WindowSpec, found: Sequence[Reason], samples: int) -> None:
    raise ValueError(
        f"windows[{window.name!r}]: expected a window that is valid at one sample at "
        f"least, got one that is padded at all {samples:,}: {_words(found)} ({found[0].hint})"
    )


# ---- silences ------------------------------------------------------------------------------------


def _silence_text(
    samples: ExaminedSamples, of: _Windows, masks: Mapping[str, StepMasks]
) -> str | None:
    """The warning about silences without a `max_gap_s`; None if there are none."""
    limits = {
        window.name: limit
        for window in of.windows.values()
        if not window.by_rows and window.max_gap_ns is None
        for limit in [_limit(window, of.rows[window.name], samples.rows[window.name])]
        if limit is not None
    }
    longest = {key: _longest(samples.rows[key], masks[key]) for key in limits}
    suspects = [key for key, limit in limits.items() if longest[key] > limit]
    if not suspects:
        return None
    alone = [_alone(of.windows[key]) for key in suspects]
    without = samples.compute_masks(alone)
    bounded = samples.compute_masks([replace(w, max_gap_ns=limits[w.name]) for w in alone])
    shares = {key: float((bounded[key].is_pad & ~without[key].is_pad).mean()) for key in suspects}
    silent = sorted((k for k in suspects if shares[k] > MOST_SILENT), key=lambda k: -shares[k])
    if not silent:
        return None
    lines = []
    for key in silent[:_MOST_LINES]:
        rate = 1e9 / period_of(of.rows[key], samples.rows[key])
        lines.append(
            f"{key}: {shares[key]:.0%} of its steps, with silences of up to "
            f"{_seconds(longest[key])} in rows of {rate:.4g} Hz ("
            f"rc.Window(max_gap_s={limits[key] * 1e-9:.2g}) pads them)"
        )
    what = (
        f"valid values across silences of more than {MOST_PERIODS} periods in {len(silent)} of "
        f"{len(of.windows)} keys"
    )
    return _listed(what, lines, len(silent), "a max_gap_s above the silences keeps the values")


def _limit(window: WindowSpec, rows: FileRows, sampled: FileRows) -> int | None:
    """The oldest that a row is without a silence, in ns; None: the stream has no rate.

    These are some periods, and in a causal window the time that a row takes to arrive.
    """
    period = period_of(rows, sampled)
    if rows.rows < _FEW_ROWS or not period > 0:
        return None
    delay = float(window.latency_ns) if window.causal else 0.0
    if window.causal and sampled.has_received and sampled.rows > 0:
        late = (sampled.received() - sampled.times()).astype(np.float64)
        delay = max(delay, float(np.median(late)))
    return round(MOST_PERIODS * period + delay)


def _longest(rows: FileRows, masks: StepMasks) -> float:
    """The longest time between neighbors, or from a row to a step that holds it, in ns."""
    steps = np.diff(rows.times())[rows.neighbors(rows.rows)]
    held = 0 if masks.age_ns is None else int(masks.age_ns[~masks.is_pad].max(initial=0))
    return max(float(steps.max(initial=0)), float(held))
