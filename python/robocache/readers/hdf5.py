"""Demonstrations in HDF5: robomimic's layout, which robosuite and Isaac Lab write too, and ALOHA's.

A file has a group ``data`` with a group for each demonstration, ``demo_0``, ``demo_1`` and so on;
in it datasets of one row a step, some in groups (``obs/eef_pos``). ``mask`` names subsets. A file
of ALOHA is one demonstration: ``action`` and ``observations/...`` at the top. There are no times:
rows are 1 / rate apart, and a description of the environment may have the rate. Images are arrays,
or rows of bytes that are files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robocache.core.extras import require
from robocache.readers import hdf5_checks, images
from robocache.readers.encoded_images import first_file, frame_bytes, image_rows, left_out
from robocache.readers.errors import RecordingError, head, reading
from robocache.readers.hdf5_files import holds_files, may_hold_files, read_files
from robocache.readers.json_file import as_float
from robocache.readers.limits import check_streams
from robocache.readers.options import ReadOptions
from robocache.readers.recording import (
    EpisodeReader,
    Method,
    Reader,
    Recording,
    StreamMetadata,
    require_rate,
)
from robocache.readers.rows import CHUNK_BYTES, Rows, is_storable, native, row_times, rows_per_chunk

FORMAT = "robomimic HDF5"
_ACTIONS = ("actions", "action")
MAGIC = b"\x89HDF\r\n\x1a\n"


class Demonstrations(Recording):
    """An opened file; episodes are in order of the number that their name ends with."""

    format = FORMAT

    def __init__(self, path: Path, options: ReadOptions) -> None:
        super().__init__(path, options)
        h5py = require("h5py", "HDF5", "hdf5")
        with reading(path, "HDF5"):
            self._file = h5py.File(path, "r")
        self._dataset_type, self._group_type = h5py.Dataset, h5py.Group
        try:
            with reading(path, "robomimic's layout"):
                self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        data = hdf5_checks.child(self._file, "data", self.path)
        self._demos = {
            name: demo
            for name in data or ()
            if isinstance(demo := hdf5_checks.child(data, name, self.path), self._group_type)
        }
        if data is None and any(name in self._file for name in _ACTIONS):
            data, self._demos = self._file, {"0": self._file}  # ALOHA's layout
        demos = list(self._demos)
        if not demos:
            found = ", ".join(self._file) or "nothing"
            raise RecordingError(
                f"{self.path}: expected a group data with a group for each demonstration "
                f"(data/demo_0), got {found}"
            )
        self._about = _describe(self.path, data)
        topics = self.options.topics or ()
        self._asks_for_next = any(pattern.startswith("next_obs") for pattern in topics)
        self.rate = require_rate(self.path, _find_rate(self._about), self.options)
        demos.sort(key=_by_number)
        self._rows = {name: _count_rows(self.path, self._demos[name]) for name in demos}
        self._episodes: list[_Episode] | None = None
        # Whether a dataset is a stream is decided where it is first seen: in the longest
        # demonstration, since in one of a single row all that is not per step looks as if it were.
        longest = max(demos, key=self._rows.__getitem__)
        model, rows = self._demos[longest], self._rows[longest]
        names = _names(model)
        check_streams(self.path, len(names))
        items = {name: model[name] for name in names}
        self._files: dict[str, bool] = {}  # whether rows of a dataset are files of images
        known = [n for n in items if self._why_not(n, items[n], rows) is None]
        self._unwanted = {*known} - {*self.options.select(known)}
        self._known = {*known}
        self._is_stream = {name: self._judge(name, items[name], rows) for name in items}
        self._frame_bytes = sum(
            images.fitted_bytes(item.shape[1:], 1, self.options)
            for name, item in items.items()
            if self._is_stream[name] and images.is_image(item.shape[1:], item.dtype)
        ) + sum(
            frame_bytes(first_file(read_files(items[name])), self.options)
            for name, are_files in self._files.items()
            if are_files and self._is_stream[name]
        )

    def episodes(self) -> Sequence[EpisodeReader]:
        """The demonstrations that have rows."""
        if self._episodes is None:
            with reading(self.path, "robomimic's layout"):
                self._episodes = list(self._list())
        return self._episodes

    def image_bytes(self) -> int:
        """All rows, with the images that the longest demonstration has."""
        return self._frame_bytes * sum(self._rows.values())

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def _list(self) -> Iterator[_Episode]:
        subsets: dict[str, list[str]] = {}
        mask = hdf5_checks.child(self._file, "mask", self.path)
        for name in mask or ():
            keys = hdf5_checks.child(mask, name, self.path)
            if isinstance(keys, self._dataset_type) and keys.shape is not None:
                hdf5_checks.check(keys, self.path, self.options.memory_limit)
                for key in np.ravel(keys[()]):
                    subsets.setdefault(_text(key), []).append(name)
        for demo, rows in self._rows.items():
            if rows == 0:
                self.notes["episodes without rows, skipped"] += 1
                continue
            about = _describe(self.path, self._demos[demo])
            task = _find_task(about) or _find_task(self._about)
            yield _Episode(self, demo, task, tuple(subsets.get(demo, ())), rows)

    def _find(self, demo: Any, rows: int) -> Iterator[tuple[str, Any]]:
        """The datasets of a demonstration that are streams, with their names."""
        for name in _names(demo):
            if self._is_stream.get(name) is False:
                continue
            dataset = demo[name]
            if name not in self._is_stream:
                self._is_stream[name] = self._judge(name, dataset, rows)
            if not self._is_stream[name]:
                continue
            if len(dataset) != rows:
                raise RecordingError(
                    f"{self.path}: expected {rows} rows in {dataset.name}, got {len(dataset)}"
                )
            if _is_unwritten(dataset):
                self.notes[f"datasets left out that were declared and never written ({name})"] += 1
                continue
            hdf5_checks.check(dataset, self.path, self.options.memory_limit)
            yield name, dataset

    def _why_not(self, name: str, item: Any, rows: int) -> str | None:
        """Why something in a demonstration is not a stream, as a note; nothing for a group."""
        if not isinstance(item, self._dataset_type):
            return ""
        if name.startswith("next_obs/") and not self._asks_for_next:
            return "datasets of next_obs left out, obs has them a row earlier"
        if not is_storable(item.dtype) and not self._has_files(name, item):
            return left_out("datasets", item.dtype, may_hold_files(item), name)
        if item.shape is None or item.shape[:1] != (rows,):
            top = name.partition("/")[0]
            return f"datasets left out that have not a row a step ({top})"
        return None

    def _has_files(self, name: str, item: Any) -> bool:
        """Whether the rows of a dataset are files of images."""
        if name not in self._files:
            self._files[name] = holds_files(item, self.path, self.options.memory_limit)
        return self._files[name]

    def _judge(self, name: str, item: Any, rows: int) -> bool:
        """Whether something is a stream that is wanted; then its metadata are there afterward."""
        why_not = self._why_not(name, item, rows)
        if why_not is not None:
            if why_not:
                self.notes[why_not] += 1
            return False
        shape = item.shape[1:]
        is_image = images.is_image(shape, item.dtype) or self._has_files(name, item)
        if is_image and not self.options.images:
            images.leave_out(name, self.notes)
            return False
        if name in self._unwanted or not (name in self._known or self.options.wants(name)):
            return False
        self.streams[name] = StreamMetadata(
            method="previous" if is_image else self._method(name, shape),
            rate=self.rate,
            timeline="rows",
            source=f"dataset {name}",
        )
        return True

    def _method(self, name: str, shape: tuple[int, ...]) -> Method | None:
        """Quaternions by their names: robosuite puts w last, Isaac Lab first."""
        if len(shape) != 1:
            return None
        is_isaac = str(self._about.get("env_name", "")).startswith("Isaac")
        slerp = "slerp_wxyz" if is_isaac else "slerp_xyzw"
        last = name.rpartition("/")[2]
        if last.endswith("quat") and shape == (4,):
            return slerp
        if is_isaac and last == "root_pose" and shape == (7,):
            return (("linear", 3), (slerp, 4))
        if is_isaac and last.endswith("orientations") and shape[0] % 4 == 0:
            return ((slerp, 4),) * (shape[0] // 4)
        return None


@dataclass(frozen=True)
class _Episode:
    recording: Demonstrations
    key: str
    task: str | None
    subsets: tuple[str, ...]
    rows: int

    def read(self) -> Iterator[Rows]:
        recording = self.recording
        demo = recording._demos[self.key]
        with reading(recording.path, f"{self.key} to be readable"):
            for name, dataset in recording._find(demo, self.rows):
                if recording._files.get(name):
                    yield from self._images(name, dataset)
                    continue
                for a, values in self._parts(dataset):
                    if images.is_image(values.shape[1:], values.dtype):
                        values = images.fit_all(values, recording.options)
                    yield Rows(name, row_times(a, len(values), recording.rate), values)

    def _images(self, name: str, dataset: Any) -> Iterator[Rows]:
        """A dataset whose rows are files of images."""
        path = self.recording.path
        yield from image_rows(
            name,
            row_times(0, self.rows, self.recording.rate),
            read_files(dataset),
            lambda row: f"{path}, row {row} of {dataset.name}",
            path,
            self.recording.notes,
            self.recording.options,
        )

    def _parts(self, dataset: Any) -> Iterator[tuple[int, NDArray[Any]]]:
        """A dataset in parts of bounded size: the number of a row, and rows from there on."""
        size = dataset.nbytes
        if size + self.rows <= CHUNK_BYTES:
            yield 0, native(dataset[()])
            return
        step = rows_per_chunk(max(1, size // self.rows))
        if dataset.chunks and step > dataset.chunks[0]:
            step -= step % dataset.chunks[0]  # each chunk of the file is decompressed once
        for a in range(0, self.rows, step):
            yield a, native(dataset[a : a + step])


# ---- attributes ----------------------------------------------------------------------------------


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _describe(path: Path, group: Any) -> dict[str, Any]:
    """The attributes that are JSON objects, put together: descriptions of the environment."""
    about: dict[str, Any] = {}
    attributes = group.attrs
    for name in ("env_info", "env_args", "problem_info", "ep_meta"):
        if name in attributes:
            try:
                found = json.loads(_text(attributes[name]))
            except RecursionError:
                raise RecordingError(
                    f"{path}: expected JSON in attribute {name} of {group.name}, got arrays or "
                    "objects nested too deeply"
                ) from None
            except ValueError:
                continue
            if isinstance(found, dict):
                about.update(found)
    return about


def _find_rate(about: dict[str, Any]) -> float | None:
    """Robosuite's control_freq, or 1 / (dt * decimation) of Isaac Lab's physics steps."""
    inner = about.get("env_kwargs")
    simulation = about.get("sim_args")
    rate = about.get("control_freq")
    if isinstance(inner, dict):
        rate = inner.get("control_freq", rate)
    if rate is None and isinstance(simulation, dict):
        step, every = simulation.get("dt"), simulation.get("decimation")
        period = (as_float(step) or 0.0) * (as_float(every) or 0.0)
        rate = 1 / period if period > 0 else None
    found = as_float(rate)
    return found if found is not None and found > 0 else None


def _find_task(about: dict[str, Any]) -> str | None:
    """RoboCasa's lang of an episode, LIBERO's instruction of a file."""
    found = about.get("lang") or about.get("language_instruction")
    return found if isinstance(found, str) and found else None


def _count_rows(path: Path, demo: Any) -> int:
    for name in _ACTIONS:
        shape = getattr(demo.get(name), "shape", None)
        if shape:
            return int(shape[0])
    if "num_samples" in demo.attrs:
        return int(demo.attrs["num_samples"])
    names = ", ".join(demo) or "nothing"
    raise RecordingError(f"{path}: expected actions or num_samples in {demo.name}, got {names}")


def _names(group: Any) -> list[str]:
    """The names of all objects in a group and its subgroups."""
    names: list[str] = []
    group.visit(names.append)
    return names


def _is_unwritten(dataset: Any) -> bool:
    """Whether the dataset has no stored values, so that it would read as zeros."""
    if dataset.id.get_storage_size():  # nearly always
        return False
    return bool(dataset.size and not (dataset.is_virtual or dataset.external))


def _by_number(name: str) -> tuple[bool, int, str]:
    number = re.search(r"(\d+)$", name)
    return (number is None, int(number[1]) if number else 0, name)


def recognizes(path: Path) -> bool:
    """Whether a file is HDF5."""
    return head(path, len(MAGIC)) == MAGIC


READER = Reader(FORMAT, "hdf5", "an HDF5 file", recognizes, Demonstrations, (".hdf5", ".h5"))
