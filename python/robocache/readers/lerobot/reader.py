"""LeRobot data sets, v2.0, v2.1 and v3.0.

Up to v2.1 an episode has a Parquet file and a video for each camera; from v3.0 on files hold many
episodes, and the tables in ``meta/episodes`` list the rows and the seconds of each episode.
``meta/info.json`` has the paths of the files; :mod:`.index` lists the episodes of both versions.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robocache.core.extras import require
from robocache.readers import images
from robocache.readers.encoded_images import image_rows
from robocache.readers.errors import RecordingError
from robocache.readers.lerobot import index as lerobot_index
from robocache.readers.lerobot.index import Entry, Segment
from robocache.readers.options import ReadOptions
from robocache.readers.recording import Reader, Recording, StreamMetadata
from robocache.readers.rows import Rows, Times, chunks, row_times
from robocache.readers.tables.parquet_rows import ParquetRows
from robocache.readers.video import frame_times, matched_by_number, video_rows

FORMAT = "LeRobot"

BOOKKEEPING = ("timestamp", "frame_index", "episode_index", "index", "task_index")
"""Columns that identify a row: times and tasks already have that information, so these are streams
only if `topics` has their full names."""

_REST = "--no-images, or images=False, reads the rest"

TIME_TOLERANCE = 1e-4
"""Seconds that a timestamp may be away from frame_index / fps: LeRobot's own tolerance."""


class LeRobot(Recording):
    """A data set: its rows lie 1 / fps apart."""

    format = FORMAT

    def __init__(self, path: Path, options: ReadOptions) -> None:
        super().__init__(path, options)
        require("pyarrow.parquet", "LeRobot data sets", "lerobot")
        self.info = lerobot_index.read_info(path)
        self._file: tuple[Path, ParquetRows] | None = None
        self._frames: dict[str, tuple[Path, Times]] = {}
        self._kinds: dict[str, str] = {}
        self._episodes: list[_Episode] | None = None
        self.row_counts: dict[Path, int] = {}
        """The number of rows of each table, if it contains the listed episodes alone."""
        by_name = options.topics or ()
        names = [n for n in self.info.features if n not in BOOKKEEPING or n in by_name]
        for name in options.select(names):
            self._add_stream(name, self.info.features[name])

    def _add_stream(self, name: str, feature: dict[str, Any]) -> None:
        kind = feature["dtype"]
        is_image = kind in ("image", "video")
        if is_image:
            if not self.options.images:
                images.leave_out(name, self.notes)
                return
            about = feature.get("info") or {}
            if about.get("is_depth_map") or about.get("video.is_depth_map"):
                self.notes[f"streams of depth kept as video left out ({name})"] = 1
                return
        elif not lerobot_index.is_number(kind):
            self.notes[f"streams of type {kind} left out ({name})"] = 1
            return
        self._kinds[name] = kind
        self.streams[name] = StreamMetadata(
            method="previous" if is_image else None,
            channels=None if is_image else _channels(feature),
            rate=self.info.fps,
            timeline="rows",
            source=f"{'video' if kind == 'video' else 'column'} {name}",
        )

    def episodes(self) -> list[_Episode]:
        """The episodes whose files are present; adds notes on the others.

        Raises:
            RecordingError: If files of all episodes are absent.
        """
        if self._episodes is None:
            self.row_counts.clear()
            self._episodes = list(self._list())
        return self._episodes

    def _list(self) -> Iterator[_Episode]:
        is_present = functools.cache(Path.is_file)
        found, no_table, no_video = 0, list[Entry](), Counter[str]()
        entries = lerobot_index.read_entries(
            self.info, self._streams_of("video"), self.options.memory_limit
        )
        for entry in entries:
            first = self.row_counts.get(entry.table, 0)
            self.row_counts[entry.table] = first + entry.length
            if entry.length == 0:
                self.notes["episodes without rows, skipped"] += 1
            elif not is_present(entry.table):
                self.notes["episodes whose data file is absent, skipped"] += 1
                no_table.append(entry)
            elif absent := [c for c, video in entry.videos.items() if not is_present(video.path)]:
                cameras = ", ".join(absent)
                self.notes[f"episodes without their video of {cameras}, skipped ({_REST})"] += 1
                no_video.update(absent)
            else:
                found += 1
                if len(entry.tasks) > 1:
                    self.notes["episodes of several tasks, the first is kept"] += 1
                yield _Episode(self, entry, first)
        if not found and no_video:
            raise RecordingError(
                f"{self.path}: expected an episode with all its videos, got none with that of "
                f"{', '.join(sorted(no_video))} ({_REST})"
            )
        if not found and no_table:
            first_table = no_table[0].table.relative_to(self.path)
            raise RecordingError(
                f"{self.path}: expected the data file of an episode or more, got none of "
                f"{len(no_table):,} (the first is {first_table}; download them)"
            )

    def image_bytes(self) -> int:
        """Bytes of one frame per row, at the size of the feature or of `resize`."""
        frame = sum(self._frame_bytes(n) for n in (*self.pictures, *self._streams_of("video")))
        rows = sum(episode.entry.length for episode in self.episodes())
        return frame * rows

    def _frame_bytes(self, name: str) -> int:
        shape: list[int] = self.info.features[name]["shape"]  # [H,W,C], or in some sets [C,H,W]
        if self.options.resize is None:
            return math.prod(shape)
        width, height = self.options.resize
        return width * height * min(shape)

    def close(self) -> None:
        """Closes the file that the last episode was read from."""
        if self._file is not None:
            self._file[1].close()
            self._file = None

    def file(self, path: Path) -> ParquetRows:
        """An opened table; the last one is cached, since neighboring episodes share it in v3.0."""
        if self._file is None or self._file[0] != path:
            self.close()
            self._file = (path, ParquetRows(path, self.options.memory_limit))
        return self._file[1]

    def frames(self, camera: str, video: Segment, margin: int) -> Times:
        """The presentation times of an episode's frames; caches those of the camera's last video.

        A frame up to `margin` nanoseconds before the start of the episode belongs to it.
        """
        if camera not in self._frames or self._frames[camera][0] != video.path:
            self._frames[camera] = (video.path, frame_times(video.path))
        frames = self._frames[camera][1]
        if video.stop is None:
            return frames
        return frames[(frames >= video.start - margin) & (frames < video.stop - margin)]

    @property
    def columns(self) -> list[str]:
        """The streams that are columns of numbers."""
        return [name for name, kind in self._kinds.items() if kind not in ("image", "video")]

    @property
    def pictures(self) -> list[str]:
        """The streams that are columns of encoded images."""
        return self._streams_of("image")

    def _streams_of(self, wanted: str) -> list[str]:
        return [name for name, kind in self._kinds.items() if kind == wanted]


@dataclass(frozen=True)
class _Episode:
    recording: LeRobot
    entry: Entry
    first: int
    """Its first row in its table, if the table has all episodes before it."""

    @property
    def key(self) -> str:
        return f"episode_{self.entry.index:06d}"

    @property
    def task(self) -> str | None:
        return self.entry.tasks[0] if self.entry.tasks else None

    @property
    def subsets(self) -> tuple[str, ...]:
        return self.recording.info.subsets(self.entry.index)

    def read(self) -> Iterator[Rows]:
        recording, entry = self.recording, self.entry
        file = recording.file(entry.table)
        first, arrays = self._find(file)
        stop = first + entry.length
        times = self._times(arrays["timestamp"])
        for name in recording.columns:
            yield from chunks(Rows(name, times, self._shaped(name, arrays[name])))
        for name in recording.pictures:
            for a, part in file.groups(name, first, stop):
                yield from self._decoded(name, times[a : a + len(part)], part, a)
        tolerance = round(1e9 / recording.info.fps / 4)
        for name, video in entry.videos.items():
            shown = video.start + times
            frames = recording.frames(name, video, tolerance)
            by_number = matched_by_number(shown, frames, tolerance)
            if by_number is not None:
                shown = by_number
                recording.notes[
                    f"episodes whose video of {name} is matched by number: a frame a row, "
                    "at other times"
                ] += 1
            yield from video_rows(name, video.path, times, shown, tolerance, recording.options)

    def _find(self, file: ParquetRows) -> tuple[int, dict[str, NDArray[Any] | None]]:
        """The episode's first row in its file, and the columns of numbers of all its rows."""
        entry = self.entry
        columns = list(dict.fromkeys([*self.recording.columns, "timestamp", "episode_index"]))
        if len(file) == self.recording.row_counts[entry.table]:
            arrays = file.read(columns, self.first, self.first + entry.length)
            numbers = arrays["episode_index"]
            if numbers is not None and (numbers == entry.index).all():
                return self.first, arrays
        begin, end = file.run_of("episode_index", entry.index)
        if end - begin != entry.length:
            raise RecordingError(
                f"{entry.table}: expected {entry.length} rows of episode {entry.index}, "
                f"got {end - begin}"
            )
        return begin, file.read(columns, begin, end)

    def _times(self, stamps: NDArray[Any] | None) -> Times:
        if stamps is None:
            raise RecordingError(f"{self.entry.table}: expected timestamps in seconds, got text")
        seconds = stamps.reshape(-1).astype(np.float64)
        times = row_times(0, len(seconds), self.recording.info.fps)
        # A float32 resolves an hour to 0.2 ms.
        allowed = TIME_TOLERANCE + np.abs(seconds) * np.finfo(np.float32).eps
        if (np.abs(seconds - times / 1e9) <= allowed).all():
            return times
        if not (np.isfinite(seconds).all() and (np.diff(seconds) >= 0).all()):
            raise RecordingError(f"{self.entry.table}: expected timestamps that ascend, got others")
        self.recording.notes["episodes whose timestamps are not frame_index / fps, kept"] += 1
        return np.rint(seconds * 1e9).astype(np.int64)

    def _shaped(self, name: str, values: NDArray[Any] | None) -> NDArray[Any]:
        feature = self.recording.info.features[name]
        shape = tuple(feature["shape"])
        if values is None or math.prod(values.shape[1:]) != math.prod(shape):
            got = "no numbers" if values is None else list(values.shape[1:])
            raise RecordingError(
                f"{self.entry.table}: expected rows of {list(shape)} in {name}, got {got}"
            )
        return values.reshape(len(values), *shape)

    def _decoded(self, name: str, times: Times, cells: Any, first: int) -> Iterator[Rows]:
        table, root = self.entry.table, self.recording.path

        def where(row: int) -> str:
            return f"{table}, row {first + row} of {name}"

        def file(row: int) -> bytes:
            cell = cells[row].as_py() or {}
            data = cell.get("bytes") if isinstance(cell, dict) else None
            if data is None and isinstance(cell, dict) and cell.get("path"):
                path = lerobot_index.inside(root, cell["path"])
                data = path.read_bytes() if path.is_file() else None
            if data is None:
                raise RecordingError(f"{where(row)}: expected an image, got none")
            return bytes(data)

        files = map(file, range(len(times)))
        yield from image_rows(
            name, times, files, where, table, self.recording.notes, self.recording.options
        )


def _channels(feature: dict[str, Any]) -> tuple[str, ...] | None:
    """The feature's names, flattened; None unless their count is that of its numbers."""

    def leaves(names: Any) -> Iterator[str]:
        if isinstance(names, dict):
            names = list(names.values())
        if isinstance(names, list):
            for name in names:
                yield from leaves(name)
        elif names is not None:
            yield str(names)

    found = tuple(leaves(feature.get("names")))
    return found if found and len(found) == math.prod(feature["shape"]) else None


def recognizes(path: Path) -> bool:
    """Whether a folder has LeRobot's ``meta/info.json``."""
    info = path / "meta" / "info.json"
    return info.is_file() and b'"codebase_version"' in info.read_bytes()


READER = Reader(FORMAT, "lerobot", "a folder with meta/info.json", recognizes, LeRobot)
