"""The style of all pictures, and writing a picture to a file.

A short file of its own: it is imported without matplotlib, to check options before work begins.
"""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from robocache.core.extras import require
from robocache.store.files import naming, temporary_path

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PICTURES = (".png", ".jpg", ".jpeg", ".svg", ".pdf")

# Okabe and Ito's colors, told apart by color-blind eyes.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#222222", "#B8A800")
GAP, GRAY = "#D55E00", "#777777"
MOST_CHANNELS = len(COLORS)  # drawn per stream
MOST_POINTS = 4000  # drawn per line


def check_picture(option: str, path: Path) -> None:
    """Refuses a picture that can't be drawn, before any work.

    Raises:
        ValueError: For a name without the suffix of a picture.
        MissingLibrary: If matplotlib is not installed.
    """
    if path.suffix not in PICTURES:
        raise ValueError(f"{option}: expected a name with {', '.join(PICTURES)}, got {path}")
    require("matplotlib", "a picture", "view", "drawing")


def style() -> AbstractContextManager[None]:
    """A context with the matplotlib settings of all pictures."""
    from matplotlib import rc_context

    # Names in recordings may have dollars, between which matplotlib would read formulas.
    return rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False,
                       "text.parse_math": False})  # fmt: skip


def draw_legend(axis: Axes) -> None:
    """The names of the lines, to the right of their panel."""
    axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=7, frameon=False,
                handlelength=0.8, labelspacing=0.1, borderaxespad=0.3)  # fmt: skip


def save_figure(figure: Figure, path: Path) -> None:
    """Writes a figure in the format of the path's suffix; a file there is replaced when done."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = temporary_path(path.parent)
    try:
        with warnings.catch_warnings():  # a box stands for a letter that the font lacks
            warnings.filterwarnings("ignore", "Glyph .* missing from font")
            with naming(path):
                figure.savefig(partial, format=path.suffix[1:])
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
