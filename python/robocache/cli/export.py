"""`robocache export`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from robocache.cli.console import counted, out, print_json, say
from robocache.export import export_lerobot


def run(
    store: Path,
    destination: Path,
    rate: float,
    streams: Sequence[str] | None,
    video: bool,
    robot_type: str | None,
    as_json: bool,
) -> bool:
    """Exports, and prints the report; returns whether no episode was skipped."""
    report = export_lerobot(
        store, destination, rate,
        streams=streams, video=video, robot_type=robot_type, progress=not as_json,
    )  # fmt: skip
    if as_json:
        print_json(report.as_json())
        return not report.skipped
    console = out()
    say(
        console,
        f"{destination}: LeRobot v3.0, {counted(report.episodes, 'episode')}, "
        f"{counted(report.frames, 'frame')} at {rate:g} Hz, {', '.join(report.features)}",
    )
    if report.episodes_as_recorded:
        say(
            console,
            f"{counted(report.episodes_as_recorded, 'episode')} at {rate:g} Hz already: rows as "
            "recorded, nothing resampled",
        )
    if report.held:
        say(console, f"sent once, held in every frame: {', '.join(report.held)}")
    if report.frames_across_gaps:
        say(
            console,
            f"{report.frames_across_gaps:,} frames are made across gaps or from rows that are not "
            "valid; LeRobot has no mask for them",
            style="yellow",
        )
    if report.without_statistics:
        say(
            console,
            "channels without a finite number, whose statistics are 0 in meta/stats.json: in "
            + ", ".join(report.without_statistics),
            style="yellow",
        )
    for episode, reason in report.skipped:
        say(console, f"skipped episode {episode}: {reason}", style="yellow")
    return not report.skipped
