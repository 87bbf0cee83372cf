"""The commands and their options.

`--help` loads only this file and `options.py`: each command's function imports the rest.
"""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from robocache.cli.options import (
    EXIT_FOUND,
    MEMORY_LIMIT_GIB,
    AnyPath,
    Json,
    Kinds,
    MemoryLimit,
    Rate,
    Stamp,
    StorePath,
    TimeColumn,
    TimeUnit,
    Topics,
    in_bytes,
    read_options,
    reads,
)

if TYPE_CHECKING:
    from robocache.readers import ReadOptions

app = typer.Typer(
    name="robocache",
    help="Turns robot recordings of many rates and formats into training data.",
    epilog="Example: robocache convert recordings/ store && robocache check store",
    no_args_is_help=True,
    rich_markup_mode=None,  # help in plain text costs no import of rich
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _print_version(is_wanted: bool) -> None:
    if not is_wanted:
        return
    import robocache

    print(f"robocache {robocache.__version__}")
    raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    pass


# ---- inspecting data -----------------------------------------------------------------------------


@app.command(
    epilog="Example: robocache info flight.ulg", short_help="Describe a store or a recording."
)
@reads
def info(
    path: AnyPath,
    options: "ReadOptions",
    episodes: Annotated[
        int, typer.Option(metavar="N", min=1, help="Measure at most N episodes.")
    ] = 100,
    json: Json = False,
) -> None:
    """Describes a store or a recording: streams, rates, jitter, rows, gaps, size.

    Rates, jitter and gaps are measured on at most --episodes evenly spaced episodes.
    """
    from robocache.cli.info import run

    run(path, options, episodes, json)


@app.command(
    epilog="Example: robocache check store --strict", short_help="Find defects in the data."
)
@reads
def check(
    path: AnyPath,
    options: "ReadOptions",
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 for warnings too.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Print every finding, not only groups on one screen.")
    ] = False,
    json: Json = False,
) -> None:
    """The data doctor: finds defects of a store or a recording, and says how to repair them.

    Checks times (going back, repeating, gaps, lost rows, dropouts, changing rates, drifting
    clocks), values (NaN, stuck, saturated or constant channels, quaternions, angles that wrap),
    episodes (too short, streams missing), and a store's checksums.

    Prints at most one screen: findings grouped by cause, the most severe first.

    The exit code is 1 if there is an error (with --strict: or a warning), and 0 otherwise.
    """
    from robocache.cli.check import run

    if not run(path, options, strict, everything, json):
        raise typer.Exit(EXIT_FOUND)


@app.command(
    epilog="Example: robocache view store --episode 3 --from 2 --to 5",
    short_help="Draw an episode.",
)
@reads
def view(
    path: AnyPath,
    episode: Annotated[
        int, typer.Option(metavar="N", help="Index of the episode; -1 is the last.")
    ] = 0,
    output: Annotated[
        Path,
        typer.Option(metavar="FILE", help="A .png, .jpg, .svg or .pdf; or .rrd for Rerun."),
    ] = Path("episode.png"),
    begin: Annotated[
        float | None,
        typer.Option("--from", metavar="S", help="Begin, in seconds since the episode's start."),
    ] = None,
    end: Annotated[
        float | None,
        typer.Option("--to", metavar="S", help="End, in seconds since the episode's start."),
    ] = None,
    *,
    options: "ReadOptions",
) -> None:
    """Draws an episode: each stream's rows over time, with its rate, gaps and values.

    If there are many channels, those that vary most are drawn; --topic selects streams.

    With an output that ends in .rrd, writes a recording for Rerun's viewer instead, with images
    (pip install rerun-sdk).
    """
    from robocache.cli.view import run

    run(path, options, episode, output, begin, end)


# ---- writing stores ------------------------------------------------------------------------------


@app.command(
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
            metavar="raw|keep|jpeg:Q",
            help="Store images as pixels; with the recording's JPEG as it is; or as JPEG of "
            "quality Q (jpeg:Q:444: with color at full resolution).",
        ),
    ] = "raw",
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


@app.command(
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


@app.command(
    epilog="Example: robocache repair store --finding stuck,spike --dry-run",
    short_help="Mark rows of a store as not valid.",
)
def repair(
    store: StorePath,
    finding: Kinds = None,
    stream: Annotated[
        list[str] | None,
        typer.Option(
            "--stream", metavar="NAME", help="Only these streams; * and ? match. Repeatable."
        ),
    ] = None,
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


@app.command(
    epilog="Example: robocache stats store --json", short_help="Print statistics of every channel."
)
def stats(store: StorePath, json: Json = False) -> None:
    """Prints statistics of every channel of a store: count, mean, deviation, range, quantiles.

    They cover valid rows, without NaN and infinity; the channels of images are colors.
    """
    from robocache.cli.stats import run

    run(store, json)


@app.command(
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
    stream: Annotated[
        list[str] | None,
        typer.Option("--stream", metavar="NAME", help="Only these streams. Repeatable."),
    ] = None,
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


@app.command(
    epilog="Example: robocache export store lerobot-set --rate 30",
    short_help="Export a store to a LeRobot data set.",
)
def export(
    store: StorePath,
    destination: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="The folder of the new data set.")
    ],
    rate: Annotated[float, typer.Option(metavar="HZ", help="Frames per second.")],
    stream: Annotated[
        list[str] | None,
        typer.Option(
            "--stream", metavar="NAME", help="Only these streams; * and ? match. Repeatable."
        ),
    ] = None,
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


# ---- on the robot --------------------------------------------------------------------------------


@app.command(
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


# ---- the demo ------------------------------------------------------------------------------------


@app.command(
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
