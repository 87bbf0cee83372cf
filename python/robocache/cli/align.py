"""`robocache align`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from robocache.cli.console import counted, out, say
from robocache.readers import ReadOptions
from robocache.timeline.align import align
from robocache.timeline.aligned import check_output
from robocache.view.figures import check_picture


def run(
    sources: Sequence[Path],
    output: Path | None,
    picture: Path | None,
    rate: float,
    methods: Sequence[str],
    max_gap: float | None,
    span: Literal["union", "overlap"],
    streams: Sequence[str] | None,
    episode: int,
    options: ReadOptions,
) -> None:
    """Aligns, writes the table and the picture, and prints how much of each stream is valid."""
    if output is None and picture is None:
        raise ValueError("--output: expected a file (--plot alone writes a picture), got none")
    if output is not None:
        check_output("--output", output)
        for source in sources:
            if output.exists() and source.exists() and output.samefile(source):
                raise ValueError(
                    f"--output: expected another file than the recordings, got {output}"
                )
    if picture is not None:
        check_picture("--plot", picture)
    by_name = dict(text.split("=", 1) for text in methods if "=" in text)
    for_all = [text for text in methods if "=" not in text]
    if len(for_all) > 1 or (for_all and by_name):
        raise ValueError(
            f"--method: expected one method for all streams, or NAME=METHOD, got "
            f"{', '.join(methods)}"
        )
    table = align(
        list(sources), rate, episode=episode, streams=streams, max_gap=max_gap, span=span,
        method=for_all[0] if for_all else by_name or None, options=options,
    )  # fmt: skip
    if output is not None:
        table.save(output)
    drawn = [] if picture is None else table.plot(picture, ", ".join(map(str, sources)))
    console = out()
    say(
        console,
        f"{output or picture}: {counted(len(table.times), 'row')} at {rate:g} Hz, "
        f"{table.seconds[-1]:.4g} s, {counted(len(table), 'stream')}",
    )
    for name, stream in table.items():
        how = stream.method if isinstance(stream.method, str) else "several methods"
        say(console, f"{name}: {how}, {100 * stream.valid.mean():.3g} % valid", indent=2)
    for note in table.notes:
        say(console, f"note: {note}", indent=2, style="dim")
    for text in drawn:
        say(console, f"drawn: {text}", indent=2)
    if output is not None and picture is not None:
        say(console, f"wrote {picture}")
