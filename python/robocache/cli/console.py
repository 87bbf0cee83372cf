"""What commands print with: tables and notes on stdout, progress on stderr."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from robocache.cli.wrapping import UNLIMITED, width_of, wrap

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


def print_json(value: Any) -> None:
    """JSON that any program reads: NaN and infinity are null."""
    print(json.dumps(_plain(value), indent=1, ensure_ascii=False))


def number(value: float | None, digits: int = 4) -> str:
    """A number with so many digits; "-" where there is none."""
    return "-" if value is None or not math.isfinite(value) else f"{value:.{digits}g}"


def counted(count: int, what: str) -> str:
    """So many of something, as people say it: ``1 episode``, ``2,000 episodes``."""
    return f"{count:,} {what}{'s' * (count != 1)}"


def byte_count(count: float) -> str:
    """Bytes in the unit that suits them."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


@contextmanager
def progress(what: str, *, quiet: bool = False) -> Iterator[Callable[[int, int], None]]:
    """A bar on stderr while a terminal is there; yields what takes (done, total)."""
    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=quiet or not console.is_terminal,
    ) as bar:
        task = bar.add_task(what, total=1)
        yield lambda done, total: bar.update(task, completed=done, total=max(1, total))


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
