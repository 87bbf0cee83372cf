"""Tables without frames, as wide as the terminal; a row that does not fit becomes a block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.text import Text

from robocache.cli.console import say
from robocache.cli.wrapping import cells, shortened
from robocache.core.display import cut

BETWEEN = 2  # columns
EMPTY = ("", "-")
MOST_LETTERS = 400  # of a cell, on a console of any width
TAILS = (0.6, 0.4, 0.8, 0.2)  # of a shortened text: the first that leaves names distinct


def print_table(
    console: Console,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    left: Sequence[int],
    shrink: Mapping[int, int],
) -> None:
    """Prints a table; columns whose cells are all empty are left out, and a table without rows is.

    If the table is wider than the console, texts are shortened in the middle, down to `shrink`.
    Numbers are not; a table that is still too wide is printed as a block for each row.

    Args:
        console: The console to print to.
        header: The columns' names.
        rows: Rows with a cell for each column.
        left: Indices of the left-aligned columns; the others are right-aligned.
        shrink: The minimum width of columns that may be shortened, by index.
    """
    if not rows:
        return
    filled = [i for i in range(len(header)) if any(row[i] not in EMPTY for row in rows)]
    texts = [[cut(row[i], MOST_LETTERS) for i in filled] for row in [header, *rows]]
    widths = [max(map(cells, column)) for column in zip(*texts, strict=True)]
    excess = sum(widths) + BETWEEN * (len(widths) - 1) - console.width
    least = {i: max(shrink[c], cells(header[c])) for i, c in enumerate(filled) if c in shrink}
    while excess > 0 and (room := {i: widths[i] - n for i, n in least.items() if widths[i] > n}):
        widths[max(room, key=lambda i: room[i])] -= 1
        excess -= 1
    names = {row[0] for row in texts}
    for tail in TAILS:
        short = [
            [shortened(*cell, tail) for cell in zip(row, widths, strict=True)] for row in texts
        ]
        if len({row[0] for row in short}) == len(names):
            break  # the names are still distinct
    else:
        excess = 1
    if excess > 0:
        _print_blocks(console, [header[i] for i in filled], texts[1:])
        return
    for number, row in enumerate(short):
        line = ""
        for i, text, width in zip(filled, row, widths, strict=True):
            padding = " " * (width - cells(text))
            line += (text + padding if i in left else padding + text) + " " * BETWEEN
        console.print(Text(line.rstrip(), "" if number else "bold"), soft_wrap=True)


def _print_blocks(console: Console, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    margin = max(map(cells, header)) + BETWEEN
    title = ""
    for number, row in enumerate(rows):
        if number:
            console.print()
        title = row[0] or title  # a cell below the same one is empty
        say(console, title, style="bold")
        for name, text in zip(header[1:], row[1:], strict=True):
            if text not in EMPTY:
                say(console, f"{name}{' ' * (margin - cells(name))}{text}", indent=2)
