"""A store as a LeRobot v3.0 data set.

meta/info.json                           features, rate, counts, where files are
meta/tasks.parquet                       task -> number
meta/episodes/chunk-000/file-000.parquet  where each episode is, and its statistics
meta/stats.json                          statistics of all frames
data/chunk-000/file-000.parquet          a row a frame
videos/KEY/chunk-000/file-000.mp4        frames of many episodes, one after the other
"""

from __future__ import annotations

import io
import json
import math
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robocache.core.extras import require
from robocache.core.matching import choose, stored_names
from robocache.core.progress import Update, progress_bar
from robocache.export.aligned import (
    Column,
    align,
    frames_of_rows,
    held_streams,
    hold,
    stream_with_far_time,
    take,
    timeline,
    without_overlap,
)
from robocache.export.report import Export
from robocache.export.statistics import FeatureStatistics
from robocache.export.video import VideoFile
from robocache.readers.images import is_image
from robocache.store.episode_store import EpisodeStore
from robocache.store.files import naming
from robocache.store.rows import Episode

VERSION = "v3.0"
CHUNK_FILES = 1000  # in a folder
DATA_BYTES = 100 << 20  # of a parquet file, before it is compressed
VIDEO_BYTES = 200 << 20
FRAMES_AT_A_TIME = 32  # of images in memory
OWN = ("timestamp", "frame_index", "episode_index", "index", "task_index")
FILE = "chunk-{chunk_index:03d}/file-{file_index:03d}"
NO_TASK = ""  # LeRobot has a task in every frame

# LeRobot finds tasks by the index of a pandas table: this is how pandas knows it in a file.
INDEX = "__index_level_0__"
TASKS_FOR_PANDAS = {
    "index_columns": [INDEX],
    "column_indexes": [],
    "columns": [
        {"name": name, "field_name": field, "pandas_type": kind, "numpy_type": numpy,
         "metadata": None}
        for name, field, kind, numpy in (("task_index", "task_index", "int64", "int64"),
                                         (None, INDEX, "unicode", "object"))
    ],
}  # fmt: skip


def export_lerobot(
    store: EpisodeStore | str | os.PathLike[str],
    destination: str | os.PathLike[str],
    rate: float,
    *,
    streams: Sequence[str] | None = None,
    video: bool = True,
    robot_type: str | None = None,
    progress: bool | Update = True,
) -> Export:
    """Writes a store as a LeRobot v3.0 data set, all streams aligned to one rate.

    An episode's frames begin when all its streams have begun, and end when one of them ends. Each
    stream is aligned by its stored method; images, integers and flags take the row before (method
    ``"nearest"``: the nearest). LeRobot has no mask: the report counts frames in gaps.

    If row k of every stream is within 0.1 ms, LeRobot's tolerance, of frame k, the episode is not
    resampled: its rows are exported unchanged. The row of a stream that is sent once (a static
    transform, or a stream of at most one row in every episode) is repeated in every frame.

    Args:
        store: The store, or its folder.
        destination: The data set's folder, which must not exist.
        rate: Frames per second.
        streams: Names or patterns (``"imu*"``) of the streams to export, as
            :func:`convert` takes topics; None: all.
        video: Images become video (AV1); False: PNG images in the data files.
        robot_type: The data set's ``robot_type``.
        progress: Whether to show a progress bar in a terminal or notebook; or a function that is
            called with the number of finished episodes and the total.

    Returns:
        The report: exported and skipped episodes.

    Raises:
        StoreError: The store is damaged.
        ValueError: The rate is not above 0, a stream can't be exported (the message names it), or
            no episode can.
        FileExistsError: The destination exists.
        MissingLibrary: pyarrow, or for images PyAV or Pillow, is not installed.
    """
    if not 0 < rate < math.inf:
        raise ValueError(f"rate: expected frames per second above 0, got {rate}")
    if not isinstance(store, EpisodeStore):
        store = EpisodeStore(store)
    if len(store) == 0:
        raise ValueError(f"{store.path}: expected at least 1 episode, got none")
    names = _chosen(store, streams)
    _arrow()
    destination = Path(destination)
    if destination.exists():
        raise FileExistsError(f"{destination}: expected no file or folder there, got one")
    partial = destination.with_name(f".{destination.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    writer = _Writer(store, names, partial, rate, video)
    try:
        report = Export(destination, rate, features=[feature(name) for name in names])
        with naming(destination), progress_bar("exporting episodes", progress) as update:
            for index, episode in enumerate(store.episodes):
                problem = writer.add(episode)
                if problem is not None:
                    report.skipped.append((index, problem))
                update(index + 1, len(store))
        if writer.episodes == 0:
            raise ValueError(
                f"{store.path}: expected an episode that can be exported, got none; of episode 0: "
                f"{report.skipped[0][1]}"
            )
        with naming(destination):
            writer.finish(robot_type)
        partial.rename(destination)
    except BaseException:
        writer.discard()
        shutil.rmtree(partial, ignore_errors=True)
        raise
    report.episodes, report.frames = writer.episodes, writer.frames
    report.frames_across_gaps = writer.across_gaps
    report.held, report.episodes_as_recorded = writer.held, writer.as_recorded
    report.without_statistics = writer.without_statistics
    report.log()
    return report


def _arrow() -> tuple[Any, Any]:
    """Pyarrow and its parquet part."""
    names = ("pyarrow", "pyarrow.parquet")
    pa, pq = (require(name, "LeRobot data sets", "export", "writing") for name in names)
    return pa, pq


def feature(stream: str) -> str:
    """A stream's name for LeRobot, which takes no slashes."""
    return stream.strip("/").replace("/", ".")


def _chosen(store: EpisodeStore, streams: Sequence[str] | None) -> list[str]:
    sources = {name: info.source for name, info in store.streams.items()}
    names = list(sources)
    if streams is not None:
        names = choose(streams, stored_names(sources), "streams")
    ragged = [name for name in names if store.streams[name].is_ragged]
    if ragged:
        raise ValueError(
            "streams: expected streams whose rows have one shape, got ragged rows: "
            f"{', '.join(ragged)} (name the streams to export)"
        )
    features = [feature(name) for name in names]
    for name in features:
        if name in OWN or not name:
            raise ValueError(f"streams: expected a name that LeRobot does not have, got {name!r}")
        if features.count(name) > 1:
            alike = " and ".join(repr(one) for one in names if feature(one) == name)
            raise ValueError(
                f"streams: expected names that differ where slashes are dots, got {alike}"
            )
    if not names:
        raise ValueError("streams: expected at least 1, got none")
    return names


class _Writer:
    """Writes episodes one after the other."""

    def __init__(
        self, store: EpisodeStore, names: Sequence[str], root: Path, rate: float, video: bool
    ) -> None:
        self.episodes = self.frames = self.across_gaps = self.as_recorded = 0
        self.held = held_streams(store, names)
        self.without_statistics: list[str] = []
        self._store = store
        self._names = names
        self._root = root
        self._rate = rate
        self._tasks: dict[str, int] = {}
        self._index: list[dict[str, Any]] = []
        infos = {name: store.streams[name] for name in names}
        self._images = [n for n in names if is_image(infos[n].shape, infos[n].dtype)]
        self._videos: dict[str, _Videos] = {}
        if video:
            self._videos = {n: _Videos(root, feature(n), rate) for n in self._images}
        self._statistics = {name: FeatureStatistics(name in self._images) for name in names}
        self._data = _DataFiles(root)

    def add(self, episode: Episode) -> str | None:
        """Adds an episode; or says why it is left out."""
        missing = [name for name in self._names if name not in episode]
        if missing:
            return f"expected all streams, got none of {', '.join(missing)}"
        moving = [name for name in self._names if name not in self.held]
        far = stream_with_far_time(episode, moving)
        if far is not None:
            return f"expected times without a jump of more than a day, got one in {far}"
        targets = frames_of_rows(episode, moving, self._rate)
        is_as_recorded = targets is not None
        if targets is None:
            targets = timeline(episode, moving, self._rate)
        if len(targets) == 0:
            return without_overlap(episode, moving)
        columns = {}
        for name in self._names:
            if name in self.held:
                columns[name] = hold(episode[name], targets)
            elif is_as_recorded:
                columns[name] = take(episode[name])
            else:
                columns[name] = align(self._store, episode, name, targets)
        across = np.zeros(len(targets), bool)
        for column in columns.values():
            across |= column.across_gaps
        task = self._tasks.setdefault(episode.task or NO_TASK, len(self._tasks))
        row: dict[str, Any] = {
            "episode_index": self.episodes,
            "tasks": [episode.task or NO_TASK],
            "length": len(targets),
            "dataset_from_index": self.frames,
            "dataset_to_index": self.frames + len(targets),
            "meta/episodes/chunk_index": 0,
            "meta/episodes/file_index": 0,
        }
        table = self._own_columns(len(targets), task)
        for name, column in columns.items():
            mine = FeatureStatistics(name in self._images)
            if name in self._videos:
                row |= self._videos[name].add(column, mine)
            else:
                table[feature(name)] = self._column(name, column, mine)
            self._statistics[name].merge(mine)
            row |= {f"stats/{feature(name)}/{k}": v for k, v in mine.as_json().items()}
        row |= self._data.add(table)
        self._index.append(row)
        self.across_gaps += int(across.sum())
        self.as_recorded += is_as_recorded
        self.episodes += 1
        self.frames += len(targets)
        return None

    def _own_columns(self, count: int, task: int) -> dict[str, Any]:
        pa, _ = _arrow()
        frame = np.arange(count)
        return {
            "timestamp": pa.array((frame / self._rate).astype(np.float32)),
            "frame_index": pa.array(frame),
            "episode_index": pa.array(np.full(count, self.episodes)),
            "index": pa.array(frame + self.frames),
            "task_index": pa.array(np.full(count, task)),
        }

    def _column(self, name: str, column: Column, statistics: FeatureStatistics) -> Any:
        """A stream's frames as a column of parquet."""
        pa, _ = _arrow()
        pieces = []
        for values in column.frames(FRAMES_AT_A_TIME if name in self._images else 1 << 16):
            statistics.add(values)
            pieces.append(_pictures(values) if name in self._images else _numbers(values))
        return pa.chunked_array(pieces)

    def finish(self, robot_type: str | None) -> None:
        """Writes the metadata of all episodes."""
        pa, pq = _arrow()
        self._data.close()
        for videos in self._videos.values():
            videos.close()
        meta = self._root / "meta"
        path = meta / "episodes" / f"{FILE.format(chunk_index=0, file_index=0)}.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(self._index), path)
        tasks = pa.table({"task_index": list(self._tasks.values()), INDEX: list(self._tasks)})
        tasks = tasks.replace_schema_metadata({"pandas": json.dumps(TASKS_FOR_PANDAS)})
        pq.write_table(tasks, meta / "tasks.parquet")
        _write_json(meta / "info.json", self._info(robot_type))
        statistics = {feature(name): one.as_json() for name, one in self._statistics.items()}
        # JSON has no NaN, and LeRobot takes numbers only.
        finite = {name: _finite(numbers) for name, numbers in statistics.items()}
        self.without_statistics = [name for name in finite if finite[name] != statistics[name]]
        _write_json(meta / "stats.json", finite)

    def discard(self) -> None:
        """Closes files that will not be finished."""
        self._data.discard()
        for videos in self._videos.values():
            videos.discard()

    def _info(self, robot_type: str | None) -> dict[str, Any]:
        rate = int(self._rate) if float(self._rate).is_integer() else self._rate
        features: dict[str, Any] = {feature(name): self._feature(name) for name in self._names}
        for name in OWN:
            dtype = "float32" if name == "timestamp" else "int64"
            features[name] = {"dtype": dtype, "shape": [1], "names": None}
        return {
            "codebase_version": VERSION,
            "robot_type": robot_type,
            "total_episodes": self.episodes,
            "total_frames": self.frames,
            "total_tasks": len(self._tasks),
            "chunks_size": CHUNK_FILES,
            "data_files_size_in_mb": DATA_BYTES >> 20,
            "video_files_size_in_mb": VIDEO_BYTES >> 20,
            "fps": rate,
            "splits": {"train": f"0:{self.episodes}"},
            "data_path": f"data/{FILE}.parquet",
            "video_path": f"videos/{{video_key}}/{FILE}.mp4" if self._videos else None,
            "features": features,
        }

    def _feature(self, name: str) -> dict[str, Any]:
        info = self._store.streams[name]
        if name in self._images:
            names = ["height", "width", "channels"]
            shape = list(info.shape)
            if name not in self._videos:
                return {"dtype": "image", "shape": shape, "names": names}
            shape[2] = 3
            known = self._videos[name].info
            return {"dtype": "video", "shape": shape, "names": names, "info": known}
        channels = None if info.channels is None else list(info.channels)
        return {
            "dtype": _exported(info.dtype).name,
            "shape": list(info.shape) or [1],
            "names": channels,
        }


# ---- files ---------------------------------------------------------------------------------------


class _DataFiles:
    """Parquet files of about equal size."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._number = 0
        self._bytes = 0
        self._writer: Any = None

    def add(self, columns: dict[str, Any]) -> dict[str, int]:
        """Writes the frames of an episode; says where they are."""
        pa, pq = _arrow()
        table = pa.table(columns)
        if self._writer is not None and self._bytes + table.nbytes > DATA_BYTES:
            self.close()
            self._number += 1
        place = _place(self._number)
        if self._writer is None:
            path = self._root / "data" / f"{FILE.format(**place)}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            self._writer, self._bytes = pq.ParquetWriter(path, table.schema), 0
        self._writer.write_table(table)
        self._bytes += table.nbytes
        return {f"data/{key}": value for key, value in place.items()}

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def discard(self) -> None:
        if self._writer is not None:
            self._writer.is_open = False  # else it ends the file when it is forgotten
            self._writer = None


class _Videos:
    """Video files of one feature."""

    def __init__(self, root: Path, key: str, rate: float) -> None:
        self.info: dict[str, Any] = {}
        self._root = root
        self._key = key
        self._rate = rate
        self._number = 0
        self._file: VideoFile | None = None

    def add(self, column: Column, statistics: FeatureStatistics) -> dict[str, Any]:
        """Encodes the frames of an episode; says where they are."""
        if self._file is not None and self._file.bytes > VIDEO_BYTES:
            self.close()
            self._number += 1
        place = _place(self._number)
        for pictures in column.frames(FRAMES_AT_A_TIME):
            statistics.add(pictures)
            if self._file is None:
                path = self._root / "videos" / self._key / f"{FILE.format(**place)}.mp4"
                self._file = VideoFile(path, self._rate, *pictures.shape[1:3])
                self.info = self._file.info
            self._file.add(_rgb(pictures))
        assert self._file is not None
        last = self._file.frames
        prefix = f"videos/{self._key}"
        return {
            **{f"{prefix}/{key}": value for key, value in place.items()},
            f"{prefix}/from_timestamp": (last - len(column.chosen)) / self._rate,
            f"{prefix}/to_timestamp": last / self._rate,
        }

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def discard(self) -> None:
        if self._file is not None:
            self._file.discard()
            self._file = None


def _place(number: int) -> dict[str, int]:
    return {"chunk_index": number // CHUNK_FILES, "file_index": number % CHUNK_FILES}


def _write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=4, ensure_ascii=False, allow_nan=False))


def _finite(value: Any) -> Any:
    """A copy with 0 in place of each number that is not finite."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return value if math.isfinite(value) else 0.0


# ---- values --------------------------------------------------------------------------------------


def _exported(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type that LeRobot gets: not every reader of parquet takes half floats."""
    return np.dtype(np.float32) if dtype == np.float16 else dtype


def _numbers(values: NDArray[Any]) -> Any:
    """[n,...] as a column: numbers, lists of equal length, or lists of lists."""
    pa, _ = _arrow()
    values = np.ascontiguousarray(values.astype(_exported(values.dtype), copy=False))
    if values.ndim == 1 or values.shape[1:] == (1,):
        return pa.array(values.reshape(len(values)))
    array = pa.array(values.reshape(-1))
    for size in reversed(values.shape[1:]):
        if values.ndim == 2:
            array = pa.FixedSizeListArray.from_arrays(array, size)
        else:  # as the datasets library stores arrays of more axes
            offsets = np.arange(0, len(array) + 1, size, dtype=np.int32)
            array = pa.ListArray.from_arrays(pa.array(offsets), array)
    return array


def _rgb(pictures: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """[n,H,W,3] of pictures with 1, 3 or 4 channels."""
    if pictures.shape[3] == 1:
        return np.repeat(pictures, 3, axis=3)
    return pictures[..., :3]


def _pictures(pictures: NDArray[np.uint8]) -> Any:
    """Pictures as PNG files in a column, as the datasets library has them."""
    pa, _ = _arrow()
    image = require("PIL.Image", "images", "export", "writing")
    rows = []
    for picture in pictures:
        data = io.BytesIO()
        shown = picture[..., 0] if picture.shape[-1] == 1 else picture
        image.fromarray(shown).save(data, "png")
        rows.append({"bytes": data.getvalue(), "path": None})
    return pa.array(rows, pa.struct([("bytes", pa.binary()), ("path", pa.string())]))
