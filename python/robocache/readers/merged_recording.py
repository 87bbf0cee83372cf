"""Several recordings of one take, merged into one episode."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from robocache.core.paths import absolute_path
from robocache.readers import (
    EpisodeReader,
    ReadOptions,
    Recording,
    RecordingError,
    Rows,
    open_recording,
)
from robocache.readers.recording import SingleEpisode

UNIX_NS = 10**18
"""Nanoseconds (2001-09-09). Times from here on count from 1970; earlier times count from another
start, such as that of a device."""


def open_merged(
    paths: Sequence[str | os.PathLike[str]], options: ReadOptions | None = None
) -> Recording:
    """Opens the recordings of one take as a recording of one episode.

    Streams keep their times and rates. Streams of one name in several recordings are prefixed by
    the names of their files: ``left/force`` and ``right/force``. Opening reads all recordings once
    to find their first and last times, without images if they have other streams.

    Args:
        paths: Files or folders, each of one episode.
        options: None: the defaults. Each pattern of `topics` must match in at least one recording.

    Raises:
        RecordingError: If a recording can't be read or does not have one episode, or if the times
            do not overlap: the recordings are of different takes, or of different clocks.
        MissingLibrary: If a reader's library is not installed.
    """
    files = [Path(path) for path in paths]
    if not files:
        raise RecordingError("expected at least 1 recording, got none")
    return _MergedRecording(files, options or ReadOptions())


def merged_name(paths: Sequence[str | os.PathLike[str]]) -> str:
    """One name for several files, as in a shell: ``/data/take/{force.csv,joints.csv}``."""
    absolute = [absolute_path(path) for path in paths]
    common = os.path.commonpath(absolute)
    names = sorted({os.path.relpath(path, common) for path in absolute})
    return str(Path(common, f"{{{','.join(names)}}}"))


def span_text(first: int, last: int) -> str:
    """The times that a recording covers as text: seconds, or dates for times from `UNIX_NS` on."""
    return f"{_time_text(first)} to {_time_text(last)}"


def _time_text(time: int) -> str:
    if time < UNIX_NS:
        return f"{time / 1e9:.3f} s"
    return datetime.fromtimestamp(time / 1e9, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")


@dataclass
class _Part:
    recording: Recording
    episode: EpisodeReader
    names: dict[str, str]
    """The merged name of each of its streams."""
    first: int = 0
    last: int = 0
    """`first` and `last`: its first and last times, ns."""


class _MergedRecording(Recording):
    """See :func:`open_merged`."""

    def __init__(self, paths: Sequence[Path], options: ReadOptions) -> None:
        super().__init__(Path(merged_name(paths)), options)
        with ExitStack() as opened:
            parts = [self._open(path, chosen, opened) for path, chosen in _chosen(paths, options)]
            self._parts = parts
            _refuse_gaps(self.path, parts)
            self._name_streams()
            self._opened = opened.pop_all()
        self.format = " + ".join(part.recording.format for part in parts)
        for part in parts:
            self.notes.update(part.recording.notes)

    def _open(self, path: Path, options: ReadOptions, opened: ExitStack) -> _Part:
        recording = opened.enter_context(open_recording(path, options))
        episodes = recording.episodes()
        if len(episodes) != 1:
            raise RecordingError(
                f"{path}: expected a recording of 1 episode, to be one with others, "
                f"got {len(episodes):,}"
            )
        spans: dict[str, tuple[int, int]] = {}
        with suppress(RecordingError):  # no stream but images is selected
            spans = _spans(path, replace(options, images=False))
        spans = spans or _spans(path, options)
        if not spans:
            raise RecordingError(f"{path}: expected rows, to be one episode with others, got none")
        part = _Part(recording, episodes[0], {name: name for name in spans})
        part.first = min(first for first, _ in spans.values())
        part.last = max(last for _, last in spans.values())
        return part

    def _name_streams(self) -> None:
        counts = Counter(name for part in self._parts for name in part.names)
        labels = _labels([part.recording.path for part in self._parts])
        renamed: dict[str, list[str]] = {}
        for part, label in zip(self._parts, labels, strict=True):
            for name in part.names:
                if counts[name] > 1:
                    part.names[name] = f"{label}/{name.lstrip('/')}"
                    renamed.setdefault(name, []).append(part.names[name])
        for name, names in renamed.items():
            self.notes[f"streams called {name}, named {', '.join(names)} here"] = len(names)
        for part in self._parts:
            for name, metadata in part.recording.streams.items():
                self.streams[part.names.get(name, name)] = metadata

    def episodes(self) -> Sequence[EpisodeReader]:
        """The one episode, of all recordings."""
        tasks = [part.episode.task for part in self._parts if part.episode.task]
        return [SingleEpisode(self.read, task=tasks[0] if tasks else None)]

    def read(self) -> Iterator[Rows]:
        """The rows of all recordings, one recording after another."""
        owners: dict[str, Path] = {}
        for part in self._parts:
            recording = part.recording
            before = Counter(recording.notes)
            for rows in part.episode.read():
                name = part.names.get(rows.stream, rows.stream)
                if owners.setdefault(name, recording.path) != recording.path:
                    raise RecordingError(
                        f"{self.path}: expected image streams of different names, got {name} in "
                        f"{owners[name].name} and {recording.path.name} (topics chooses streams)"
                    )
                metadata = recording.streams.get(rows.stream)
                if metadata is not None:
                    self.streams[name] = metadata
                yield replace(rows, stream=name)
            self.notes.update(recording.notes - before)

    def image_bytes(self) -> int | None:
        """Image bytes of all recordings; None if one does not know them."""
        sizes = [part.recording.image_bytes() for part in self._parts]
        return None if None in sizes else sum(size or 0 for size in sizes)

    def close(self) -> None:
        """Closes all recordings."""
        self._opened.close()


def _chosen(paths: Sequence[Path], options: ReadOptions) -> list[tuple[Path, ReadOptions]]:
    """The recordings that a pattern of `topics` matches, each with those patterns.

    Raises:
        RecordingError: For a pattern that matches in no recording.
    """
    if options.topics is None:
        return [(path, options) for path in paths]
    chosen = []
    problems: dict[str, list[RecordingError]] = {pattern: [] for pattern in options.topics}
    for path in paths:
        patterns = []
        for pattern in options.topics:
            try:
                open_recording(path, replace(options, topics=(pattern,))).close()
            except RecordingError as error:
                problems[pattern].append(error)
            else:
                patterns.append(pattern)
        if patterns:
            chosen.append((path, replace(options, topics=tuple(patterns))))
    for errors in problems.values():
        if len(errors) == len(paths):
            raise errors[0]
    return chosen


def _spans(path: Path, options: ReadOptions) -> dict[str, tuple[int, int]]:
    """The first and the last time of each stream of a recording."""
    spans: dict[str, tuple[int, int]] = {}
    with open_recording(path, options) as recording:
        for episode in recording.episodes():
            for rows in episode.read():
                if len(rows.times):
                    first, last = int(rows.times[0]), int(rows.times[-1])
                    known = spans.get(rows.stream, (first, last))
                    spans[rows.stream] = min(first, known[0]), max(last, known[1])
    return spans


def _refuse_gaps(path: Path, parts: Sequence[_Part]) -> None:
    """Raises for recordings whose time ranges leave a gap in their union."""
    ordered = sorted(parts, key=lambda part: (part.first, part.last))
    last, earlier = ordered[0].last, ordered[0]
    for part in ordered[1:]:
        if part.first > last:
            one, other = (
                f"{p.recording.path.name} ({span_text(p.first, p.last)})" for p in (earlier, part)
            )
            raise RecordingError(
                f"{path}: expected recordings that overlap in time, to be one episode, got {one} "
                f"and {other} (two clocks? recordings of different takes are episodes of their own)"
            )
        if part.last > last:
            last, earlier = part.last, part


def _labels(paths: Sequence[Path]) -> list[str]:
    """A unique short name for each file: its stem, else with its folders, else with its suffix."""
    common = Path(os.path.commonpath([path.absolute().parent for path in paths]))
    relative = [path.absolute().relative_to(common) for path in paths]
    for names in ([path.stem for path in relative], [str(p.with_suffix("")) for p in relative]):
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in relative]
