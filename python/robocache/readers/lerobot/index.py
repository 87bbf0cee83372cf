"""Lists the episodes of a LeRobot data set and their files: ``meta`` of v2.0, v2.1 and v3.0."""

from __future__ import annotations

import functools
import itertools
import json
import re
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from robocache.core.checks import nanoseconds_of
from robocache.readers.errors import RecordingError, reading, refuse_pointer, shortened
from robocache.readers.json_file import as_float, parse_json
from robocache.readers.tables.arrow import open_parquet

VERSIONS = ("v2.0", "v2.1", "v3.0")

_DATA_V2 = "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"
_VIDEO_V2 = "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4"
_DATA_V3 = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
_VIDEO_V3 = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"


@dataclass(frozen=True)
class Info:
    """The contents of ``meta/info.json``."""

    root: Path
    version: str
    fps: float
    features: dict[str, dict[str, Any]]
    splits: dict[str, tuple[int, int]]
    """The range of episodes of each subset: begin and end."""
    chunk_size: int
    data_path: str
    video_path: str

    def subsets(self, episode: int) -> tuple[str, ...]:
        """The subsets that an episode belongs to."""
        return tuple(n for n, (first, stop) in self.splits.items() if first <= episode < stop)


@dataclass(frozen=True)
class Segment:
    """The part of a video that shows an episode."""

    path: Path
    start: int = 0
    """Nanoseconds at which the episode begins in the video."""
    stop: int | None = None
    """Nanoseconds at which the next episode begins; None for a video of one episode."""


@dataclass(frozen=True)
class Entry:
    """An episode: its length, its table, and its segments of videos."""

    index: int
    length: int
    tasks: tuple[str, ...]
    table: Path
    videos: dict[str, Segment]
    """The segment of each video stream."""


def is_number(dtype: str) -> bool:
    """Whether a dtype of a feature is a numeric type of NumPy."""
    try:
        return np.dtype(dtype).kind in "biuf"
    except TypeError:
        return False


@functools.lru_cache(64)  # neighboring episodes share files
def inside(root: Path, relative: str) -> Path:
    """The absolute path of a relative path in the data set's metadata.

    Raises:
        RecordingError: If the path leaves the data set.
    """
    path = Path(relative)
    if path.is_absolute() or ".." in path.parts:
        raise RecordingError(f"{root}: expected paths inside the data set, got {relative!r}")
    return root / path


def read_info(root: Path) -> Info:
    """Reads and validates ``meta/info.json``.

    Raises:
        RecordingError: If the file is invalid, or of an unsupported version.
    """
    path = root / "meta" / "info.json"
    with reading(path, "LeRobot's description of a data set"):
        found = parse_json(path, path.read_text("utf-8"))
    if not isinstance(found, dict):
        raise RecordingError(f"{path}: expected a JSON object, got {type(found).__name__}")
    version = found.get("codebase_version")
    if version not in VERSIONS:
        raise RecordingError(
            f"{path}: expected codebase_version {', '.join(VERSIONS)}, got {version!r}"
        )
    fps = as_float(found.get("fps"))
    if fps is None or fps <= 0:
        raise RecordingError(f"{path}: expected fps above 0, got {shortened(found.get('fps'))}")
    features = found.get("features")
    if not isinstance(features, dict) or not all(_is_feature(f) for f in features.values()):
        raise RecordingError(f"{path}: expected features with dtype and shape, got others")
    is_v3 = version == "v3.0"
    chunk_size = found.get("chunks_size") or 1000
    if not isinstance(chunk_size, int) or chunk_size < 1:
        raise RecordingError(f"{path}: expected chunks_size above 0, got {chunk_size!r}")
    return Info(
        root,
        version,
        fps,
        features,
        _read_splits(path, found.get("splits") or {}),
        chunk_size,
        found.get("data_path") or (_DATA_V3 if is_v3 else _DATA_V2),
        found.get("video_path") or (_VIDEO_V3 if is_v3 else _VIDEO_V2),
    )


def _is_feature(feature: Any) -> bool:
    return (
        isinstance(feature, dict)
        and isinstance(feature.get("dtype"), str)
        and isinstance(feature.get("shape"), list)
        and all(isinstance(size, int) and size >= 0 for size in feature["shape"])
    )


def _read_splits(path: Path, splits: Any) -> dict[str, tuple[int, int]]:
    try:
        pairs = {name: text.split(":") for name, text in splits.items()}
        return {name: (int(first), int(stop)) for name, (first, stop) in pairs.items()}
    except (AttributeError, ValueError):
        raise RecordingError(
            f'{path}: expected splits such as {{"train": "0:100"}}, got {shortened(splits)}'
        ) from None


def read_entries(info: Info, cameras: Sequence[str], limit: int) -> Iterator[Entry]:
    """The episodes, in order of their number.

    Args:
        info: Of the data set.
        cameras: The selected streams that are videos.
        limit: `ReadOptions.memory_limit`.

    Raises:
        RecordingError: If the index is missing or invalid.
    """
    is_v3 = info.version == "v3.0"
    found = _read_v3(info, cameras, limit) if is_v3 else _read_v2(info, cameras)
    entries = sorted(found, key=lambda entry: entry.index)
    for before, entry in itertools.pairwise(entries):
        if before.index == entry.index:
            raise RecordingError(
                f"{info.root}: expected each episode once, got {entry.index} twice"
            )
    yield from entries


# ---- up to v2.1: a line of JSON an episode -------------------------------------------------------


def _read_v2(info: Info, cameras: Sequence[str]) -> Iterator[Entry]:
    path = info.root / "meta" / "episodes.jsonl"
    with reading(path, "LeRobot's list of episodes"):
        lines = path.read_text("utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
            index, length = int(found["episode_index"]), int(found["length"])
            tasks = tuple(str(task) for task in found.get("tasks") or ())
        except Exception:
            refuse_pointer(path, "LeRobot's list of episodes")
            raise RecordingError(
                f"{path}: expected an episode in line {number}, got {line[:60]!r}"
            ) from None
        where = {**_chunk(index // info.chunk_size), "episode_index": index}
        yield Entry(
            index,
            length,
            tasks,
            _locate(info, info.data_path, where),
            {
                camera: Segment(_locate(info, info.video_path, {**where, "video_key": camera}))
                for camera in cameras
            },
        )


# ---- v3.0: tables of many episodes ---------------------------------------------------------------


def _read_v3(info: Info, cameras: Sequence[str], limit: int) -> Iterator[Entry]:
    folder = info.root / "meta" / "episodes"
    paths = sorted(folder.glob("*/*.parquet"))
    if not paths:
        raise RecordingError(f"{folder}: expected tables of episodes (*/*.parquet), got none")
    columns = ["episode_index", "length", "tasks", "data/chunk_index", "data/file_index"]
    for camera in cameras:
        columns += [f"videos/{camera}/{c}" for c in ("chunk_index", "file_index", "from_timestamp")]
    for path in paths:
        file = open_parquet(path, "a table of episodes", limit)
        with reading(path, "a table of episodes"):
            missing = [name for name in columns if name not in file.schema_arrow.names]
            if missing:
                raise RecordingError(f"{path}: expected columns {', '.join(missing)}, got none")
            stops = [f"videos/{camera}/to_timestamp" for camera in cameras]
            rows = file.read([*columns, *stops]).to_pylist()  # pyarrow ignores absent columns
        for row in rows:
            try:
                yield _entry_v3(info, cameras, row)
            except RecordingError:
                raise
            except (TypeError, ValueError, OverflowError):
                raise RecordingError(f"{path}: expected an episode, got {shortened(row)}") from None


def _entry_v3(info: Info, cameras: Sequence[str], row: dict[str, Any]) -> Entry:
    videos = {}
    for camera in cameras:
        where = {
            "video_key": camera,
            **_chunk(int(row[f"videos/{camera}/chunk_index"])),
            "file_index": int(row[f"videos/{camera}/file_index"]),
        }
        start = row[f"videos/{camera}/from_timestamp"]
        stop = row.get(f"videos/{camera}/to_timestamp")
        if stop is None:
            stop = start + int(row["length"]) / info.fps
        path = _locate(info, info.video_path, where)
        videos[camera] = Segment(path, nanoseconds_of(start), nanoseconds_of(stop))
    where = {**_chunk(int(row["data/chunk_index"])), "file_index": int(row["data/file_index"])}
    tasks = row["tasks"]
    return Entry(
        int(row["episode_index"]),
        int(row["length"]),
        (tasks,) if isinstance(tasks, str) else tuple(map(str, tasks or ())),
        _locate(info, info.data_path, where),
        videos,
    )


def _chunk(number: int) -> dict[str, Any]:
    """The number of a chunk, under the names that templates of v2 and v3 use."""
    return {"episode_chunk": number, "chunk_index": number}


def _locate(info: Info, template: str, values: dict[str, Any]) -> Path:
    parts: list[str] = []
    try:
        for text, name, width, conversion in string.Formatter().parse(template):
            parts.append(text)
            if name is None:
                continue
            digits = _DIGITS.fullmatch(width or "")
            if name not in values or digits is None or conversion:
                raise ValueError
            value = values[name]
            parts.append(f"{value:{width}}" if isinstance(value, int) else str(value))
    except (TypeError, ValueError):
        names = ", ".join(f"{{{name}}}" for name in values)
        raise RecordingError(
            f"{info.root / 'meta' / 'info.json'}: expected a path made of {names}, of at most 20 "
            f"digits each ({{episode_index:06d}}), got {shortened(template)}"
        ) from None
    return inside(info.root, "".join(parts))


_DIGITS = re.compile(r"(0?(1?\d|20)d?)?")
