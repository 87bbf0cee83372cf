"""Which rows a repair marks: those of the doctor's findings, or those that the caller names."""

from __future__ import annotations

import numbers
from collections.abc import Sequence

import numpy as np

from robocache.core.matching import choose, stored_names
from robocache.doctor.finding import Finding, Times
from robocache.store.dtypes import STORAGE
from robocache.store.episode_store import EpisodeStore
from robocache.store.marks import Mark

BY_DEFAULT = ("not_finite", "spike", "stuck")
"""Kinds of findings whose values were never measured, and which no policy should learn from."""
KINDS = (*BY_DEFAULT, "saturated", "not_unit")
"""Kinds of findings that name rows."""
BY_HAND = "by hand"

Range = tuple[int | float | None, int | float | None]
"""Begin and end of a range, the end exclusive; None: that of the episode."""


def check_kinds(findings: Sequence[str]) -> tuple[str, ...]:
    """Validates the kinds of findings that a caller requests.

    Raises:
        TypeError: `findings` is no sequence of str.
        ValueError: A kind does not name rows, or `findings` is empty.
    """
    if isinstance(findings, str):
        raise TypeError(f"findings: expected a list of kinds such as ['stuck'], got {findings!r}")
    kinds = tuple(findings)
    for kind in kinds:
        if kind not in KINDS:
            raise ValueError(
                f"findings: expected some of {', '.join(KINDS)}, which name rows; got {kind!r}"
            )
    if not kinds:
        raise ValueError(f"findings: expected at least 1 of {', '.join(KINDS)}, got none")
    return kinds


def choose_streams(store: EpisodeStore, streams: Sequence[str] | None) -> list[str]:
    """The streams of a store that patterns name; None: all.

    Raises:
        ValueError: A pattern names no stream.
    """
    if streams is None:
        return list(store.streams)
    names = stored_names({name: info.source for name, info in store.streams.items()})
    return choose([streams] if isinstance(streams, str) else streams, names, "streams")


def choose_episodes(store: EpisodeStore, episodes: Sequence[int] | None) -> list[int]:
    """The indices of episodes, each once; negative ones count from the end; None: all.

    Raises:
        ValueError: An index is out of range.
    """
    if episodes is None:
        return list(range(len(store)))
    chosen = []
    for index in episodes:
        is_number = isinstance(index, numbers.Integral) and not isinstance(index, bool)
        if not is_number or not -len(store) <= index < len(store):
            raise ValueError(f"episodes: expected indices below {len(store)}, got {index!r}")
        chosen.append(int(index) % len(store))
    return sorted(set(chosen))


def marks_of_findings(
    findings: Sequence[Finding],
    kinds: Sequence[str],
    streams: Sequence[str],
    episodes: Sequence[int],
) -> list[Mark]:
    """The rows of warnings and errors of some kinds, in the order of episodes and streams."""
    order = {name: number for number, name in enumerate(streams)}
    wanted = set(episodes)
    marks = [
        Mark(finding.episode, finding.stream, finding.rows, finding.kind)
        for finding in findings
        if finding.severity != "info"
        and finding.kind in kinds
        and finding.rows
        and finding.episode in wanted
        and finding.stream in order
        and finding.episode is not None
        and finding.stream is not None
    ]
    return sorted(marks, key=lambda mark: (mark.episode, order[mark.stream]))


def marks_by_rows(
    store: EpisodeStore, ranges: Sequence[Range], streams: Sequence[str], episodes: Sequence[int]
) -> list[Mark]:
    """Ranges of rows of one stream of one episode.

    Raises:
        ValueError: `streams` or `episodes` has not exactly 1 item, or a range exceeds the rows.
    """
    for option, chosen in (("streams", streams), ("episodes", episodes)):
        if len(chosen) != 1:
            raise ValueError(
                f"{option}: expected 1 whose rows are numbered so, got {len(chosen):,}"
            )
    (name,), (episode,) = streams, episodes
    count = len(_times(store, name, episode))
    found = []
    for begin, end in ranges:
        first, last = 0 if begin is None else begin, count if end is None else end
        whole = all(isinstance(x, numbers.Integral) for x in (first, last))
        if not whole or not 0 <= first < last <= count:
            raise ValueError(
                f"rows: expected a range within the {count:,} rows of {name} in episode "
                f"{episode}, such as 0:{count}, got {_text(begin, end)}"
            )
        found.append((int(first), int(last)))
    return [Mark(episode, name, tuple(sorted(found)), BY_HAND)]


def marks_by_times(
    store: EpisodeStore, ranges: Sequence[Range], streams: Sequence[str], episodes: Sequence[int]
) -> list[Mark]:
    """Rows of streams within ranges of seconds since the start of each episode.

    Raises:
        ValueError: A range is empty or not of numbers.
    """
    seconds = []
    for begin, end in ranges:
        first = -np.inf if begin is None else float(begin)
        last = np.inf if end is None else float(end)
        if not first < last:  # NaN too
            raise ValueError(
                "times: expected seconds since the episode's start, the end after the begin, "
                f"such as 1.5:2, got {_text(begin, end)}"
            )
        seconds.append((first, last))
    marks = []
    for episode in episodes:
        found = store[episode]
        for name in streams:
            if name not in found:
                continue
            # Rounded as `check` and `view` print them: a row at 0.3 s is at 300,000,000 ns.
            # Unsigned: an episode may last longer than int64 counts.
            since = (_times(store, name, episode) - found.start_ns).view(np.uint64) / 1e9
            rows = [
                (int(np.searchsorted(since, first)), int(np.searchsorted(since, last)))
                for first, last in sorted(seconds)
            ]
            marks.append(Mark(episode, name, tuple(rows), BY_HAND))
    return marks


def _times(store: EpisodeStore, name: str, episode: int) -> Times:
    _, parts = store.pieces(name, [episode], STORAGE[store.streams[name].type_name])
    return np.concatenate([np.empty(0, np.int64), *(part.times for part in parts)])


def _text(begin: object, end: object) -> str:
    return f"{'' if begin is None else begin}:{'' if end is None else end}"
