"""`robocache info`."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from robocache.cli.console import byte_count, counted, number, out, print_json, say
from robocache.cli.tables import MOST_LETTERS, print_table
from robocache.core.display import cut, shape_words
from robocache.core.progress import progress_bar
from robocache.doctor.finding import duration
from robocache.doctor.overview import Overview, StreamOverview, overview
from robocache.readers import ReadOptions

MOST_TASKS = 10  # that are listed
SAME_RATE = 0.01  # relative difference up to which the nominal rate is not printed


def run(path: Path, options: ReadOptions, most: int, as_json: bool) -> None:
    """Prints the description of a store or a recording."""
    with progress_bar("reading episodes", not as_json) as update:
        found = overview(path, options, most, update)
    if as_json:
        print_json(found.as_json())
        return
    console = out()
    seconds = duration(found.duration_s * 1e9)
    say(
        console,
        f"{found.path}: {found.format}, {byte_count(found.bytes)}, "
        f"{counted(found.episodes, 'episode')}, {seconds}",
    )
    if found.measured != found.episodes:
        text = f"Measured on {found.measured:,} of {found.episodes:,} episodes."
        say(console, text, style="dim")
    console.print()
    print_streams(found)
    encoded = [stream for stream in found.streams if stream.images]
    if encoded:
        console.print("\n[bold]images[/bold]")
        for stream in encoded:
            say(console, f"{stream.name}: {stream.images}", indent=2)
    if found.tasks:
        console.print("\n[bold]tasks[/bold]")
        for task, count in list(found.tasks.items())[:MOST_TASKS]:
            say(console, f"{count:8,}  {cut(task, MOST_LETTERS)}")
        if len(found.tasks) > MOST_TASKS:
            console.print(f"          and {len(found.tasks) - MOST_TASKS:,} more", style="dim")
    if found.notes:
        console.print("\n[bold]notes[/bold]")
        for note in found.notes:
            say(console, cut(note, MOST_LETTERS), indent=2)


def print_streams(found: Overview) -> None:
    """Prints a line for each stream; on a narrow terminal a block."""
    rows = [stream_row(stream) for stream in found.streams]
    if all(stream.valid == 1 for stream in found.streams):
        rows = [[*row[:-1], ""] for row in rows]
    header = ["stream", "row", "method", "Hz", "nominal", "jitter", "rows", "gaps", "longest",
              "valid"]  # fmt: skip
    print_table(out(), header, rows, left=(0, 1, 2), shrink={0: 12, 2: 10})


def stream_row(stream: StreamOverview) -> list[str]:
    """The cells of a stream's row."""
    by_rows = stream.timeline == "rows"
    shape = shape_words(stream.shape) or "scalar"
    units = f" {cut(stream.units)}" if stream.units else ""
    return [
        stream.name,
        f"{stream.dtype} {shape}{units}",
        method_words(stream.method),
        "by rows" if by_rows else number(stream.measured_hz),
        number(stream.nominal_hz) if by_rows or differs(stream) else "-",
        "-" if by_rows or stream.jitter_ms is None else duration(stream.jitter_ms * 1e6),
        f"{stream.rows:,}",
        f"{stream.gaps:,}" if stream.gaps else "-",
        "-" if stream.longest_gap_s is None else duration(stream.longest_gap_s * 1e9),
        f"{100 * stream.valid:.4g} %",
    ]


def differs(stream: StreamOverview) -> bool:
    """Whether the recording states another rate than the measured one."""
    nominal, measured = stream.nominal_hz, stream.measured_hz
    if nominal is None or measured is None:
        return nominal is not None
    return abs(nominal - measured) > SAME_RATE * measured


def method_words(method: str | list[tuple[str, int]] | None) -> str:
    """A method or a layout, in words."""
    if method is None or isinstance(method, str):
        return method or "-"
    runs = [(name, width, len(list(alike))) for (name, width), alike in groupby(method)]
    return ", ".join(f"{n} x " * (n > 1) + f"{name} {width}" for name, width, n in runs)
