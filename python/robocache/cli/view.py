"""`robocache view`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from robocache.cli.console import out, say
from robocache.core.checks import nanoseconds_of
from robocache.core.extras import require
from robocache.doctor import check_episode
from robocache.doctor.episode_data import open_data
from robocache.doctor.finding import Series
from robocache.readers import ReadOptions
from robocache.store.episode_store import EpisodeStore
from robocache.view.figures import PICTURES, check_picture

SUFFIXES = (*PICTURES, ".rrd")


def run(
    path: Path,
    options: ReadOptions,
    index: int,
    output: Path,
    begin_s: float | None,
    end_s: float | None,
) -> None:
    """Writes a picture of an episode, and prints its name and what it leaves out."""
    if output.suffix not in SUFFIXES:
        raise ValueError(f"--output: expected a name with {', '.join(SUFFIXES)}, got {output}")
    if begin_s is not None and end_s is not None and begin_s >= end_s:
        raise ValueError(f"--to: expected more than --from {begin_s:g}, got {end_s:g}")
    with open_data(path, options) as data:
        count = len(data.episodes)
        if count == 0:
            raise ValueError(f"{data.path}: expected at least 1 episode, got none")
        if not -count <= index < count:
            raise ValueError(f"--episode: expected {-count} to {count - 1}, got {index}")
        index %= count
        episode = data.episodes[index]
        streams = episode.load()
        task = f": {episode.task}" if episode.task else ""
        title = f"{data.path}, episode {index}{task}"
        span = None
        if begin_s is not None or end_s is not None:
            span = time_span(streams, begin_s, end_s)
        left_out = []
        if output.suffix == ".rrd":
            from robocache.view.rerun import write_rerun
            from robocache.view.selection import EpisodePart, cut

            if span is None:
                write_rerun(episode, streams, title, output)
            else:
                part = EpisodePart(episode, streams, *span)
                write_rerun(part, cut(streams, *span), title, output)
        else:
            require("matplotlib", "a picture", "view", "drawing")
            from robocache.view.timeline import draw_timeline

            findings = check_episode(streams, index)
            left_out = draw_timeline(episode, streams, findings, title, output, span)
    say(out(), f"wrote {output}")
    for text in left_out:
        say(out(), f"drawn: {text}", indent=2)


def run_augmentation(
    path: Path,
    index: int,
    augment: str,
    output: Path,
    begin_s: float | None,
    end_s: float | None,
) -> None:
    """Writes the contact sheet of an augmentation, and prints its name."""
    check_picture("--output", output)
    for option, seconds in (("--from", begin_s), ("--to", end_s)):
        if seconds is not None:
            raise ValueError(f"{option}: expected none beside --augment, got {seconds:g}")
    store = EpisodeStore(path)
    count = len(store.episodes)
    if not -count <= index < count:
        raise ValueError(f"--episode: expected {-count} to {count - 1}, got {index}")
    from robocache.view.augmentation import draw_augmentation

    draw_augmentation(store, index % count, augment, output)
    say(out(), f"wrote {output}")


def time_span(
    streams: Sequence[Series], begin_s: float | None, end_s: float | None
) -> tuple[int, int]:
    """Converts a range in seconds since the episode's start to its first and last time in ns.

    Raises:
        ValueError: The range has no row.
    """
    filled = [series.times for series in streams if len(series.times)]
    start = min((int(times[0]) for times in filled), default=0)
    end = max((int(times[-1]) for times in filled), default=0)
    begin = start if begin_s is None else start + nanoseconds_of(begin_s)
    until = end if end_s is None else start + nanoseconds_of(end_s)
    if not any(((times >= begin) & (times <= until)).any() for times in filled):
        option, got = ("--from", begin_s) if begin_s is not None else ("--to", end_s)
        length = (end - start) / 1e9
        raise ValueError(f"{option}: expected a range within 0 to {length:.3f} s, got {got:g}")
    return begin, until
