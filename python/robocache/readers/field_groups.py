"""How the fields of a message become streams, for every kind of recorded message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

COVARIANCE = "covariance"
"""Fields with this word in their name are left out unless they are asked for."""


@dataclass(frozen=True)
class Group:
    """Numbers of one level of a message that make one stream."""

    name: str
    """Name of the stream below the level; empty for the level itself."""
    fields: tuple[str, ...]
    dtype: np.dtype[Any]

    @property
    def method(self) -> str:
        """How alignment combines it: only floating numbers have values between two rows."""
        return method_of(self.dtype)


def method_of(dtype: np.dtype[Any]) -> str:
    """``"linear"`` for floating numbers; flags, counters and states hold: ``"previous"``."""
    return "linear" if dtype.kind == "f" else "previous"


def group_fields(fields: Sequence[tuple[str, np.dtype[Any]]]) -> list[Group]:
    """Streams of the numbers that stand side by side in a message.

    A stream has one type. So floating numbers make one, in the widest of their types; whole numbers
    and flags another, named ``discrete`` where there are both, in a type that holds them all. Where
    no integer type does (uint64 beside signed numbers), each uint64 is a stream of its own.

    Args:
        fields: Name and type (bool, an integer or a floating type) of each, in their order.
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
    """The path of what is called `name` at `path`; either may be empty."""
    return f"{path}/{name}" if path and name else path or name
