"""`robocache convert`."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from rich.markup import escape

from robocache.cli.console import byte_count, counted, out, print_json, progress
from robocache.conversion import Conversion, convert

MOST_WORKERS = 4  # by default: each takes some 250 MB, and all together are to stay under 1 GiB
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
    """Converts, and prints what was done; whether nothing was skipped."""
    workers = workers or min(len(os.sched_getaffinity(0)), MOST_WORKERS)
    size = None if resize is None else parse_size(resize)
    with progress("converting episodes", quiet=as_json) as update:
        report = convert(
            sources, destination, workers=workers, resize=size, progress=update, **options
        )
    if as_json:
        print_json(report.as_json())
    else:
        print_report(report)
    return not report.skipped


def parse_size(text: str) -> tuple[int, int]:
    """Width and height.

    Raises:
        ValueError: For anything else than ``WxH``.
    """
    match = re.fullmatch(r"(\d+)[x×](\d+)", text)
    if match is None:
        raise ValueError(f"--resize: expected WxH such as 224x224, got {text!r}")
    return int(match[1]), int(match[2])


def print_report(report: Conversion) -> None:
    """What was done, what readers noted, what was skipped."""
    console = out()
    formats = ", ".join(f"{count:,} {name}" for name, count in sorted(report.formats.items()))
    there = f" ({report.already_there:,} were there)" if report.already_there else ""
    console.print(
        f"{report.destination}: {counted(report.episodes, 'episode')} added{there}, "
        f"{report.rows:,} rows, {byte_count(report.bytes)}, from "
        f"{counted(report.recordings, 'recording')}" + (f" ({formats})" if formats else ""),
        markup=False,
    )
    for note in report.notes[:MOST_NOTES]:
        console.print(f"  note: {note}", markup=False, style="dim")
    if len(report.notes) > MOST_NOTES:
        console.print(f"  and {len(report.notes) - MOST_NOTES:,} more notes (--json has all)")
    alike: dict[tuple[str, str], list[str]] = {}
    for skipped in report.skipped:
        path, _, key = skipped.source.partition("#")
        alike.setdefault((path, skipped.reason), []).append(key)
    for (path, reason), keys in list(alike.items())[:MOST_SKIPPED]:
        source = f"{path}#{keys[0]}" if keys[0] else path
        more = f" (and {len(keys) - 1:,} more of its episodes)" if len(keys) > 1 else ""
        text = escape(f"{source}{more}: {reason}")
        console.print(f"[yellow]skipped[/] {text}", soft_wrap=True)
    if len(alike) > MOST_SKIPPED:
        console.print(f"and {len(alike) - MOST_SKIPPED:,} more (--json has all)", style="yellow")
    if report.skipped:
        console.print(f"{len(report.skipped):,} skipped", style="yellow")
