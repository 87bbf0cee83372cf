"""Converts JSON messages to rows: programs without ROS write them to MCAP files."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from robocache.readers.field_groups import below, group_fields, method_of
from robocache.readers.recording import Method, StreamMetadata
from robocache.readers.reorder_buffer import ReorderBuffer, StreamBuffer, TopicClock
from robocache.readers.ros.mcap_method import fits

_TIMES = ("timestamp", "stamp")
_OF_FLAGS = ("previous", "nearest")


class JsonTopic:
    """Messages that are JSON objects: the first one determines the streams.

    As for ROS messages, the numbers of an object are a stream, and an array of numbers is another
    stream. Numbers are float64, true and false are flags. A message without one of a stream's
    numbers has no row in that stream. `timestamp` or `header.stamp`, an object with `sec` and
    `nsec` (or `nanosec`), is the stamp.

    `method` is that of the numbers at the top of a message, or of a list of them, as far as their
    count fits; None: linear for numbers, previous for flags.
    """

    def __init__(
        self,
        name: str,
        source: str,
        clock: TopicClock,
        method: Method | None,
        buffer: ReorderBuffer,
        notes: Counter[str],
    ) -> None:
        self._name = name
        self._source = source
        self._clock = clock
        self._method = method
        self._buffer = buffer
        self._notes = notes
        self._objects: list[tuple[tuple[str, ...], tuple[str, ...], StreamBuffer]] = []
        self._arrays: list[tuple[tuple[str, ...], StreamBuffer]] = []
        self._planned = False

    def add(self, message: Any, sent: int, received: int) -> int:
        """As `Topic.add`; `message` is the result of `json.loads`."""
        if not isinstance(message, dict):
            self._notes[f"messages of {self._name} that are not JSON objects, left out"] += 1
            return 0
        stamp = received
        if self._clock.has_stamps:
            stamped = json_stamp(message)
            stamp = sent if stamped is None else stamped
            if not self._planned:
                self._clock.is_in_message = stamped is not None
        self._clock.tick(stamp, received)
        if not self._planned:
            self._plan(message, ())
            self._planned = True
        held = missing = 0
        for path, fields, stream_buffer in self._objects:
            row = _row(_find(message, path), fields, stream_buffer.dtype == np.bool_)
            if row is None:
                missing += 1
            else:
                held += stream_buffer.add(stamp, received, row)
        for path, stream_buffer in self._arrays:
            array = _numbers(_find(message, path))
            if array is None:
                missing += 1
            elif len(array):
                held += stream_buffer.add(stamp, received, array)
        if missing:
            self._notes[f"rows of {self._name} left out, since numbers are missing"] += missing
        return held

    def finish(self) -> int:
        """As `Topic.finish`."""
        return 0

    def _plan(self, value: dict[str, Any], path: tuple[str, ...]) -> None:
        """Adds the streams of an object and of the objects in it."""
        level = "/".join(path)
        numbers: list[tuple[str, np.dtype[Any]]] = []
        for key, item in value.items():
            if key == "header" or (not path and key in _TIMES and _time(item) is not None):
                continue
            if isinstance(item, bool):
                numbers.append((key, np.dtype(np.bool_)))
            elif isinstance(item, (int, float)):
                numbers.append((key, np.dtype(np.float64)))
            elif isinstance(item, dict):
                self._plan(item, (*path, key))
            elif (array := _numbers(item)) is not None:
                width = array.size if array.ndim == 1 and not path else 0
                metadata = StreamMetadata(self._method_of(array.dtype, width), source=self._source)
                stream = below(self._name, below(level, key))
                stream_buffer = self._buffer.add_stream(stream, self._clock, metadata)
                self._arrays.append(((*path, key), stream_buffer))
        for group in group_fields(numbers):
            method = self._method_of(group.dtype, 0 if path else len(group.fields))
            metadata = StreamMetadata(method, None, group.fields, source=self._source)
            stream = below(self._name, below(level, group.name))
            stream_buffer = self._buffer.add_stream(
                stream, self._clock, metadata, group.dtype, (len(group.fields),)
            )
            self._objects.append((path, group.fields, stream_buffer))

    def _method_of(self, dtype: np.dtype[Any], width: int) -> Method:
        """The channel's method where it fits rows of this type and width, else the type's."""
        method = self._method
        is_flag = dtype == np.bool_
        if method is None or not fits(method, width) or (is_flag and method not in _OF_FLAGS):
            return method_of(dtype)
        return method


def _find(value: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _row(value: Any, fields: tuple[str, ...], flags: bool) -> list[float] | None:
    """The fields of an object that a stream has, flags or numbers; None if one is missing.

    Raises:
        OverflowError: For an integer that is too large for float64.
    """
    found: list[Any] = [value.get(f) for f in fields] if isinstance(value, dict) else [None]
    if flags:
        return found if all(isinstance(flag, bool) for flag in found) else None
    if any(isinstance(number, bool) or not isinstance(number, (int, float)) for number in found):
        return None
    return [float(number) for number in found]


def _numbers(value: Any) -> Any:
    """A nested list of numbers as float64, or of flags as bool; None for other values.

    Raises:
        OverflowError: For an integer that is too large for float64.
    """
    if not isinstance(value, list):
        return None
    try:
        array = np.array(value)
    except ValueError:
        return None
    if array.dtype == np.bool_:
        return array
    if array.dtype == object and all(type(number) in (int, float) for number in array.flat):
        return array.astype(np.float64)  # integers of more than 64 bits
    return array.astype(np.float64) if array.dtype.kind in "iuf" else None


def json_stamp(message: Any) -> int | None:
    """The stamp of a message, ns; None if it has none."""
    if not isinstance(message, dict):
        return None
    header = message.get("header")
    if isinstance(header, dict):
        return _time(header.get("stamp"))
    for key in _TIMES:
        if key in message:
            return _time(message[key])
    return None


def _time(value: Any) -> int | None:
    """The nanoseconds of an object with `sec` and `nsec` or `nanosec`; None for others."""
    if not isinstance(value, dict) or not isinstance(value.get("sec"), int):
        return None
    rest = value.get("nsec", value.get("nanosec"))
    return value["sec"] * 1_000_000_000 + rest if isinstance(rest, int) else None
