"""Commands that use data: aligned tables, LeRobot data sets, replays, and the demo."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from robocache.cli.options import (
    EXIT_FOUND,
    MEMORY_LIMIT_GIB,
    Json,
    MemoryLimit,
    Stamp,
    StorePath,
    Streams,
    TimeColumn,
    TimeUnit,
    read_options,
)

commands = typer.Typer(rich_markup_mode=None)


@commands.command(
    epilog="Example: robocache align joints.csv force.csv --rate 50 --max-gap 0.1 -o take.csv",
    short_help="Align a recording to one table at one rate.",
)
def align(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...", readable=False, help="A store, a recording, or files of one take."
        ),
    ],
    rate: Annotated[float, typer.Option(metavar="HZ", help="Rows of the table per second.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="A .npz, .csv, .parquet or .mcap file."
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A picture, .png, .jpg, .svg or .pdf: aligned values over the recorded rows.",
        ),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]METHOD",
            help="Replace the stored method, for all streams or for one by its name. Repeatable.",
        ),
    ] = None,
    max_gap: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Longest gap between rows to align across."),
    ] = None,
    span: Annotated[
        Literal["union", "overlap"],
        typer.Option(help="The table's time: while any stream has rows, or while all have."),
    ] = "union",
    stream: Streams = None,
    episode: Annotated[
        int, typer.Option(metavar="N", help="Index of the episode; -1 is the last.")
    ] = 0,
    recorded_rate: Annotated[
        float | None,
        typer.Option(metavar="HZ", help="Rows per second of a recording that has no times."),
    ] = None,
    stamp: Stamp = "header",
    time_column: TimeColumn = None,
    time_unit: TimeUnit = None,
    memory_limit: MemoryLimit = MEMORY_LIMIT_GIB,
) -> None:
    """Aligns all streams to one timeline and writes a table, with masks and ages, or a picture.

    Each stream is aligned by its stored method. Steps that are not valid (outside the stream's
    rows, or in gaps longer than --max-gap) are empty in CSV and Parquet, NaN in NPZ, and have no
    message in MCAP.
    """
    from robocache.cli.align import run

    options = read_options(
        recorded_rate, stamp=stamp, time_column=time_column, time_unit=time_unit,
        memory_limit=memory_limit,
    )  # fmt: skip
    run(sources, output, plot, rate, method or [], max_gap, span, stream, episode, options)


@commands.command(
    epilog="Example: robocache export store lerobot-set --rate 30",
    short_help="Export a store to a LeRobot data set.",
)
def export(
    store: StorePath,
    destination: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="The folder of the new data set.")
    ],
    rate: Annotated[float, typer.Option(metavar="HZ", help="Frames per second.")],
    stream: Streams = None,
    no_video: Annotated[
        bool, typer.Option("--no-video", help="Store images as PNG, not as video.")
    ] = False,
    robot_type: Annotated[
        str | None, typer.Option(metavar="NAME", help="The data set's robot_type.")
    ] = None,
    json: Json = False,
) -> None:
    """Writes a store as a LeRobot v3.0 data set, every stream aligned to one rate.

    Each stream is aligned by its stored method. The report counts frames in gaps: LeRobot has no
    mask.

    Episodes that were recorded at the rate are exported row by row. The single row of a stream
    that is sent once, such as a static transform, is repeated in every frame.
    """
    from robocache.cli.export import run

    if not run(store, destination, rate, stream, not no_video, robot_type, json):
        raise typer.Exit(EXIT_FOUND)


@commands.command(
    epilog="Example: robocache replay robot.store --spec policy_spec.json",
    short_help="Compare a robot's input with a policy's training data.",
)
def replay(
    store: StorePath,
    spec: Annotated[
        Path,
        typer.Option(
            metavar="FILE", readable=False, help="The policy spec: loader.spec().save(FILE)."
        ),
    ],
    episodes: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="At most N episodes, evenly spaced.")
    ] = None,
    query_every: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=0,
            help="The time between the policy's queries, at least; the default queries at every "
            "anchor.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Replays a store's recordings through the LiveAligner, row by row in order of arrival.

    Queries the LiveAligner at anchors, as often as the policy would, and compares its windows bit
    by bit with the loader's causal windows: values, masks, ages.

    The exit code is 0 if no bit differs, and 1 if one does.
    """
    from robocache.cli.replay import run

    if not run(store, spec, episodes, query_every, json):
        raise typer.Exit(EXIT_FOUND)


@commands.command(
    epilog="Example: robocache demo --seed 3 --output pictures",
    short_help="Run the pipeline on a generated recording, up to a trained policy.",
)
def demo(
    output: Annotated[
        Path,
        typer.Option(metavar="FOLDER", help="The folder of the store and the pictures."),
    ] = Path("demo"),
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of the generated recording.")] = 0,
    duration: Annotated[
        float, typer.Option(metavar="SECONDS", help="Length of the recording, 10 to 120.")
    ] = 10.0,
) -> None:
    """Aligns a generated recording to one timeline by way of a store, and voxelizes a scene.

    Prints the results and compares their run times with those of usual torch code, and draws both.
    Then trains a small policy and replays it as on a robot.
    """
    from robocache.cli.demo import run

    run(output, seed, duration)
