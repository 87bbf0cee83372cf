"""Progress of long operations: a bar on a terminal or in a notebook, or calls of a function."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from rich.progress import Progress

Update: TypeAlias = Callable[[int, int], None]
"""A function of the completed amount of work and the total."""

REFRESH_S = 0.1  # between two drawings of a bar in a notebook


@contextmanager
def progress_bar(what: str, progress: bool | Update = True) -> Iterator[Update]:
    """Yields a function of (done, total) that shows the progress of an operation.

    Args:
        what: The operation: "converting episodes".
        progress: True: a bar on stderr if that is a terminal, below the cell in a notebook, and no
            bar elsewhere. False: no bar. A function is yielded itself.

    Raises:
        TypeError: `progress: expected ..., got ...`.
    """
    if callable(progress):
        yield progress
        return
    if not isinstance(progress, bool):
        raise TypeError(
            f"progress: expected a bool or a function of (done, total), got {progress!r}"
        )
    if not progress:
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    task = bar.add_task(what, total=1)

    def update(done: int, total: int) -> None:
        bar.update(task, completed=done, total=max(1, total))

    if console.is_jupyter:
        yield _in_notebook(bar, update)
        return
    with bar:
        yield update


def _in_notebook(bar: Progress, update: Update) -> Update:
    """Draws a bar in the output of a notebook's cell, anew with each update of it.

    rich's own way needs ipywidgets; a display that is updated works in every notebook.
    """
    from IPython import display

    show: Any = display.display
    shown = show(bar, display_id=True)
    drawn = time.monotonic()

    def draw(done: int, total: int) -> None:
        nonlocal drawn
        update(done, total)
        now = time.monotonic()
        if done >= total or now - drawn >= REFRESH_S:
            shown.update(bar)
            drawn = now

    return draw
