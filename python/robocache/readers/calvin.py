"""CALVIN's recordings of play: one NPZ file a step.

A folder (``training``, ``validation``) has ``episode_0358482.npz`` and so on, and
``ep_start_end_ids.npy``: the first and the last step of each episode. Steps were taken at 30 Hz.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robocache.readers import images
from robocache.readers.errors import RecordingError, reading
from robocache.readers.numpy_arrays import read_array, read_arrays
from robocache.readers.options import ReadOptions
from robocache.readers.recording import EpisodeReader, Method, Reader, Recording, StreamMetadata
from robocache.readers.rows import Rows, is_storable, native, row_times, rows_per_chunk

FORMAT = "CALVIN"
ENDS = "ep_start_end_ids.npy"
RATE = 30.0

MOST_STEPS = 4096
"""The most steps of a chunk, and so of files opened before a missing file raises."""

# Channels and methods of arrays, as CALVIN documents them; orientations are Euler angles.
_POSE = ("tcp_x", "tcp_y", "tcp_z", "tcp_roll", "tcp_pitch", "tcp_yaw")
_JOINTS = tuple(f"joint_{number}" for number in range(7))
_LAYOUTS: dict[str, tuple[tuple[str, ...], Method | None]] = {
    "actions": ((*_POSE, "gripper"), (("linear", 3), ("angle", 3), ("previous", 1))),
    "rel_actions": ((*_POSE, "gripper"), None),
    "robot_obs": (
        (*_POSE, "gripper_width", *_JOINTS, "gripper_action"),
        (("linear", 3), ("angle", 3), ("linear", 8), ("previous", 1)),
    ),
}


class Calvin(Recording):
    """A folder of steps."""

    format = FORMAT

    def __init__(self, path: Path, options: ReadOptions) -> None:
        super().__init__(path, options)
        self.rate = options.rate or RATE
        with reading(path / ENDS, "an array of steps"):
            self._ends = read_array(path / ENDS, options.memory_limit)
        if self._ends.ndim != 2 or self._ends.shape[1] != 2 or self._ends.dtype.kind not in "iu":
            raise RecordingError(
                f"{path / ENDS}: expected integers [episodes, 2], "
                f"got {self._ends.dtype} {list(self._ends.shape)}"
            )
        self._digits = _count_digits(path)
        self.names: list[str] = []
        if len(self._ends):
            self._add_streams(self.load(int(self._ends[0, 0])))
        if (path / "lang_annotations").is_dir():
            self.notes["folders of language annotations left out"] = 1

    def _add_streams(self, step: dict[str, NDArray[Any]]) -> None:
        for name in self.options.select(step):
            values = step[name]
            is_image = _is_image(name)
            if not is_storable(values.dtype):
                self.notes[f"arrays of type {values.dtype} left out ({name})"] = 1
                continue
            if is_image and not self.options.images:
                images.leave_out(name, self.notes)
                continue
            channels, method = _LAYOUTS.get(name, ((), None))
            if values.shape != (len(channels),):
                channels, method = (), None
            self.names.append(name)
            self.streams[name] = StreamMetadata(
                method="previous" if is_image else method,
                channels=channels or None,
                rate=self.rate,
                timeline="rows",
                source=f"array {name}",
            )

    def file(self, step: int) -> Path:
        """The file of a step."""
        return self.path / f"episode_{step:0{self._digits}d}.npz"

    def load(self, step: int) -> dict[str, NDArray[Any]]:
        """All arrays of a step, images fitted."""
        path = self.file(step)
        with reading(path, "the arrays of a step"), zipfile.ZipFile(path) as file:
            arrays = read_arrays(path, file, self.names, self.options.memory_limit)
        found = {name: native(values) for name, values in arrays.items()}
        for name, values in found.items():
            if _is_image(name):
                pixels = values[:, :, None] if values.ndim == 2 else values
                found[name] = images.fit(pixels, self.options) if pixels.ndim == 3 else pixels
        return found

    def image_bytes(self) -> int:
        """Bytes of the first step's images, times the number of steps."""
        if not any(map(_is_image, self.names)):
            return 0
        try:
            step = self.load(int(self._ends[0, 0]))
        except RecordingError:  # which reading it reports
            return 0
        steps = np.maximum(self._ends[:, 1] - self._ends[:, 0] + 1, 0).sum()
        return int(steps) * sum(step[name].nbytes for name in self.names if _is_image(name))

    def episodes(self) -> Sequence[EpisodeReader]:
        """The episodes, in the order of their list."""
        subsets = (self.path.name,) if self.path.name in ("training", "validation") else ()
        found = []
        for first, last in self._ends.tolist():
            if last >= first:
                found.append(_Episode(self, f"steps_{first}_{last}", first, last, subsets))
        if len(found) < len(self._ends):
            self.notes["episodes without rows, skipped"] = len(self._ends) - len(found)
        return found


@dataclass(frozen=True)
class _Episode:
    recording: Calvin
    key: str
    first: int
    last: int
    subsets: tuple[str, ...]
    task: str | None = None

    def read(self) -> Iterator[Rows]:
        recording = self.recording
        if not recording.names:
            return
        model = recording.load(self.first)
        row_bytes = sum(values.nbytes for values in model.values())
        step = min(MOST_STEPS, rows_per_chunk(row_bytes))
        for a in range(self.first, self.last + 1, step):
            steps = range(a, min(a + step, self.last + 1))
            chunk = {n: np.empty((len(steps), *v.shape), v.dtype) for n, v in model.items()}
            for row, found in enumerate(images.pool().map(recording.load, steps)):
                for name, values in found.items():
                    if values.shape != model[name].shape or values.dtype != model[name].dtype:
                        raise RecordingError(
                            f"{recording.file(steps[row])}: expected {name} as in the step before, "
                            f"{model[name].dtype} {list(model[name].shape)}, "
                            f"got {values.dtype} {list(values.shape)}"
                        )
                    chunk[name][row] = values
            times = row_times(a - self.first, len(steps), recording.rate)
            for name in recording.names:
                yield Rows(name, times, chunk[name])


def _is_image(name: str) -> bool:
    return name.startswith(("rgb_", "depth_"))


def _count_digits(path: Path) -> int:
    with reading(path, "a folder of steps"):
        for entry in path.iterdir():
            found = re.fullmatch(r"episode_(\d+)\.npz", entry.name)
            if found:
                return len(found[1])
    raise RecordingError(f"{path}: expected steps (episode_0000000.npz), got none")


def recognizes(path: Path) -> bool:
    """Whether a folder has the list of first and last steps."""
    return (path / ENDS).is_file()


READER = Reader(FORMAT, "images", f"a folder with {ENDS}", recognizes, Calvin)
