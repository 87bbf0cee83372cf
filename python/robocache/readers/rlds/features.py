"""Converts the features of a TFDS dataset (features.json) to streams of an episode's steps."""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from robocache.readers.errors import RecordingError, reading, refuse_duplicates
from robocache.readers.field_groups import method_of
from robocache.readers.json_file import parse_json
from robocache.readers.limits import check_resident
from robocache.readers.rlds.tfrecord import Feature

STEPS = "steps"

_BYTE: np.dtype[Any] = np.dtype(np.uint8)


@dataclass(frozen=True)
class Step:
    """A feature of every step of an episode."""

    name: str
    """Name of the stream: the path below ``steps``."""
    kind: Literal["tensor", "image", "text"]
    shape: tuple[int, ...] = ()
    dtype: np.dtype[Any] = _BYTE
    encoding: str = "none"
    """Encoding of a tensor: ``none``, or ``bytes`` or ``zlib``, with a byte string per step."""

    @property
    def key(self) -> str:
        """The feature's name in an Example."""
        return f"{STEPS}/{self.name}"

    @property
    def method(self) -> str:
        """How alignment combines the stream."""
        return "previous" if self.kind == "image" else method_of(self.dtype)


def read_features(path: Path, notes: Counter[str]) -> list[Step]:
    """The features of a data set's steps; notes say which are left out.

    Args:
        path: features.json.
        notes: Of the recording.

    Raises:
        RecordingError: For a file that TFDS did not write, or a data set without steps.
    """
    expected = "features.json as TFDS writes it, with steps of episodes (RLDS)"

    try:
        text = path.read_text(encoding="utf-8")
        features = parse_json(path, text)["featuresDict"]["features"]
        steps = features[STEPS]["sequence"]["feature"]["featuresDict"]["features"]
    except KeyError as error:
        raise RecordingError(f"{path}: expected {expected}, got none named {error}") from error
    except RecordingError:
        raise
    except (ValueError, TypeError) as error:
        raise RecordingError(f"{path}: expected {expected}, got {error}") from error
    others = len(features) - 1
    if others:
        notes["features of whole episodes, left out"] += others
    with reading(path, expected):
        found = list(_walk(steps, "", notes))
    refuse_duplicates(path, "features", [step.name for step in found])  # a/b, and b within a
    return found


def _walk(features: dict[str, Any], path: str, notes: Counter[str]) -> Iterator[Step]:
    for key, feature in features.items():
        name = f"{path}/{key}" if path else key
        if "featuresDict" in feature:
            yield from _walk(feature["featuresDict"]["features"], name, notes)
            continue
        step = _step(name, feature)
        if isinstance(step, str):
            notes[f"features left out: {name} ({step})"] += 1
        else:
            yield step


def _step(name: str, feature: dict[str, Any]) -> Step | str:
    """A feature that is not a dictionary; why not, in words, if it is not read."""
    if "text" in feature:
        return Step(name, "text")
    if "image" in feature:
        return Step(name, "image")
    if "classLabel" in feature:
        return Step(name, "tensor", (), np.dtype(np.int64))
    if "tensor" not in feature:
        kind = str(feature.get("pythonClassName", "of no class")).rpartition(".")[2]
        return f"{kind} is not read"
    tensor = feature["tensor"]
    if tensor.get("dtype") in ("string", "object"):
        return Step(name, "text")
    shape = tuple(int(size) for size in tensor.get("shape", {}).get("dimensions", ()))
    if min(shape, default=1) < 1:
        return f"its shape {list(shape)} is open"
    try:
        dtype = np.dtype(str(tensor.get("dtype")).replace("bfloat16", "float32"))
    except TypeError:
        return f"its type is {tensor.get('dtype')}"
    if dtype.kind not in "biuf":
        return f"its type is {dtype}"
    encoding = str(tensor.get("encoding") or "none").lower()
    if encoding not in ("none", "bytes", "zlib"):
        return f"its encoding is {encoding}"
    return Step(name, "tensor", shape, dtype, encoding)


def count_of(step: Step, feature: Feature) -> int:
    """How many steps a feature has values for.

    Raises:
        ValueError: If the values are not whole steps.
    """
    if isinstance(feature, list):
        return len(feature)
    size = math.prod(step.shape)
    if len(feature) % size:
        raise ValueError(f"{len(feature)} numbers, where a step has {size}")
    return len(feature) // size


def tensor_of(step: Step, feature: Feature, where: str, limit: int) -> NDArray[Any]:
    """The values of a tensor, [steps, ...].

    Args:
        step: The feature's declaration.
        feature: Its values of an episode.
        where: For errors.
        limit: `ReadOptions.memory_limit`.

    Raises:
        ValueError: For values that do not fit the feature.
        RecordingError: For a tensor that is larger than `limits` allow.
    """
    if isinstance(feature, list):
        if step.encoding == "none":
            raise ValueError("byte strings, where numbers are expected")
        size = math.prod(step.shape) * step.dtype.itemsize
        check_resident(where, size * len(feature), sum(map(len, feature)), limit)
        raw = [_inflated(data, size) if step.encoding == "zlib" else data for data in feature]
        values = np.frombuffer(b"".join(raw), step.dtype.newbyteorder("<"))
    else:
        values = feature
    return values.astype(step.dtype, copy=False).reshape(-1, *step.shape)


def _inflated(data: bytes, size: int) -> bytes:
    """The bytes of a compressed tensor, which are to be `size`.

    Raises:
        ValueError: If they are more, or not compressed by zlib.
    """
    stream = zlib.decompressobj()
    found = stream.decompress(data, size + 1)
    if len(found) != size:
        raise ValueError(f"more or less than {size:,} bytes of a step, decompressed")
    return found
