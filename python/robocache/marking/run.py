"""The public function: rows of a store that are marked as not valid."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from robocache.core.display import ShortRepr
from robocache.core.progress import Update, progress_bar
from robocache.doctor.examine import examine
from robocache.marking.choice import (
    BY_DEFAULT,
    Range,
    check_kinds,
    choose_episodes,
    choose_streams,
    marks_by_rows,
    marks_by_times,
    marks_of_findings,
)
from robocache.store.episode_store import EpisodeStore
from robocache.store.errors import StoreError
from robocache.store.marks import Mark, mark_rows, new_marks
from robocache.store.writer import StoreWriter


@dataclass(repr=False)
class Repair(ShortRepr):
    """The report of :func:`repair`, or of a dry run."""

    path: Path
    marks: list[Mark] = field(default_factory=list)
    """The rows, each once, by episode and stream; without those that were not valid before."""
    files: int = 0
    """How many files of the store were written anew."""
    is_dry_run: bool = False

    @property
    def rows(self) -> dict[str, int]:
        """How many rows of each stream are marked, by its name."""
        counts: dict[str, int] = {}
        for mark in self.marks:
            counts[mark.stream] = counts.get(mark.stream, 0) + mark.count
        return counts

    @property
    def episodes(self) -> list[int]:
        """The indices of the episodes that they are in."""
        return sorted({mark.episode for mark in self.marks})

    def as_json(self) -> dict[str, Any]:
        """As `robocache repair --json` prints it."""
        return {
            "path": str(self.path),
            "dry_run": self.is_dry_run,
            "files": self.files,
            "rows": self.rows,
            "marks": [vars(mark) for mark in self.marks],
        }


def repair(
    store: str | os.PathLike[str],
    *,
    findings: Sequence[str] | None = None,
    streams: Sequence[str] | None = None,
    episodes: Sequence[int] | None = None,
    rows: Sequence[Range] | None = None,
    times: Sequence[Range] | None = None,
    dry_run: bool = False,
    progress: bool | Update = True,
) -> Repair:
    """Marks rows of a store as not valid: those that the doctor found, or some by hand.

    Values stay as they are, bit for bit: a row that is not valid is left out of windows, fusion and
    statistics. The files with such rows are written anew, and the statistics of their streams are
    computed anew. All of it becomes the store in one step: killed at any instant, this leaves the
    store as it was, or as it is to be. A note of what was marked stays in the files.

    Args:
        store: Its folder.
        findings: Kinds of the doctor's findings whose rows are marked, where they are warnings or
            errors: of ``"not_finite"``, ``"spike"``, ``"stuck"``, ``"saturated"``, ``"not_unit"``.
            None: the first three, if neither `rows` nor `times` are given.
        streams: Only these; names, with ``*`` and ``?`` as in a shell. None: all.
        episodes: Only these; negative indices count from the end. None: all.
        rows: Ranges (begin, end) of rows by hand, of one stream in one episode; None in them stands
            for the first row, or for the end.
        times: Ranges (begin, end) of seconds since the start of each of `episodes`, by hand: rows
            of all `streams` from begin on and before end.
        dry_run: Find the rows and change nothing.
        progress: Whether a terminal or a notebook shows a bar; or a function, called with how much
            is done, and how much there is.

    Returns:
        What was marked.

    Raises:
        StoreError: It is no store, damaged, or has another writer. The store is as it was.
        ValueError: For an option out of its range.
        OSError: The store can't be written; it is as it was.

    Example:
        >>> report = rc.repair("robot.store", dry_run=True)
        >>> report.rows
        {'joints': 28}
        >>> rc.repair("robot.store", streams=["joints"], episodes=[3], rows=[(120, 148)])
    """
    path = Path(store)
    EpisodeStore(path)  # a recording is refused, with what to do about it
    by_hand = rows is not None or times is not None
    if by_hand and findings is not None:
        raise ValueError("findings: expected none where rows or times are given, got some")
    if times is not None and episodes is None:
        raise ValueError("episodes: expected those that times are of, got none")
    kinds = BY_DEFAULT if findings is None else check_kinds(findings)
    with ExitStack() as opened:
        writer = None if dry_run else opened.enter_context(StoreWriter(path, append=True))
        there = EpisodeStore(path)  # nobody changes it any more
        names, indices = choose_streams(there, streams), choose_episodes(there, episodes)
        marks = marks_by_rows(there, rows, names, indices) if rows is not None else []
        if times is not None:
            marks += marks_by_times(there, times, names, indices)
        if not by_hand:
            with progress_bar("checking", progress) as update:
                found = examine(path, progress=update).findings
            for finding in found:
                if finding.kind == "checksum":
                    raise StoreError(finding.text)
            marks = marks_of_findings(found, kinds, names, indices)
        report = Repair(path, new_marks(there, marks), is_dry_run=dry_run)
        if report.marks and writer is not None:
            with progress_bar("writing bytes", progress) as update:
                report.files = mark_rows(writer, report.marks, update)
    return report
