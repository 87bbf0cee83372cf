"""Alignment methods in the metadata of MCAP channels, as `robocache align` writes them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from robocache.core.names import METHODS
from robocache.readers.recording import Method

METHOD_KEY = "method"
"""The key of a channel's metadata that holds the method."""

_RUN = re.compile(r"(\w+):([1-9]\d*)")


def write_method(method: str | Sequence[tuple[str, int]]) -> str:
    """The metadata of a method: ``slerp_xyzw``, or ``linear:3,slerp_xyzw:4`` of a layout."""
    if isinstance(method, str):
        return method
    return ",".join(f"{name}:{width}" for name, width in method)


def read_method(metadata: Mapping[str, str]) -> Method | None:
    """The method in a channel's metadata; None for absent or other text."""
    text = metadata.get(METHOD_KEY, "")
    if text in METHODS:
        return text
    runs = [_RUN.fullmatch(run) for run in text.split(",")]
    layout = tuple((run[1], int(run[2])) for run in runs if run and run[1] in METHODS)
    return layout if len(layout) == len(runs) else None


def fits(method: Method, width: int) -> bool:
    """Whether rows of `width` numbers can have a method."""
    layout = ((method, width),) if isinstance(method, str) else method
    is_whole = sum(run for _, run in layout) == width > 0
    return is_whole and all(run == 4 for name, run in layout if name.startswith("slerp"))
