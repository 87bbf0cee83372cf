"""Commands that inspect data: info, check, view."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from robocache.cli.options import (
    EXIT_FOUND,
    AnyPath,
    Json,
    reads,
)

if TYPE_CHECKING:
    from robocache.readers import ReadOptions

commands = typer.Typer(rich_markup_mode=None)


@commands.command(
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


@commands.command(
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


@commands.command(
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
    augment: Annotated[
        str | None,
        typer.Option(
            metavar="PRESET",
            help="Draw a store's images as Loader(augment=PRESET) augments them: openpi, octo, "
            "lerobot or diffusion_policy.",
        ),
    ] = None,
    *,
    options: "ReadOptions",
) -> None:
    """Draws an episode: each stream's rows over time, with its rate, gaps and values.

    If there are many channels, those that vary most are drawn; --topic selects streams.

    With an output that ends in .rrd, writes a recording for Rerun's viewer instead, with images
    (pip install rerun-sdk). With --augment, draws two frames of each camera of a store, as six
    epochs of training see them.
    """
    from robocache.cli.view import run, run_augmentation

    if augment is None:
        run(path, options, episode, output, begin, end)
    else:
        run_augmentation(path, episode, augment, output, begin, end)
