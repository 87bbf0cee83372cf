"""Maps ROS message definitions to streams."""

from __future__ import annotations

import itertools
import operator
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from robocache.readers.field_groups import COVARIANCE, below, group_fields, method_of
from robocache.readers.recording import StreamMetadata

Message = Any
Field = tuple[str, tuple[int, Any]]
"""A field's name and its type as rosbags describes it: (kind, what it is made of)."""
Types = Callable[[str], list[Field]]
"""The fields of a message type."""

HEADER = "std_msgs/msg/Header"
CLOCK = "rosgraph_msgs/msg/Clock"
QUATERNION = "geometry_msgs/msg/Quaternion"

BASE, NAME, ARRAY, SEQUENCE = 1, 2, 3, 4
"""Kinds of fields: rosbags' Nodetype."""

_DTYPES = {
    "bool": np.dtype(np.bool_),
    "byte": np.dtype(np.int8),  # as rosbags reads it
    "char": np.dtype(np.uint8),
    **{
        f"{sign}int{bits}": np.dtype(f"{sign}int{bits}")
        for sign in ("", "u")
        for bits in (8, 16, 32, 64)
    },
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
}

# Units that REP 103 and the definitions of these types fix, by the type and the path of the field.
_UNITS = {
    ("geometry_msgs/msg/Twist", "linear"): "m/s",
    ("geometry_msgs/msg/Twist", "angular"): "rad/s",
    ("geometry_msgs/msg/Accel", "linear"): "m/s^2",
    ("geometry_msgs/msg/Accel", "angular"): "rad/s^2",
    ("geometry_msgs/msg/Wrench", "force"): "N",
    ("geometry_msgs/msg/Wrench", "torque"): "N m",
    ("geometry_msgs/msg/Pose", "position"): "m",
    ("geometry_msgs/msg/Transform", "translation"): "m",
    ("geometry_msgs/msg/PointStamped", "point"): "m",
    ("sensor_msgs/msg/Imu", "angular_velocity"): "rad/s",
    ("sensor_msgs/msg/Imu", "linear_acceleration"): "m/s^2",
    ("sensor_msgs/msg/MagneticField", "magnetic_field"): "T",
    ("sensor_msgs/msg/LaserScan", "ranges"): "m",
}

# Elements of successive rows are not of the same point, so these are not interpolated.
_HELD = {("sensor_msgs/msg/LaserScan", "ranges"), ("sensor_msgs/msg/LaserScan", "intensities")}

_ONLY_NUMBERS = "fields of {} that are not numbers, left out"
_LISTS = "fields of {} that are lists of messages of any length, left out"
_COVARIANCES = "covariances of {}, left out (topics names those to read)"


@dataclass(frozen=True)
class Part:
    """Numbers of a message that make one stream."""

    name: str
    """Name of the stream, below the topic."""
    get: Callable[[Message], Any]
    """Returns the numbers of a message: a tuple, or an array, which may be empty."""
    dtype: np.dtype[Any]
    shape: tuple[int, ...] | None
    """Shape of `get`'s results; None if the type leaves the length open."""
    method: str
    channels: tuple[str, ...] | None = None
    units: str | None = None

    def metadata(self, source: str) -> StreamMetadata:
        """The metadata of the stream; `source` says where it comes from."""
        return StreamMetadata(self.method, self.units, self.channels, source=source)


@dataclass
class Plan:
    """The streams of a message type."""

    parts: list[Part]
    left_out: dict[str, int]
    """The number of fields that are not read, by a note with ``{}`` for the topic."""

    def leave_out(self, note: str) -> None:
        """Counts a field that is not read."""
        self.left_out[note] = self.left_out.get(note, 0) + 1


def plan_message(kind: str, types: Types, takes_covariance: Callable[[str], bool]) -> Plan:
    """Plans the streams of any message type, by its numeric fields.

    The numbers of a (nested) message make a stream named by the path to it, as `group_fields` says;
    an array of numbers is a separate stream. A quaternion is a stream that alignment slerps.
    Text, times of the header and lists of messages of any length are left out. A list of messages
    of a fixed length L makes streams whose rows are [L, n].

    Args:
        kind: The type's name.
        types: The definitions.
        takes_covariance: Whether to read the covariance at a path.
    """
    plan = Plan([], {})
    _add_level(plan, kind, "", types, takes_covariance)
    short = [_shorten(part.name) for part in plan.parts]
    uses = Counter(short)
    plan.parts = [
        replace(part, name=name) if uses[name] == 1 else part
        for part, name in zip(plan.parts, short, strict=True)
    ]
    return plan


def _shorten(name: str) -> str:
    """``pose/pose/position``, as types with a covariance have it, as ``pose/position``."""
    return "/".join(part for part, _ in itertools.groupby(name.split("/")))


def _add_level(
    plan: Plan, kind: str, path: str, types: Types, takes_covariance: Callable[[str], bool]
) -> None:
    """Adds the parts of the message of type `kind` at `path`, attribute names with dots."""
    fields = types(kind)
    prefix = f"{path}." if path else ""
    name = path.replace(".", "/")
    numbers = [
        (field, _DTYPES[detail[0]])
        for field, (node, detail) in fields
        if node == BASE and detail[0] in _DTYPES
    ]
    for group in group_fields(numbers):
        is_quaternion = kind == QUATERNION and group.fields == ("x", "y", "z", "w")
        plan.parts.append(
            Part(
                below(name, group.name),
                _tuple_getter([prefix + field for field in group.fields]),
                group.dtype,
                (len(group.fields),),
                "slerp_xyzw" if is_quaternion else group.method,
                group.fields,
            )
        )
    for field, (node, detail) in fields:
        inner = prefix + field
        if node == BASE:
            if detail[0] not in _DTYPES:
                plan.leave_out(_ONLY_NUMBERS)
        elif node == NAME:
            if detail == HEADER:
                continue
            before = len(plan.parts)
            _add_level(plan, detail, inner, types, takes_covariance)
            units = _UNITS.get((kind, field))
            if units and len(plan.parts) == before + 1:
                plan.parts[before] = replace(plan.parts[before], units=units)
        else:
            _add_array(plan, kind, field, inner, types, takes_covariance, node, detail)


def _add_array(
    plan: Plan,
    kind: str,
    field: str,
    path: str,
    types: Types,
    takes_covariance: Callable[[str], bool],
    node: int,
    detail: Any,
) -> None:
    """Adds the stream or streams of an array or sequence."""
    (element_node, element), length = detail
    name = path.replace(".", "/")
    is_fixed = node == ARRAY
    if element_node == BASE:
        if element[0] not in _DTYPES:
            plan.leave_out(_ONLY_NUMBERS)
        elif COVARIANCE in field and not takes_covariance(name):
            plan.leave_out(_COVARIANCES)
        else:
            dtype = _DTYPES[element[0]]
            held = (kind, field) in _HELD
            part = Part(
                name,
                _array_getter(path, dtype),
                dtype,
                (length,) if is_fixed else None,
                "previous" if held else method_of(dtype),
                units=_UNITS.get((kind, field)),
            )
            plan.parts.append(part)
    elif not is_fixed:
        plan.leave_out(_LISTS)
    else:
        inner = plan_message(element, types, takes_covariance)
        for part in inner.parts:
            if part.shape is None:
                plan.leave_out(_LISTS)
                continue
            plan.parts.append(_each(part, name, path, length))
        for note, count in inner.left_out.items():
            plan.left_out[note] = plan.left_out.get(note, 0) + count


def _tuple_getter(paths: list[str]) -> Callable[[Message], Any]:
    get = operator.attrgetter(*paths)
    if len(paths) > 1:
        return get
    return lambda message: (get(message),)


def _array_getter(path: str, dtype: np.dtype[Any]) -> Callable[[Message], Any]:
    get = operator.attrgetter(path)
    return lambda message: np.asarray(get(message), dtype)


def _each(part: Part, name: str, path: str, length: int) -> Part:
    """The part of each of a list of `length` messages, as one part."""
    get, get_list = part.get, operator.attrgetter(path)
    assert part.shape is not None
    return Part(
        below(name, part.name),
        lambda message: np.array([get(element) for element in get_list(message)], part.dtype),
        part.dtype,
        (length, *part.shape),
        # A layout counts channels of the whole row; a quaternion in a list is combined as numbers.
        "previous" if part.method.startswith("slerp") else part.method,
    )


Stamp = Callable[[Message], int]
"""The stamp that a message holds, ns."""


def stamp_of(message: Message) -> int:
    """The stamp of a message with a header, ns; also of a transform."""
    return _nanoseconds(message.header.stamp)


def find_stamp(kind: str, types: Types) -> Stamp | None:
    """The function that reads the stamp of a message of this type; None if it has none."""
    if any(name == "header" and desc == (NAME, HEADER) for name, desc in types(kind)):
        return stamp_of
    if kind == CLOCK:
        return lambda message: _nanoseconds(message.clock)
    return None


def _nanoseconds(time: Any) -> int:
    return int(time.sec) * 1_000_000_000 + int(time.nanosec)
