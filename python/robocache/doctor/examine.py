"""The data doctor: every check on every episode of a store or a recording."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from robocache.core.display import ShortRepr
from robocache.doctor.episode_data import Data, open_data
from robocache.doctor.episodes import (
    EPISODE_CHECKS,
    constant_channels,
    explained,
    missing_streams,
    short_episodes,
)
from robocache.doctor.finding import SEVERITIES, Finding, Floats, Series, name_episode, name_store
from robocache.doctor.motion import STILL_ROWS, never_moves, settle
from robocache.doctor.times import TIME_CHECKS, made_from_rate
from robocache.doctor.values import VALUE_CHECKS
from robocache.readers import ReadOptions
from robocache.readers.recording import note_lines

Progress = Callable[[int, int], None]
"""Called with the finished amount and the total: first bytes of a store, then episodes."""


@dataclass(repr=False)
class Diagnosis(ShortRepr):
    """The findings of the data doctor."""

    path: Path
    format: str
    episodes: int = 0
    findings: list[Finding] = field(default_factory=list)

    def count(self, severity: str) -> int:
        """The number of findings of a severity."""
        return sum(finding.severity == severity for finding in self.findings)

    def as_json(self) -> dict[str, Any]:
        """As `robocache check --json` prints it."""
        return {
            "path": str(self.path),
            "format": self.format,
            "episodes": self.episodes,
            **{f"{severity}s": self.count(severity) for severity in SEVERITIES},
            "findings": [finding.as_json() for finding in self.findings],
        }


def examine(
    path: str | os.PathLike[str],
    options: ReadOptions | None = None,
    progress: Progress | None = None,
) -> Diagnosis:
    """Examines a whole store or recording.

    An episode that can't be read, and a store that fails its checksums, are findings too. Memory
    holds the vectors of one episode at a time, and a few pixels of its images.

    Args:
        path: A store, or any recording that a reader knows.
        options: How to read a recording; None: the defaults, without images.
        progress: Called after each file of a store, then after each episode.

    Raises:
        StoreError: The store does not open.
        RecordingError: The recording does not open.
        MissingLibrary: The reader needs a library that is not installed.
    """
    options = options or ReadOptions(images=False)
    with open_data(path, options) as data:
        diagnosis = Diagnosis(data.path, data.format, len(data.episodes))
        _check_bytes(data, diagnosis, progress)
        together = _Together()
        for index, episode in enumerate(data.episodes):
            try:
                streams = episode.load()
            except ValueError as error:  # a StoreError or RecordingError
                diagnosis.findings.append(_unreadable(index, error))
                together.add(None)
            else:
                diagnosis.findings += check_episode(streams, index)
                together.add(streams)
            if progress is not None:
                progress(index + 1, len(data.episodes))
        diagnosis.findings += together.findings()
        diagnosis.findings += [
            Finding("reader", "info", note, "see docs/readers.md: what readers leave out or change")
            for note in note_lines(data.notes)
        ]
        store = None if data.store is None else os.fspath(path)
        diagnosis.findings = [
            replace(finding, advice=name_store(finding.advice, store))
            for finding in diagnosis.findings
        ]
    diagnosis.findings.sort(key=lambda finding: SEVERITIES.index(finding.severity))
    return diagnosis


def check_episode(streams: Sequence[Series], index: int | None = None) -> list[Finding]:
    """The findings on one episode.

    Args:
        streams: The streams of the episode.
        index: Index of the episode, for the findings.
    """
    found: list[Finding] = []
    for series in streams:
        checks = VALUE_CHECKS if made_from_rate(series) else TIME_CHECKS + VALUE_CHECKS
        with np.errstate(invalid="ignore", over="ignore"):  # infinity minus infinity
            found += [finding for check in checks if (finding := check(series)) is not None]
    found = settle(found, streams)
    for together in EPISODE_CHECKS:
        found += together(streams)
    found = explained(found, streams)
    start = min((int(series.times.min()) for series in streams if len(series.times)), default=0)
    return [
        replace(
            finding,
            advice=name_episode(finding.advice, index),
            episode=index,
            time_s=None if finding.time_ns is None else (finding.time_ns - start) / 1e9,
        )
        for finding in found
    ]


def _check_bytes(data: Data, diagnosis: Diagnosis, progress: Progress | None) -> None:
    if data.store is None:
        return
    try:
        data.store.verify(progress)
    except ValueError as error:
        diagnosis.findings.append(
            Finding(
                "checksum",
                "error",
                str(error),
                "the file changed since it was written: copy it again from a good copy, or convert "
                "its recordings anew",
            )
        )


def _unreadable(index: int, error: ValueError) -> Finding:
    return Finding(
        "unreadable",
        "error",
        str(error),
        "copy the file again from a good copy; convert skips such an episode and says so",
        episode=index,
    )


class _Together:
    """Data of all episodes examined so far."""

    def __init__(self) -> None:
        self.lengths: list[int | None] = []
        self.present: list[frozenset[str] | None] = []
        self.ranges: dict[str, tuple[Series, Floats, Floats, int]] = {}

    def add(self, streams: Sequence[Series] | None) -> None:
        """Adds an episode; None: it can't be read."""
        if streams is None:
            self.lengths.append(None)
            self.present.append(None)
            return
        self.lengths.append(max((len(series.times) for series in streams), default=0))
        self.present.append(frozenset(series.name for series in streams if len(series.times)))
        for series in streams:
            if not (series.is_image or series.is_ragged) and len(series.values):
                self._add_range(series)

    def _add_range(self, series: Series) -> None:
        values = series.values if series.valid is None else series.values[series.valid]
        if len(values) == 0:
            return
        if values.dtype.kind == "f":
            finite = np.isfinite(values)
            least = np.where(finite, values, np.inf).min(axis=0).astype(np.float64)
            most = np.where(finite, values, -np.inf).max(axis=0).astype(np.float64)
        else:
            least, most = (end(values, axis=0).astype(np.float64) for end in (np.min, np.max))
        rows = len(values)
        known = self.ranges.get(series.name)
        if known is not None and len(known[1]) == len(least):
            least, most = np.minimum(least, known[1]), np.maximum(most, known[2])
            rows += known[3]
        empty = replace(series, times=series.times[:0], values=series.values[:0])
        self.ranges[series.name] = (empty, least, most, rows)

    def findings(self) -> list[Finding]:
        found = short_episodes(self.lengths) + missing_streams(self.present)
        still = [seen[0].name for seen in self.ranges.values() if _is_still(*seen)]
        found += never_moves(still)
        for series, least, most, rows in self.ranges.values():
            if series.name not in still:
                found += constant_channels(series, least, most, rows)
        return found


def _is_still(series: Series, least: Floats, most: Floats, rows: int) -> bool:
    """Whether a stream that never moves is a finding; transforms of /tf may be of fixed parts."""
    is_measured = series.values.dtype.kind == "f" and not series.name.startswith("/tf")
    return is_measured and rows >= STILL_ROWS and bool((least == most).all())
