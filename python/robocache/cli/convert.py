"""`robocache convert`."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import Any

from robocache.cli.console import (
    byte_count,
    counted,
    err,
    logged,
    out,
    print_json,
    say,
    streams_of_rows,
)
from robocache.cli.interrupted import Interrupted
from robocache.conversion import Conversion, convert
from robocache.core.threads import cores
from robocache.store.episode_store import EpisodeStore
from robocache.store.manifest import is_store

DISK_SPACE = "robocache.conversion.disk_space"  # the logger of the size of decoded images
MOST_WORKERS = 4  # by default: some 250 MB each, to stay under 1 GiB together
MOST_NOTES, MOST_SKIPPED = 20, 50  # that are printed


def run(
    sources: list[Path],
    destination: Path,
    as_json: bool,
    resize: str | None,
    *,
    workers: int | None,
    **options: Any,
) -> bool:
    """Converts and prints the report; returns whether episodes are there and none was skipped."""
    workers = workers or min(cores(), MOST_WORKERS)
    size = None if resize is None else parse_size(resize)
    try:
        with logged(DISK_SPACE, not as_json):
            report = convert(
                sources, destination, workers=workers, resize=size, progress=not as_json, **options
            )
    except KeyboardInterrupt:
        say(err(), f"robocache: interrupted: {what_is_kept(destination)}")
        raise Interrupted from None
    if as_json:
        print_json(report.as_json())
    else:
        print_report(report)
    return bool(report.episodes or report.already_there) and not report.skipped


def what_is_kept(destination: Path) -> str:
    """The message after an interrupted conversion: the episodes kept, and how to resume."""
    command = f"`{shlex.join(['robocache', *sys.argv[1:]])}`"
    episodes = len(EpisodeStore(destination)) if is_store(destination) else 0
    if not episodes:
        return f"no episode had been converted, and nothing was left behind; {command} starts again"
    has = f"{destination} has {counted(episodes, 'whole episode')}"
    return f"{has}, and the same command goes on with the others: {command}"


def parse_size(text: str) -> tuple[int, int]:
    """Parses ``WxH`` to width and height.

    Raises:
        ValueError: The text is no such size.
    """
    match = re.fullmatch(r"(\d+)[x×](\d+)", text)
    if match is None:
        raise ValueError(f"--resize: expected WxH such as 224x224, got {text!r}")
    return int(match[1]), int(match[2])


def print_report(report: Conversion) -> None:
    """Prints the added episodes, the notes of readers, and the skipped sources."""
    console = out()
    formats = ", ".join(f"{count:,} {name}" for name, count in sorted(report.formats.items()))
    source = f"{counted(report.recordings, 'recording')}" + (f" ({formats})" if formats else "")
    were = "was" if report.already_there == 1 else "were"
    there = f" ({report.already_there:,} {were} there)" if report.already_there else ""
    if is_store(report.destination):
        added = f"{counted(report.episodes, 'episode')} added{there}"
        if report.episodes:
            added += f", {streams_of_rows(report.rows)}, {byte_count(report.bytes)}"
        say(console, f"{report.destination}: {added}, from {source}")
    else:
        say(
            console,
            f"{report.destination}: not made, as no episode could be converted from {source}",
        )
    for note in report.notes[:MOST_NOTES]:
        say(console, f"note: {note}", indent=2, style="dim")
    if len(report.notes) > MOST_NOTES:
        say(console, f"and {len(report.notes) - MOST_NOTES:,} more notes (--json has all)", 2)
    for proposal in report.proposals:  # not wrapped, so that its command can be copied
        console.print(f"note: {proposal}", markup=False, soft_wrap=True, style="yellow")
    alike: dict[tuple[str, str], list[str]] = {}
    for skipped in report.skipped:
        path, _, key = skipped.source.partition("#")
        alike.setdefault((path, skipped.reason), []).append(key)
    for (path, reason), keys in list(alike.items())[:MOST_SKIPPED]:
        source = f"{path}#{keys[0]}" if keys[0] else path
        more = f" (and {len(keys) - 1:,} more of its episodes)" if len(keys) > 1 else ""
        say(console, f"skipped {source}{more}: {reason}", style="yellow")
    if len(alike) > MOST_SKIPPED:
        say(console, f"and {len(alike) - MOST_SKIPPED:,} more (--json has all)", style="yellow")
    if report.skipped:
        say(console, f"{len(report.skipped):,} skipped", style="yellow")
