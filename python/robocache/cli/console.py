"""What commands print with: tables and notes on stdout, progress on stderr."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

WIDE = 200  # columns, where nobody's terminal limits them


def out() -> Console:
    """Standard output; as wide as the terminal, or wide enough for tables in a file."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else WIDE)


def print_json(value: Any) -> None:
    """JSON that any program reads: NaN and infinity are null."""
    print(json.dumps(_plain(value), indent=1, ensure_ascii=False))


def print_table(
    console: Console, header: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int]
) -> None:
    """A table without frames; the columns in `left` start alike, the others end alike."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for i, name in enumerate(header):
        table.add_column(name, justify="left" if i in left else "right", no_wrap=i == 0)
    for row in rows:
        table.add_row(*map(escape, row))
    console.print(table)


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
