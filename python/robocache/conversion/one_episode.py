"""Proposes to convert files that overlap in time as one episode."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from robocache.readers import ReadOptions
from robocache.readers.image_encoding import AUTO
from robocache.readers.merged_recording import UNIX_NS
from robocache.store.episode_store import EpisodeStore
from robocache.store.manifest import is_store

MOST_FILES = 1000  # of a conversion, that are compared
MOST_TOGETHER = 8  # files with the same streams in one episode, such as identical sensors


@dataclass(frozen=True)
class _File:
    path: str
    first: int
    last: int
    streams: frozenset[str]

    def overlaps(self, other: _File) -> bool:
        """Whether they share half of the shorter one's time."""
        shared = min(self.last, other.last) - max(self.first, other.first)
        return shared > 0 and 2 * shared >= min(self.last - self.first, other.last - other.first)


def propose_one_episode(destination: Path, paths: Sequence[str], options: ReadOptions) -> list[str]:
    """Messages that propose one episode for converted files of a folder that overlap in time.

    Files with the same streams and clocks that start at 0 count as separate takes, as in a data
    set of episodes; for other files that overlap, a message proposes one episode.
    """
    folders: dict[str, list[_File]] = {}
    for file in _files(destination, set(paths[:MOST_FILES])):
        folders.setdefault(str(Path(file.path).parent), []).append(file)
    return [
        _proposal(folder, group, destination, options)
        for folder, files in folders.items()
        for group in _groups(files)
    ]


def _files(destination: Path, paths: set[str]) -> list[_File]:
    """The recordings with one episode in the store, with its times and streams."""
    if len(paths) < 2 or not is_store(destination):
        return []
    files_of: dict[str, list[_File]] = {}
    for episode in EpisodeStore(destination):
        path = episode.source.rpartition("#")[0]
        if path in paths:
            streams = frozenset(episode.streams)
            file = _File(path, episode.start_ns, episode.end_ns, streams)
            files_of.setdefault(path, []).append(file)
    return [files[0] for files in files_of.values() if len(files) == 1]


def _groups(files: Sequence[_File]) -> list[list[_File]]:
    """Groups of files that may be one take: each file overlaps an earlier one of its group."""
    groups: list[list[_File]] = []
    for file in sorted(files, key=lambda file: (file.first, file.path)):
        if groups and any(file.overlaps(other) for other in groups[-1]):
            groups[-1].append(file)
        else:
            groups.append([file])
    return [group for group in groups if len(group) > 1 and _may_be_one(group)]


def _may_be_one(group: Sequence[_File]) -> bool:
    """Whether two files differ in all streams, or the clock is absolute, so takes can't overlap."""
    differ = any(not a.streams & b.streams for a in group for b in group)
    return differ or (group[0].first >= UNIX_NS and len(group) <= MOST_TOGETHER)


def _proposal(folder: str, group: Sequence[_File], destination: Path, options: ReadOptions) -> str:
    names = [Path(file.path).name for file in group]
    is_one = group[0].first >= UNIX_NS or not _repeat(group)
    if not is_one:  # several takes of several files, with clocks from 0: propose one pair
        a, b = next((a, b) for a in group for b in group if not a.streams & b.streams)
        group = [a, b]
    listed = f"{', '.join(names[:4])}" + (f" and {len(names) - 4:,} more" * (len(names) > 4))
    what = "all of them are" if len(names) > 2 and is_one else "both are" if is_one else "some are"
    command = ["robocache", "convert", "--one-episode", *_flags(options)]
    command += [file.path for file in group]
    command.append(str(destination.with_name(f"{destination.stem}-one{destination.suffix}")))
    return (
        f"{listed} in {folder} overlap in time, and became {len(names):,} episodes; if {what} of "
        f"one take, make one episode of {'each such take' if not is_one else 'them'}: "
        f"{shlex.join(command)}"
    )


def _repeat(group: Sequence[_File]) -> bool:
    """Whether two files have a stream of the same name."""
    return len(frozenset().union(*(f.streams for f in group))) < sum(len(f.streams) for f in group)


def _flags(options: ReadOptions) -> list[str]:
    """The options of a conversion as flags of its command line."""
    plain = ReadOptions()
    flags = [] if options.images else ["--no-images"]
    if options.encoding != AUTO:
        flags += ["--images", str(options.encoding)]
    if options.resize is not None:
        flags += ["--resize", "x".join(map(str, options.resize))]
    for topic in options.topics or ():
        flags += ["--topic", topic]
    for name in ("rate", "fit", "stamp", "time_column", "time_unit"):
        value = getattr(options, name)
        if value != getattr(plain, name):
            flags += [f"--{name.replace('_', '-')}", f"{value:g}" if name == "rate" else value]
    if options.memory_limit != plain.memory_limit:
        flags += ["--memory-limit", f"{options.memory_limit / 2**30:g}"]
    return flags
