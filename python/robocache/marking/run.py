"""`repair`: marks rows of a store as not valid."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from robocache.core.display import ShortRepr
from robocache.core.paths import check_path
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
    """The rows by episode and stream, each once; without rows that were not valid before."""
    files: int = 0
    """Number of rewritten files of the store."""
    is_dry_run: bool = False
    kinds: tuple[str, ...] = ()
    """The kinds of findings whose rows it marks; none: rows that the caller named."""

    @property
    def rows(self) -> dict[str, int]:
        """Number of marked rows, by stream."""
        counts: dict[str, int] = {}
        for mark in self.marks:
            counts[mark.stream] = counts.get(mark.stream, 0) + mark.count
        return counts

    @property
    def episodes(self) -> list[int]:
        """Indices of the episodes with marked rows."""
        return sorted({mark.episode for mark in self.marks})

    def as_json(self) -> dict[str, Any]:
        """The values that `robocache repair --json` prints."""
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
    """Marks rows of a store as not valid: rows of the doctor's findings, or user-named rows.

    Values do not change, bit for bit; windows, fusion and statistics leave out rows that are not
    valid. Files with such rows are rewritten, and the statistics of their streams recomputed, in
    one atomic commit: a process that is killed leaves the store with all marks or with none. The
    files keep a log of the marks.

    Args:
        store: The store's folder.
        findings: Kinds of findings whose rows to mark if they are warnings or errors, out of
            ``"not_finite"``, ``"spike"``, ``"stuck"``, ``"saturated"``, ``"not_unit"``.
            None: the first three, unless `rows` or `times` are passed.
        streams: Names of the streams to mark; ``*`` and ``?`` match as in a shell. None: all.
        episodes: Indices of the episodes to mark; negative ones count from the end. None: all.
        rows: Ranges (begin, end) of rows to mark, of one stream in one episode; None stands for the
            first row, or for the end.
        times: Ranges (begin, end) of times to mark, in seconds since the start of each of
            `episodes`: rows of all `streams` from begin on and before end.
        dry_run: Report the rows and change nothing.
        progress: Whether to show a progress bar in a terminal or notebook; or a function that is
            called with the finished amount and the total.

    Returns:
        The report: the marked rows.

    Raises:
        StoreError: The folder is no store, is damaged, or has another writer. The store is
            unchanged.
        ValueError: An option is out of its range.
        OSError: The store can't be written; it is unchanged.

    Example:
        >>> report = rc.repair("robot.store", dry_run=True)
        >>> report.rows
        {'joints': 28}
        >>> rc.repair("robot.store", streams=["joints"], episodes=[3], rows=[(120, 148)])
    """
    check_path("store", store, "the folder of an episode store")
    path = Path(store)
    EpisodeStore(path)  # refuses a recording with a hint to convert it
    by_hand = rows is not None or times is not None
    if by_hand and findings is not None:
        raise ValueError("findings: expected none where rows or times are given, got some")
    if times is not None and episodes is None:
        raise ValueError("episodes: expected those that times are of, got none")
    kinds = BY_DEFAULT if findings is None else check_kinds(findings)
    with ExitStack() as opened:
        writer = None if dry_run else opened.enter_context(StoreWriter(path, append=True))
        opened_store = EpisodeStore(path)  # after the lock: no other writer changes it
        names = choose_streams(opened_store, streams)
        indices = choose_episodes(opened_store, episodes)
        marks = marks_by_rows(opened_store, rows, names, indices) if rows is not None else []
        if times is not None:
            marks += marks_by_times(opened_store, times, names, indices)
        if not by_hand:
            with progress_bar("checking", progress) as update:
                found = examine(path, progress=update).findings
            for finding in found:
                if finding.kind == "checksum":
                    raise StoreError(finding.text)
            marks = marks_of_findings(found, kinds, names, indices)
        new = new_marks(opened_store, marks)
        report = Repair(path, new, is_dry_run=dry_run, kinds=() if by_hand else kinds)
        if report.marks and writer is not None:
            with progress_bar("writing bytes", progress) as update:
                report.files = mark_rows(writer, report.marks, update)
    return report
