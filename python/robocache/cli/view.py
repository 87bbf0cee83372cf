"""`robocache view`."""

from __future__ import annotations

from pathlib import Path

from robocache.cli.console import out, say
from robocache.doctor import check_episode
from robocache.doctor.data import open_data
from robocache.readers import ReadOptions
from robocache.readers.recording import require

SUFFIXES = (".png", ".svg", ".pdf", ".rrd")


def run(path: Path, options: ReadOptions, index: int, output: Path) -> None:
    """Writes a picture of an episode, and prints its name."""
    if output.suffix not in SUFFIXES:
        raise ValueError(f"--output: expected a name with {', '.join(SUFFIXES)}, got {output}")
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
        if output.suffix == ".rrd":
            from robocache.view.rerun import write_rerun

            write_rerun(episode, streams, title, output)
        else:
            require("matplotlib", "a picture", "view", "drawing")
            from robocache.view.timeline import draw_timeline

            draw_timeline(episode, streams, check_episode(streams, index), title, output)
    say(out(), f"wrote {output}")
