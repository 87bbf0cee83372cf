"""Output of commands: tables and notes on stdout."""

from __future__ import annotations

import json
import logging
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from robocache.cli.wrapping import UNLIMITED, width_of, wrap
from robocache.core.display import byte_count as byte_count
from robocache.core.display import counted as counted
from robocache.core.display import printable
from robocache.core.display import streams_of_rows as streams_of_rows
from robocache.store.files import naming

HEIGHT = 50  # rows; without a height rich ignores the width on a dumb terminal and uses 80


class _Terminal(Console):
    """A console that escapes control characters and names the output in its errors."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Prints texts; control characters other than line ends become escapes."""
        output = Path("standard error" if self.stderr else "standard output")
        with naming(output):
            super().print(*map(_escaped, objects), **options)


def _escaped(shown: Any) -> Any:
    if isinstance(shown, str):
        return printable(shown, keep="\n")
    if isinstance(shown, Text) and (plain := printable(shown.plain, keep="\n")) != shown.plain:
        return Text(plain, shown.style)
    return shown


def out() -> Console:
    """A console on standard output, as wide as the terminal; unlimited for a file or pipe."""
    return _Terminal(highlight=False, width=width_of(sys.stdout) or UNLIMITED, height=HEIGHT)


def err() -> Console:
    """A console on standard error, as wide as the terminal; unlimited for a file or pipe."""
    width = width_of(sys.stderr) or UNLIMITED
    return _Terminal(stderr=True, highlight=False, width=width, height=HEIGHT)


def say(console: Console, text: str, indent: int = 0, style: str = "") -> None:
    """Prints a text wrapped to the console's width; never breaks inside a path or a command."""
    for line in wrap(text, console.width, indent):
        console.print(Text(line, style), soft_wrap=True)


class _Escaping(logging.Formatter):
    """Formats log records with control characters escaped."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record), keep="\n")


@contextmanager
def logged(name: str, is_wanted: bool) -> Iterator[None]:
    """Within a ``with`` block, prints a logger's records on stderr if `is_wanted`."""
    logger, handler = logging.getLogger(name), logging.StreamHandler()
    handler.setFormatter(_Escaping())
    level = logger.level
    if is_wanted:
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def print_json(value: Any) -> None:
    """Prints standard JSON: null for NaN and infinity, escapes for control characters."""
    text = json.dumps(_plain(value), indent=1, ensure_ascii=False)
    lines = map(_json_escapes, text.split("\n"))
    with naming(Path("standard output")):
        print("\n".join(lines), flush=True)


def _json_escapes(line: str) -> str:
    """Escapes the control characters in a line of JSON that JSON allows unescaped."""
    if printable(line) == line:
        return line
    return "".join(
        letter if printable(letter) == letter else f"\\u{ord(letter):04x}" for letter in line
    )


def number(value: float | None, digits: int = 4) -> str:
    """Formats a number with `digits` significant digits; "-" if it is None or not finite."""
    return "-" if value is None or not math.isfinite(value) else f"{value:.{digits}g}"


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:  # a NumPy scalar
        return _plain(value.item())
    return value
