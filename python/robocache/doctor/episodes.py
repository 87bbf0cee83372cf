"""Findings on an episode's streams together, and on all episodes together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from robocache.core.display import listed
from robocache.doctor.clocks import two_clocks
from robocache.doctor.finding import Finding, Floats, Series, duration, times_word, usual_ns
from robocache.doctor.quaternions import quaternion_scalars
from robocache.doctor.times import gap_rows

OUTSIDE_NS = 1_000_000_000  # a stream may begin this late, or end this early
OUTSIDE_SHARE = 0.05  # and by this fraction of the episode
DRIFT_NS = 5_000_000  # between two clocks over an episode
DRIFT_PARTS = 10  # parts of an episode; the row of least delay counts in each
SHORT_SHARE = 0.1  # fraction of the usual number of rows
FEW_EPISODES = 5  # fewest episodes that define a usual one


def coverage(streams: Sequence[Series]) -> list[Finding]:
    """Streams that begin long after their episode does, or end long before it."""
    filled = [series for series in streams if len(series.times)]
    if not filled:
        return []
    start = min(int(series.times[0]) for series in filled)
    end = max(int(series.times[-1]) for series in filled)
    found = []
    for series in filled:
        if len(series.times) == 1 and end > start:  # latched: sent once, valid from then on
            found.append(_one_row(series, start))
            continue
        late, early = int(series.times[0]) - start, end - int(series.times[-1])
        allowed = max(OUTSIDE_NS, OUTSIDE_SHARE * (end - start), 3 * usual_ns(series.times))
        words = [
            f"{what} {duration(by)} {when}"
            for what, by, when in (
                ("begins", late, "after the episode does"),
                ("ends", early, "before the episode does"),
            )
            if by > allowed
        ]
        if words:
            at = int(series.times[0] if late > allowed else series.times[-1])
            found.append(
                Finding(
                    "coverage",
                    "warning",
                    " and ".join(words),
                    "results outside of a stream's rows are marked as not valid: leave them out of "
                    "training, or cut the episode",
                    series.name,
                    at,
                )
            )
    return found


def _one_row(series: Series, start: int) -> Finding:
    after = duration(float(int(series.times[0]) - start))
    return Finding(
        "one_row",
        "info",
        f"has one row, {after} after the episode's start",
        "nothing for what is sent once (a static transform, a map), whose row holds: leave it out "
        "if it should have more",
        series.name,
        int(series.times[0]),
    )


def dropout(streams: Sequence[Series]) -> list[Finding]:
    """Streams that fall silent together: the recorder failed, and not a sensor."""
    clocks = _clocks(streams)
    silences = [
        (int(series.times[row]), int(series.times[row + 1]), series)
        for series in clocks
        for row in gap_rows(series)
    ]
    silences.sort(key=lambda silence: silence[0])
    together: list[tuple[int, int, set[str]]] = []
    for begin, end, series in silences:
        if together and begin < together[-1][1]:
            first, last, names = together[-1]
            together[-1] = (first, max(last, end), names | {series.name})
        else:
            together.append((begin, end, {series.name}))
    lost = []
    for begin, end, names in together:
        # Slow streams have no row missing.
        notice = [series for series in clocks if 3 * usual_ns(series.times) < end - begin]
        if len(names) >= 2 and len(names) >= len(notice) / 2:
            lost.append((begin, end, names))
    if not lost:
        return []
    longest = max(end - begin for begin, end, _ in lost)
    silent = sorted(set().union(*(names for _, _, names in lost)))
    return [
        Finding(
            "dropout",
            "warning",
            f"{len(silent)} streams are silent together {times_word(len(lost))}, for up to "
            f"{duration(longest)}: {listed(silent, 4)}",
            "the recorder lost data (a slow disk, a full buffer): max_gap_s marks what is made "
            "from the rows around it",
            None,
            lost[0][0],
            len(lost),
            streams=tuple(silent),
            spans=tuple((begin, end) for begin, end, _ in lost),
        )
    ]


def explained(found: Sequence[Finding], streams: Sequence[Series]) -> list[Finding]:
    """The findings, each with its cause if another finding explains it.

    A dropout explains the gaps of a stream that all lie within it. Where a time or a clock is far
    off, no stream covers the episode; a second clock also explains how its rows arrive.
    """
    of_kind: dict[str, list[Finding]] = {}
    for finding in found:
        of_kind.setdefault(finding.kind, []).append(finding)
    spans = [span for finding in of_kind.get("dropout", ()) for span in finding.spans]
    other_clock = {name for finding in of_kind.get("two_clocks", ()) for name in finding.streams}
    far = next((kind for kind in ("two_clocks", "far_time") if kind in of_kind), None)
    by_name = {series.name: series for series in streams}

    def cause(finding: Finding) -> str | None:
        if finding.kind == "coverage":
            return far
        if finding.kind in ("arrives_early", "clock_drift") and finding.stream in other_clock:
            return "two_clocks"
        if finding.kind == "gap" and finding.stream and _within(by_name[finding.stream], spans):
            return "dropout"
        return None

    return [replace(finding, cause=cause(finding)) for finding in found]


def _within(series: Series, spans: Sequence[tuple[int, int]]) -> bool:
    times = series.times
    return all(
        any(begin <= times[row] and times[row + 1] <= end for begin, end in spans)
        for row in gap_rows(series)
    )


def _clocks(streams: Sequence[Series]) -> list[Series]:
    """One stream of each set with equal times: the fields of a message fall silent together."""
    different = {series.times.tobytes(): series for series in reversed(streams)}
    return [series for series in reversed(different.values()) if len(series.times) >= 4]


def clock_drift(streams: Sequence[Series]) -> list[Finding]:
    """Clocks that drift apart, of streams with arrival times."""
    drifts = {s.name: drift for s in streams if (drift := drift_ns(s)) is not None}
    if not drifts:
        return []
    # A stream without drift is on the recorder's clock, which all arrival times are of.
    found = []
    for name, drift in drifts.items():
        if abs(drift) <= DRIFT_NS:
            continue
        apart = {other: drift - theirs for other, theirs in drifts.items() if other != name}
        behind = "falls {} behind" if drift > 0 else "runs {} ahead of"
        against = "the recorder's"
        if apart:
            other = max(apart, key=lambda one: abs(apart[one]))
            if abs(apart[other]) > DRIFT_NS:
                against += f", and {duration(abs(apart[other]))} from that of {other},"
        times = next(s.times for s in streams if s.name == name)
        found.append(
            Finding(
                "clock_drift",
                "warning",
                f"the clock {behind.format(duration(abs(drift)))} {against} in "
                f"{duration(float(times[-1] - times[0]))}",
                "synchronize the clocks (PTP, chrony), or stamp rows by when they were received "
                "(convert --stamp received); clock_offset cancels a constant difference only",
                name,
                int(times[0]),
            )
        )
    return found


def drift_ns(series: Series) -> float | None:
    """The growth of the arrival delay from the first row to the last; None: unknown.

    The quickest row of each part of the episode counts, so that queues and bursts do not.
    """
    if series.received is None or len(series.times) < 10 * DRIFT_PARTS:
        return None
    delay = (series.received - series.times).astype(np.float64)
    parts = np.array_split(np.arange(len(delay)), DRIFT_PARTS)
    quickest = np.array([part[np.argmin(delay[part])] for part in parts])
    t = (series.times[quickest] - series.times[0]).astype(np.float64)
    length = float(series.times[-1] - series.times[0])
    if length <= 0 or len(np.unique(t)) < 3:
        return None
    slope, constant = np.polyfit(t / length, delay[quickest], 1)
    scatter = float(np.std(delay[quickest] - (slope * t / length + constant)))
    return float(slope) if abs(slope) > 4 * scatter else 0.0


EPISODE_CHECKS = (two_clocks, coverage, dropout, clock_drift, quaternion_scalars)


# ---- all episodes --------------------------------------------------------------------------------


def short_episodes(lengths: Sequence[int | None]) -> list[Finding]:
    """Episodes with a single row, or with far fewer than is usual.

    Args:
        lengths: The rows of each episode's longest stream; None: the episode can't be read.
    """
    known = [length for length in lengths if length is not None]
    usual = float(np.median(known)) if len(known) >= FEW_EPISODES else 0.0
    return [
        Finding(
            "short_episode",
            "warning",
            f"{length:,} row{'s' * (length != 1)}"
            + (f", where {usual:,.0f} are usual" if usual else ""),
            "see whether the recording was broken off; leave it out of training",
            episode=episode,
            count=1,
        )
        for episode, length in enumerate(lengths)
        if length is not None and (length < 2 or length < SHORT_SHARE * usual)
    ]


def missing_streams(present: Sequence[frozenset[str] | None]) -> list[Finding]:
    """Streams that only some episodes have.

    Args:
        present: The streams that have rows in each episode; None: the episode can't be read.
    """
    known = {episode: names for episode, names in enumerate(present) if names is not None}
    everything = sorted(frozenset().union(*known.values()))
    found = []
    for name in everything:
        without = [episode for episode, names in known.items() if name not in names]
        if without:
            found.append(
                Finding(
                    "missing_stream",
                    "warning",
                    f"absent from {len(without):,} of {len(known):,} episodes",
                    "leave those episodes or the stream out of training: without rows everything "
                    "is zero and not valid",
                    name,
                    episode=without[0],
                    count=len(without),
                )
            )
    return found


def constant_channels(series: Series, least: Floats, most: Floats, rows: int) -> list[Finding]:
    """Channels that have one value in all rows of all episodes.

    Args:
        series: Of the stream, whose name and metadata count.
        least: [D], the smallest finite value of each channel; NaN where there is none.
        most: [D], the largest.
        rows: How many there are.
    """
    channels = np.flatnonzero(least == most)
    if rows < 2 or len(channels) == 0:
        return []
    values = ", ".join(f"{least[channel]:g}" for channel in channels[:4])
    if len(channels) == len(least) > 1:
        what = "all channels are"
    else:
        what = f"{series.channels(channels.tolist())} {'are' if len(channels) > 1 else 'is'}"
    return [
        Finding(
            "constant",
            "info",
            f"{what} constant ({values}{', ...' if len(channels) > 4 else ''})",
            "leave them out, or keep them: normalization does not divide by their spread of zero",
            series.name,
            count=len(channels),
        )
    ]
