"""Commands that write and repair stores, and print their statistics."""

import shlex
from pathlib import Path
from typing import Annotated, Literal

import typer

from robocache.cli.options import (
    EXIT_FOUND,
    MEMORY_LIMIT_GIB,
    Json,
    Kinds,
    MemoryLimit,
    Rate,
    Stamp,
    StorePath,
    Streams,
    TimeColumn,
    TimeUnit,
    Topics,
    in_bytes,
)

commands = typer.Typer(rich_markup_mode=None)


@commands.command(
    epilog="Example: robocache convert recordings/ recordings.store --workers 2",
    short_help="Convert recordings to an episode store.",
)
def convert(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="SOURCE... STORE",
            readable=False,
            help="Recordings, or folders with recordings; then the store's folder.",
        ),
    ],
    append: Annotated[
        bool, typer.Option("--append", help="Add to a store that has episodes of other sources.")
    ] = False,
    one_episode: Annotated[
        bool,
        typer.Option(
            "--one-episode",
            help="The recordings are of one take: join all files to one episode, and each folder's "
            "recordings to one.",
        ),
    ] = False,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Stop at the first recording or episode that can't be converted."
        ),
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Worker processes, about 250 MB each. Default: one per core, at most 4.",
        ),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Run on a Ray cluster: auto, local, or its address."),
    ] = None,
    rate: Rate = None,
    images: Annotated[
        str,
        typer.Option(
            metavar="auto|raw|keep|jpeg:Q",
            help="How to store images. auto: JPEG of the recording as it is where that changes no "
            "pixel, others as pixels. raw: all as pixels. keep: as auto, but JPEG that can't be "
            "kept (turned by EXIF, CMYK) is encoded again. jpeg:Q, such as jpeg:95: all, video "
            "too, as JPEG of quality Q (jpeg:Q:444: with color at full resolution).",
        ),
    ] = "auto",
    no_images: Annotated[
        bool, typer.Option("--no-images", help="Leave out images and video.")
    ] = False,
    resize: Annotated[
        str | None, typer.Option(metavar="WxH", help="Resize images, such as 224x224.")
    ] = None,
    fit: Annotated[
        Literal["pad", "crop", "stretch"],
        typer.Option(help="How an image of another aspect fits --resize."),
    ] = "pad",
    topic: Topics = None,
    stamp: Stamp = "header",
    time_column: TimeColumn = None,
    time_unit: TimeUnit = None,
    memory_limit: MemoryLimit = MEMORY_LIMIT_GIB,
    json: Json = False,
) -> None:
    """Converts recordings of any known format to an episode store.

    Streams keep their times and rates. A file or episode that can't be read is skipped and
    reported. After an interruption the same command resumes the conversion.

    The exit code is 0 if everything was converted, 1 if something was skipped or nothing was
    converted, 2 if the command failed, 130 after Ctrl-C.
    """
    from robocache.cli.convert import run

    *sources, destination = paths
    if not sources:
        example = f"robocache convert {shlex.quote(str(destination))} my.store"
        raise ValueError(f"STORE: expected a folder after the recordings, got none (`{example}`)")
    converted = run(
        sources, destination, json, resize,
        append=append, one_episode=one_episode, strict=strict, workers=workers, ray=ray,
        rate=rate, images=not no_images and images, fit=fit, topics=topic, stamp=stamp,
        time_column=time_column, time_unit=time_unit, memory_limit=in_bytes(memory_limit),
    )  # fmt: skip
    if not converted:
        raise typer.Exit(EXIT_FOUND)


@commands.command(
    epilog="Example: robocache merge monday.store tuesday.store week.store",
    short_help="Merge stores into a new one.",
)
def merge(
    sources: Annotated[
        list[Path], typer.Argument(metavar="STORE...", readable=False, help="Two stores or more.")
    ],
    destination: Annotated[
        Path, typer.Argument(metavar="NEW", readable=False, help="The folder of the new store.")
    ],
    json: Json = False,
) -> None:
    """Merges stores into a new one.

    The statistics are merged too: counts and moments exactly, quantiles within their error.
    """
    from robocache.cli.merge import run

    run(sources, destination, json)


@commands.command(
    epilog="Example: robocache repair store --finding stuck,spike --dry-run",
    short_help="Mark rows of a store as not valid.",
)
def repair(
    store: StorePath,
    finding: Kinds = None,
    stream: Streams = None,
    episode: Annotated[
        list[int] | None,
        typer.Option(
            "--episode", metavar="N", help="Only these episodes; -1 is the last. Repeatable."
        ),
    ] = None,
    rows: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A:B",
            help="By hand: rows A to B - 1 of one stream in one episode. Repeatable.",
        ),
    ] = None,
    time: Annotated[
        list[str] | None,
        typer.Option(
            metavar="A:B",
            help="By hand: rows from A to before B, seconds since the episode's start. Repeatable.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be marked, and change nothing.")
    ] = False,
    json: Json = False,
) -> None:
    """Marks rows as not valid: those of the doctor's warnings, or rows that you name.

    Values do not change. Rows that are not valid are left out of windows, statistics and check.
    Files with such rows are rewritten; a command that is killed leaves the store with all of its
    marks or with none.
    """
    from robocache.cli.repair import run

    run(store, finding, stream, episode, rows, time, dry_run, json)


@commands.command(
    epilog="Example: robocache stats store --json", short_help="Print statistics of every channel."
)
def stats(store: StorePath, json: Json = False) -> None:
    """Prints statistics of every channel of a store: count, mean, deviation, range, quantiles.

    They cover valid rows, without NaN and infinity; the channels of images are colors.
    """
    from robocache.cli.stats import run

    run(store, json)
