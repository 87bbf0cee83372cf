"""An aligned table as an MCAP file, for Foxglove and other programs that read MCAP."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from robocache.core.extras import require
from robocache.doctor.finding import Times
from robocache.readers.ros.mcap_method import METHOD_KEY, write_method
from robocache.timeline.stream import AlignedStream

AGE = "alignment"
"""The key of the object with the age: numbers of an object are a stream of their own to readers."""


def write_mcap(path: Path, times: Times, rate: float, streams: Mapping[str, AlignedStream]) -> None:
    """Writes a topic for each stream, with a JSON message at each time at which it is valid.

    A message has a key for each channel; ``value`` where a row is one number, ``values``, a list,
    where channels have no names; and ``alignment.age_s``. The log time is the table's time. A
    number that JSON lacks, NaN or infinity, is null. The metadata of a channel holds the rate and
    the method.

    Raises:
        ValueError: For times before 0, images, and a channel that is called ``alignment``.
        MissingLibrary: If the mcap library is not installed.
    """
    library = require("mcap.writer", "MCAP", "ros", "writing")
    if len(times) and times[0] < 0:
        raise ValueError(
            f"times: expected 0 ns or later, as MCAP stores them, got {times[0]} (CSV and Parquet "
            "store times before 0)"
        )
    keys = {name: _keys(name, stream) for name, stream in streams.items()}
    with path.open("wb") as file:
        writer = library.Writer(file)
        writer.start(library="robocache")
        topics: list[tuple[int, list[str] | None, AlignedStream, list[Any]]] = []
        for name, stream in streams.items():
            schema = writer.register_schema(
                name, "jsonschema", json.dumps(_schema(name, stream, keys[name])).encode()
            )
            metadata = {"rate": f"{rate:g}", METHOD_KEY: write_method(stream.method)}
            channel = writer.register_channel(name, "json", schema, metadata)
            topics.append((channel, keys[name], stream, _numbers(stream)))
        for row, time in enumerate(times.tolist()):
            for channel, names, stream, numbers in topics:
                if stream.valid[row]:
                    message = _message(names, numbers[row], int(stream.age[row]))
                    writer.add_message(channel, time, message, time)
        writer.finish()


def _keys(name: str, stream: AlignedStream) -> list[str] | None:
    """The keys of a message's numbers; None: they are a list."""
    if stream.is_image:
        raise ValueError(
            f"streams[{name}]: expected numbers that fit messages, got images (NPZ holds images)"
        )
    if stream.channels is None:
        return ["value"] if stream.values[:1].size == 1 else None
    keys = list(stream.channels)
    for index, key in enumerate(keys):
        if key in (AGE, *keys[:index]):
            raise ValueError(
                f"streams[{name}]: expected channels of different names, other than {AGE}, "
                f"got {key}"
            )
    return keys


def _schema(name: str, stream: AlignedStream, keys: list[str] | None) -> dict[str, Any]:
    """JSON Schema as Foxglove parses it: one type for each property, no lists in lists."""
    kind = {"b": "boolean", "f": "number"}.get(stream.values.dtype.kind, "integer")
    width = stream.values[:1].size
    numbers: dict[str, Any] = (
        {"values": {"type": "array", "items": {"type": kind}, "minItems": width, "maxItems": width}}
        if keys is None
        else {key: {"type": kind} for key in keys}
    )
    age = {"type": "number", "description": "The message's time less that of the newest row used."}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": name,
        "description": "Null stands for a number that is not finite.",
        "type": "object",
        "properties": {**numbers, AGE: {"type": "object", "properties": {"age_s": age}}},
    }


def _numbers(stream: AlignedStream) -> list[Any]:
    """[T] lists of a row's numbers, None where one is not finite."""
    flat = stream.values.reshape(len(stream.values), -1)
    if flat.dtype.kind != "f":
        return list(flat.tolist())
    numbers = flat.astype(object)
    numbers[~np.isfinite(flat)] = None
    return list(numbers.tolist())


def _message(keys: list[str] | None, numbers: list[Any], age_ns: int) -> bytes:
    message: dict[str, Any] = (
        {"values": numbers} if keys is None else dict(zip(keys, numbers, strict=True))
    )
    message[AGE] = {"age_s": age_ns / 1e9}
    return json.dumps(message, allow_nan=False, separators=(",", ":")).encode()
