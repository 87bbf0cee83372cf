"""Parses the JSON files of recordings, which may be damaged or hostile.

The readers of LeRobot, RLDS and HDF5 share this module; it is too small to be split further.
"""

from __future__ import annotations

import json
import math
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

    try:
        return json.loads(text, object_pairs_hook=as_dict)
    except RecursionError:
        raise ValueError("JSON that is nested too deeply") from None
