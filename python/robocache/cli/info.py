"""`robocache info`."""

from __future__ import annotations

from pathlib import Path

from robocache.cli.console import (
    byte_count,
    counted,
    number,
    out,
    print_json,
    print_table,
    progress,
)
from robocache.doctor.finding import duration
from robocache.doctor.overview import Overview, StreamOverview, overview
from robocache.readers import ReadOptions

MOST_TASKS = 10  # that are listed


def run(path: Path, options: ReadOptions, most: int, as_json: bool) -> None:
    """Prints what is in a store or a recording."""
    with progress("reading episodes", quiet=as_json) as update:
        found = overview(path, options, most, update)
    if as_json:
        print_json(found.as_json())
        return
    console = out()
    seconds = duration(found.duration_s * 1e9)
    console.print(
        f"{found.path}: {found.format}, {byte_count(found.bytes)}, "
        f"{counted(found.episodes, 'episode')}, {seconds}",
        markup=False,
    )
    if found.measured != found.episodes:
        console.print(
            f"Measured on {found.measured:,} of {found.episodes:,} episodes.", style="dim"
        )
    console.print()
    print_streams(found)
    if found.tasks:
        console.print("\n[bold]tasks[/bold]")
        for task, count in list(found.tasks.items())[:MOST_TASKS]:
            console.print(f"{count:8,}  {task}", markup=False)
        if len(found.tasks) > MOST_TASKS:
            console.print(f"          and {len(found.tasks) - MOST_TASKS:,} more", style="dim")
    if found.notes:
        console.print("\n[bold]notes[/bold]")
        for note in found.notes:
            console.print(f"  {note}", markup=False)


def print_streams(found: Overview) -> None:
    """A line for each stream."""
    rows = [stream_row(stream) for stream in found.streams]
    header = ["stream", "type", "row", "method", "Hz", "nominal", "jitter, ms", "rows", "gaps",
              "longest", "valid"]  # fmt: skip
    print_table(out(), header, rows, left=(0, 1, 2, 3))


def stream_row(stream: StreamOverview) -> list[str]:
    """Its cells."""
    by_rows = stream.timeline == "rows"
    shape = "x".join(map(str, stream.shape)) or "scalar"
    units = f" {stream.units}" if stream.units else ""
    return [
        stream.name,
        stream.dtype,
        shape + units,
        method_words(stream.method),
        "by rows" if by_rows else number(stream.measured_hz),
        number(stream.nominal_hz),
        "-" if by_rows else number(stream.jitter_ms, 3),
        f"{stream.rows:,}",
        f"{stream.gaps:,}" if stream.gaps else "-",
        "-" if stream.longest_gap_s is None else duration(stream.longest_gap_s * 1e9),
        f"{100 * stream.valid:.4g} %",
    ]


def method_words(method: str | list[tuple[str, int]] | None) -> str:
    """A method or a layout, in words."""
    if method is None or isinstance(method, str):
        return method or "-"
    return ", ".join(f"{name} {width}" for name, width in method)
