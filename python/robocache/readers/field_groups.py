"""Groups the numeric fields of a message into streams: ROS, JSON and PX4 messages share it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

COVARIANCE = "covariance"
"""Fields with this word in their name are left out unless `topics` names them."""


@dataclass(frozen=True)
class Group:
    """Numbers of one level of a message that make one stream."""

    name: str
    """Name of the stream below the level; empty for the level itself."""
    fields: tuple[str, ...]
    dtype: np.dtype[Any]

    @property
    def method(self) -> str:
        """How alignment combines it: only floating-point numbers are interpolated."""
        return method_of(self.dtype)


def method_of(dtype: np.dtype[Any]) -> str:
    """``"linear"`` for floating numbers; flags, counters and states hold: ``"previous"``."""
    return "linear" if dtype.kind == "f" else "previous"


def group_fields(fields: Sequence[tuple[str, np.dtype[Any]]]) -> list[Group]:
    """The streams of the numeric fields of one level of a message.

    A stream has one type. Floating-point fields are one stream, in the widest of their types;
    integers and flags are another, in a type that holds all of them, named ``discrete`` if the
    level has both. If no integer type holds them (uint64 beside signed numbers), each uint64 is a
    separate stream.

    Args:
        fields: Name and type (bool, an integer or a floating type) of each, in message order.
    """
    floats = [(name, dtype) for name, dtype in fields if dtype.kind == "f"]
    whole = [(name, dtype) for name, dtype in fields if dtype.kind != "f"]
    groups = []
    if floats:
        groups.append(_group("", floats))
    apart: list[tuple[str, np.dtype[Any]]] = []
    if whole and np.result_type(*(dtype for _, dtype in whole)).kind == "f":
        apart = [field for field in whole if field[1] == np.uint64]
        whole = [field for field in whole if field[1] != np.uint64]
    if whole:
        groups.append(_group("discrete" if floats else "", whole))
    return groups + [_group(name, [(name, dtype)]) for name, dtype in apart]


def _group(name: str, fields: Sequence[tuple[str, np.dtype[Any]]]) -> Group:
    dtype = np.result_type(*(dtype for _, dtype in fields))
    return Group(name, tuple(field for field, _ in fields), dtype)


def below(path: str, name: str) -> str:
    """The path of `name` below `path`; either may be empty."""
    return f"{path}/{name}" if path and name else path or name
