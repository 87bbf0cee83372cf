"""Output of commands: tables and notes on stdout."""

from __future__ import annotations

import json
import logging
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.text import Text

from robocache.cli.wrapping import UNLIMITED, width_of, wrap
from robocache.core.display import byte_count as byte_count
from robocache.core.display import counted as counted
from robocache.core.display import streams_of_rows as streams_of_rows

HEIGHT = 50  # rows; with a width alone rich takes 80 columns on a dumb terminal


def out() -> Console:
    """Standard output; as wide as the terminal, and unlimited in a file or pipe."""
    return Console(highlight=False, width=width_of(sys.stdout) or UNLIMITED, height=HEIGHT)


def err() -> Console:
    """Standard error, in the same way."""
    width = width_of(sys.stderr) or UNLIMITED
    return Console(stderr=True, highlight=False, width=width, height=HEIGHT)


def say(console: Console, text: str, indent: int = 0, style: str = "") -> None:
    """Prints a text in lines of the console's width, none broken inside a path or a command."""
    for line in wrap(text, console.width, indent):
        console.print(Text(line, style), soft_wrap=True)


@contextmanager
def logged(name: str, is_wanted: bool) -> Iterator[None]:
    """Prints a logger's records on stderr, within a ``with`` block, where that is wanted."""
    logger, handler = logging.getLogger(name), logging.StreamHandler()
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
    """JSON that any program reads: NaN and infinity are null."""
    print(json.dumps(_plain(value), indent=1, ensure_ascii=False))


def number(value: float | None, digits: int = 4) -> str:
    """A number with so many digits; "-" where there is none."""
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
