"""Parses JSON of recordings, which may be damaged or hostile.

The readers of LeRobot, RLDS, HDF5 and MCAP share this module; it is too small to be split further.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from robocache.readers.errors import refuse_duplicates


def as_float(value: object) -> float | None:
    """A number from a recording as a finite float; None for other values and numbers too large."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def parse_json(path: Path, text: str | bytes) -> Any:
    """Parses the JSON text of a file.

    Raises:
        RecordingError: For an object with duplicate names.
        ValueError: For a text that is not JSON, or is nested too deeply for Python's parser.
    """

    def as_dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        refuse_duplicates(path, "entries", [name for name, _ in pairs])
        return dict(pairs)

    return parse_message(text, as_dict)


def parse_message(
    text: str | bytes, as_dict: Callable[[list[tuple[str, Any]]], Any] | None = None
) -> Any:
    """Parses a JSON text; `as_dict` converts the pairs of an object.

    Raises:
        ValueError: For a text that is not JSON, or is nested too deeply for Python's parser.
    """
    try:
        return json.loads(text, object_pairs_hook=as_dict)
    except RecursionError:
        raise ValueError("JSON that is nested too deeply") from None
