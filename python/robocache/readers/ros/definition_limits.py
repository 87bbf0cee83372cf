"""Limits on the definitions of ROS messages: nested types grow exponentially.

rosbags generates and runs code for each type, a line for each field and for each element of a fixed
array of messages; RoboCache plans a stream for each group of numbers. So these functions measure
the definitions first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from robocache.readers.limits import check_streams
from robocache.readers.ros.message_types import ARRAY, BASE, NAME, SEQUENCE

MOST_TEXT = 1 << 20
"""Characters of a definition, including the types that it uses."""

MOST_FIELDS = 10_000
"""Fields of a message, those of nested messages and of each element of fixed arrays included."""

MOST_LINES = 5 * MOST_FIELDS
"""Fields of all types of a recording: rosbags takes half a millisecond for each."""

EMPTY = "structure_needs_at_least_one_member"
"""The field that rosbags adds to messages without fields; it takes no byte in ROS 1."""

_NAME = re.compile(r"[A-Za-z]\w*(/[A-Za-z]\w*)*", re.ASCII)
_FIELD = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_IDL_TEXT = re.compile(r'"(?:\\.|[^"\\])*"|/\*.*?\*/|//[^\n]*', re.DOTALL)
_IDL_EXPRESSION = re.compile(r"<<|=\s*[^;,)\n]*[(~*/%|^&]|[+-]\s*[+-]")

Definitions = Mapping[str, tuple[Any, list[tuple[str, Any]]]]
"""Type: constants and fields, as rosbags' parsers return them."""


def check_text(text: str, is_idl: bool) -> None:
    """Raises for a definition that takes long to parse: rosbags' IDL parser is exponential.

    Raises:
        ValueError: If it is too long, or an IDL constant is an expression and not a number.
    """
    if len(text) > MOST_TEXT:
        raise ValueError(f"expected at most {MOST_TEXT:,} characters, got {len(text):,}")
    if is_idl:
        found = _IDL_EXPRESSION.search(_IDL_TEXT.sub('""', text))
        if found is not None:
            raise ValueError(f"expected constants that are values, got {found[0][:40]!r}")


def check_types(found: Definitions, known: Definitions, kind: str) -> int:
    """Raises for definitions that expand to too many fields or streams.

    Args:
        found: The types of a definition.
        known: Types that are defined already.
        kind: The message type that is read.

    Returns:
        How many fields and elements the definitions have, as rosbags unrolls them.

    Raises:
        ValueError: If they are too many, for a type that contains itself, for a list of messages
            that take no bytes, and for names that are not identifiers.
    """
    types = {**known, **found}
    for name, (constants, fields) in found.items():
        for field, *_ in (*constants, *fields):
            if not _FIELD.fullmatch(field):
                raise ValueError(f"expected names of fields, got {field!r}")
        if not _NAME.fullmatch(name):
            raise ValueError(f"expected names of types, got {name!r}")
    sizes: dict[str, tuple[int, int]] = {}
    _measure(kind, types, sizes, ())
    lines = 0
    for name in found:
        _measure(name, types, sizes, ())
        lines += sum(_lines(desc) for _, desc in found[name][1])
    most = max([lines, *(fields for fields, _ in sizes.values())])
    if most > MOST_FIELDS:
        raise ValueError(f"expected at most {MOST_FIELDS:,} fields, got {most:,}")
    check_streams(kind, sizes[kind][0])
    return lines


def _lines(desc: Any) -> int:
    """The elements of a field that rosbags' generated code handles one by one."""
    node, detail = desc
    if node != ARRAY:
        return 1
    (element, of), length = detail
    return int(length) if element == NAME or of[0] == "string" else 1


def _measure(
    kind: str,
    types: Definitions,
    sizes: dict[str, tuple[int, int]],
    within: tuple[str, ...],
) -> tuple[int, int]:
    """The number of fields of a type, nested ones included, and its least bytes in ROS 1."""
    if kind in sizes:
        return sizes[kind]
    if kind in within or len(within) > 100:
        raise ValueError(f"expected types nested up to 100 deep, got {kind} within itself")
    if kind not in types:
        raise ValueError(f"expected a definition of {kind}, got none")
    fields = least = 0
    for name, (node, detail) in types[kind][1]:
        if node == BASE:
            inner = (1, 0 if name == EMPTY else 1)
        elif node == NAME:
            inner = _measure(detail, types, sizes, (*within, kind))
        else:
            (element, of), length = detail
            inner = (1, 1) if element == BASE else _measure(of, types, sizes, (*within, kind))
            if node == SEQUENCE:
                if inner[1] == 0:
                    raise ValueError(f"expected lists of messages with fields, got one of {of}")
                inner = (inner[0] + 1, 1)
            elif element == NAME or of[0] == "string":
                inner = (inner[0] * int(length), inner[1] * int(length))
        fields, least = fields + inner[0], least + inner[1]
    sizes[kind] = fields, least
    return sizes[kind]
