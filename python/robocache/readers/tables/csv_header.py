"""Parses the header of a CSV file: the names of its columns and the position of its rows."""

from __future__ import annotations

import csv
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from robocache.readers.tables.column_names import (
    COMMENT_MARKS,
    is_number_text,
    is_time_name,
    without_marks,
)

_DELIMITERS = ",;\t"
_MAX_LINES = 100
_MOTIVE = "Format Version,"  # how an export of OptiTrack's Motive begins


class Header(NamedTuple):
    """The lines before the first row, and that row."""

    names: list[str]
    """Names of the columns; a header in a comment (``#timestamp [ns],x``) is without its mark."""
    delimiter: str
    skip: int
    """Lines before the first row."""
    first: list[str]
    """The first row; empty for a file without rows."""

    @property
    def dialect(self) -> dict[str, Any]:
        """The keyword arguments of `csv.reader`."""
        return {"delimiter": self.delimiter}


def read_header(path: Path) -> Header:
    """The header of a file; its names are empty if the file is not text.

    It is the first line, or the last of the comments before the rows. Names in a comment may be
    separated by spaces, as those of TUM's trajectories are (``# timestamp tx ty tz qx qy qz qw``).
    Exports of Motive have a header of several lines.
    """
    lines = _first_lines(path)
    if lines and lines[0].startswith(_MOTIVE):
        return _motive(lines)
    comments = next(
        (i for i, line in enumerate(lines) if not line.startswith(COMMENT_MARKS)), len(lines)
    )
    skip = max(1, comments)
    names, first = [*lines[skip - 1 :], "", ""][:2]
    delimiter = max(_DELIMITERS, key=names.count)
    if comments:
        names = without_marks(names)
        delimiter = delimiter if delimiter in names else " "
    return Header(_fields(names, delimiter), delimiter, skip, _fields(first, delimiter))


def _first_lines(path: Path) -> list[str]:
    """The first lines; empty if the file is not text."""
    with path.open("rb") as file:
        raw = list(islice(iter(lambda: file.readline(1 << 16), b""), 2))
        if raw and raw[0].removeprefix(b"\xef\xbb\xbf").startswith((b"#", b"%", _MOTIVE.encode())):
            raw += islice(iter(lambda: file.readline(1 << 16), b""), _MAX_LINES)
    try:
        return [line.decode("utf-8-sig").rstrip("\r\n") for line in raw]
    except UnicodeDecodeError:
        return []


def _fields(line: str, delimiter: str) -> list[str]:
    return next(csv.reader([line], delimiter=delimiter), [])


def _motive(lines: list[str]) -> Header:
    """The header of a Motive export: its rows joined by column, as in ``robot.Rotation.X``.

    The rows are: kind, name, an identifier, Rotation or Position, and the axis.
    """
    rows = [_fields(line, ",") for line in lines]
    axes = next((i for i, row in enumerate(rows) if row[:1] == ["Frame"]), 0)
    above = [row for row in rows[1:axes] if any(row)]
    if len(above) < 3:
        return Header([], ",", 0, [])
    parts = (above[1], above[-1], rows[axes])
    names = [
        ".".join(filter(None, (part[i] if i < len(part) else "" for part in parts)))
        for i in range(len(rows[axes]))
    ]
    return Header(names, ",", axes + 1, rows[axes + 1] if axes + 1 < len(rows) else [])


# ---- recognizing ---------------------------------------------------------------------------------


def recognizes(path: Path) -> bool:
    """Whether a file with a CSV suffix has a line of names and a row of equally many fields.

    A ``.txt`` file, or one separated by spaces, also needs a time among its names and a row of
    numbers.
    """
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".tsv", ".txt") or not path.is_file():
        return False
    names, delimiter, _, first = read_header(path)
    if len(names) < 2 or any(is_number_text(name) for name in names):
        return False
    if len(first or names) != len(names):
        return False
    is_text = suffix == ".txt" or delimiter == " "
    return not is_text or (any(map(is_time_name, names)) and all(map(is_number_text, first)))
