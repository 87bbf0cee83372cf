"""`robocache repair`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from robocache.cli.console import counted, out, print_json, say
from robocache.cli.tables import print_table
from robocache.marking import Repair, repair
from robocache.marking.choice import Range

MOST_MARKS = 50  # that are printed
MOST_RANGES = 3  # of a mark, that are printed


def run(
    store: Path,
    findings: Sequence[str] | None,
    streams: Sequence[str] | None,
    episodes: Sequence[int] | None,
    rows: Sequence[str] | None,
    times: Sequence[str] | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Marks rows as not valid, and prints which."""
    kinds = None if not findings else [k for text in findings for k in text.split(",") if k]
    report = repair(
        store,
        findings=kinds,
        streams=streams or None,
        episodes=episodes or None,
        rows=[parse_rows(text) for text in rows] if rows else None,
        times=[parse_times(text) for text in times] if times else None,
        dry_run=dry_run,
        progress=not as_json,
    )
    if as_json:
        print_json(report.as_json())
    else:
        print_report(report)


def parse_rows(text: str) -> Range:
    """Parses a range of rows ``A:B``; an end that is left out is None.

    Raises:
        ValueError: The text is no such range.
    """
    match = re.fullmatch(r"(\d*):(\d*)", text)
    if match is None:
        raise ValueError(f"--rows: expected A:B, the rows from A on and before B, got {text!r}")
    return int(match[1]) if match[1] else None, int(match[2]) if match[2] else None


def parse_times(text: str) -> Range:
    """Parses a range of times ``A:B`` in seconds; an end that is left out is None.

    Raises:
        ValueError: The text is no such range.
    """
    begin, colon, end = text.partition(":")
    try:
        if colon:
            return float(begin) if begin else None, float(end) if end else None
    except ValueError:
        pass
    raise ValueError(f"--time: expected A:B, seconds since the episode's start, got {text!r}")


def print_report(report: Repair) -> None:
    """Prints a line for each mark, and the totals."""
    console = out()
    if not report.marks:
        say(console, f"{report.path}: nothing to mark: {_nothing(report)}")
        return
    cells = [
        [str(mark.episode), mark.stream, mark.reason, f"{mark.count:,}", ranges(mark.rows)]
        for mark in report.marks[:MOST_MARKS]
    ]
    header = ["episode", "stream", "finding", "rows", "which"]
    print_table(console, header, cells, left=(1, 2, 4), shrink={1: 12})
    if len(report.marks) > MOST_MARKS:
        say(console, f"and {len(report.marks) - MOST_MARKS:,} more lines (--json has all)")
    count = counted(sum(report.rows.values()), "row")
    of = f"of {counted(len(report.rows), 'stream')} in {counted(len(report.episodes), 'episode')}"
    done = f"marked as not valid, {counted(report.files, 'file')} written anew"
    if report.is_dry_run:
        done = "would be marked as not valid (a dry run: nothing was changed)"
    say(console, f"{report.path}: {count} {of} {done}")


def _nothing(report: Repair) -> str:
    if not report.kinds:
        return "the named rows are marked as not valid already"
    *others, last = report.kinds
    kinds = f"{', '.join(others)} or {last}" if others else last
    return f"the checks found no valid rows that are {kinds} (robocache check lists all findings)"


def ranges(rows: Sequence[tuple[int, int]]) -> str:
    """The first ranges of rows in the form of ``--rows``, and the number of further ones."""
    listed = ", ".join(f"{begin}:{end}" for begin, end in rows[:MOST_RANGES])
    more = len(rows) - MOST_RANGES
    return listed + (f" and {more:,} more" if more > 0 else "")
