"""Small tables as text, in the style of the command line, and as HTML for notebooks.

A module of its own, since the loader and the command line both need it.
"""

from __future__ import annotations

import html
import io
from collections.abc import Sequence

_WIDTH = 1000  # columns, at which rich would cut cells
MOST_ROWS = 100  # of a table in a notebook


def offsets_text(steps: Sequence[int], by_rows: bool, has_axis: bool) -> str:
    """A window's offsets in words.

    Args:
        steps: In ns, or rows.
        by_rows: Whether they are rows.
        has_axis: Whether a batch has an axis of steps.
    """
    if not has_axis:
        return "none: at the anchor"
    first, last, count = steps[0], steps[-1], len(steps)
    unit = "rows" if by_rows else "s"
    scale = 1 if by_rows else 1e-9
    if count == 1:
        return f"{first * scale:g} {unit}"
    return f"{first * scale:g} to {last * scale:g} {unit}, {count} steps"


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int]) -> str:
    """Lines without frames; the columns in `left` start alike, the others end alike."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for i, name in enumerate(header):
        table.add_column(Text(name), justify="left" if i in left else "right", no_wrap=True)
    for row in rows:
        table.add_row(*map(Text, row))
    stream = io.StringIO()
    Console(file=stream, width=_WIDTH, highlight=False, color_system=None).print(table)
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines())


def html_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int], caption: str = ""
) -> str:
    """A table as HTML, with a caption below it; of many rows the first, and how many follow."""

    def cells(tag: str, texts: Sequence[str]) -> str:
        aligned = ["left" if i in left else "right" for i in range(len(texts))]
        parts = (
            f'<{tag} style="text-align: {side}">{html.escape(text)}</{tag}>'
            for side, text in zip(aligned, texts, strict=True)
        )
        return f"<tr>{''.join(parts)}</tr>"

    body = "".join(cells("td", row) for row in rows[:MOST_ROWS])
    if len(rows) > MOST_ROWS:
        more = f"and {len(rows) - MOST_ROWS:,} more"
        body += cells("td", [more, *[""] * (len(header) - 1)])
    below = f'<caption style="caption-side: bottom">{html.escape(caption)}</caption>'
    return (
        f"<table>{below if caption else ''}<thead>{cells('th', header)}</thead>"
        f"<tbody>{body}</tbody></table>"
    )
