"""Wraps texts to the terminal's width, without rich: `program.py` prints errors by it."""

from __future__ import annotations

import os
import re
import shlex
import sys
import unicodedata
from typing import TextIO

UNLIMITED = 1 << 20  # columns of an output that is no terminal

# Text that a user copies is never wrapped: `commands`, pip's command line, quoted paths.
_PIECES = re.compile(r"`[^`]*`|pip install \S+(?: '[^']*')?|'[^' ]*/[^']*'")


def width_of(stream: TextIO) -> int | None:
    """The columns of a stream's terminal; None for a file or a pipe."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or None if stream.isatty() else None
    except (OSError, ValueError):
        return None


def wrap(text: str, width: int | None, indent: int = 0) -> list[str]:
    """Wraps a text at spaces to lines of at most `width` columns.

    Paths, commands, and the arguments of this process are not broken, even if they are longer.

    Args:
        text: One line or several.
        width: Columns; None: keep the lines.
        indent: Spaces before each line.
    """
    lines: list[str] = []
    for paragraph in text.split("\n"):
        words = _words(paragraph)
        line = " " * indent + (words[0] if words else "")
        for word in words[1:]:
            if width is not None and cells(line) + 1 + cells(word) > width:
                lines.append(line)
                line = " " * indent + word
            else:
                line += f" {word}"
        lines.append(line)
    return lines


def _words(text: str) -> list[str]:
    """Splits a text into the pieces between which a line may break."""
    arguments = [a for a in sys.argv[1:] if " " in a]
    kept = sorted({form for a in arguments for form in (a, shlex.quote(a))}, key=len, reverse=True)
    pattern = "|".join([*map(re.escape, kept), _PIECES.pattern])
    whole = re.sub(pattern, lambda match: match[0].replace(" ", "\0"), text)
    return [word.replace("\0", " ") for word in whole.split(" ")]


def cells(text: str) -> int:
    """The columns that a text takes on a terminal."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(unicodedata.combining(letter) > 0 for letter in text)


def shortened(text: str, width: int, tail: float = 0.5) -> str:
    """Shortens a text to at most `width` columns: an ellipsis replaces its middle.

    Args:
        text: One line.
        width: Maximum columns.
        tail: The fraction of the columns for the text's end.
    """
    if cells(text) <= width:
        return text
    begin, end = "", ""
    while cells(text[-1 - len(end)] + end) <= max(1, int((width - 1) * tail)):
        end = text[-1 - len(end)] + end
    while cells(begin + text[len(begin)]) + 1 + cells(end) <= width:
        begin += text[len(begin)]
    return f"{begin}…{end}"
